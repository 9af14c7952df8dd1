"""Offset lookups by timestamp for ListOffsets."""

import pytest

from thinconsumer.records.builder import NewRecord


def fill(write, **more):
    """Offsets 0-2 at 10, 30, 20; 3-4 at 15, 40; epoch 2: 5 at 40."""
    write(*[NewRecord(b"v", timestamp=t) for t in (10, 30, 20)], **more)
    write(*[NewRecord(b"v", timestamp=t) for t in (15, 40)], **more)
    write(NewRecord(b"v", timestamp=40), leader_epoch=2, **more)


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-5, (0, 10, 0)), (10, (0, 10, 0)), (11, (1, 30, 0)), (20, (1, 30, 0)), (30, (1, 30, 0)), (31, (4, 40, 0)),
        (40, (4, 40, 0)), (41, None),
    ],
)  # fmt: skip
def test_first_record_at_or_after_a_timestamp(log, write, codec, timestamp, found):
    fill(write, codec=codec)
    assert log.offset_for_timestamp(timestamp, log.end_offset) == found


def test_lookups_respect_start_and_end_offset(log, write):
    fill(write)
    assert log.offset_for_timestamp(31, 4) is None
    assert log.offset_for_timestamp(31, 3) is None
    log.delete_before(2)
    assert log.offset_for_timestamp(10, 6) == (2, 20, 0)
    assert log.offset_for_timestamp(30, 6) == (4, 40, 0)
    log.delete_before(5)
    assert log.offset_for_timestamp(10, 6) == (5, 40, 2)


def test_highest_timestamp(log, write):
    assert log.offset_of_max_timestamp(0) is None
    fill(write)
    assert log.offset_of_max_timestamp(6) == (4, 40, 0)
    assert log.offset_of_max_timestamp(3) == (1, 30, 0)
    write.end(1, now_ms=60)
    assert log.offset_for_timestamp(50, 7) == log.offset_of_max_timestamp(7) == (6, 60, 0), "markers are found, too"
    log.start_at(0)
    write.now = -1
    write(b"v", now=0)
    assert log.offset_of_max_timestamp(1) is None, "no record has a timestamp"


def test_batch_with_log_append_time(new_log, tools):
    write = tools.LogWriter(new_log(log_append_time=True))
    write(b"a", b"b", now=50)
    assert write.log.offset_for_timestamp(50, 2) == (0, 50, 0)
    assert write.log.offset_of_max_timestamp(2) == (1, 50, 0)


def test_empty_batches_are_skipped(compacted, tools):
    write = tools.LogWriter(compacted)
    write.idempotent(1, NewRecord(b"old", b"k", timestamp=90))
    write(NewRecord(b"new", b"k", timestamp=80))
    compacted.compact(tools.NOW, 2)
    assert [batch.record_count for batch in compacted.batches_from(0)] == [0, 1]
    assert compacted.offset_for_timestamp(10, 2) == (1, 80, 0)


def test_undecodable_batch_is_found_as_a_whole(log, write, tools):
    """Large batches are validated by record lengths only."""
    data = write.batch(*[b"v"] * 30)
    broken = bytearray(data)
    broken[66:67] = b"\x7f"  # corrupts a key length
    from thinconsumer_testing.broker.log.stored import StoredBatch

    log.append_stored(StoredBatch.of(bytes(broken)))
    assert log.offset_for_timestamp(5, 30) == (0, tools.NOW, -1)
    assert log.offset_of_max_timestamp(30) == (0, tools.NOW, -1)
