"""Poll results as columns: the same records, positions and errors as rows; and both mixed."""

import random
import struct
import zlib

import pytest
from crc32c import crc32c

pytest.importorskip("numpy")

from thinconsumer.config.values import Deserializer
from thinconsumer.errors import CorruptRecordError, DeserializationError, RecordError
from thinconsumer.positions.states import PositionEvent
from thinconsumer.records import batches
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.records.rows import deserialize

BIG = 10**6


def offsets(poll_result):
    """Return the offsets of all records, in order; assert that topic and partition are right."""
    for tp, columns in poll_result.records.items():
        assert len(columns) and (columns.topic, columns.partition) == tp
    return [offset for columns in poll_result.records.values() for offset in columns.offsets.tolist()]


def take(world, max_bytes=BIG):
    poll_result = world.collector.gather_columns(max_bytes)
    assert poll_result.count == len(offsets(poll_result))
    world.collector.settle(poll_result)
    return offsets(poll_result)


def take_rows(world, limit):
    poll_result = world.collector.gather(limit)
    world.collector.settle(poll_result)
    return [record.offset for records in poll_result.records.values() for record in records]


def malformed(base, count=2):
    """Return a batch with a right checksum and malformed records."""
    good = build_batch([NewRecord(b"x", headers=[("h", b"v")])] * count, base_offset=base, leader_epoch=5)
    bad = bytearray(good)
    bad[-5] = 16  # eight headers where there is one
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    return bytes(bad)


@pytest.mark.parametrize(("limit", "calls"), [(1, 20), (80, 20), (200, 10), (BIG, 1)])
def test_whole_batches_up_to_max_bytes_but_at_least_one(world, kit, limit, calls):
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(10 * n, 10, size=4) for n in range(20))})  # 110 bytes of records each
    got = []
    for _ in range(calls):
        got += (more := take(world, limit))
        assert len(more) == 200 / calls
    assert got == list(range(200)) and a.cursor.offset == 200 and world.buffer.pinned == 0


def test_batches_of_several_responses_become_one_result_per_partition(world, kit):
    """Batches of one partition from two responses become one set of columns."""
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 2) + kit.batch(2, 2), b.tp: kit.batch(0, 9)})
    world.receive({a.tp: kit.batch(4, 3)})
    poll_result = world.collector.gather_columns(BIG)
    assert {tp.partition: c.offsets.tolist() for tp, c in poll_result.records.items()} == {
        0: [*range(7)],
        1: [*range(9)],
    }
    assert [c.value(i) for c in poll_result.records.values() for i in range(len(c))] == [
        str(n).encode() for n in (*range(7), *range(9))
    ]
    world.collector.settle(poll_result)
    assert (a.cursor.offset, b.cursor.offset) == (7, 9)


def test_partitions_take_turns(world, kit):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 2) + kit.batch(2, 2), b.tp: kit.batch(0, 3) + kit.batch(3, 3)})
    assert [take(world, 1) for _ in range(4)] == [[0, 1], [0, 1, 2], [2, 3], [3, 4, 5]]


@pytest.mark.parametrize("way", ["checksum", "content"])
def test_good_batches_precede_the_error_of_a_broken_one(world, kit, way):
    """The error is found before or while batches are decoded together. Every poll after the records raises it."""
    [a] = world.simple(0)
    broken = kit.corrupted(kit.batch(4, 2)) if way == "checksum" else malformed(4)
    world.receive({a.tp: kit.batch(0, 4) + broken + kit.batch(6, 2)})
    assert take(world) == [0, 1, 2, 3]
    for _ in range(3):
        with pytest.raises(CorruptRecordError) as caught:
            take(world)
        assert (caught.value.offset, caught.value.next_offset) == (4, 6)
    assert a.cursor.offset == 4
    a.place(PositionEvent.SEEK, 6)
    world.receive({a.tp: kit.batch(6, 2)})
    assert take(world) == [6, 7]


@pytest.mark.parametrize("way", ["checksum", "content"])
def test_a_broken_partition_does_not_delay_the_others(world, kit, way):
    a, b = world.simple(0, 0)
    broken = kit.corrupted(kit.batch(0, 2)) if way == "checksum" else malformed(0)
    world.receive({a.tp: broken, b.tp: kit.batch(0, 3)})
    with pytest.raises(CorruptRecordError):
        take(world)
    assert take(world) == [0, 1, 2]
    with pytest.raises(CorruptRecordError):
        take(world)


def test_aborted_transactions_are_skipped_when_gathered_repeatedly(make, kit):
    """A poll repeated after an interrupt skips the same batches: each marker is applied once."""
    w = make(isolation_level="read_committed")
    [a] = w.simple(0)
    own = {"producer_id": 7, "transactional": True, "leader_epoch": 5}
    log = build_batch([NewRecord(b"a")] * 2, base_offset=0, **own)
    log += kit.batch(2, 1)
    log += build_marker(ControlType.ABORT, producer_id=7, base_offset=3, leader_epoch=5)
    log += build_batch([NewRecord(b"c")], base_offset=4, **own)
    log += build_marker(ControlType.COMMIT, producer_id=7, base_offset=5, leader_epoch=5)
    w.receive({a.tp: {"records": log, "aborted": [(7, 0)]}})
    for _ in range(3):
        assert offsets(w.collector.gather_columns(BIG)) == [2, 4]
    assert offsets(w.collector.gather_columns(1)) == [2]
    assert take_rows(w, 1) == [2]
    assert take(w) == [4]
    assert a.cursor.offset == 6


