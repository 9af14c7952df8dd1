"""The user's metric reporters: objects that are told which metrics there are, and read their values when they like.

Their interface is that of kafka-python's ``AbstractMetricsReporter``, which is Java's: ``configure``, ``init``,
``metric_change``, ``metric_removal``, ``close``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..metrics import NAN, MetricValues, labelled
from .interceptors import created
from .metrics_view import view_of

if TYPE_CHECKING:
    from .core import ConsumerCore

log = logging.getLogger(__name__)

#: All values that are read within this time, in seconds, are of one reading: a reporter reads about a hundred.
FRESH_S = 0.1

Key = tuple[str, str]


class MetricName(NamedTuple):
    """The name of a metric: Kafka's name and group, what it measures, and its tags.

    The tags are ``client-id``, and ``topic`` and ``partition`` where they apply.
    """

    name: str
    group: str
    description: str
    tags: dict[str, str]

    def __hash__(self) -> int:
        return hash((self.name, self.group, *sorted(self.tags.items())))


class KafkaMetric:
    """One metric of a consumer, with its name and its present value. Any thread may read it."""

    def __init__(self, metric_name: MetricName, key: Key, read: Callable[[], MetricValues]) -> None:
        self.metric_name = metric_name
        self._key = key
        self._read = read

    def value(self, time_ms: float | None = None) -> float:
        """Return the value of ``metrics()``, at most 0.1 s old; during a call of the consumer about a second.

        NaN if there is no sample, or if the metric was removed. ``time_ms`` has no effect; kafka-python has it.
        """
        group, name = self._key
        return self._read().get(group, {}).get(name, NAN)

    def __repr__(self) -> str:
        return f"KafkaMetric({self.metric_name.group}, {self.metric_name.name}, {self.metric_name.tags})"


class MetricReporters:
    """The reporters of one consumer. Their exceptions are logged, except those of ``configure`` and ``init``."""

    def __init__(self, core: ConsumerCore) -> None:
        self._client_id = core.config.client_id
        self._guard = core.shell.guard
        self._view = view_of(core)
        self._values: MetricValues = {}
        self._read_at = -math.inf
        self._closes = False
        self._metrics: dict[Key, KafkaMetric] = {}
        self._reporters = created(core.config.metric_reporters, core.config)
        self._find()
        for one in self._reporters:
            if (method := getattr(one, "init", None)) is not None:
                method(list(self._metrics.values()))

    def update(self) -> None:
        """Tell the reporters which metrics have come and gone. Called about once a second, between two steps."""
        if self._closes or self._guard.refuses_user_code:
            return  # the latter in a signal handler; the next call does it
        added, removed = self._find()
        for name, metrics in (("metric_removal", removed), ("metric_change", added)):
            for metric in metrics:
                with self._guard.running("a metric reporter"):
                    self._tell(name, metric)

    def begin_close(self) -> None:
        """Keep the metrics that there are: leaving the group drops the partitions, and with them those of topics."""
        self._view.publish()
        self._values, self._closes = self._view.read(), True

    def close(self) -> None:
        """Close the reporters, which may read the last values then and afterwards."""
        self._view.publish()
        self._values = {**self._values, **self._view.read()}
        self._read_at = math.inf
        self._tell("close")

    def _tell(self, name: str, *arguments: Any) -> None:
        for one in self._reporters:
            if (method := getattr(one, name, None)) is not None:
                try:
                    method(*arguments)
                except Exception:
                    log.exception("%s of %s failed", name, type(one).__name__)

    def _read(self) -> MetricValues:
        now = self._view.now()
        if now - self._read_at >= FRESH_S:
            self._values, self._read_at = self._view.read(), now
        return self._values

    def _find(self) -> tuple[list[KafkaMetric], list[KafkaMetric]]:
        """Return the metrics that have come since the last call, and those that have gone."""
        values = self._view.read()
        keys = [(group, name) for group, metrics in values.items() for name in metrics]
        removed = [self._metrics.pop(key) for key in self._metrics.keys() - set(keys)]
        added = []
        if len(keys) > len(self._metrics):
            for key, one in zip(keys, labelled(values, self._client_id)):
                if key not in self._metrics:
                    name = MetricName(one.name, one.group, one.text, one.labels)
                    self._metrics[key] = KafkaMetric(name, key, self._read)
                    added.append(self._metrics[key])
        return added, removed
