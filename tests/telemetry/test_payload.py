"""The OTLP message: names, kinds, deltas, sizes."""

import math

import pytest

from thinconsumer.metrics import CONSUMER, COORDINATOR, FETCH, METRICS, LabelledValue
from thinconsumer.telemetry.subscription import TelemetrySubscription

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from thinconsumer.telemetry.payload import MetricsEncoder, telemetry_name

BEGAN = 1_000_000.0
ALL = TelemetrySubscription(b"i" * 16, 1, 10.0, (), 0, True, ("*",))
TOTAL = "org.apache.kafka.consumer.request.total"
#: From KIP-714, "Standard consumer metrics".
KIP_714 = {
    "org.apache.kafka.consumer.connection.creation.rate",
    "org.apache.kafka.consumer.connection.creation.total",
    "org.apache.kafka.consumer.poll.idle.ratio.avg",
    "org.apache.kafka.consumer.coordinator.commit.latency.avg",
    "org.apache.kafka.consumer.coordinator.commit.latency.max",
    "org.apache.kafka.consumer.coordinator.assigned.partitions",
    "org.apache.kafka.consumer.coordinator.rebalance.latency.avg",
    "org.apache.kafka.consumer.coordinator.rebalance.latency.max",
    "org.apache.kafka.consumer.coordinator.rebalance.latency.total",
    "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg",
    "org.apache.kafka.consumer.fetch.manager.fetch.latency.max",
}


def named(group, name):
    return telemetry_name(LabelledValue(group, name, "", {}, 0.0, ""))


def decoded(found):
    codec, data = found
    assert codec == 0
    [resource] = MetricsData.FromString(data).resource_metrics
    return {one.name: one for one in resource.scope_metrics[0].metrics}


def test_names_are_those_of_the_kip():
    assert {named(metric.group, metric.name) for metric in METRICS} >= KIP_714
    assert named(FETCH, "records-lag-max") == "org.apache.kafka.consumer.fetch.manager.records.lag.max"


def test_totals_are_sums_and_the_rest_gauges():
    values = {CONSUMER: {"request-total": 3.0, "request-rate": 0.5}, COORDINATOR: {"commit-latency-avg": math.nan}}
    found = decoded(MetricsEncoder(BEGAN).encode(ALL, values, {}, BEGAN + 1))
    assert found.keys() == {TOTAL, "org.apache.kafka.consumer.request.rate"}
    assert found[TOTAL].sum.is_monotonic and found[TOTAL].sum.data_points[0].as_double == 3
    [rate] = found["org.apache.kafka.consumer.request.rate"].gauge.data_points
    assert (rate.as_double, rate.time_unix_nano) == (0.5, (BEGAN + 1) * 10**9)


def test_deltas_begin_where_the_last_push_that_arrived_has_ended():
    encoder = MetricsEncoder(BEGAN)

    def push(value, at, arrives=True):
        [point] = decoded(encoder.encode(ALL, {CONSUMER: {"request-total": value}}, {}, at))[TOTAL].sum.data_points
        if arrives:
            encoder.confirm()
        return point.as_double, point.start_time_unix_nano / 1e9, point.time_unix_nano / 1e9

    assert push(5.0, BEGAN + 10) == (5, BEGAN, BEGAN + 10)
    assert push(7.0, BEGAN + 20, arrives=False) == (2, BEGAN + 10, BEGAN + 20)
    assert push(8.0, BEGAN + 30) == (3, BEGAN + 10, BEGAN + 30)
    assert push(2.0, BEGAN + 40) == (2, BEGAN + 30, BEGAN + 40), "a counter that has begun anew"


def test_each_topic_has_a_counter_of_its_own():
    encoder, name = MetricsEncoder(BEGAN), "org.apache.kafka.consumer.fetch.manager.records.consumed.total"

    def push(**counts):
        values = {f"{FETCH}.topic-{topic}": {"records-consumed-total": value} for topic, value in counts.items()}
        points = decoded(encoder.encode(ALL, {FETCH: {}, **values}, {}, BEGAN + 1))[name].sum.data_points
        encoder.confirm()
        return {point.attributes[0].value.string_value: point.as_double for point in points}

    assert push(a=1.0, b=10.0) == {"a": 1, "b": 10}
    assert push(a=3.0, b=10.0) == {"a": 2, "b": 0}


def test_groups_that_are_not_kafkas_are_left_out():
    assert decoded(MetricsEncoder(BEGAN).encode(ALL, {"workers-metrics": {"busy": 1.0}}, {}, BEGAN)) == {}


@pytest.mark.parametrize(("max_bytes", "topics"), [(0, True), (-1, True), (600, True), (200, False), (10, None)])
def test_sizes(max_bytes, topics):
    values = {FETCH: {"fetch-total": 1.0}, f"{FETCH}.topic-{'t' * 200}": {"bytes-consumed-total": 1.0}}
    found = MetricsEncoder(BEGAN).encode(ALL._replace(max_bytes=max_bytes), values, {}, BEGAN)
    if topics is None:
        assert found is None
    else:
        assert ("org.apache.kafka.consumer.fetch.manager.bytes.consumed.total" in decoded(found)) is topics
        assert max_bytes <= 0 or len(found[1]) <= max_bytes
