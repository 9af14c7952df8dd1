"""The executor's side: exactly one range, over holes; what is lost is named; connections are kept, and given up."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thinconsumer import KafkaTimeoutError, TopicPartition
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_marker
from thinconsumer.spark.kept import Kept
from thinconsumer.spark.planner import DataLossError, OffsetRange
from thinconsumer.spark.reading import ReadSettings, read
from thinconsumer.wire.fetch import FetchRequest

T0 = TopicPartition("t", 0)


class Executor:
    """A worker process with its kept connections."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.kept = Kept(lambda consumer: consumer.close(autocommit=False, timeout_ms=0))

    def settings(self, **more):
        kafka = dict(self.cluster.options(**{k: v for k, v in more.items() if k.startswith("kafka.")}).kafka)
        return ReadSettings(kafka, ("offset",), **{k: v for k, v in more.items() if not k.startswith("kafka.")})

    def batches(self, start, until, partition=0, attempt=0, **more):
        wanted = OffsetRange("t", partition, start, until)
        clock = self.cluster.scripted.clock.now
        how = self.settings(**more)
        return read(wanted, how, attempt=attempt, kept=self.kept, make=self.cluster.connect, clock=clock)

    def offsets(self, start, until, **more):
        return [n for batch in self.batches(start, until, **more) for n in batch.column("offset").to_pylist()]


@pytest.fixture
def executor(cluster):
    return lambda *args, **about: Executor(cluster(*args, **about))


def test_a_range_is_read_exactly(executor):
    e = executor()
    for _ in range(5):
        e.cluster.append(*[b"v"] * 10)
    assert e.offsets(0, 50) == list(range(50))
    assert e.offsets(7, 33) == list(range(7, 33))
    assert e.offsets(49, 50) == [49]


def test_holes_and_marks_at_the_end_end_a_range(executor):
    e = executor()
    e.cluster.append(NewRecord(b"v"), NewRecord(b"v", offset=5))
    e.cluster.scripted.partition("t", 0).append(build_marker(ControlType.COMMIT, producer_id=1))
    assert e.offsets(0, 7) == [0, 5]
    assert e.offsets(1, 5) == []
    assert e.offsets(6, 7) == []


def test_topic_that_was_made_anew_is_read_by_a_kept_consumer_too(executor):
    """It forgets where it stood in a topic that is gone; what is to be read was decided with the new one in view."""
    e = executor()
    e.cluster.append(*[b"v"] * 5)
    assert e.offsets(0, 5) == list(range(5))
    e.cluster.scripted.topics.remove("t")
    e.cluster.scripted.topics.add("t", 2)
    e.cluster.append(*[b"w"] * 8)
    assert e.offsets(5, 8) == [5, 6, 7]
    assert len(e.cluster.made) == 1


def test_aborted_records_are_left_out_under_read_committed(executor):
    e = executor()
    partition = e.cluster.scripted.partition("t", 0)
    for producer, kind in [(1, ControlType.COMMIT), (2, ControlType.ABORT)]:
        e.cluster.append(b"a", b"b", producer_id=producer, transactional=True)
        partition.append(build_marker(kind, producer_id=producer))
    partition.aborted = [(2, 3)]
    assert e.offsets(0, 6) == [0, 1, 3, 4]
    assert e.offsets(0, 6, **{"kafka.isolation.level": "read_committed"}) == [0, 1]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(0, 60),
    st.integers(1, 60),
    st.integers(1, 400),
)
def test_any_range_of_any_log_is_read_exactly(cluster, batches, start, size, bytes_max):
    """Against the log itself: batches with holes in them, cut anywhere."""
    c = cluster({"t": 1})
    there, base = [], 0
    for gaps in batches:
        records, offset = [], 0
        for gap in gaps:
            offset += gap
            records.append(NewRecord(b"v" * gap, offset=offset))
            there.append(base + offset)
            offset += 1
        c.append(*records)
        base = c.scripted.partition("t", 0).end_offset
    until = min(start + size, base)
    if start < until:
        assert Executor(c).offsets(start, until, max_batch_bytes=bytes_max) == [n for n in there if start <= n < until]


