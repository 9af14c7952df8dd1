"""The metrics of consumers for Prometheus. It needs ``pip install 'thinconsumer[prometheus]'``.

``REGISTRY.register(ConsumerCollector(consumer))`` exports what ``consumer.metrics()`` returns, in each scrape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .consumer.metrics_view import view_of
from .metrics import LabelledValue, labelled

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as exc:
    raise ImportError(
        f"thinconsumer.prometheus needs prometheus_client ({exc}): pip install 'thinconsumer[prometheus]'"
    ) from exc

if TYPE_CHECKING:
    from .aio import AsyncConsumer
    from .consumer import Consumer

__all__ = ["ConsumerCollector"]


class ConsumerCollector(Collector):
    """Collects the metrics of consumers that are still referred to; a scrape may come in any thread.

    Names are Kafka's with underscores: ``kafka_consumer_records_lag_max``, for values of a topic
    ``kafka_consumer_topic_records_consumed_total``. The labels are client_id, and topic and partition where they apply.
    Values that are NaN for lack of a sample are left out.
    """

    def __init__(self, *consumers: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> None:
        self._consumers: WeakSet[Any] = WeakSet()
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> None:
        """Collect the metrics of this consumer, too. If several have the same ``client_id``, only one is collected."""
        view_of(consumer._reader)
        self._consumers.add(consumer)

    def remove(self, consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> None:
        """Collect the metrics of this consumer no more."""
        self._consumers.discard(consumer)

    def describe(self) -> list[Any]:
        """Return nothing: the names are known once there are values."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield a family for each metric."""
        families: dict[str, Any] = {}
        by_client = {consumer._reader.config.client_id: consumer for consumer in list(self._consumers)}
        for client_id, consumer in by_client.items():
            for found in labelled(view_of(consumer._reader).read(), client_id):
                if not math.isnan(found.value):
                    name = "_".join(found.words)
                    if name not in families:
                        families[name] = _family(name, found)
                    families[name].add_metric(list(found.labels.values()), found.value)
        yield from families.values()


def _family(name: str, found: LabelledValue) -> Any:
    labels = [label.replace("-", "_") for label in found.labels]
    kind = CounterMetricFamily if found.is_counter else GaugeMetricFamily
    return kind(name, found.text or found.name, labels=labels)
