"""Poll results: records, positions, errors, and interrupts that neither lose nor repeat a record."""

import random

import pytest

from thinconsumer.config.values import Deserializer
from thinconsumer.errors import CorruptRecordError, DeserializationError, RecordError
from thinconsumer.fetch.collector import PollResult
from thinconsumer.positions.partitions import Reset
from thinconsumer.positions.states import PositionEvent
from thinconsumer.records.batch import ControlType, RecordBatch
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.records.rows import deserialize

BIG = 10**6


pytestmark = pytest.mark.usefixtures("way")


def offsets(poll_result: PollResult) -> list[int]:
    return [record.offset for records in poll_result.records.values() for record in records]


@pytest.fixture(params=["rows", "columns"])
def gather(request, world):
    """Return a function that gathers everything as rows or as columns; it returns the poll result and the offsets."""
    if request.param == "columns":
        pytest.importorskip("numpy")

    def read():
        if request.param == "rows":
            poll_result = world.collector.gather(BIG)
            return poll_result, offsets(poll_result)
        poll_result = world.collector.gather_columns(BIG)
        return poll_result, [n for columns in poll_result.records.values() for n in columns.offsets.tolist()]

    return read


def take(world, max_records: int = BIG, **more) -> list[int]:
    poll_result = world.collector.gather(max_records, **more)
    world.collector.settle(poll_result)
    return offsets(poll_result)


@pytest.fixture
def decoded(monkeypatch):
    """Return the list of base offsets of decoded batches; it grows with each decoding."""
    seen: list[int] = []
    original = RecordBatch.decode

    def spy(self, *args, **more):
        seen.append(self.base_offset)
        return original(self, *args, **more)

    monkeypatch.setattr(RecordBatch, "decode", spy)
    return seen


# -- records and positions


def test_positions_move_only_when_settled(world, kit, gather):
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 5)})
    poll_result, found = gather()
    assert found == [0, 1, 2, 3, 4] and a.cursor.offset == 0
    assert gather()[1] == [0, 1, 2, 3, 4], "not settled: the same again"
    for _ in range(3):
        world.collector.settle(poll_result)
    assert (a.cursor.offset, a.cursor.epoch) == (5, 5)
    assert gather()[1] == [] and take(world) == [] and world.buffer.pinned == 0


def test_records_below_the_position_are_left_out_of_the_first_batch(world, kit, gather):
    """Brokers send whole batches, which may begin below the fetch offset."""
    [a] = world.simple(3)
    world.receive({a.tp: kit.batch(0, 5)})
    assert gather()[1] == [3, 4]


def test_positions_move_past_batches_without_records(world, gather):
    """Gaps left by compaction, empty batches and control batches are never fetched again."""
    [a] = world.simple(0)
    hole = build_batch([NewRecord(b"x")], base_offset=0, leader_epoch=5, last_offset_delta=9)
    empty = build_batch([], base_offset=10, leader_epoch=5, last_offset_delta=4)
    marker = build_marker(ControlType.COMMIT, producer_id=1, base_offset=15, leader_epoch=6)
    world.receive({a.tp: hole + empty + marker})
    poll_result, found = gather()
    world.collector.settle(poll_result)
    assert found == [0]
    assert (a.cursor.offset, a.cursor.epoch, a.cursor.fetch_offset) == (16, 6, 16)


def test_decoding_is_lazy(world, kit, decoded, way):
    if way == "together":
        pytest.skip("how much is decoded together: tests/fetch/test_chunks.py")
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(50))})
    assert decoded == []
    assert len(take(world, 10)) == 10 and decoded == [0]
    assert len(take(world, 5)) == 5 and decoded == [0, 10]
    assert len(take(world, 5)) == 5 and decoded == [0, 10], "the rest of a decoded batch is kept"
    assert len(take(world, 25)) == 25 and decoded == [0, 10, 20, 30, 40]


def test_read_committed_skips_aborted_transactions_listed_in_any_order(make, kit):
    """Brokers list transactions by their markers' offsets: the one that began first may be last."""
    world = make(isolation_level="read_committed")
    [a] = world.simple(0)

    def txn(base: int, producer: int) -> bytes:
        return kit.batch(base, 2, producer_id=producer, transactional=True)

    def end(base: int, producer: int, kind: ControlType = ControlType.ABORT) -> bytes:
        return build_marker(kind, producer_id=producer, base_offset=base, leader_epoch=5)

    log = txn(0, 1) + txn(2, 2) + kit.batch(4, 2) + txn(6, 3) + end(8, 2) + txn(9, 2) + end(11, 1)
    log += end(12, 2, ControlType.COMMIT) + end(13, 3, ControlType.COMMIT) + end(14, 4)
    world.receive({a.tp: {"records": log, "aborted": [(2, 2), (1, 0)], "last_stable_offset": 15}})
    assert take(world) == [4, 5, 6, 7, 9, 10]
    assert a.cursor.offset == 15