@pytest.mark.parametrize(
    ("start", "until", "lost", "left"), [(0, 20, (0, 10), range(10, 20)), (3, 8, (3, 8), []), (9, 11, (9, 10), [10])]
)
def test_what_was_deleted_is_named_exactly_or_left_out(executor, start, until, lost, left, caplog):
    e = executor()
    for _ in range(2):
        e.cluster.append(*[b"v"] * 10)
    e.cluster.scripted.partition("t", 0).delete_before(10)
    with pytest.raises(DataLossError) as error:
        e.offsets(start, until)
    (loss,) = error.value.losses
    assert (loss.tp, loss.start, loss.until) == (T0, *lost)
    assert e.offsets(start, until, fail_on_data_loss=False) == list(left)
    assert f"t-0 [{lost[0]}, {lost[1]}): deleted; the log begins at 10" in caplog.text


def test_what_the_log_does_not_have_is_lost(executor):
    e = executor()
    e.cluster.append(b"v")
    with pytest.raises(DataLossError, match=r"t-0 \[5, 9\): not there; the log ends at 1"):
        e.offsets(5, 9)
    assert e.offsets(5, 9, fail_on_data_loss=False) == []


def test_no_progress_is_an_error_that_says_where(executor):
    e = executor()
    e.cluster.append(b"v")
    with pytest.raises(KafkaTimeoutError, match=r"t-0: offset 1 of a range up to 3 .* within 5 s \(kafkaConsumer.poll"):
        e.offsets(0, 3, poll_timeout_ms=5000)


def test_next_task_uses_the_connection_of_the_one_before(executor):
    e = executor({"t": 2})
    e.cluster.append(*[b"v"] * 5)
    e.cluster.append(*[b"v"] * 5)
    e.cluster.append(*[b"v"] * 10, partition=1)
    assert e.offsets(0, 5) == [0, 1, 2, 3, 4]
    fetches = len(e.cluster.requests(FetchRequest))
    assert e.offsets(5, 10) == [5, 6, 7, 8, 9]
    assert len(e.cluster.requests(FetchRequest)) <= fetches + 1  # what was fetched ahead is not fetched again
    assert e.offsets(2, 4, partition=1) == [2, 3]
    assert e.offsets(0, 3) == [0, 1, 2]
    assert len(e.cluster.made) == 1


def test_task_that_is_repeated_trusts_no_kept_connection(executor):
    e = executor()
    e.cluster.append(b"v")
    e.offsets(0, 1)
    assert e.offsets(0, 1, attempt=1) == [0]
    assert len(e.cluster.made) == 2


def test_task_that_is_killed_gives_its_connection_up(executor):
    e = executor()
    e.cluster.append(*[b"v"] * 100)
    batches = e.batches(0, 100, max_batch_bytes=100)
    assert next(batches).num_rows < 100
    batches.close()
    assert e.offsets(0, 2) == [0, 1]
    assert len(e.cluster.made) == 2


def test_tasks_at_the_same_time_share_nothing(executor):
    e = executor()
    e.cluster.append(*[b"v" * 50] * 100)
    one, other = e.batches(0, 100, max_batch_bytes=100), e.batches(50, 100, max_batch_bytes=100)
    assert next(one).column("offset")[0].as_py() == 0
    assert next(other).column("offset")[0].as_py() == 50
    assert len(list(one)) > 1
    assert len(list(other)) > 1
    assert len(e.cluster.made) == 2


def test_connections_of_other_options_are_not_used(executor):
    e = executor()
    e.cluster.append(b"v")
    for number in (1, 2, 2):
        e.offsets(0, 1, **{"kafka.client.id": f"c{number}"})
    assert len(e.cluster.made) == 2
    e.kept.close()
