"""The reporters of ``metric_reporters``: what they are told, what they read, and what becomes of their errors."""

import math
import threading

import pytest

from thinconsumer import Consumer, ConsumerInterceptor, TopicPartition
from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalStateError, KafkaConfigurationError
from thinconsumer.testing import Simulation

TOPIC_METRICS = ["bytes-consumed-rate", "bytes-consumed-total", "records-consumed-rate", "records-consumed-total"]


class Noting:
    """Notes its calls."""

    def __init__(self):
        self.calls, self.metrics, self.configs = [], {}, None

    def configure(self, configs):
        self.configs = configs

    def init(self, metrics):
        self.metrics = {metric.metric_name: metric for metric in metrics}
        self.calls.append("init")

    def metric_change(self, metric):
        self.metrics[metric.metric_name] = metric
        self.calls.append(f"+{metric.metric_name.name}")

    def metric_removal(self, metric):
        assert self.metrics.pop(metric.metric_name) is metric
        self.calls.append(f"-{metric.metric_name.name}")

    def close(self):
        self.calls.append("close")

    def values(self):
        """Return the values as ``metrics()`` does."""
        found = {}
        for name, metric in self.metrics.items():
            topic = name.tags.get("topic")
            group = name.group if topic is None else f"{name.group}.topic-{topic}"
            found.setdefault(group, {})[name.name] = metric.value()
        return found


def sorted_text(values):
    """Return the values as a text, in which NaN equals NaN, without those that grow with time."""
    return sorted(f"{group} {name} {value}" for group, all_ in values.items() for name, value in all_.items())


def poll_for(consumer, seconds):
    for _ in range(seconds * 10):
        consumer.poll(100)


def test_reporters_read_the_values_of_metrics_under_kafkas_names(reading):
    noting = Noting()
    _, consumer = reading(10, metric_reporters=[noting], client_id="me")
    assert noting.calls == ["init"]
    poll_for(consumer, 3)
    assert sorted_text(noting.values()) == sorted_text(consumer.metrics())
    (total,) = [one for one in noting.metrics if one.name == "records-consumed-total" and "topic" in one.tags]
    assert total.tags == {"client-id": "me", "topic": "t"} and total.group == "consumer-fetch-manager-metrics"
    assert "returned records" in total.description and noting.metrics[total].value(0) == 10
    assert repr(noting.metrics[total]).startswith("KafkaMetric(consumer-fetch-manager-metrics, records-consumed-total")


def test_a_subclass_of_kafka_pythons_class_works(reading):
    theirs = pytest.importorskip("kafka.metrics.metrics_reporter").AbstractMetricsReporter
    made = []

    class Reporter(Noting, theirs):
        def __init__(self):
            super().__init__()
            made.append(self)

    _, consumer = reading(1, metric_reporters=[Reporter], client_id="me")
    consumer.close()
    assert made[0].calls == ["init", "close"] and made[0].configs["client_id"] == "me"
    assert not any("password" in name for name in made[0].configs)


def test_they_are_told_of_metrics_that_come_and_go(reading):
    noting = Noting()
    _, consumer = reading(10, metric_reporters=[noting])
    poll_for(consumer, 3)
    assert sorted(noting.calls[1:]) == [f"+{name}" for name in TOPIC_METRICS]
    metric = next(metric for name, metric in noting.metrics.items() if "topic" in name.tags)
    assert not math.isnan(metric.value())
    consumer.assign([TopicPartition("other", 0)])
    poll_for(consumer, 3)
    assert sorted(noting.calls[5:]) == [f"-{name}" for name in TOPIC_METRICS]
    assert math.isnan(metric.value())


def test_a_reporter_that_reads_all_values_makes_one_reading(reading, monkeypatch):
    noting = Noting()
    _, consumer = reading(1, metric_reporters=[noting])
    view, readings = consumer._reader.metrics_view, []
    read = view.read
    monkeypatch.setattr(view, "read", lambda: readings.append(1) or read())
    noting.values()
    noting.values()
    assert len(readings) == 1
    poll_for(consumer, 1)
    readings.clear()
    noting.values()
    assert len(readings) == 1


