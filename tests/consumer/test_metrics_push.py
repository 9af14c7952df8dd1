"""Metrics are pushed to brokers by the subscriptions that these have (KIP-714)."""

import logging

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.aio import AsyncConsumer
from thinconsumer.broker import Edit, Reply
from thinconsumer.errors import (
    BrokerResponseError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from thinconsumer.records.compression import Codec
from thinconsumer.support import imports
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from thinconsumer_testing.broker.client_metrics import TELEMETRY_RECEIVER

pytest.importorskip("opentelemetry.proto")

INTERVAL_S = 10
RECORDS = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
LATENCY = "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg"
LAG = "org.apache.kafka.consumer.fetch.manager.records.lag.max"
DELTA, CUMULATIVE = 1, 2


@pytest.fixture
def pushing(world):
    """Return a world with subscriptions to ``metrics``, and a consumer of t-0 in it."""

    def make(*metrics, nodes=1, assigned=(), config=None, interval_s=INTERVAL_S, **options):
        w = world(nodes, metric_reporters=TELEMETRY_RECEIVER, **(config or {}))
        if metrics:
            w.cluster.set_client_metrics("m", metrics, interval_ms=1000 * interval_s)
        return w, w.consumer(*assigned, **options)

    return make


def values(push):
    """Return what a push says: by name, or name and topic, the value."""
    found = {}
    [resource] = push.decode().resource_metrics
    [scope] = resource.scope_metrics
    for metric in scope.metrics:
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
            topic = [one.value.string_value for one in point.attributes]
            found[(metric.name, *topic) if topic else metric.name] = point.as_double
    return found


def metric(push, name):
    [found] = [one for one in push.decode().resource_metrics[0].scope_metrics[0].metrics if one.name == name]
    return found


def labels(push):
    return {one.key: one.value.string_value for one in push.decode().resource_metrics[0].resource.attributes}


def poll_for(consumer, seconds):
    now = consumer._shell.driver.now
    end = now() + seconds
    while now() < end:
        consumer.poll(1000 * (end - now()))


def asked(w):
    return len(w.requests(GetTelemetrySubscriptionsRequest)), len(w.requests(PushTelemetryRequest))


def test_metrics_are_pushed_once_in_an_interval_and_at_the_end(pushing):
    w, consumer = pushing("*")
    w.append(7)
    w.read(consumer, 0.4 * INTERVAL_S)
    assert asked(w) == (1, 0), "the first push comes after half the interval at least"
    w.read(consumer, 1.2 * INTERVAL_S)
    assert asked(w) == (1, 1)
    w.append(3)
    w.read(consumer, 3 * INTERVAL_S)
    assert asked(w) == (1, 4)
    w.append(2)
    w.read(consumer, 0.01)
    consumer.close()
    first, *others, last = pushes = w.cluster.pushed_metrics()
    assert [push.terminating for push in pushes] == [False] * 4 + [True]
    assert len({push.client_instance_id for push in pushes}) == 1
    assert values(first)[RECORDS] == values(first)[RECORDS, "t"] == 7
    assert [values(push)[RECORDS] for push in others] == [3, 0, 0]
    assert values(last)[RECORDS] == 2
    assert metric(first, RECORDS).sum.aggregation_temporality == DELTA
    assert metric(first, RECORDS).sum.is_monotonic
    points = [metric(push, RECORDS).sum.data_points[0] for push in pushes]
    assert [point.start_time_unix_nano for point in points[1:]] == [point.time_unix_nano for point in points[:-1]]


def test_values_are_those_of_metrics(pushing):
    w, consumer = pushing("*")
    w.append(7)
    w.read(consumer, 2 * INTERVAL_S)
    consumer.close()
    consumer_metrics, found = consumer.metrics(), values(w.cluster.pushed_metrics()[-1])
    gauges = {name: value for name, value in found.items() if isinstance(name, str) and not name.endswith(".total")}
    assert found[LATENCY] == consumer_metrics["consumer-fetch-manager-metrics"]["fetch-latency-avg"] > 0
    assert gauges["org.apache.kafka.consumer.time.between.poll.max"] > 0
    assert not any(value != value for value in found.values()), "what has no sample is left out"
    assert "org.apache.kafka.consumer.coordinator.commit.latency.avg" not in found


def test_averages_change_from_push_to_push(pushing):
    w, consumer = pushing(LAG, "org.apache.kafka.consumer.fetch.manager.records.consumed.rate")
    seen = []
    for count in (5, 50, 0):
        w.append(count) if count else None
        w.read(consumer, 4 * INTERVAL_S)
        seen.append(values(w.cluster.pushed_metrics()[-1]))
    rates = [row["org.apache.kafka.consumer.fetch.manager.records.consumed.rate"] for row in seen]
    assert len(set(rates)) == 3, rates


def test_totals_are_pushed_as_they_are_if_the_broker_asks_for_that(pushing):
    w, consumer = pushing(RECORDS)
    w.cluster.client_metrics.delta_temporality = False
    w.append(7)
    w.read(consumer, 2 * INTERVAL_S)
    w.append(3)
    w.read(consumer, 2 * INTERVAL_S)
    pushes = w.cluster.pushed_metrics()
    assert values(pushes[0])[RECORDS] == 7
    assert values(pushes[-1])[RECORDS] == 10
    found = [metric(push, RECORDS).sum for push in pushes]
    assert {one.aggregation_temporality for one in found} == {CUMULATIVE}
    assert len({one.data_points[0].start_time_unix_nano for one in found}) == 1
    # From deltas on, what was pushed before is not pushed again.
    w.cluster.client_metrics.delta_temporality = True
    w.cluster.set_client_metrics("m", [RECORDS, LAG], interval_ms=1000 * INTERVAL_S)
    w.append(4)
    w.read(consumer, 5 * INTERVAL_S)
    later = w.cluster.pushed_metrics()[len(pushes) :]
    assert sum(values(push)[RECORDS] for push in later) == 4
    assert {metric(push, RECORDS).sum.aggregation_temporality for push in later} == {DELTA}


def test_subscriptions_change_while_the_consumer_runs(pushing):
    w, consumer = pushing()
    w.cluster.set_client_metrics("m", [], interval_ms=1000 * INTERVAL_S)
    w.read(consumer, 3.5 * INTERVAL_S)
    assert asked(w) == (4, 0), "an empty subscription is asked for again after each interval"
    w.cluster.set_client_metrics("m", [RECORDS], interval_ms=1000 * INTERVAL_S)
    w.read(consumer, 3 * INTERVAL_S)
    assert set(values(w.cluster.pushed_metrics()[-1])) == {RECORDS}
    w.cluster.set_client_metrics("n", [LAG[:-4]], interval_ms=500 * INTERVAL_S)
    w.append(1)
    w.read(consumer, 3 * INTERVAL_S)
    w.append(1)
    w.read(consumer, 2 * INTERVAL_S)
    assert set(values(w.cluster.pushed_metrics()[-1])) == {RECORDS, (RECORDS, "t"), LAG}
    w.cluster.set_client_metrics("m", None)
    w.cluster.set_client_metrics("n", None)
    w.read(consumer, 3 * INTERVAL_S)
    count = len(w.cluster.pushed_metrics())
    w.read(consumer, 3 * INTERVAL_S)
    consumer.close()
    assert len(w.cluster.pushed_metrics()) == count, "with nothing to push there is no last push"
    assert len({one.client_instance_id for one in w.cluster.pushed_metrics()}) == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_each_codec_is_used_if_the_broker_prefers_it(pushing, codec):
    w, consumer = pushing("*")
    w.cluster.client_metrics.accepted = (codec, Codec.GZIP) if codec else ()
    w.read(consumer, 2 * INTERVAL_S)
    push = w.cluster.pushed_metrics()[0]
    assert push.compression_type == codec
    assert LATENCY in values(push)


def test_a_codec_that_is_unknown_or_not_installed_is_passed_over(pushing):
    w, consumer = pushing("*")
    w.cluster.client_metrics.accepted = (99, Codec.GZIP)
    w.read(consumer, 2 * INTERVAL_S)
    assert w.cluster.pushed_metrics()[0].compression_type == Codec.GZIP


@pytest.fixture
def group_world(closed_at_end):
    cluster = MemoryCluster(1, {"t": 1}, metric_reporters=TELEMETRY_RECEIVER)
    cluster.set_client_metrics("m", ["*"], interval_ms=1000 * INTERVAL_S)

    def make(**options):
        options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", **options}
        return closed_at_end(Consumer("t", driver=cluster.driver(), auto_offset_reset="earliest", **options))

    return cluster, make


def test_labels_tell_the_member_and_not_the_client_id(group_world):
    cluster, make = group_world
    consumer = make(client_id="c", group_instance_id="one", client_rack="r")
    poll_for(consumer, 2 * INTERVAL_S)
    push = cluster.pushed_metrics()[0]
    member_id = consumer.group_metadata().member_id
    expected = {"client_rack": "r", "group_id": "g", "group_instance_id": "one", "group_member_id": member_id}
    assert (labels(push), push.client_id) == (expected, "c")
    assert values(push)["org.apache.kafka.consumer.coordinator.join.total"] == 1


def test_the_last_push_counts_the_commit_at_the_end(group_world):
    cluster, make = group_world
    consumer = make(auto_commit_interval_ms=10**8)
    poll_for(consumer, 2 * INTERVAL_S)
    cluster.produce("t", [b"a"])
    poll_for(consumer, 0.1)
    consumer.close()
    last = cluster.pushed_metrics()[-1]
    assert last.terminating
    assert values(last)["org.apache.kafka.consumer.coordinator.commit.total"] == 1


def test_a_close_without_time_still_writes_the_last_push(pushing):
    w, consumer = pushing("*")
    w.read(consumer, INTERVAL_S)
    consumer.close(timeout_ms=0)
    w.cluster.network.run_due()
    w.clock.advance(1.0)
    w.cluster.network.run_due()
    assert w.cluster.pushed_metrics()[-1].terminating


def test_a_push_that_would_be_too_large_leaves_out_topics_or_is_not_sent(pushing, caplog):
    w, consumer = pushing("*")
    w.append(7)
    w.cluster.client_metrics.accepted = ()
    w.read(consumer, 2 * INTERVAL_S)
    size = len(w.cluster.pushed_metrics()[0].metrics)
    w, consumer = pushing("*", config={"telemetry_max_bytes": size - 100})
    w.append(7)
    w.cluster.client_metrics.accepted = ()
    w.read(consumer, 2 * INTERVAL_S)
    found = values(w.cluster.pushed_metrics()[0])
    assert RECORDS in found and (RECORDS, "t") not in found
    w, consumer = pushing("*", config={"telemetry_max_bytes": 100})
    with caplog.at_level(logging.WARNING):
        w.read(consumer, 3 * INTERVAL_S)
    assert asked(w) == (1, 0)
    assert "telemetry.max.bytes, 100" in caplog.text


@pytest.mark.parametrize(("code", "goes_on"), [
    (Code.TELEMETRY_TOO_LARGE, True), (Code.THROTTLING_QUOTA_EXCEEDED, True), (Code.UNKNOWN_SUBSCRIPTION_ID, True),
    (Code.UNSUPPORTED_COMPRESSION_TYPE, True), (Code.INVALID_RECORD, False), (Code.UNSUPPORTED_VERSION, False),
])  # fmt: skip
def test_a_rejected_push(pushing, code, goes_on, caplog):
    """Either the subscription is asked for again, and a push follows after its interval; or nothing ever follows."""
    w, consumer = pushing("*")
    w.cluster.on("PushTelemetry", Reply(code), times=1)
    with caplog.at_level(logging.WARNING):
        w.read(consumer, 1.6 * INTERVAL_S)
        assert asked(w)[1] == 1
        w.read(consumer, 4 * INTERVAL_S)
    asks, pushes = asked(w)
    found = asks, pushes
    assert (2 <= asks <= 3 and 2 <= pushes <= 5) if goes_on else found == (1, 1), found
    assert ("no more metrics" in caplog.text) is not goes_on


def test_a_broker_that_refuses_subscriptions_is_not_asked_again(pushing):
    w, consumer = pushing("*")
    w.cluster.on("GetTelemetrySubscriptions", Reply(Code.INVALID_REQUEST))
    w.read(consumer, 700)
    assert asked(w) == (1, 0)
    with pytest.raises(BrokerResponseError, match="INVALID_REQUEST"):
        consumer.client_instance_id(timeout_ms=100)


def test_a_broker_that_knows_no_subscription_yet_is_asked_later(pushing):
    w, consumer = pushing("*")
    w.cluster.on("GetTelemetrySubscriptions", Reply(Code.UNKNOWN_SUBSCRIPTION_ID), times=1)
    w.read(consumer, 295)
    assert asked(w) == (1, 0)
    w.read(consumer, 10 + 2 * INTERVAL_S)
    assert asked(w)[0] == 2


def test_deltas_of_a_rejected_push_are_in_the_next_one(pushing):
    w, consumer = pushing(RECORDS)
    w.append(7)
    w.cluster.on("PushTelemetry", Reply(Code.THROTTLING_QUOTA_EXCEEDED), times=1)
    w.read(consumer, 5 * INTERVAL_S)
    assert values(w.cluster.pushed_metrics()[0])[RECORDS] == 7


def test_a_broker_without_the_api_is_sent_nothing(world, caplog):
    w = world()
    consumer = w.consumer()
    w.append(1)
    with caplog.at_level(logging.INFO, "thinconsumer.telemetry"):
        w.read(consumer, 700)
    assert asked(w) == (0, 0)
    assert not [one for one in caplog.records if "telemetry" in one.name]
    with pytest.raises(UnsupportedVersionError, match="GetTelemetrySubscriptions"):
        consumer.client_instance_id()
    consumer.close()
    assert asked(w) == (0, 0)


def test_metrics_alone_open_no_connection(pushing):
    w, consumer = pushing("*", connections_max_idle_ms=60_000, metadata_max_age_ms=10**8, interval_s=300)
    w.read(consumer, 1)
    consumer.pause(TopicPartition("t", 0))
    w.read(consumer, 1000)
    assert asked(w) == (1, 0)
    consumer.resume(TopicPartition("t", 0))
    w.read(consumer, 10)
    assert asked(w) == (1, 1)


def test_pushes_go_to_one_broker_and_to_another_when_it_is_gone(pushing):
    w, consumer = pushing("*", nodes=3)
    w.append(3)
    w.read(consumer, 4 * INTERVAL_S)
    [node] = {one.node_id for one in w.cluster.pushed_metrics()}
    w.cluster.kill(node)
    w.read(consumer, 60)
    w.append(2)
    w.read(consumer, 4 * INTERVAL_S)
    others = [one for one in w.cluster.pushed_metrics() if one.node_id != node]
    assert others
    assert sum(values(one)[RECORDS] for one in w.cluster.pushed_metrics()) == 5


def test_a_lost_connection_is_not_followed_by_a_burst(pushing):
    w, consumer = pushing("*")
    w.read(consumer, 2 * INTERVAL_S)
    before = asked(w)
    for _ in range(20):
        for connection in list(w.cluster.nodes[1].connections):
            connection.transport.close()
            connection.connection_lost()
        w.read(consumer, 0.2)
    assert asked(w)[1] - before[1] <= 1


def test_the_client_instance_id_is_that_of_the_broker(pushing):
    w, consumer = pushing("*")
    text = consumer.client_instance_id()
    assert len(text) == 22
    w.cluster.set_client_metrics("mine", [LAG], interval_ms=200, match={"client_instance_id": text})
    w.cluster.set_client_metrics("m", None)
    w.append(1)
    w.read(consumer, 3 * INTERVAL_S)
    assert set(values(w.cluster.pushed_metrics()[-1])) == {LAG}


def test_a_client_without_an_id_waits_for_it(pushing):
    w, consumer = pushing("*")
    w.cluster.on("GetTelemetrySubscriptions", Reply(Code.THROTTLING_QUOTA_EXCEEDED))
    with pytest.raises(KafkaTimeoutError, match="THROTTLING_QUOTA_EXCEEDED"):
        consumer.client_instance_id(timeout_ms=500)


def test_a_broker_that_assigns_no_id_is_asked_later(pushing):
    w, consumer = pushing("*")

    def without_id(call, response):
        response.client_instance_id = bytes(16)

    rule = w.cluster.on("GetTelemetrySubscriptions", Edit(without_id))
    w.read(consumer, 299)
    assert asked(w) == (1, 0)
    w.cluster.rules.remove(rule)
    w.read(consumer, 2 + 2 * INTERVAL_S)
    assert asked(w) == (2, 1)


def test_switched_off(pushing):
    w, consumer = pushing("*", enable_metrics_push=False)
    w.read(consumer, 3 * INTERVAL_S)
    consumer.metrics()
    assert asked(w) == (0, 0)
    with pytest.raises(IllegalStateError, match="enable_metrics_push"):
        consumer.client_instance_id()


def test_without_the_extra_it_is_off_unless_asked_for(pushing, monkeypatch):
    monkeypatch.setattr(imports.PathFinder, "find_spec", lambda name, path=None: None)
    w, consumer = pushing("*")
    w.read(consumer, 3 * INTERVAL_S)
    assert asked(w) == (0, 0)
    for kind in (Consumer, AsyncConsumer):
        with pytest.raises(KafkaConfigurationError, match=r"pip install 'thinconsumer\[telemetry\]'"):
            kind(enable_metrics_push=True)


def test_a_package_that_cannot_be_imported_ends_it(pushing, monkeypatch, caplog):
    monkeypatch.setattr(
        "thinconsumer.telemetry.reporter.import_uninterrupted", lambda name: 1 / 0 if not name else raise_it()
    )

    def raise_it():
        raise ImportError("no protobuf")

    w, consumer = pushing("*")
    with caplog.at_level(logging.WARNING):
        w.read(consumer, 3 * INTERVAL_S)
    assert asked(w) == (1, 0)
    assert "no protobuf" in caplog.text
    consumer.close()


def test_an_interrupted_step_does_not_end_the_pushes(pushing, monkeypatch):
    w, consumer = pushing("*")
    w.read(consumer, 2 * INTERVAL_S)
    consumer._shell.step_interrupted = True
    w.read(consumer, 3 * INTERVAL_S)
    consumer.close()
    assert len(w.cluster.pushed_metrics()) >= 4
    assert w.cluster.pushed_metrics()[-1].terminating
