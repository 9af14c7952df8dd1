"""The results of compaction: keys, batches, tombstones, transactions, producer state."""

import pytest
from kafka.record import MemoryRecords

from thinconsumer.records.builder import NewRecord
from thinconsumer_testing.broker.log.log import AppendRefused


def rec(key, value=b"v", timestamp=-1):
    return NewRecord(value, key, timestamp=timestamp)


@pytest.fixture
def write(compacted, tools):
    return tools.LogWriter(compacted)


@pytest.fixture
def compact(compacted, tools):
    """``compact(after_ms=0)`` cleans the whole log."""
    return lambda after_ms=0: compacted.compact(tools.NOW + after_ms, compacted.end_offset)


@pytest.fixture
def shape(compacted):
    """Return (base offset, last offset, records) of each batch."""
    return lambda: [(b.base_offset, b.last_offset, b.record_count) for b in compacted.batches_from(0)]


@pytest.mark.parametrize("codec", [0, 1, 3, 4])
def test_last_record_of_each_key_is_retained_in_place(compacted, write, compact, shape, tools, codec):
    write(rec(b"a"), rec(b"b"), rec(b"a", b"w"), rec(b"c"), codec=codec)
    write(rec(b"c", b"x"), codec=codec)
    compact()
    assert tools.contents(compacted) == [(1, b"b", b"v"), (2, b"a", b"w"), (4, b"c", b"x")]
    assert shape() == [(0, 3, 2), (4, 4, 1)]
    assert [batch.codec for batch in compacted.batches_from(0)] == [codec, codec]
    before = list(compacted.batches_from(0))
    compact()
    assert [id(one) for one in compacted.batches_from(0)] == [id(one) for one in before]


def test_empty_batches_are_removed_except_the_last(compacted, write, compact, shape):
    write(rec(b"a"))
    write(rec(b"a"))
    write(rec(b"b"))
    write(rec(b"b"))
    compact()
    assert shape() == [(1, 1, 1), (3, 3, 1)]
    write(rec(b"b", None))
    compact()
    compact(1_000)
    assert shape() == [(1, 1, 1), (4, 4, 0)]
    assert compacted.end_offset == 5
    write(rec(b"c"))
    compact()
    assert shape() == [(1, 1, 1), (5, 5, 1)]


def test_retained_records_keep_headers_and_timestamps(compacted, write, compact):
    write(
        rec(b"a", timestamp=5), NewRecord(b"x", b"b", [("h", b"1"), ("h", None)], timestamp=9), rec(b"a", timestamp=2)
    )
    compact()
    (batch,) = compacted.read_batches(0, 3)
    kept = [(r.offset, r.timestamp, r.headers) for r in batch.decode("t", 0)]
    assert kept == [(1, 9, (("h", b"1"), ("h", None))), (2, 2, ())]
    assert (batch.max_timestamp, batch.base_timestamp) == (9, 9)


def test_tombstones_are_removed_after_the_delete_horizon(compacted, write, compact, tools):
    write(rec(b"a"))
    write(rec(b"a", None), rec(b"b", timestamp=tools.NOW - 7))
    compact()
    (batch,) = compacted.batches_from(0)
    assert batch.delete_horizon_ms == tools.NOW + 1_000
    (read,) = compacted.read_batches(0, 3)
    assert [(r.key, r.timestamp) for r in read.decode("t", 0)] == [(b"a", tools.NOW), (b"b", tools.NOW - 7)]
    compact(999)
    assert tools.contents(compacted) == [(1, b"a", None), (2, b"b", b"v")]
    compact(1_000)
    assert tools.contents(compacted) == [(2, b"b", b"v")]
    (batch,) = compacted.batches_from(0)
    assert (batch.base_offset, batch.last_offset, batch.delete_horizon_ms) == (1, 2, tools.NOW + 1_000)


def test_tombstones_are_kept_as_long_as_they_are_needed(compacted, write, compact, tools):
    write(rec(b"a", None))
    compact()
    write(rec(b"a", b"back"), rec(b"b", None))
    write(rec(b"c", None))
    compacted.keeps_tombstones = True
    compact()
    compact(9_999)
    assert tools.contents(compacted) == [(1, b"a", b"back"), (2, b"b", None), (3, b"c", None)]
    assert {batch.delete_horizon_ms for batch in compacted.batches_from(1)} == {None}
    compacted.keeps_tombstones = False
    compact(20_000)
    assert tools.contents(compacted) == [(1, b"a", b"back"), (2, b"b", None), (3, b"c", None)]
    compact(21_000)
    assert tools.contents(compacted) == [(1, b"a", b"back")]


def test_records_without_key_are_removed(new_log, tools):
    log = new_log()
    tools.LogWriter(log)(NewRecord(b"v"), rec(b"a"))
    log.compact(tools.NOW, 2)
    assert len(tools.contents(log)) == 2, "the topic is not compacted yet"
    log.config = tools.new_log(compact=True).config
    log.compact(tools.NOW, 2)
    assert tools.contents(log) == [(1, b"a", b"v")]


