"""A write task against the embedded broker on a simulated network and clock."""

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from thinconsumer import Consumer, IllegalArgumentError, KafkaError, KafkaTimeoutError, TopicPartition
from thinconsumer.errors import TopicAuthorizationFailedError
from thinconsumer.produce import BufferFullError, Producer
from thinconsumer.spark.worker_process import ClientCache
from thinconsumer.spark.writing import Written, parse_write, write
from thinconsumer.testing import Simulation
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.faults import Delay, Disconnect, Reply

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "topic": ("string", pa.string()),
    "key": ("binary", pa.binary()),
    "value": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "headers": ("array<struct<key:string,value:binary>>", HEADERS),
}


class Task:
    """A cluster, and a task that writes into it."""

    def __init__(self, **about):
        self.sim = Simulation(seed=1, **{"topics": {"t": 2}, **about})
        self.producers = []
        self.cache = ClientCache(lambda producer: producer.close(0))
        self.buffered_max = 0  #: Most bytes that were buffered when the task took its next batch.

    def connect(self, settings):
        self.producers.append(Producer(settings, driver=self.sim.driver()))
        return self.producers[-1]

    def write(self, *batches, names=("value",), attempt=0, **options):
        """Write batches, each a list of tuples."""
        given = {"kafka.bootstrap.servers": ",".join(self.sim.bootstrap_servers), "topic": "t", **options}
        given = {name: text for name, text in given.items() if text is not None}
        settings = parse_write(given, [(name, TYPES[name][0]) for name in names])

        def spark_batches():
            for rows in batches:
                if isinstance(rows, Exception):
                    raise rows
                columns = list(zip(*rows)) or [[]] * len(names)
                arrays = [pa.array(list(one), TYPES[name][1]) for name, one in zip(names, columns)]
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))
                self.buffered_max = max(
                    [self.buffered_max, *(one._accumulator.buffered_bytes for one in self.producers)]
                )

        return write(spark_batches(), settings, attempt=attempt, cache=self.cache, connect=self.connect)

    def records(self, topic="t"):
        """Return (partition, key, value, headers) of everything in a topic."""
        with Consumer(
            bootstrap_servers=self.sim.bootstrap_servers, driver=self.sim.driver(), auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)])
            return sorted((r.partition, r.key, r.value, r.headers) for r in consumer.read_to_end(60_000))


@pytest.fixture
def task():
    made = []

    def make(**about):
        made.append(Task(**about))
        return made[-1]

    yield make
    for one in made:
        for _, producer in one.cache._free:
            producer.close(0)
        assert all(producer._shell.closed for producer in one.producers), "a producer was left open"


def test_everything_is_written_and_counted(task):
    t = task()
    rows = [("ab", b"k", 1, [{"key": "h", "value": b"x"}]), ("c", b"k", 0, None)]
    assert t.write(rows, names=("value", "key", "partition", "headers")) == Written(2, 5)
    assert t.records() == [(0, b"k", b"c", ()), (1, b"k", b"ab", (("h", b"x"),))]


def test_the_topic_comes_from_the_column_without_the_option(task):
    t = task(topics={"a": 1, "b": 1})
    t.write([("1", "a"), ("2", "b")], [("3", "a")], names=("value", "topic"), topic=None)
    assert [r[2] for r in t.records("a")] == [b"1", b"3"]
    assert [r[2] for r in t.records("b")] == [b"2"]


def test_a_missing_topic_is_created_as_by_the_java_producer(task):
    t = task(topics={})
    t.write([("v",)], topic="new")
    assert [r[2] for r in t.records("new")] == [b"v"]


def test_a_task_without_rows_does_not_connect(task):
    t = task()
    assert t.write() == t.write([]) == Written()
    assert t.producers == []


def test_no_record_is_in_flight_when_the_task_takes_its_next_batch(task):
    """Spark may take hours to compute the next batch, and records in flight would time out."""
    t = task()
    assert t.write(*[[(f"{n}",) for n in range(1000)]] * 3).records == 3000
    assert len(t.producers) == 1
    assert t.buffered_max == 0
    assert len(t.records()) == 3000


def test_a_batch_may_be_larger_than_the_buffer(task):
    t = task()
    buffer = {"kafka.buffer.memory": "100000", "kafka.compression.type": "lz4"}
    assert t.write([("x" * 1000,)] * 2000, **buffer) == Written(2000, 2_000_000)
    assert len(t.records()) == 2000


