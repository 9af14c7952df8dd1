"""A replica's log as a whole: reads return what was appended, after any sequence of operations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.log.log import AppendRefused


def test_empty_log(log):
    assert (log.start_offset, log.end_offset, log.epochs.latest, log.epochs, log.size_bytes) == (0, 0, -1, [], 0)
    assert log.read(0, 0, 100, at_least_one=True) == b""
    assert list(log.read_batches(0, 10)) == []
    assert log.last_stable_offset(0) == 0
    assert log.offset_for_timestamp(0, 0) is None
    log.truncate_to(0)
    log.delete_before(5)
    assert (log.start_offset, log.end_offset) == (0, 0)


def test_append_sets_only_offset_and_leader_epoch(log, write):
    assert write(b"a", b"b") == (0, 2, -1, False)
    sent = write.batch(b"c", NewRecord(b"d", b"k", [("h", b"v")]))
    assert log.append(memoryview(sent), leader_epoch=7, now_ms=write.now) == (2, 4, -1, False)
    read = log.read(2, 4, 10_000, at_least_one=True)
    assert read[:8] == (2).to_bytes(8, "big")
    assert read[12:16] == (7).to_bytes(4, "big")
    assert (read[8:12], read[16:]) == (sent[8:12], sent[16:])
    assert log.epochs == [(0, 0), (7, 2)]
    assert log.read(2, 4, 9_999) is next(log.batches_from(2)).data, "a single batch is not copied"


def test_log_append_time_is_set_by_the_broker(new_log, tools):
    log = new_log(log_append_time=True)
    write = tools.LogWriter(log)
    assert write(NewRecord(b"a", timestamp=5), now=99) == (0, 1, 99, False)
    assert write.end(4, now_ms=100).log_append_time_ms == 100
    first, marker = log.read_batches(0, 2)
    assert (first.timestamp_type, first.decode("t", 0)[0].timestamp) == (1, 99)
    first.check_crc()
    marker.check_crc()
    assert (marker.timestamp_type, marker.max_timestamp) == (1, 100)


def test_batch_above_segment_bytes_is_rejected_last(new_log, tools):
    write = tools.LogWriter(new_log(segment_bytes=100))
    with pytest.raises(AppendRefused) as refused:
        write(bytes(100))
    assert refused.value.code == Code.RECORD_LIST_TOO_LARGE
    assert write(b"fits").base_offset == 0
    with pytest.raises(AppendRefused) as refused:
        write.log.append(bytes(100), leader_epoch=0, now_ms=0)
    assert refused.value.code == Code.CORRUPT_MESSAGE


def test_rejected_batch_changes_nothing(log, write):
    write.transactional(1, b"a")
    before = (log.end_offset, log.size_bytes, dict(log.open_transactions()))
    with pytest.raises(AppendRefused):
        write(b"b", producer_id=1, producer_epoch=0, base_sequence=9, transactional=True)
    with pytest.raises(AppendRefused):
        write(b"b", producer_id=2, producer_epoch=0, base_sequence=-1, transactional=True)
    assert (log.end_offset, log.size_bytes, dict(log.open_transactions())) == before


def test_duplicate_returns_the_first_offset_and_timestamp(log, write, tools):
    sent = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    first = write(b"a", b"b", **sent)
    write(b"other")
    assert write(b"a", b"b", **sent) == (first.base_offset, first.next_offset, tools.NOW, True)
    assert log.end_offset == 3


def test_coordinator_batches_need_no_sequence_numbers(log, write):
    for value in (b"a", b"b"):
        data = write.batch(value, producer_id=1, producer_epoch=3, transactional=True)
        log.append(data, leader_epoch=0, now_ms=0, from_client=False)
    assert log.open_transactions() == {1: 0}
    with pytest.raises(AppendRefused) as refused:
        log.append(write.batch(b"c", producer_id=1, producer_epoch=2), leader_epoch=0, now_ms=0, from_client=False)
    assert refused.value.code == Code.INVALID_PRODUCER_EPOCH


def test_followers_share_batch_objects(log, write, new_log):
    write(b"a", b"b")
    write(b"c")
    follower = new_log()
    for batch in log.batches_from(0):
        follower.append_stored(batch)
    assert [id(one) for one in follower.batches_from(0)] == [id(one) for one in log.batches_from(0)]
    assert follower.epochs == log.epochs
    with pytest.raises(ValueError, match="cannot append base offset 2 at log end offset 3"):
        follower.append_stored(next(log.batches_from(2)))


def test_truncation_restores_all_state(log, write, new_log, tools):
    write.transactional(1, b"a")
    write.end(1, commit=False)
    kept = list(log.batches_from(0))
    log.begin_epoch(1)
    write.transactional(1, b"b", leader_epoch=1)
    write.transactional(2, b"c", leader_epoch=1)
    write.end(1, commit=False, leader_epoch=1)
    assert len(log.aborted(0, 100)) == 2
    log.truncate_to(2)
    twin = new_log()
    for batch in kept:
        twin.append_stored(batch)
    tools.logs_equal(log, twin)
    assert log.epochs == [(0, 0)]
    assert log.last_stable_offset(2) == 2
    write.sequences[1, 0] = 1
    assert write.transactional(1, b"again").base_offset == 2


def test_truncation_removes_an_epoch_without_records(log, write):
    write(b"a")
    log.begin_epoch(3)
    assert log.epochs.latest == 3
    log.truncate_to(1)
    assert log.epochs == [(0, 0)]


def test_delete_before_moves_the_start_and_drops_whole_batches(log, write, tools):
    write(b"a", b"b")
    write(b"c", b"d")
    log.delete_before(3)
    assert tools.contents(log) == [(3, None, b"d")]
    assert [batch.base_offset for batch in log.batches_from(0)] == [2]
    assert log.epochs == [(0, 3)]
    log.delete_before(1)
    assert log.start_offset == 3
    log.delete_before(100)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)
    assert write(b"e").base_offset == 4


def test_producer_state_outlives_its_batches_until_it_expires(log, write, tools):
    write.idempotent(1, b"a", b"b")
    log.delete_before(2)
    with pytest.raises(AppendRefused):
        write(b"c", producer_id=1, producer_epoch=0, base_sequence=7)
    log.producers.expire(tools.NOW + 10, 10)
    assert write(b"c", producer_id=1, producer_epoch=0, base_sequence=7).base_offset == 2


def test_transactions_are_removed_with_their_markers(log, write):
    for _ in range(2):
        write.transactional(1, b"a")
        write.end(1, commit=False)
    assert log.aborted(0, 99) == [(1, 0), (1, 2)]
    log.delete_before(1)
    assert log.aborted(0, 99) == [(1, 0), (1, 2)]
    log.delete_before(2)
    assert log.aborted(0, 99) == [(1, 2)]


def test_start_at_removes_everything(log, write):
    write.transactional(1, b"a")
    log.start_at(50)
    assert (log.start_offset, log.end_offset, log.epochs, dict(log.open_transactions())) == (50, 50, [], {})
    assert write(b"b").base_offset == 50


def test_last_stable_offset_is_before_the_oldest_ongoing_transaction(log, write):
    write(b"a")
    write.transactional(1, b"b")
    write.transactional(2, b"c")
    write.end(2)
    assert log.last_stable_offset(4) == 1
    assert log.last_stable_offset(0) == 0
    write.end(1)
    assert log.last_stable_offset(4) == 1  # the marker at 4 is not committed
    assert log.last_stable_offset(5) == 5


def test_aborted_transactions_are_ordered_by_marker(log, write):
    for producer in (1, 2):
        write.transactional(producer, b"v")
    for producer in (2, 1):
        write.end(producer, commit=False)
    assert log.aborted(0, 4) == [(2, 1), (1, 0)]
    assert log.aborted(3, 4) == log.aborted(0, 1) == [(1, 0)]
    assert log.aborted(4, 99) == []


def test_full_disk_returns_storage_error(new_log, tools):
    class Full(tools.MemoryStore):
        def append(self, data):
            raise OSError(28, "No space left on device")

    log = new_log(Full())
    with pytest.raises(AppendRefused) as refused:
        tools.LogWriter(log)(b"a")
    assert refused.value.code == Code.KAFKA_STORAGE_ERROR
    assert log.end_offset == 0


def test_store_is_rewritten_when_most_of_it_is_deleted(new_log, tools):
    store = tools.MemoryStore()
    log = new_log(store, compact=True)
    write = tools.LogWriter(log)
    for number in range(10):
        write(NewRecord(bytes(300_000), b"%d" % number))
    log.delete_before(3)
    assert store.rewritten == 0  # 900 kB before the start
    log.delete_before(5)
    assert store.rewritten == 0  # as much as the rest
    log.delete_before(6)
    assert store.rewritten == 1
    assert len(store.data) == log.size_bytes
    log.truncate_to(9)
    write(NewRecord(b"new", b"8"))
    tools.logs_equal(log, new_log(store))
    log.compact(tools.NOW, log.end_offset)
    write(NewRecord(b"newer", b"8"))
    log.truncate_to(10)
    tools.logs_equal(log, new_log(store))
    assert [key for _, key, _ in tools.contents(log)] == [b"6", b"7", b"8"]


# -- properties

KEYS = st.sampled_from([b"a", b"b", b"c"])
RECORD = st.tuples(KEYS, st.none() | st.binary(max_size=20), st.integers(0, 50))
SHARE = st.floats(0, 1)
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(RECORD, min_size=1, max_size=5), st.sampled_from([0, 0, 1])),
    st.tuples(st.just("append"), st.lists(RECORD, min_size=21, max_size=24), st.sampled_from([0, 1])),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("truncate"), SHARE),
    st.tuples(st.just("delete"), SHARE),
    st.tuples(st.just("compact"), SHARE),
)


class Model:
    """A reference model with lists: records with the ends of their batches, and the log's bounds."""

    def __init__(self):
        self.records = []  # offset, key, value, timestamp
        self.batches = []  # base, next, leader epoch
        self.start = self.end = 0

    def append(self, records, epoch, now):
        for key, value, age in records:
            self.records.append((self.end + len(self.records[self.records_before() :]), key, value, now - age))
        self.batches.append((self.end, self.end + len(records), epoch))
        self.end += len(records)

    def records_before(self):
        return sum(record[0] < self.end for record in self.records)

    def truncate(self, offset):
        if offset < self.end:
            self.end = min([offset, *(base for base, after, _ in self.batches if base < offset < after)])
            self.records = [record for record in self.records if record[0] < self.end]
            self.batches = [batch for batch in self.batches if batch[1] <= self.end]
            self.start = min(self.start, self.end)

    def delete(self, offset):
        self.start = max(self.start, offset)
        self.batches = [batch for batch in self.batches if batch[1] > self.start]
        kept = min((base for base, _, _ in self.batches), default=self.end)
        self.records = [record for record in self.records if record[0] >= kept]

    def compact(self, end):
        end = max((after for _, after, _ in self.batches if after <= end), default=0)
        last = {key: offset for offset, key, _, _ in self.records if self.start <= offset < end}
        self.records = [r for r in self.records if r[0] >= end or last.get(r[1], -1) <= r[0]]

    @property
    def visible(self):
        return [record for record in self.records if record[0] >= self.start]