def test_other_threads_read_during_a_call(reading):
    noting, found = Noting(), []

    def deserialize(data):
        thread = threading.Thread(target=lambda: found.append(noting.values()))
        thread.start()
        thread.join(10)
        return data

    _, consumer = reading(1, metric_reporters=[noting], value_deserializer=deserialize)
    consumer.poll(1000)
    assert "request-total" in found[0]["consumer-metrics"]


def test_the_last_values_can_be_read_at_the_end_after_the_interceptors(reading):
    order, last = [], {}

    class Last(Noting):
        def close(self):
            order.append("reporter")
            last.update(self.values())

    class Interceptor(ConsumerInterceptor):
        def close(self):
            order.append("interceptor")

    reporter = Last()
    _, consumer = reading(10, metric_reporters=[reporter], interceptor_classes=[Interceptor])
    consumer.poll(1000)
    consumer.close()
    assert order == ["interceptor", "reporter"]
    assert last["consumer-fetch-manager-metrics"]["records-consumed-total"] == 10
    assert sorted_text(reporter.values()) == sorted_text(last)
    consumer.close()
    assert order == ["interceptor", "reporter"]


def test_the_values_of_topics_outlast_the_membership():
    """Leaving the group drops the partitions, and with them the metrics of their topics."""
    sim, noting = Simulation(seed=1, brokers=1, topics={"t": 1}), Noting()
    sim.cluster.produce("t", [b"x"] * 3, 0)
    options = {"bootstrap_servers": sim.bootstrap_servers, "auto_offset_reset": "earliest", "group_id": "g"}
    consumer = Consumer("t", driver=sim.driver(), metric_reporters=[noting], **options)
    for _ in range(100):
        consumer.poll(100)
    consumer.close()
    assert noting.calls[-1] == "close" and not any(call.startswith("-") for call in noting.calls)
    assert noting.values()["consumer-fetch-manager-metrics.topic-t"]["records-consumed-total"] == 3
    assert noting.values()["consumer-coordinator-metrics"]["commit-total"] >= 1


def test_errors_are_logged_and_the_next_reporter_is_told(reading, caplog):
    class Failing(Noting):
        def metric_change(self, metric):
            raise ValueError("on purpose")

        metric_removal = metric_change

        def close(self):
            raise ValueError("on purpose")

    noting = Noting()
    _, consumer = reading(10, metric_reporters=[Failing(), noting])
    poll_for(consumer, 3)
    consumer.close()
    assert len(noting.calls) == 6 and noting.calls[-1] == "close"
    assert {record.getMessage() for record in caplog.records if record.levelname == "ERROR"} == {
        "metric_change of Failing failed", "close of Failing failed",
    }  # fmt: skip


def test_an_error_in_init_is_one_of_the_constructor(reading):
    class Refusing(Noting):
        def init(self, metrics):
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        reading(1, metric_reporters=[Refusing])


def test_a_reporter_may_not_call_the_consumer(reading):
    raised = []

    class Calling(Noting):
        def metric_change(self, metric):
            with pytest.raises(IllegalStateError) as caught:
                consumer.poll(0)
            raised.append(str(caught.value))

    _, consumer = reading(10, metric_reporters=[Calling])
    poll_for(consumer, 3)
    assert "a metric reporter" in raised[0]


def test_what_is_no_reporter_is_an_error():
    class Late(Noting):
        async def metric_change(self, metric): ...

    for value in ("Noting", [object()], ["x"], Noting):
        with pytest.raises(KafkaConfigurationError, match="metric_reporters"):
            ConsumerConfig.from_options(metric_reporters=value)
    with pytest.raises(KafkaConfigurationError, match="async def"):
        ConsumerConfig.from_options(metric_reporters=[Late])
    with pytest.raises(KafkaConfigurationError, match="Python classes"):
        ConsumerConfig.from_config({"metric.reporters": "org.example.Reporter"})
    for nothing in ("", "org.apache.kafka.common.metrics.JmxReporter", None, []):
        assert ConsumerConfig.from_config({"metric.reporters": nothing}).metric_reporters == ()
