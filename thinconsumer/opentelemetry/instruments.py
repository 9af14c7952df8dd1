"""The metrics of consumers, as observable instruments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from ..consumer.metrics_view import view_of
from ..metrics import METRICS, TOPIC_METRICS, LabelledValue, labelled

if TYPE_CHECKING:
    from ..aio import AsyncConsumer
    from ..consumer import Consumer

#: For so many seconds, the instruments of one collection have the same values: each would read all of them anew.
KEPT_S = 0.05


class ConsumerInstruments:
    """Observable instruments for all metrics of consumers that are still referred to, read in any thread.

    Names are Kafka's with underscores, as those of OpenTelemetry's agent for Java: ``kafka.consumer.records_lag_max``;
    for values of a topic ``kafka.consumer.topic.records_consumed_total``. The attributes are ``client-id``, and
    ``topic`` where it applies. Metrics named "-total" are counters, all others gauges. NaN is left out.
    """

    def __init__(
        self, *consumers: Consumer[Any, Any] | AsyncConsumer[Any, Any], meter_provider: MeterProvider | None = None
    ) -> None:
        self._consumers: WeakSet[Any] = WeakSet()
        self._read_at = -math.inf
        self._values: dict[str, list[LabelledValue]] = {}
        meter = get_meter("thinconsumer", meter_provider=meter_provider)
        for scope, metrics in (("", METRICS), ("topic", TOPIC_METRICS)):
            for metric in metrics:
                about = LabelledValue(metric.group, metric.name, scope, {}, 0.0, f"{metric.stat.text}: {metric.text}")
                create = meter.create_observable_counter if about.is_counter else meter.create_observable_gauge
                create(_name(about), [self._observer(_name(about))], description=about.text)
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> None:
        """Observe this consumer, too; give each a ``client_id`` of its own."""
        view_of(consumer._reader)
        self._consumers.add(consumer)
        self._read_at = -math.inf

    def remove(self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> None:
        """Observe this consumer no more."""
        self._consumers.discard(consumer)
        self._read_at = -math.inf

    def clear(self) -> None:
        """Observe none of them any more."""
        self._consumers.clear()
        self._read_at = -math.inf

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            if time.monotonic() >= self._read_at + KEPT_S:
                self._read()
            found = self._values.get(name, ())
            return [Observation(one.value, one.labels) for one in found if not math.isnan(one.value)]

        return observe

    def _read(self) -> None:
        values: dict[str, list[LabelledValue]] = {}
        for consumer in list(self._consumers):
            for found in labelled(view_of(consumer._reader).read(), consumer._reader.config.client_id):
                values.setdefault(_name(found), []).append(found)
        self._values, self._read_at = values, time.monotonic()


def _name(found: LabelledValue) -> str:
    head = ".".join(found.words[: 3 if found.scope else 2])
    return f"{head}.{found.name.replace('-', '_')}"
