"""One record at a time: when iterating ends, what it keeps alive, and how it mixes with everything else."""

import itertools

import pytest

from thinconsumer import DeserializationError, KafkaTimeoutError, OffsetOutOfRangeError, TopicPartition
from thinconsumer.broker import Silence
from thinconsumer.consumer.iteration import Iteration
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.wire.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def take(consumer, count):
    return [record.offset for record in itertools.islice(consumer, count)]


# -- when it ends


def test_iteration_ends_after_consumer_timeout_ms_without_a_record(reading):
    w, consumer = reading(3, consumer_timeout_ms=5000)
    seconds, found = w.elapsed(lambda: [record.offset for record in consumer])
    assert found == [0, 1, 2]
    assert seconds == pytest.approx(5, abs=0.1)
    w.append(1)
    assert [record.offset for record in consumer] == [3]


@pytest.mark.parametrize("timeout_ms", [0, 300, 2000])
def test_idle_time_counts_from_the_first_completed_fetch(world, timeout_ms):
    """A cluster that takes 20 s to come up is not "out of data", however impatient the consumer is."""
    w = world()
    w.append(3)
    w.network.black_hole("kafka1", 9092)
    w.network.call_at(w.clock.now() + 20, lambda: w.network.resume("kafka1", 9092))
    consumer = w.consumer(consumer_timeout_ms=timeout_ms)
    assert [record.offset for record in consumer] == [0, 1, 2]
    assert w.clock.now() >= 1020


def test_records_that_trickle_in_keep_an_iteration_going(world):
    """The idle time begins anew with each record."""
    w = world()
    for number in range(5):
        w.network.call_at(w.clock.now() + 1 + number, lambda: w.append(1))
    consumer = w.consumer(consumer_timeout_ms=1500)
    assert [record.offset for record in consumer] == [0, 1, 2, 3, 4]


# -- between two records


def test_slow_consumer_keeps_its_connections_alive(reading):
    """A minute of work per record: fetches are answered meanwhile, and nothing times out or is dialled anew."""
    w, consumer = reading(10, request_timeout_ms=5000, connections_max_idle_ms=100_000)
    found = []
    for record in itertools.islice(consumer, 10):
        found.append(record.offset)
        w.clock.advance(60)
    assert found == list(range(10))
    assert sum(fetch.session_epoch == 0 for fetch in w.fetches()) == 1


def test_metadata_is_refreshed_between_records(reading):
    w, consumer = reading(20, metadata_max_age_ms=10_000)
    for _ in itertools.islice(consumer, 20):
        w.clock.advance(5)
    assert len(w.requests(MetadataRequest)) >= 6


def test_driving_between_records_does_not_cost_a_step_per_record(reading):
    _, consumer = reading(500)
    next(consumer)
    steps = consumer._shell.driver.steps
    assert take(consumer, 499) == list(range(1, 500))
    assert consumer._shell.driver.steps == steps


# -- errors that last


@pytest.mark.parametrize("others", [(), ("paused",)])
def test_an_error_that_leaves_nothing_to_read_is_raised_by_each_iteration(world, others):
    """Nothing is requested until the application acts, so an iteration that waited for records would never end."""
    w = world(topics={"t": 2})
    w.append(3)
    consumer = w.consumer(*(("t", n) for n in range(1 + len(others))), auto_offset_reset="none")
    consumer.seek(T0, 500)
    if others:
        consumer.seek(T1, 0)
        consumer.pause(T1)
    for _ in range(3):
        began = w.clock.now()
        with pytest.raises(OffsetOutOfRangeError):
            next(consumer)
        assert w.clock.now() - began < 2
    consumer.seek(T0, 1)
    assert next(consumer).offset == 1


def test_an_error_is_not_raised_again_while_another_partition_can_be_read(world):
    w = world(topics={"t": 2})
    consumer = w.consumer(("t", 0), ("t", 1), auto_offset_reset="none")
    consumer.seek(T0, 500)
    consumer.seek(T1, 0)
    with pytest.raises(OffsetOutOfRangeError):
        next(consumer)
    w.network.call_at(w.clock.now() + 10, lambda: w.append(1, 1))
    assert next(consumer).partition == 1


# -- mixed with everything else


def test_unassigned_between_two_records_is_not_handed_out(world):
    w = world(topics={"t": 2})
    w.append(4, 0)
    w.append(4, 1)
    consumer = w.consumer(consumer_timeout_ms=1000)
    assert take(consumer, 2) == [0, 1]
    consumer.assign([T1])
    assert [(record.partition, record.offset) for record in consumer] == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_error_in_an_iteration_comes_after_the_good_records_and_can_be_skipped(world):
    w = world()
    w.append(6)

    def poisoned(data):
        if data == b"0:3":
            raise StopIteration
        return data

    consumer = w.consumer(value_deserializer=poisoned, consumer_timeout_ms=1000)
    assert take(consumer, 3) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(DeserializationError) as caught:
            next(consumer)
    consumer.skip(caught.value)
    assert [record.offset for record in consumer] == [4, 5]


# -- read_to_end


