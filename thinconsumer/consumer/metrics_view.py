"""The metrics of a consumer for readers in other threads, such as exporters, as single values with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import CONSUMER, COORDINATOR, FETCH, METRICS, MetricValues
from .metrics_recorder import figures, record_returned

if TYPE_CHECKING:
    from .core import ConsumerCore

_TEXTS = {(metric.group, metric.name): f"{metric.stat.text}: {metric.text}" for metric in METRICS}


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


class LabelledValue(NamedTuple):
    """A metric without the topic or partition in its group's name."""

    group: str  #: Kafka's group, or that of workers.
    name: str  #: Kafka's name.
    scope: str  #: "topic" or "partition" for a value of one; else empty.
    labels: dict[str, str]
    value: float
    text: str

    @property
    def is_counter(self) -> bool:
        """Whether the value only grows, from 0 on."""
        return self.name.endswith("-total")

    @property
    def words(self) -> list[str]:
        """The words of a name for exporters: ``kafka consumer records lag max``."""
        of = "consumer" if self.group in (CONSUMER, COORDINATOR, FETCH) else self.group.removesuffix("-metrics")
        return ["kafka", *of.split("-"), *([self.scope] if self.scope else []), *self.name.split("-")]


def labelled(values: MetricValues, client_id: str) -> Iterator[LabelledValue]:
    """Yield the values of ``metrics()`` one by one."""
    for full_group, metrics in values.items():
        group, _, of = full_group.partition(".")
        scope, _, place = of.partition("-")
        labels = {"client-id": client_id}
        if scope == "topic":
            labels["topic"] = place
        elif scope == "partition":
            labels["topic"], _, labels["partition"] = place.rpartition("-")
        for name, value in metrics.items():
            yield LabelledValue(group, name, scope, labels, value, _TEXTS.get((group, name), ""))
