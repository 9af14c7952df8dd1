"""Encode metrics as an OTLP message, ``MetricsData``, under Kafka's names for telemetry.

Only this module imports opentelemetry-proto (the extra ``telemetry``), and only once a broker asks for metrics. Names
and types as Java's ``TelemetryMetricNamingConvention`` and ``KafkaMetricsCollector`` have them: totals are monotonic
sums, everything else is a gauge. Values that are NaN for lack of a sample are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from ..metrics import CONSUMER, COORDINATOR, FETCH, LabelledValue, MetricValues, labelled
from ..records.compression import Codec, MissingCodecError, compress
from .subscription import TelemetrySubscription

#: The groups with Kafka's metrics. Others, such as that of workers, have no name for telemetry.
GROUPS = (CONSUMER, COORDINATOR, FETCH)
PREFIX = "org.apache.kafka"

#: A counter: the name for telemetry, and the topic; empty for all topics together.
CounterKey = tuple[str, str]
#: A value with its name for telemetry.
NamedValue = tuple[str, LabelledValue]


class MetricsEncoder:
    """Encodes the metrics of one client, and remembers the counters that brokers have been told."""

    def __init__(self, began: float) -> None:
        self._began = began
        #: By counter: the value in the last push that was confirmed, and its time in seconds since the epoch.
        self._told: dict[CounterKey, tuple[float, float]] = {}
        self._telling: dict[CounterKey, tuple[float, float]] = {}  #: The same of the last push.

    def confirm(self) -> None:
        """Note that the last push has arrived: the next deltas begin there."""
        self._told, self._telling = self._telling, {}

    def encode(
        self, about: TelemetrySubscription, metrics: MetricValues, labels: Mapping[str, str], wall_time: float
    ) -> tuple[int, bytes] | None:
        """Return a codec's id and the data to push; None if they are larger than the broker accepts.

        The metrics of single topics are left out if the data are too large with them.
        """
        found = [one for one in labelled(metrics, "") if one.group in GROUPS and not math.isnan(one.value)]
        wanted = [(name, one) for one in found if about.wants(name := telemetry_name(one))]
        for values in (wanted, [(name, one) for name, one in wanted if not one.scope]):
            codec, data = _compressed(about.codecs, self._message(about, values, labels, wall_time))
            if about.max_bytes <= 0 or len(data) <= about.max_bytes:
                return codec, data
        return None

    def _message(
        self, about: TelemetrySubscription, values: Sequence[NamedValue], labels: Mapping[str, str], wall_time: float
    ) -> bytes:
        data = MetricsData()
        resource = data.resource_metrics.add()
        for key, text in labels.items():
            _add_attribute(resource.resource, key, text)
        scope = resource.scope_metrics.add()
        scope.scope.name = "thinconsumer"
        self._telling = {}
        families: dict[str, Metric] = {}
        for name, one in values:
            family = families.get(name)
            if family is None:
                family = families[name] = scope.metrics.add(name=name)
            self._add(family, one, about.is_delta, wall_time)
        encoded: bytes = data.SerializeToString()
        return encoded

    def _add(self, family: Metric, one: LabelledValue, is_delta: bool, wall_time: float) -> None:
        """Add a value to the metric with its name."""
        topic = one.labels.get("topic", "")
        if one.is_counter:
            temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            value, began = one.value, self._began
            self._telling[family.name, topic] = value, wall_time
            if is_delta:
                temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
                told, began = self._told.get((family.name, topic), (0.0, self._began))
                # A topic that was unsubscribed in between counts from 0 again.
                value = value - told if value >= told else value
            family.sum.aggregation_temporality = temporality
            family.sum.is_monotonic = True
            point = family.sum.data_points.add(start_time_unix_nano=_nanoseconds(began), as_double=value)
        else:
            point = family.gauge.data_points.add(as_double=one.value)
        point.time_unix_nano = _nanoseconds(wall_time)
        if topic:
            _add_attribute(point, "topic", topic)


def telemetry_name(one: LabelledValue) -> str:
    """Return Kafka's name for telemetry, such as ``org.apache.kafka.consumer.fetch.manager.fetch.latency.avg``."""
    return ".".join([PREFIX, *one.group.removesuffix("-metrics").split("-"), *one.name.split("-")])


def _add_attribute(of: Any, key: str, text: str) -> None:
    of.attributes.add(key=key).value.string_value = text


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _compressed(codecs: tuple[int, ...], data: bytes) -> tuple[int, bytes]:
    """Compress by the first of the codecs that is installed; by none if none is."""
    for codec in codecs:
        if codec != Codec.NONE:
            try:
                return codec, compress(codec, data)
            except MissingCodecError:
                continue
    return Codec.NONE, data
