"""Metrics pushed to real brokers (KIP-714), which pass them on to a plugin that writes them into files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from proving import filling
from proving.java import compile_java
from proving.tools import KafkaTools, kafka_tools
from realkafka import Administration, KafkaCluster, jars, processes
from realkafka.cluster import archived_classes

from thinconsumer import Consumer, TopicPartition, UnsupportedVersionError
from thinconsumer.records.compression import Codec
from thinconsumer.telemetry.subscription import TelemetrySubscription

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

SOURCE = Path(__file__).parent / "java" / "TelemetryReceiver.java"
FETCHING = "org.apache.kafka.consumer.fetch.manager."
RECORDS = FETCHING + "records.consumed.total"
REQUESTS = "org.apache.kafka.consumer.request.total"
NewTopic = Callable[..., str]


class Push(NamedTuple):
    """One push as the plugin got it, decompressed by the broker."""

    client_instance_id: str
    is_last: bool
    metrics: dict[str, Any]
    labels: dict[str, str]

    def value(self, name: str) -> float:
        """Return the value of all topics together."""
        one = self.metrics[name]
        points = one.sum.data_points if one.HasField("sum") else one.gauge.data_points
        [value] = [point.as_double for point in points if not point.attributes]
        return float(value)


class Receiver:
    """A cluster whose brokers take metrics, and what they have got."""

    def __init__(self, cluster: KafkaCluster, folder: Path, tools: KafkaTools) -> None:
        self.cluster, self._folder, self._tools = cluster, folder, tools

    def subscribe(self, *metrics: str, **more: str) -> None:
        """Set the subscription "test", with an interval of 100 ms."""
        options = [word for name, value in more.items() for word in (f"--{name}", value)]
        names = ("--metrics", ",".join(metrics))
        self._tools("ClientMetricsCommand", "--alter", "--name", "test", "--interval", "100", *names, *options)

    def pushes(self) -> list[Push]:
        found = []
        for file in sorted(self._folder.iterdir()):
            if not file.name.startswith("."):
                _, client_instance_id, is_last = file.name.split()
                [resource] = metrics_pb2.MetricsData.FromString(file.read_bytes()).resource_metrics
                [scope] = resource.scope_metrics
                labels = {one.key: one.value.string_value for one in resource.resource.attributes}
                metrics = {one.name: one for one in scope.metrics}
                found.append(Push(client_instance_id, is_last == "true", metrics, labels))
        return found


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    classes, folder = tmp_path_factory.mktemp("classes"), tmp_path_factory.mktemp("metrics")
    try:
        class_path = jars.class_path(jars.CURRENT)
        compile_java(SOURCE, classes)
        archive = archived_classes(jars.CURRENT, class_path)
    except jars.NoJars as error:
        pytest.skip(str(error))
    config = {"metric.reporters": "TelemetryReceiver", "telemetry.folder": folder}
    cluster = KafkaCluster(
        class_path=f"{class_path}{os.pathsep}{classes}",
        config=config,
        # Otherwise an archive would be made for this class path. That of Kafka's own fits, too, as it comes first.
        start_process=lambda command, log: processes.Process([*archive, *command], log),
    )
    with kafka_tools(cluster.bootstrap) as tools, cluster:  # the tools' JVM starts meanwhile
        yield Receiver(cluster, folder, tools)


def poll_until(consumer: Consumer[Any, Any], done: Callable[[], bool], seconds: float = 20) -> int:
    """Poll until ``done()``; return the number of records."""
    count, until = 0, time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        count += sum(map(len, consumer.poll(50).values()))
    return count


def fill(cluster: Administration, topic: str, count: int) -> None:
    target = filling.producer(cluster.bootstrap)
    for _ in range(count):
        target.produce(topic, b"value")
    assert target.flush(60) == 0


def test_pushes_follow_the_subscription(receiver: Receiver, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch):
    cluster = receiver.cluster
    topic = new_topic(cluster)
    receiver.subscribe(FETCHING)
    options = {"bootstrap_servers": cluster.bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    consumer = Consumer(topic, client_rack="r1", enable_metrics_push=True, **options)
    mine = consumer.client_instance_id()
    count = poll_until(consumer, lambda: any(push.labels.get("group_member_id") for push in receiver.pushes()))
    fill(cluster, topic, 7)
    count += poll_until(consumer, lambda: sum(push.value(RECORDS) for push in receiver.pushes()) == 7)
    assert count == 7
    last = receiver.pushes()[-1]
    assert all(name.startswith(FETCHING) for name in last.metrics)
    assert last.client_instance_id == mine
    member_id = consumer.group_metadata().member_id
    assert last.labels == {"group_id": topic, "client_rack": "r1", "group_member_id": member_id}
    assert last.metrics[RECORDS].sum.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_DELTA

    receiver.subscribe("org.apache.kafka.consumer.request.", match=f"client_instance_id={mine}")
    poll_until(consumer, lambda: REQUESTS in receiver.pushes()[-1].metrics)
    assert not any(name.startswith(FETCHING) for name in receiver.pushes()[-1].metrics)

    # Kafka's brokers ask for deltas, and for zstd first: here the subscription is changed before each push.
    from thinconsumer.telemetry.payload import MetricsEncoder  # it imports the package that may be missing

    encode, used = MetricsEncoder.encode, list[int]()

    def encode_next(encoder: Any, about: TelemetrySubscription, *values: Any) -> Any:
        codec = Codec(len(used) % len(Codec))
        changed = about._replace(codecs=(codec,), is_delta=len(used) < len(Codec), prefixes=(RECORDS, REQUESTS))
        found = encode(encoder, changed, *values)
        assert found is not None and found[0] == codec
        used.append(codec)
        return found

    monkeypatch.setattr(MetricsEncoder, "encode", encode_next)
    before = len(receiver.pushes())
    poll_until(consumer, lambda: len(receiver.pushes()) >= before + 2 * len(Codec))
    pushes = receiver.pushes()[before:]
    kinds = [push.metrics[RECORDS].sum.aggregation_temporality for push in pushes]
    assert kinds[: len(Codec)] == [metrics_pb2.AGGREGATION_TEMPORALITY_DELTA] * len(Codec)
    assert set(kinds[len(Codec) :]) == {metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE}
    assert pushes[-1].value(RECORDS) == 7

    fill(cluster, topic, 3)
    assert poll_until(consumer, lambda: consumer.position(TopicPartition(topic, 0)) == 10) == 3
    consumer.close()
    [end] = [push for push in receiver.pushes() if push.is_last]
    assert end.client_instance_id == mine
    assert end.value(RECORDS) == 10


def test_a_broker_without_a_receiver_is_sent_nothing(kafka: Administration, new_topic: NewTopic):
    with Consumer(new_topic(kafka), bootstrap_servers=kafka.bootstrap, enable_metrics_push=True) as consumer:
        with pytest.raises(UnsupportedVersionError, match="GetTelemetrySubscriptions"):
            consumer.client_instance_id()
        requests = consumer.metrics()["consumer-metrics"]["request-total"]
        assert requests < 10
