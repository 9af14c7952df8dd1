"""Metrics for exporters: equal to ``metrics()``, readable from any thread at any time, without a call that fails."""

import math
import sys
import threading
from itertools import islice

import pytest

from thinconsumer import TopicPartition
from thinconsumer.consumer.metrics_view import view_of
from thinconsumer.engine import Guard
from thinconsumer.errors import ConcurrentAccessError
from thinconsumer.metrics import labelled

T0 = TopicPartition("t", 0)


def equal(one, other):
    """Return whether two dicts of groups have the same values, NaN included."""
    return repr(one) == repr(other)


def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(10)
    return found[0]


def test_another_thread_reads_what_metrics_returns(reading):
    _, consumer = reading(10)
    consumer.poll(1000)
    view = view_of(consumer._reader)
    assert view_of(consumer._reader) is view
    assert equal(in_thread(view.read), consumer.metrics())
    consumer.close()
    assert equal(in_thread(view.read), consumer.metrics())


def test_during_a_call_readers_get_what_it_has_published(reading):
    """A deserializer runs inside a poll, so that another thread reads during a call."""
    seen = []
    w, consumer = reading(0, value_deserializer=lambda value: seen.append(in_thread(view.read)) or value)
    view = view_of(consumer._reader)
    before = view.read()
    w.append(1)
    consumer.poll(1000)
    assert equal(seen[0], before) or seen[0]["consumer-metrics"]["request-total"] > 0
    for _ in range(20):
        consumer.poll(100)
    w.append(1)
    consumer.poll(1000)
    assert seen[-1]["consumer-fetch-manager-metrics"]["records-consumed-total"] == 1


def test_a_call_waits_for_a_reading_in_another_thread_and_not_for_a_call():
    guard, order, begun, may_end = Guard(), [], threading.Event(), threading.Event()

    def work():
        begun.set()
        assert may_end.wait(10)
        order.append("read")
        return 1

    reader = threading.Thread(target=lambda: order.append(guard.read(work)))
    reader.start()
    assert begun.wait(10)
    threading.Timer(0.05, may_end.set).start()
    with guard:
        assert order[0] == "read"
        assert in_thread(lambda: guard.read(lambda: 1)) is None
        assert guard.read(lambda: 1) is None
    reader.join(10)
    assert order == ["read", 1] and guard.read(lambda: 2) == 2


def test_a_call_that_waits_too_long_for_a_reading_raises(monkeypatch):
    monkeypatch.setattr("thinconsumer.engine.guard.READING_S", 0.01)
    guard, may_end, begun = Guard(), threading.Event(), threading.Event()
    reader = threading.Thread(target=lambda: guard.read(lambda: begun.set() or may_end.wait(10)))
    reader.start()
    assert begun.wait(10)
    with pytest.raises(ConcurrentAccessError), guard:
        pass
    may_end.set()
    reader.join(10)
    with guard:
        pass


def test_a_reading_that_was_cut_off_blocks_no_call():
    guard = Guard()
    with pytest.raises(ZeroDivisionError):
        guard.read(lambda: 1 // 0)
    with guard:
        pass


def test_a_thread_that_reads_all_the_time_disturbs_no_poll(reading):
    _, consumer = reading(200)
    view, done, errors = view_of(consumer._reader), threading.Event(), []

    def read():
        try:
            while not done.is_set():
                view.read()
        except BaseException as error:
            errors.append(error)
            raise

    reader, interval = threading.Thread(target=read), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    reader.start()
    try:
        assert [record.offset for record in islice(consumer, 100)] == list(range(100))
        found = [
            r.offset for _ in range(100) for records in consumer.poll(100, max_records=1).values() for r in records
        ]
    finally:
        done.set()
        reader.join(10)
        sys.setswitchinterval(interval)
    assert found == list(range(100, 200)) and not errors


VALUES = {
    "consumer-metrics": {"request-total": 2.0},
    "consumer-fetch-manager-metrics.topic-a-b.c": {"records-consumed-rate": 1.0},
    "worker-metrics.partition-a-b-7": {"records-waiting": 3.0},
}


def test_topics_and_partitions_become_labels():
    request, topic, waiting = labelled(VALUES, "me")
    assert request.words == ["kafka", "consumer", "request", "total"] and request.is_counter
    assert request.labels == {"client-id": "me"} and request.text == "events since the start: requests sent"
    assert topic.labels == {"client-id": "me", "topic": "a-b.c"} and not topic.is_counter
    assert topic.words == ["kafka", "consumer", "topic", "records", "consumed", "rate"]
    assert waiting.labels == {"client-id": "me", "topic": "a-b", "partition": "7"}
    assert waiting.words == ["kafka", "worker", "partition", "records", "waiting"]


def test_a_scrape_by_prometheus_equals_metrics(reading):
    core = pytest.importorskip("prometheus_client.core")
    from prometheus_client.exposition import generate_latest

    from thinconsumer.prometheus import ConsumerCollector

    _, consumer = reading(10, client_id="me")
    consumer.poll(1000)
    registry = core.CollectorRegistry()
    collector = ConsumerCollector(consumer)
    registry.register(collector)
    in_thread(lambda: generate_latest(registry))
    compared = 0
    for group, metrics in consumer.metrics().items():
        scope, labels = ("topic_", {"topic": "t"}) if group.endswith(".topic-t") else ("", {})
        for name, value in metrics.items():
            found = registry.get_sample_value(
                f"kafka_consumer_{scope}{name.replace('-', '_')}", {"client_id": "me", **labels}
            )
            assert found is None if math.isnan(value) else found == value, name
            compared += found is not None
    assert compared > 40
    collector.remove(consumer)
    assert list(collector.collect()) == []
    collector.add(consumer)
    assert b'kafka_consumer_records_consumed_total{client_id="me"} 10.0' in generate_latest(registry)


def test_a_collection_by_opentelemetry_equals_metrics(reading):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from thinconsumer.opentelemetry import ConsumerInstruments

    _, consumer = reading(10, client_id="me")
    consumer.poll(1000)
    reader = InMemoryMetricReader()
    instruments = ConsumerInstruments(consumer, meter_provider=sdk.MeterProvider([reader]))

    def collected():
        found = reader.get_metrics_data()
        scopes = found.resource_metrics[0].scope_metrics if found and found.resource_metrics else ()
        metrics = [metric for scope in scopes for metric in scope.metrics]
        return {
            metric.name: [(point.attributes, point.value) for point in metric.data.data_points] for metric in metrics
        }

    found, compared = in_thread(collected), 0
    for group, metrics in consumer.metrics().items():
        scope, labels = ("topic.", {"topic": "t"}) if group.endswith(".topic-t") else ("", {})
        for name, value in metrics.items():
            points = found.get(f"kafka.consumer.{scope}{name.replace('-', '_')}", [])
            assert points == ([] if math.isnan(value) else [({"client-id": "me", **labels}, value)]), name
            compared += len(points)
    assert compared > 40
    instruments.remove(consumer)
    assert not any(collected().values())