def test_read_to_end_reads_what_was_there_when_it_was_called(world):
    """Records written meanwhile stay for the next read."""
    w = world(topics={"t": 2})
    w.append(5, 0)
    w.append(3, 1)
    consumer = w.consumer(("t", 0), ("t", 1), max_poll_records=2)
    found = []
    for record in consumer.read_to_end():
        found.append((record.partition, record.offset))
        if len(found) == 2:
            w.append(4, 0)
    assert sorted(found) == [(0, o) for o in range(5)] + [(1, o) for o in range(3)]
    assert (consumer.position(T0), consumer.position(T1)) == (5, 3)
    assert [record.offset for record in consumer.read_to_end()] == [5, 6, 7, 8]


@pytest.mark.parametrize("rebalance", [False, True])
def test_read_to_end_mixed_with_iteration_returns_each_record_once(world, monkeypatch, rebalance):
    """Nor does it return later records when a poll is due between two records, as for a callback."""
    w = world()
    w.append(9)
    consumer = w.consumer(("t", 0), max_poll_records=4)
    monkeypatch.setattr(Iteration, "_drive", lambda iteration: rebalance)
    found = []
    for record in consumer.read_to_end():
        if len(found) == 4:
            w.append(3)
        found.append(record.offset)
        if record.offset in (1, 5):
            found.append(next(consumer).offset)
        w.clock.advance(1)
    assert found == list(range(9))
    assert [record.offset for record in consumer.read_to_end()] == [9, 10, 11]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_reading_an_empty_topic_to_its_end_takes_no_time(reading, policy):
    """There is nothing to wait for, whatever the starting point."""
    w, consumer = reading(auto_offset_reset=policy)
    seconds, found = w.elapsed(lambda: list(consumer.read_to_end()))
    assert (found, seconds < 1) == ([], True)


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
@pytest.mark.parametrize("ending", ["marker", "hole", "aborted", "bare marker"])
def test_read_to_end_ends_where_the_log_ends_in_what_is_not_seen(world, ending, limit):
    """Control batches, aborted transactions and compaction holes at the very end are reached, not waited for."""
    w = world()
    if ending != "bare marker":
        w.append(2)
    if ending in ("marker", "bare marker"):
        w.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=7))
    elif ending == "hole":
        w.cluster.append_batch(T0, build_batch([NewRecord(b"x")], last_offset_delta=4))
    else:
        w.cluster.append_batch(T0, build_batch([NewRecord(b"x")] * 2, producer_id=9, transactional=True))
        w.cluster.append_batch(T0, build_marker(ControlType.ABORT, producer_id=9))
    consumer = w.consumer(max_poll_records=limit, isolation_level="read_committed")
    seconds, found = w.elapsed(lambda: [record.offset for record in consumer.read_to_end()])
    expected = {"marker": [0, 1], "hole": [0, 1, 2], "aborted": [0, 1], "bare marker": []}[ending]
    assert (found, seconds < 2) == (expected, True)
    assert consumer.position(T0) == w.cluster.leader(T0).log.end_offset
    assert list(consumer.read_to_end()) == []


def test_read_to_end_under_read_committed_stops_before_open_transactions(world):
    w = world()
    w.append(3)
    w.cluster.append_batch(T0, build_batch([NewRecord(b"open")] * 2, producer_id=5, transactional=True))
    consumer = w.consumer(isolation_level="read_committed")
    assert [record.offset for record in consumer.read_to_end()] == [0, 1, 2]
    assert consumer.lag() == {T0: 0}


def test_read_to_end_leaves_paused_partitions_out(world):
    w = world(topics={"t": 2})
    w.append(2, 0)
    w.append(2, 1)
    consumer = w.consumer(("t", 0), ("t", 1))
    consumer.pause(T0)
    assert [(r.partition, r.offset) for r in consumer.read_to_end()] == [(1, 0), (1, 1)]


def test_read_to_end_that_gets_nowhere_says_so(reading):
    """A broker that stops answering: the timeout names how far it is behind."""
    w, consumer = reading(3, max_poll_records=2, max_partition_fetch_bytes=1)
    reading = consumer.read_to_end(timeout_ms=3000)
    w.append(2)
    w.cluster.on("Fetch", Silence())

    def read_on():
        while True:
            next(reading)

    with pytest.raises(KafkaTimeoutError, match=r"read_to_end.*t.*3\.000 s"):
        read_on()


# -- what it costs


@pytest.mark.parametrize("max_poll_records", [500, 5000])
def test_a_call_after_each_record_does_not_build_all_records_again(reading, monkeypatch, max_poll_records):
    """The call ends the poll result of the iteration, and the next one returns all of its records but one."""
    lazy_rows = pytest.importorskip("thinconsumer.records.columnar.lazy_rows", exc_type=ImportError)
    built = []
    original = lazy_rows.RowBuilder.build

    def spy(self, tp, begin, end):
        built.append(end - begin)
        return original(self, tp, begin, end)

    monkeypatch.setattr(lazy_rows.RowBuilder, "build", spy)
    _, consumer = reading(2000, max_poll_records=max_poll_records)
    for record in itertools.islice(consumer, 2000):
        assert consumer.position(T0) == record.offset + 1
    assert sum(built) <= 2 * 2000