@pytest.mark.once
@settings(deadline=None, max_examples=80)
@given(data=st.data(), steps=st.lists(STEP, max_size=12))
def test_random_operations_match_a_list_model(tools, data, steps):
    store = tools.MemoryStore()
    log = tools.new_log(store, compact=True, delete_retention_ms=10**9)
    model, epoch = Model(), 0
    floor = 0  # compacted records were committed, and are never truncated
    for name, *arguments in steps:
        share = model.start + round((arguments[0] if name in ("truncate", "delete", "compact") else 0)
                                    * (model.end - model.start))  # fmt: skip
        if name == "append":
            rows, codec = arguments
            model.append(rows, epoch, tools.NOW)
            news = [NewRecord(value, key, timestamp=tools.NOW - age) for key, value, age in rows]
            tools.LogWriter(log)(*news, codec=codec, leader_epoch=epoch)
        elif name == "epoch":
            epoch += 1
            log.begin_epoch(epoch)
        elif name == "truncate":
            model.truncate(max(share, floor))
            log.truncate_to(max(share, floor))
        elif name == "delete":
            model.delete(share)
            log.delete_before(share)
        else:
            floor = max(floor, share)
            model.compact(share)
            log.compact(tools.NOW, share)
        _agree(log, model, data, tools)
        _agree(tools.new_log(store), model, data, tools, end=max([model.start, *(b[1] for b in model.batches)]))


