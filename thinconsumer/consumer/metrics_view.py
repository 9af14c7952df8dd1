"""The metrics of a consumer for readers in other threads, such as exporters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..metrics import MetricValues
from .metrics_recorder import figures, record_returned

if TYPE_CHECKING:
    from .core import ConsumerCore


class MetricsView:
    """Reads the metrics of one consumer from any thread.

    While no call is in progress, the values are those of ``metrics()``; a call that begins meanwhile waits for the end
    of the reading. While one is in progress, as a poll may be for long, they are those that it has published last,
    about a second ago.
    """

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        driver = core.shell.driver
        #: Where a trace is recorded, a reading of metrics is no part of it: a replay has no readers.
        self.now: Callable[[], float] = getattr(driver, "unrecorded_now", driver.now)
        self._published: MetricValues = {}

    def read(self) -> MetricValues:
        """Return the values of ``metrics()``, from any thread."""
        if (found := self._core.shell.guard.read(self._figures)) is None:
            return self._published
        self._published = found
        return found

    def publish(self) -> None:
        """Take the present values for readers that come during the call in progress."""
        self._published = self._figures()

    def _figures(self) -> MetricValues:
        record_returned(self._core)
        return figures(self._core.managers, self.now())


def view_of(core: ConsumerCore) -> MetricsView:
    """Return the consumer's view, which it publishes its metrics to from now on."""
    if core.metrics_view is None:
        core.metrics_view = MetricsView(core)
        core.metrics_view.read()
    return core.metrics_view