def test_an_abort_marker_whose_transaction_began_before_the_fetch(make, kit):
    world = make(isolation_level="read_committed")
    [a] = world.simple(10)
    log = kit.batch(10, 2, producer_id=1, transactional=True)
    log += build_marker(ControlType.ABORT, producer_id=1, base_offset=12) + kit.batch(13, 1)
    world.receive({a.tp: {"records": log, "aborted": [(1, 3)]}})
    assert take(world) == [13]


# -- turns


def test_a_busy_partition_does_not_starve_the_others(world, kit):
    parts = world.simple(0, 0, 0)
    world.receive({p.tp: kit.batch(0, 300 if n == 0 else 30) for n, p in enumerate(parts)})
    counts = [0, 0, 0]
    for _ in range(6):
        for tp, records in world.collector.gather(10).records.items():
            counts[tp.partition] += len(records)
        world.collector.settle(world.collector.gather(10))
    assert counts == [20, 20, 20]


def test_a_busy_partition_does_not_starve_the_others_while_iterating(world, kit):
    """Iteration settles a part of a poll result, which also moves the partition to the end of the order."""
    parts = world.simple(0, 0, 0)
    world.receive({p.tp: kit.batch(0, 100) for p in parts})
    seen = []
    for _ in range(6):
        poll_result = world.collector.gather(10)
        seen.append(next(iter(poll_result.records)).partition)
        world.collector.settle(world.collector.first(poll_result, 10))
    assert seen == [0, 1, 2, 0, 1, 2]


def test_one_poll_fills_up_from_several_partitions(world, kit):
    parts = world.simple(0, 0, 0)
    world.receive({p.tp: kit.batch(0, 4) for p in parts})
    poll_result = world.collector.gather(10)
    assert {tp.partition: len(records) for tp, records in poll_result.records.items()} == {0: 4, 1: 4, 2: 2}


@pytest.mark.parametrize("flag", ["paused", "pending_revocation"])
def test_records_of_a_paused_or_revoking_partition_are_kept(world, kit, flag):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 2), b.tp: kit.batch(0, 3)})
    setattr(a, flag, True)
    assert take(world) == [0, 1, 2] and a.cursor.offset == 0
    setattr(a, flag, False)
    assert take(world) == [0, 1]


def test_a_seek_or_reset_drops_fetched_batches_and_their_memory(world, kit):
    [a] = world.simple(0)
    for move in (lambda: a.ask_reset(Reset(Reset.LATEST, "x")), lambda: a.place(PositionEvent.SEEK, 2)):
        world.receive({a.tp: kit.batch(0, 5)})
        move()
        assert take(world) == [] and world.buffer.pinned == 0
        a.place(PositionEvent.SEEK, 2)
    world.receive({a.tp: kit.batch(0, 5)})
    assert take(world) == [2, 3, 4]


# -- the first part of a poll result


def random_world(make, kit, seed: int):
    """Return a world with three partitions and two frames of batches in each, control batches among them."""
    rng = random.Random(seed)
    world = make(deserialize=(lambda tp, records: (records, None)) if seed % 2 else None)
    parts = world.simple(0, 0, 0)
    for _ in range(2):
        data = {}
        for part in parts:
            log, at = b"", part.cursor.fetch_offset
            for _ in range(rng.randrange(1, 5)):
                count = rng.randrange(0, 5)
                if count:
                    log += kit.batch(at, count)
                else:
                    log += build_marker(ControlType.COMMIT, producer_id=1, base_offset=at, leader_epoch=5)
                at += max(1, count)
            data[part.tp] = log
        world.receive(data)
    return world


def everything(world, step: int = 7) -> list[tuple[int, int]]:
    """Read all records in several polls; return (partition, offset) in order."""
    got = []
    while (poll_result := world.collector.gather(step)).moves:
        got += [(tp.partition, r.offset) for tp, records in poll_result.records.items() for r in records]
        world.collector.settle(poll_result)
    assert world.buffer.pinned == 0
    return got


@pytest.mark.parametrize("seed", range(12))
def test_the_first_part_of_a_poll_result_covers_exactly_the_records_taken(make, kit, seed):
    """Iteration settles the records that the user took: only the others are returned again."""
    expected = sorted(everything(random_world(make, kit, seed)))
    rng = random.Random(seed)
    world = random_world(make, kit, seed)
    got = []
    while (poll_result := world.collector.gather(rng.randrange(1, 12))).moves:
        flat = [(tp.partition, r.offset) for tp, records in poll_result.records.items() for r in records]
        count = rng.randrange(len(flat) + 1)
        got += flat[:count]
        part = world.collector.first(poll_result, count)
        if count == len(flat):
            assert [move[:6] for move in part.moves] == [move[:6] for move in poll_result.moves]
        world.collector.settle(part)
        if rng.random() < 0.3:  # interrupted right after, and so repeated
            world.collector.settle(world.collector.first(poll_result, count))
        if not flat:
            world.collector.settle(poll_result)
    assert sorted(got) == expected
    assert [p.cursor.offset for p in world.partitions] == [p.cursor.fetch_offset for p in world.partitions]