def _agree(log, model, data, tools, end=None):
    assert (log.start_offset, log.end_offset) == (model.start, model.end if end is None else end)
    assert tools.contents(log) == [record[:3] for record in model.visible]
    for batch in log.read_batches(log.start_offset, log.end_offset):
        batch.check_crc()
    offset = data.draw(st.integers(model.start, model.end))
    _reads_agree(log, offset, data.draw(st.integers(0, 400)), data.draw(st.booleans()))
    timestamp = tools.NOW - data.draw(st.integers(-1, 51))
    found = log.offset_for_timestamp(timestamp, log.end_offset)
    wanted = next(((r[0], r[3]) for r in model.visible if r[3] >= timestamp), None)
    assert (found and found[:2]) == wanted


def _reads_agree(log, offset, max_bytes, at_least_one):
    batches = [batch.data for batch in log.batches_from(offset)]
    if at_least_one and batches:
        max_bytes = max(max_bytes, len(batches[0]))
    read = log.read(offset, log.end_offset, max_bytes, at_least_one=at_least_one)
    assert read == b"".join(batches)[:max_bytes]
    whole, error = split(memoryview(read))
    assert error is None
    assert [bytes(one.view) for one in whole] == batches[: len(whole)]


TRANSACTIONAL_STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("truncate"), SHARE),
    st.tuples(st.just("delete"), SHARE),
    st.tuples(st.just("compact"), SHARE, st.integers(0, 3)),
)