def test_last_batch_of_a_producer_is_kept_as_header(compacted, write, compact, shape):
    write.idempotent(7, rec(b"a"), rec(b"b"))
    write.idempotent(7, rec(b"a"), rec(b"b"))
    write(rec(b"a"), rec(b"b"))
    compact()
    assert shape() == [(2, 3, 0), (4, 5, 2)]
    empty = next(compacted.batches_from(0))
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence, len(empty.data)) == (7, 2, 3, 61)
    compacted.truncate_to(5)  # rebuilds the producer state from the remaining batches
    assert write(rec(b"a"), rec(b"b"), producer_id=7, producer_epoch=0, base_sequence=2).duplicate
    with pytest.raises(AppendRefused):
        write(rec(b"c"), producer_id=7, producer_epoch=0, base_sequence=5)
    write.idempotent(7, rec(b"c"))
    compact()
    assert shape() == [(4, 4, 1)]


def test_aborted_records_are_removed_before_their_marker(compacted, write, compact, shape, tools):
    write.transactional(1, rec(b"a", b"aborted"))
    write.end(1, commit=False)
    write.transactional(1, rec(b"b"), epoch=1)
    write.end(1, epoch=1)
    write(rec(b"z"))
    assert compacted.aborted(0, 99) == [(1, 0)]
    compact()
    assert shape() == [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]
    assert compacted.aborted(0, 99) == [(1, 0)]  # its batch existed in this run
    compact()
    assert compacted.aborted(0, 99) == []
    marker = next(compacted.batches_from(0))
    assert (marker.base_offset, marker.is_control, marker.delete_horizon_ms) == (1, True, tools.NOW + 1_000)
    compact(999)
    assert shape()[0] == (1, 1, 1)
    compact(1_000)
    assert shape() == [(2, 2, 1), (3, 3, 1), (4, 4, 1)]
    assert tools.read_committed(compacted, 5) == {2, 4}


def test_commit_marker_is_retained_with_its_records(compacted, write, compact, shape):
    write.transactional(1, rec(b"a"))
    write.end(1)
    write.transactional(1, rec(b"c"))
    write.end(1, epoch=1)
    write(rec(b"z"))
    compact()
    compact(5_000)
    assert shape() == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]
    write(rec(b"a"))
    compact(10_000)  # the record is removed
    compact(10_000)  # its marker gets a delete horizon
    compact(20_000)
    assert [base for base, _, _ in shape()] == [2, 3, 4, 5]


def test_marker_of_a_producers_latest_epoch_is_retained(compacted, write, compact, shape):
    write.transactional(1, rec(b"a"))
    write.end(1, epoch=1)
    write(rec(b"a"))
    for after in (0, 0, 5_000, 5_000):
        compact(after)
    assert shape() == [(1, 1, 0), (2, 2, 1)]
    compacted.truncate_to(2)
    assert [batch.is_control for batch in compacted.batches_from(0)] == [True]


def test_transaction_ending_after_the_cleaned_range_is_kept(compacted, write, tools):
    write.transactional(1, rec(b"a"))
    write.end(1, commit=False)
    write(rec(b"b"))
    compacted.compact(tools.NOW, 1)
    assert len(list(compacted.batches_from(0))) == 3
    assert compacted.aborted(0, 99) == [(1, 0)]


def test_log_append_time_is_retained(new_log, tools):
    log = new_log(compact=True, log_append_time=True)
    write = tools.LogWriter(log)
    write(rec(b"a"), rec(b"b"), now=50)
    write(rec(b"a"), now=60)
    log.compact(tools.NOW, 3)
    first = next(log.read_batches(0, 3))
    assert (first.timestamp_type, first.max_timestamp) == (1, 50)
    assert [r.timestamp for r in first.decode("t", 0)] == [50]


def test_kafka_python_reads_a_cleaned_log(compacted, write, compact):
    write(rec(b"a"), rec(b"b", None), rec(b"a", b"w"), codec=1)
    write.idempotent(7, rec(b"c"))
    write.transactional(8, rec(b"d"))
    write.end(8, commit=False)
    write(rec(b"c", b"x"))
    compact()
    compact()
    found, batches = [], 0
    records = MemoryRecords(compacted.read(0, compacted.end_offset, 10_000))
    while records.has_next():
        batch = records.next_batch()
        batches += 1
        assert batch.validate_crc()
        if not batch.is_control_batch:
            found += [(record.offset, record.key, record.value) for record in batch]
    assert batches == len(list(compacted.batches_from(0))) == 5
    assert found == [(1, b"b", None), (2, b"a", b"w"), (6, b"c", b"x")]


def test_undecodable_batches_are_retained(compacted, write, compact, tools):
    """A codec may be missing, and large batches are not fully validated."""
    from thinconsumer_testing.broker.log.stored import StoredBatch

    broken = bytearray(write.batch(*[rec(b"a")] * 30))
    broken[61:] = b"\xff" * len(broken[61:])
    compacted.append_stored(StoredBatch.of(bytes(broken)))
    write(rec(b"a"))
    compact()
    assert [batch.record_count for batch in compacted.batches_from(0)] == [30, 1]