@pytest.mark.parametrize("seed", range(10))
def test_rows_and_columns_mixed_return_each_record_once(world, kit, seed):
    rng = random.Random(seed)
    a, b = world.simple(0, 0)
    data, ends = {}, {}
    for tp in (a.tp, b.tp):
        base, out = 0, b""
        for _ in range(30):
            count = rng.randrange(1, 6)
            out += kit.batch(base, count)
            base += count
        data[tp], ends[tp] = out, base
    world.receive(data)
    found = {a.tp: [], b.tp: []}
    for _ in range(500):
        if rng.random() < 0.5:
            poll_result = world.collector.gather_columns(rng.choice((1, 30, 100)))
            got = {tp: columns.offsets.tolist() for tp, columns in poll_result.records.items()}
        else:
            poll_result = world.collector.gather(rng.choice((1, 2, 7)))
            got = {tp: [record.offset for record in records] for tp, records in poll_result.records.items()}
        if rng.random() < 0.7:
            world.collector.settle(poll_result)
            for tp, some in got.items():
                found[tp] += some
    assert found == {tp: list(range(end)) for tp, end in ends.items()}
    assert world.buffer.pinned == 0


def test_columns_ignore_deserialization_errors(make, kit):
    """An error that a poll with deserializers has recorded is not raised for columns, which stay bytes."""

    def refuse(data):
        if data == b"3":
            raise ValueError(data)
        return data

    w = make(lambda tp, records: deserialize(records, None, Deserializer.adapt(refuse)))
    [a] = w.simple(0)
    w.receive({a.tp: kit.batch(0, 6)})
    assert take_rows(w, BIG) == [0, 1, 2]
    with pytest.raises(DeserializationError):
        take_rows(w, BIG)
    assert a.cursor.offset == 3
    assert take(w) == [3, 4, 5]


def test_an_unreadable_end_of_a_response_is_raised_after_all_records_before_it(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 2) + b"\0" * 60})
    assert take(world) == [0, 1]
    with pytest.raises(RecordError):
        take(world)


def test_batches_from_the_delivery_end_on_are_kept_until_it_moves(world, kit):
    """A delivery end is the end of a leader epoch, so that no batch extends across it."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 4) + kit.batch(4, 4, epoch=6)})
    a.delivery_end = 4
    assert take(world) == [0, 1, 2, 3]
    assert take(world) == [] and a.cursor.offset == 4
    a.delivery_end = None
    assert take(world) == [4, 5, 6, 7]


def up_to(world, ends, max_bytes=BIG):
    """Gather columns up to these end offsets and settle; return the offsets."""
    poll_result = world.collector.gather_columns(max_bytes, ends)
    world.collector.settle(poll_result)
    return offsets(poll_result)


@pytest.mark.parametrize("end", [1, 2, 9])
def test_a_broken_partition_does_not_stop_reading_others_to_their_ends(world, kit, end):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.corrupted(kit.batch(0, 2)), b.tp: kit.batch(0, 3)})
    ends = {a.tp: end, b.tp: 3}
    with pytest.raises(CorruptRecordError):
        up_to(world, ends)
    assert up_to(world, ends) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            up_to(world, ends)


def test_the_position_is_behind_the_last_returned_batch_even_if_that_reaches_beyond_the_end(world, kit):
    """Otherwise the records between the end and the end of the batch would never be returned."""
    [a] = world.simple(0)
    for first, count in ((0, 10), (10, 5)):
        world.receive({a.tp: kit.batch(first, count)})
    assert up_to(world, {a.tp: 5}) == list(range(10)) and a.cursor.offset == 10
    assert up_to(world, {a.tp: 100}) == list(range(10, 15))


def test_the_position_moves_to_an_end_that_no_record_has(world, kit):
    """Compaction has removed the records before it."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 2) + kit.batch(8, 2)})
    assert up_to(world, {a.tp: 5}) == [0, 1] and a.cursor.offset == 5
    assert up_to(world, {a.tp: 5}) == [] and up_to(world, {a.tp: 10}) == [8, 9]


def test_polls_to_an_end_do_not_look_at_all_batches_each_time(world, kit, monkeypatch):
    """Spark reads to the end of a range, a few MB at a time, out of responses of many batches."""
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n, 1) for n in range(2000))})
    looked = []
    original = batches._base_offset
    monkeypatch.setattr(batches, "_base_offset", lambda *args: looked.append(1) or original(*args))
    got = []
    while more := up_to(world, {a.tp: 1990}, 400):
        got += more
    assert got == list(range(1990)) and len(looked) < 20 * len(got) // 8


@pytest.mark.parametrize("how", ["rows", "columns"])
def test_a_batch_of_an_old_format_does_not_remove_the_limits_of_others(world, kit, how):
    [a] = world.simple(0)
    message = struct.pack(">bbqii3s", 1, 0, 1000, -1, 3, b"old")
    old = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    world.receive({a.tp: old + b"".join(build_batch([NewRecord(b"")], base_offset=n) for n in range(1, 9000))})
    if how == "columns":
        assert 0 < len(take(world, 1000)) < 150
    else:
        assert take_rows(world, 500) == list(range(500))
        assert world.buffer.decoded(a) < 5000