class TransactionModel:
    """The expected outcome of each record, transactional or not."""

    def __init__(self, log, write):
        self.log, self.write = log, write
        self.rows = {}  # offset -> [producer or None, the marker's offset or None, committed, key]
        self.floor = 0  # committed offsets are never truncated
        self.now = write.now

    def append(self, producer, count, transactional):
        records = [NewRecord(b"v", b"%d" % number) for number in range(count)]
        if transactional or producer in self.log.open_transactions():
            known = self.log.producers.by_id.get(producer)
            self.write.sequences[producer, 0] = known.last_sequence + 1 if known else 0
            base = self.write.transactional(producer, *records).base_offset
            fate = [producer, None, False]
        else:
            base = self.write(*records).base_offset
            fate = [None, base, True]
        self.rows |= {base + number: [*fate, number] for number in range(count)}

    def end(self, producer, commit):
        marker = self.write.end(producer, commit).base_offset
        for fate in self.rows.values():
            if fate[0] == producer and fate[1] is None:
                fate[1:3] = [marker, commit]

    def truncate(self, share):
        self.log.truncate_to(max(self.floor, self.at(share)))
        self.rows = {offset: fate for offset, fate in self.rows.items() if offset < self.log.end_offset}
        for fate in self.rows.values():
            if fate[0] is not None and fate[1] is not None and fate[1] >= self.log.end_offset:
                fate[1:3] = [None, False]

    def delete(self, share):
        self.floor = self.log.end_offset  # only stable records can be deleted
        self.log.delete_before(min(self.at(share), self.log.last_stable_offset(self.floor)))

    def compact(self, share, passes_ms):
        self.now += passes_ms
        self.floor = max(self.floor, self.at(share))
        batches = [batch.next_offset for batch in self.log.batches_from(0)]
        end = max((n for n in batches if n <= self.log.last_stable_offset(self.floor)), default=0)
        self.log.compact(self.now, self.floor)
        last = {
            fate[3]: offset
            for offset, fate in sorted(self.rows.items())
            if fate[2] and self.log.start_offset <= offset < end
        }
        self.rows = {o: fate for o, fate in self.rows.items() if o >= end or last.get(fate[3], -1) <= o}

    def at(self, share):
        return self.log.start_offset + round(share * (self.log.end_offset - self.log.start_offset))


@pytest.mark.once
@settings(deadline=None, max_examples=200)
@given(steps=st.lists(TRANSACTIONAL_STEP, max_size=25))
def test_random_transactions_match_a_model(tools, steps):
    """With read_committed a log returns the records of committed transactions up to the first ongoing one, and no
    others.
    """
    log = tools.new_log(compact=True, delete=False, delete_retention_ms=2)
    fates = TransactionModel(log, tools.LogWriter(log))
    for name, *arguments in steps:
        getattr(fates, name)(*arguments)
        stable = log.last_stable_offset(log.end_offset)
        undecided = [offset for offset, fate in fates.rows.items() if fate[1] is None]
        assert stable == max(log.start_offset, min([log.end_offset, *undecided]))
        committed = {o for o, fate in fates.rows.items() if log.start_offset <= o < stable and fate[2]}
        assert tools.read_committed(log, stable) == committed
