"""A read task: exact ranges, offsets without records, lost data, and cached connections."""

import base64
import re
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thinconsumer import KafkaTimeoutError, TopicPartition
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_marker
from thinconsumer.records.compression import Codec
from thinconsumer.spark import reading
from thinconsumer.spark.planner import DataLossError, OffsetRange
from thinconsumer.spark.reading import read
from thinconsumer.spark.worker_process import ClientCache
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.fetch import FetchRequest

T0 = TopicPartition("t", 0)


class Executor:
    """A worker process with its cached consumers."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.cache = ClientCache(lambda consumer: consumer.close(autocommit=False, timeout_ms=0))

    def batches(self, start, until, partition=0, attempt=0, topic_id=ZERO_UUID, **more):
        wanted = OffsetRange(TopicPartition("t", partition), start, until, topic_id)
        clock = self.cluster.kafka.clock.now
        kafka = {name: value for name, value in more.items() if name.startswith("kafka.")}
        options = replace(self.cluster.options(**kafka), **{k: v for k, v in more.items() if k not in kafka})
        how = {"attempt": attempt, "cache": self.cache, "make": self.cluster.connect, "clock": clock}
        return read(wanted, options, ("offset",), **how)

    def topic_id(self):
        return self.cluster.kafka.controller.image.topics["t"].topic_id

    def recreate_topic(self, records):
        self.cluster.kafka.delete_topic("t")
        self.cluster.kafka.create_topic("t", 2)
        self.cluster.append(*[b"new"] * records)

    def offsets(self, start, until, **more):
        return [n for batch in self.batches(start, until, **more) for n in batch.column("offset").to_pylist()]


@pytest.fixture
def executor(cluster):
    return lambda *args, **about: Executor(cluster(*args, **about))


def test_a_range_ends_at_its_last_offset_though_no_record_is_there(executor):
    e = executor(holds=[NewRecord(b"v"), NewRecord(b"v", offset=5)])
    e.cluster.kafka.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=1))
    assert e.offsets(0, 7) == [0, 5]
    assert e.offsets(1, 5) == []
    assert e.offsets(6, 7) == []


@pytest.mark.parametrize("ids", [True, False])
def test_a_cached_consumer_reads_a_range_planned_after_its_topic_was_recreated(executor, ids):
    """The consumer drops its position when the topic id changes."""
    e = executor(holds=[b"v"] * 5)
    assert e.offsets(0, 5, topic_id=e.topic_id() if ids else ZERO_UUID) == list(range(5))
    e.recreate_topic(8)
    assert e.offsets(5, 8, topic_id=e.topic_id() if ids else ZERO_UUID) == [5, 6, 7]
    assert len(e.cluster.made) == 1


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("records", [2, 20])
def test_a_topic_recreated_after_planning_is_data_loss_though_it_has_grown_past_the_range(
    executor, cached, records, caplog
):
    e = executor(holds=[b"v"] * 10)
    planned = e.topic_id()
    if cached:
        e.offsets(0, 3, topic_id=planned)
    e.recreate_topic(records)
    found, before = (base64.urlsafe_b64encode(topic).decode().rstrip("=") for topic in (e.topic_id(), planned))
    words = f"t-0 [3, 10): the topic was deleted and created again: its id is {found}, planned was {before}"
    with pytest.raises(DataLossError, match=re.escape(words)):
        e.offsets(3, 10, topic_id=planned)
    assert e.offsets(3, 10, topic_id=planned, fail_on_data_loss=False) == []
    assert "created again" in caplog.text


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("then", ["recreated", "deleted"])
def test_a_topic_deleted_or_recreated_while_its_range_is_read_yields_only_its_own_records(
    executor, then, fails, caplog
):
    e = executor()
    for _ in range(10):
        e.cluster.append(*[b"v" * 1000] * 10)
    more = {"kafka.max.partition.fetch.bytes": "1000", "fail_on_data_loss": fails}
    batches = e.batches(0, 100, topic_id=e.topic_id(), **more)
    found = next(batches).column("offset").to_pylist()
    if then == "recreated":
        e.recreate_topic(200)
    else:
        e.cluster.kafka.delete_topic("t")
    words = f"100): the topic was deleted{' and created again' * (then == 'recreated')}"
    if fails:
        with pytest.raises(DataLossError, match=rf"t-0 \[\d+0, {re.escape(words)}"):
            list(batches)
        return
    found += [n for batch in batches for n in batch.column("offset").to_pylist()]
    assert found == list(range(len(found)))
    assert 0 < len(found) < 100
    assert f"t-0 [{len(found)}, {words}" in caplog.text


def test_aborted_records_are_left_out_under_read_committed(executor):
    e = executor()
    for producer, kind in [(1, ControlType.COMMIT), (2, ControlType.ABORT)]:
        e.cluster.append(b"a", b"b", producer_id=producer, transactional=True)
        e.cluster.kafka.append_batch(T0, build_marker(kind, producer_id=producer))
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
    """Batches with gaps between offsets, and ranges that begin and end anywhere."""
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
        base = c.kafka.leader(("t", 0)).log.end_offset
    until = min(start + size, base)
    if start < until:
        assert Executor(c).offsets(start, until, max_batch_bytes=bytes_max) == [n for n in there if start <= n < until]


@pytest.mark.parametrize(
    ("start", "until", "lost", "left"), [(0, 20, (0, 10), range(10, 20)), (3, 8, (3, 8), []), (9, 11, (9, 10), [10])]
)
def test_deleted_offsets_are_named_exactly_or_skipped(executor, start, until, lost, left, caplog):
    e = executor()
    for _ in range(2):
        e.cluster.append(*[b"v"] * 10)
    e.cluster.kafka.delete_records(("t", 0), 10)
    with pytest.raises(DataLossError) as error:
        e.offsets(start, until)
    (loss,) = error.value.losses
    assert (loss.tp, loss.start, loss.until) == (T0, *lost)
    assert e.offsets(start, until, fail_on_data_loss=False) == list(left)
    assert f"t-0 [{lost[0]}, {lost[1]}): deleted; the log begins at 10" in caplog.text


def test_offsets_beyond_the_log_are_lost(executor):
    e = executor(holds=[b"v"])
    with pytest.raises(DataLossError, match=r"t-0 \[5, 9\): missing; the log ends at 1"):
        e.offsets(5, 9)
    assert e.offsets(5, 9, fail_on_data_loss=False) == []


def test_no_progress_is_a_timeout_that_names_the_offset(executor):
    e = executor(holds=[b"v"])
    with pytest.raises(KafkaTimeoutError, match=r"t-0: offset 1 of a range up to 3 .* within 5 s \(kafkaConsumer.poll"):
        e.offsets(0, 3, poll_timeout_ms=5000)


def test_the_next_task_reuses_the_connection_and_prefetched_records(executor):
    e = executor({"t": 2}, holds=[b"v"] * 5)
    e.cluster.append(*[b"v"] * 5)
    e.cluster.append(*[b"v"] * 10, partition=1)
    assert e.offsets(0, 5) == [0, 1, 2, 3, 4]
    fetches = len(e.cluster.requests(FetchRequest))
    assert e.offsets(5, 10) == [5, 6, 7, 8, 9]
    assert len(e.cluster.requests(FetchRequest)) <= fetches + 1  # prefetched records are not fetched again
    assert e.offsets(2, 4, partition=1) == [2, 3]
    assert e.offsets(0, 3) == [0, 1, 2]
    assert len(e.cluster.made) == 1


def test_a_compressed_response_is_decoded_in_one_poll_and_cut_into_batches(executor, monkeypatch):
    e = executor()
    for _ in range(10):
        e.cluster.append(*[b"v" * 1000] * 10, codec=Codec.LZ4)
    polls = []
    original = reading.poll_up_to
    monkeypatch.setattr(reading, "poll_up_to", lambda *args, **how: polls.append(args) or original(*args, **how))
    batches = list(e.batches(0, 100, max_batch_bytes=100, **{"kafka.batches.fetch.bytes": "51000"}))
    assert sum(batch.num_rows for batch in batches) == 100
    assert len(batches) > 1
    assert len(polls) == 1


def test_a_repeated_task_connects_anew(executor):
    e = executor(holds=[b"v"])
    e.offsets(0, 1)
    assert e.offsets(0, 1, attempt=1) == [0]
    assert len(e.cluster.made) == 2


def test_a_cancelled_task_closes_its_connection(executor):
    e = executor(holds=[b"v"] * 100)
    batches = e.batches(0, 100, max_batch_bytes=100)
    assert next(batches).num_rows < 100
    batches.close()
    assert e.offsets(0, 2) == [0, 1]
    assert len(e.cluster.made) == 2


def test_concurrent_tasks_share_no_connection(executor):
    e = executor(holds=[b"v" * 50] * 100)
    one, other = e.batches(0, 100, max_batch_bytes=100), e.batches(50, 100, max_batch_bytes=100)
    assert next(one).column("offset")[0].as_py() == 0
    assert next(other).column("offset")[0].as_py() == 50
    assert len(list(one)) > 1
    assert len(list(other)) > 1
    assert len(e.cluster.made) == 2


def test_connections_with_other_options_are_not_reused(executor):
    e = executor(holds=[b"v"])
    for number in (1, 2, 2):
        e.offsets(0, 1, **{"kafka.client.id": f"c{number}"})
    assert len(e.cluster.made) == 2