# -- interruptions


class Interrupter:
    """Raises KeyboardInterrupt the n-th time something happens."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["decoding", "after decoding", "key of a record", "between records"])
def test_an_interrupt_anywhere_in_gather_loses_and_repeats_no_record(make, kit, where, way, monkeypatch):
    tick = Interrupter(0)

    def each(data):
        tick()
        return data

    def interrupt(owner, name):
        original = getattr(owner, name)

        def interrupted(*args, **more):
            if where == "decoding":
                tick()
            found = original(*args, **more)
            if where == "after decoding":
                tick()
            return found

        monkeypatch.setattr(owner, name, interrupted)

    if way == "alone":
        interrupt(RecordBatch, "decode")
    else:
        from thinconsumer.records.columnar.decode import Decoder

        interrupt(Decoder, "add")
        interrupt(Decoder, "rows")

    def convert(tp, records):
        return deserialize(records, None, Deserializer.adapt(each))

    at = 0
    while True:
        at += 1
        world = make(deserialize=None if "decoding" in where else convert, isolation_level="read_committed")
        [a, b] = world.simple(0, 2)
        log = kit.batch(0, 2, producer_id=1, transactional=True)
        log += build_marker(ControlType.ABORT, producer_id=1, base_offset=2) + kit.batch(3, 3) + kit.batch(6, 2)
        world.receive({a.tp: {"records": log, "aborted": [(1, 0)]}, b.tp: kit.batch(0, 5)})
        tick.left = at
        got: list[tuple[int, int]] = []
        interrupts = 0
        while True:
            try:
                poll_result = world.collector.gather(3)
            except KeyboardInterrupt:
                interrupts += 1
                continue
            if not poll_result.moves:
                break
            got += [(tp.partition, r.offset) for tp, records in poll_result.records.items() for r in records]
            world.collector.settle(poll_result)
        assert sorted(got) == [(0, n) for n in range(3, 8)] + [(1, n) for n in range(2, 5)]
        assert (a.cursor.offset, b.cursor.offset, world.buffer.pinned) == (8, 5, 0)
        if not interrupts:
            assert at > 2
            break


# -- errors in the middle


def poison(bad: set[int]):
    """Return a deserializer that fails for these offsets, and lists every offset it was called for in ``seen``."""

    def convert(tp, records):
        def value(data):
            offset = int(data.rstrip(b"."))
            seen.append(offset)
            if offset in bad:
                raise ValueError(f"poison at {offset}")
            return data

        return deserialize(records, None, Deserializer.adapt(value))

    seen: list[int] = []
    convert.seen = seen
    return convert


def bad_log(kit, kind: str, at: int) -> bytes:
    """Return five good records, and a bad batch or record at offset 5."""
    if kind == "corrupt":
        return kit.batch(0, 5) + kit.corrupted(kit.batch(5, 5)) + kit.batch(10, 5)
    if kind == "header":
        return kit.batch(0, 5) + kit.batch(5, 1)[:8] + b"\0\0\0\1" * 20
    return kit.batch(0, 10) + kit.batch(10, 5)


@pytest.mark.parametrize("kind", ["corrupt", "header", "poison"])
def test_good_records_precede_an_error_and_other_partitions_continue(make, kit, kind):
    world = make(deserialize=poison({5}) if kind == "poison" else None)
    a, b = world.simple(0, 0)
    world.receive({a.tp: bad_log(kit, kind, 5), b.tp: kit.batch(100, 3) + kit.batch(103, 20)})
    assert take(world, 9) == [0, 1, 2, 3, 4, 100, 101, 102, 103], "all good records of both partitions"
    assert a.cursor.offset == 5
    got: list[int] = []
    seen: list[object] = []
    for _ in range(10):
        try:
            got += take(world, 10)
            seen.append(len(got))
        except RecordError as error:
            assert error.partition == a.tp and error.offset == 5
            assert kind == "header" or error.next_offset == {"corrupt": 10, "poison": 6}[kind]
            seen.append("error")
    assert got == list(range(104, 123)), "the other partition is not delayed, and each record is returned once"
    assert seen[0] == "error", "the error is raised first"
    assert seen[-4:] == ["error"] * 4, "the error is raised by every poll without other records"
    a.place(PositionEvent.SEEK, 10)
    assert take(world) == [] and world.buffer.pinned == 0


def test_a_corrupt_partition_pins_no_memory_while_it_waits_for_a_seek(world, kit):
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.corrupted(kit.batch(0, 5)) + kit.batch(5, 100), b.tp: kit.batch(0, 1)})
    with pytest.raises(CorruptRecordError, match="t-0"):
        world.collector.gather(BIG)
    assert take(world) == [0]
    assert (world.buffer.pinned, a.cursor.offset) == (0, 0)
    [held] = world.buffer.queue(a)
    assert not held.batches.source, "or the slice would keep the whole response in memory"
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="t-0"):
            world.collector.gather(BIG)


def test_an_error_of_a_partition_unassigned_moved_or_paused_meanwhile_is_not_raised(world, kit):
    for what in ("gone", "moved", "paused"):
        a, _ = world.simple(0, 0)
        world.receive({a.tp: kit.batch(0, 1) + kit.corrupted(kit.batch(1, 5))})
        assert take(world) == [0]
        if what == "gone":
            world.partitions.assign([kit.tp(1)])
        elif what == "moved":
            a.place(PositionEvent.SEEK, 50)
        else:
            a.paused = True
        assert take(world) == []
        world.buffer.sweep(set())


def test_records_not_settled_are_returned_again_before_the_error(world, kit):
    """poll(update_offsets=False) does not settle: the next poll returns the same records, and the error after them."""
    [a] = world.simple(0)
    world.receive({a.tp: kit.batch(0, 1) + kit.corrupted(kit.batch(1, 5))})
    for _ in range(2):
        assert offsets(world.collector.gather(BIG)) == [0]
    assert take(world) == [0]
    with pytest.raises(CorruptRecordError):
        world.collector.gather(BIG)


def test_a_deserialization_error_carries_the_raw_record(make):
    world = make(deserialize=lambda tp, records: deserialize(records, None, Deserializer.adapt(bytes.decode)))
    [a] = world.simple(0)
    record = NewRecord(b"\xff", b"key", headers=[("h", b"1")], timestamp=77)
    world.receive({a.tp: build_batch([record], base_offset=0)})
    with pytest.raises(DeserializationError) as caught:
        world.collector.gather(BIG)
    error = caught.value
    assert (error.field, error.key, error.value, error.headers, error.timestamp) == (
        "value", b"key", b"\xff", [("h", b"1")], 77,
    )  # fmt: skip


# -- memory


def test_a_paused_partition_is_rewound_when_others_lack_memory(make, kit):
    """Otherwise a few paused partitions could hold all memory, and the others would never be fetched."""
    world = make(max_buffered_bytes=65536, fetch_max_bytes=65536, max_partition_fetch_bytes=65536)
    a, b = world.simple(0, 0)
    world.receive({a.tp: kit.batch(0, 3, size=30000)})
    a.paused = True
    assert world.fetches() == {}, "no memory is left"
    assert world.wake_at() > world.now
    assert take(world) == [] and a.cursor.fetch_offset == 0
    assert world.wake_at() == world.now, "memory was released"
    sent = world.fetch()
    assert sent.forgotten() == {a.tp} and set(sent.request.context.listed.cursors) == {b.tp}


def take_one_by_one(world, found):
    """Take record by record until an error is raised. A poll without a move would return nothing for ever."""
    while True:
        poll_result = world.collector.gather(1)
        assert poll_result.moves
        world.collector.settle(poll_result)
        found += offsets(poll_result)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("start", [0, 2])
def test_no_flipped_bit_in_a_batch_header_loses_records(make, kit, start, at):
    """Only records before the broken batch are returned.

    Headers are read before checksums are verified: a batch must be verified before a field of its header skips it.
    """
    pieces = [
        kit.batch(0, 4, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        kit.batch(4, 4, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True),
        kit.batch(8, 2, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
    ]
    expected = [n for n in (0, 1, 2, 3, 8, 9) if n >= start]
    for bit in range(17 * 8, 61 * 8):
        world = make(isolation_level="read_committed")
        [a] = world.simple(start)
        broken = bytearray(pieces[at])
        broken[bit // 8] ^= 1 << bit % 8
        log = b"".join([*pieces[:at], broken, *pieces[at + 1 :]])
        world.receive({a.tp: {"records": log, "aborted": [(2, 4)], "last_stable_offset": 10}})
        found: list[int] = []
        with pytest.raises(CorruptRecordError):
            take_one_by_one(world, found)
        assert found == expected[: len(found)] and len(found) <= sum(n < at * 4 for n in expected), f"bit {bit}"
        assert a.cursor.offset <= max(start, at * 4), f"bit {bit}"