def test_lost_responses_write_no_record_twice(task):
    t = task()
    t.sim.cluster.on("Produce", Disconnect(after=True), times=3)
    t.write([(f"{n}",) for n in range(100)])
    assert sorted(int(r[2]) for r in t.records()) == list(range(100))


def test_an_error_names_partition_broker_and_cause_and_closes_the_producer(task):
    t = task()
    t.sim.cluster.on("Produce", Reply(Code.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(
        TopicAuthorizationFailedError, match=r"broker 1 answered .* for t-\d: not authorized for the topic"
    ):
        t.write([("v",)], AssertionError("the task took a second batch"))


def test_a_missing_partition_is_named(task):
    with pytest.raises(KafkaTimeoutError, match="t-7: .* the topic has 2 partitions"):
        task().write([("v", 7)], names=("value", "partition"), **{"kafka.delivery.timeout.ms": "5000"})


def test_the_record_that_keeps_the_buffer_full_is_named(task):
    limits = {"kafka.buffer.memory": "20000", "kafka.max.block.ms": "1000", "kafka.delivery.timeout.ms": "5000"}
    with pytest.raises(KafkaTimeoutError, match="t-7: not acknowledged within delivery_timeout_ms=5000"):
        task().write([("v" * 1000, 7)] * 100, names=("value", "partition"), **limits)


def test_a_buffer_that_drains_too_slowly_is_reported_as_full(task):
    t = task()
    t.sim.cluster.on("Produce", Delay(2.0))
    limits = {"kafka.buffer.memory": "20000", "kafka.max.block.ms": "1000"}
    with pytest.raises(BufferFullError, match="no room for 1021 bytes within 1.000 s"):
        t.write([("v" * 1000,)] * 100, **limits)


def test_a_record_that_cannot_be_sent_is_named(task):
    with pytest.raises(IllegalArgumentError, match="row 1 of this task, for t: a record of .* is larger than"):
        task().write([("v",), ("x" * 2_000_000,)])
    with pytest.raises(IllegalArgumentError, match="row 0 of this task, for t--1: partition must be an int from 0"):
        task().write([("v", -1)], names=("value", "partition"))


def test_rows_before_a_failure_in_spark_are_written_and_the_producer_is_closed(task):
    t = task()
    with pytest.raises(ZeroDivisionError):
        t.write([("v",)], ZeroDivisionError())
    assert [r[2] for r in t.records()] == [b"v"]


def test_a_broker_that_never_responds_is_named_in_the_error(task):
    t = task()
    t.sim.kill(1)
    with pytest.raises(KafkaError, match="t: not sent within delivery_timeout_ms=3000.*kafka1:9092"):
        t.write([("v",)], **{"kafka.delivery.timeout.ms": "3000", "kafka.request.timeout.ms": "1000"})


def test_the_next_task_reuses_the_producer(task):
    """Brokers remember each producer id for a day."""
    t = task()
    for _ in range(3):
        t.write([("v",)])
    assert len(t.producers) == 1
    assert len(t.records()) == 3
    t.write([("v",)], **{"kafka.compression.type": "lz4"})
    assert len(t.producers) == 2


def test_a_failed_task_closes_its_producer_and_a_repeated_task_connects_anew(task):
    t = task()
    t.write([("a",)])
    with pytest.raises(ZeroDivisionError):
        t.write([("b",)], ZeroDivisionError())
    assert t.producers[0]._shell.closed
    t.write([("c",)])
    t.write([("d",)], attempt=1)
    assert [producer._shell.closed for producer in t.producers] == [True, True, False]
    assert [r[2] for r in t.records()] == [b"a", b"b", b"c", b"d"]


def test_records_in_flight_in_a_failed_task_are_not_sent_by_the_next_task(task):
    """Spark repeats the failed task itself."""
    t = task()
    limits = {"kafka.request.timeout.ms": "1000", "kafka.delivery.timeout.ms": "2000"}
    t.write([("a",)], **limits)
    t.sim.kill(1)
    with pytest.raises(KafkaError, match="delivery_timeout_ms=2000"):
        t.write([("lost",)], **limits)
    t.sim.start(1)
    t.write([("b",)], **limits)
    assert [r[2] for r in t.records()] == [b"a", b"b"]


def test_a_cached_producer_writes_after_a_long_pause_and_a_broker_restart(task):
    t = task()
    t.write([("a",)])
    t.sim.kill(1)
    t.sim.run_for(1000)
    t.sim.start(1)
    t.write([("b",)])
    assert len(t.producers) == 1
    assert [r[2] for r in t.records()] == [b"a", b"b"]
