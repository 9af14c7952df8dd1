"""How much is decoded together, and when: records that are decoded ahead of their poll are bounded and never lost."""

import gc
import operator
import sys
from weakref import ref

import pytest

from thinconsumer.config.values import Deserializer
from thinconsumer.errors import DeserializationError
from thinconsumer.fetch import chunks
from thinconsumer.fetch.buffer import Buffer
from thinconsumer.positions.states import PositionEvent
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.records.rows import deserialize

decode = pytest.importorskip("thinconsumer.records.columnar.decode", exc_type=ImportError)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that grows by the number of batches with each call that decodes batches together."""
    seen: list[int] = []
    original = decode.Decoder.rows

    def spy(self, *args):
        seen.append(len(self))
        return original(self, *args)

    monkeypatch.setattr(decode.Decoder, "rows", spy)
    return seen


def take(world, max_records):
    poll_result = world.collector.gather(max_records)
    world.collector.settle(poll_result)
    return {tp.partition: [record.offset for record in records] for tp, records in poll_result.records.items()}


def ahead(world):
    """Return the number of records of all partitions that are decoded and not yet returned."""
    return sum(world.buffer.decoded(partition) for partition in world.partitions)


def test_many_records_are_decoded_once_and_returned_in_slices(world, kit, calls):
    """A small max_poll_records must not repeat the work for each poll."""
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(300))})
    got = []
    while more := take(world, 7):
        got += more[0]
    assert got == list(range(3000)) and calls == [50, 250]


def test_few_records_are_decoded_for_a_program_that_seeks_after_each(world, kit, calls):
    """It drops the others: to decode thousands for each took longer than to receive them."""
    [a] = world.simple(0)
    for offset in (20, 500, 0, 700):
        a.place(PositionEvent.SEEK, offset)
        world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(offset // 10, 400))})
        assert take(world, 1) == {0: [offset]}
    assert calls == [50] * 4
    assert take(world, 10_000) == {0: list(range(701, 4000))}


def test_few_records_are_decoded_for_a_program_that_seeks_in_several_partitions(world, kit, calls):
    parts = world.simple(0, 0, 0)
    for offset in (20, 500, 0):
        for p in parts:
            p.place(PositionEvent.SEEK, offset)
        world.receive({p.tp: b"".join(kit.batch(n * 10, 10) for n in range(offset // 10, 400)) for p in parts})
        assert list(take(world, 1).values()) == [[offset]]
    assert len(calls) == 3 and max(calls) <= 51


def is_built(records):
    """Return whether each iteration yields the same objects."""
    return all(map(operator.is_, list(records), list(records)))


def test_a_poll_of_many_records_returns_them_unbuilt(world, kit, calls):
    """Records that were all built before the program reads the first have left the processor's caches by then."""
    parts = world.simple(0, 0)
    for p in parts:
        world.receive({p.tp: b"".join(kit.batch(n * 10, 10) for n in range(300))})
    poll_result = world.collector.gather(5000)
    found = [poll_result.records[p.tp] for p in parts]
    assert not any(map(is_built, found)) and poll_result.count == 5000
    world.collector.settle(poll_result)
    rest = world.collector.gather(5000)
    world.collector.settle(rest)
    assert not world.buffer.queues
    # The position has passed these records, but they stay as they were.
    assert [record.offset for record in found[0]] == list(range(3000))
    assert [r.offset for some in (found[1], rest.records[parts[1].tp]) for r in some] == list(range(3000))


def test_a_position_within_a_batch_is_no_reason_to_build_all_records(world, kit, calls):
    [a] = world.simple(15)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(1, 300))})
    poll_result = world.collector.gather(5000)
    found = poll_result.records[a.tp]
    assert not is_built(found) and [record.offset for record in found] == list(range(15, 3000))


def test_large_records_are_built_at_once(world, kit, calls):
    """Otherwise what a poll returns would be in memory twice until the next one: 5 MB for 500 records of 10 kB."""
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10, size=2000) for n in range(60))})
    poll_result = world.collector.gather(600)
    found = poll_result.records[a.tp]
    assert is_built(found) and poll_result.count == 600 and calls == [60]


def test_few_records_are_decoded_batch_by_batch(world, kit, calls):
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n, 1) for n in range(chunks.TOGETHER_MIN - 1))})
    assert take(world, 1000) == {0: list(range(chunks.TOGETHER_MIN - 1))} and calls == []


def test_records_behind_batches_without_any_are_decoded_together(world, kit, calls):
    """Compaction keeps an empty batch where it has removed the last one of an idempotent producer's records."""
    [a] = world.simple(0)
    empty = [build_batch([], base_offset=n, last_offset_delta=0, leader_epoch=5) for n in range(100)]
    world.receive({a.tp: b"".join(empty) + b"".join(kit.batch(100 + n, 1) for n in range(100))})
    assert take(world, 1000) == {0: list(range(100, 200))} and calls == [200]


def test_a_poll_of_few_records_counts_them_once(world, kit, monkeypatch):
    """Counting them again for each of 79 partitions would take longer than decoding."""
    paused, *parts = world.simple(*[0] * chunks.TOGETHER_MIN)
    world.receive({p.tp: kit.batch(0, 1) for p in (paused, *parts)})
    paused.paused = True
    counted = []
    original = chunks.ChunkDecoder._is_worth_numpy
    monkeypatch.setattr(chunks.ChunkDecoder, "_is_worth_numpy", lambda *args: counted.append(1) or original(*args))
    assert len(take(world, 500)) == len(parts) and counted == [1]
    world.receive({p.tp: kit.batch(1, 9) for p in parts})
    assert len(take(world, 500)) == 56 and len(counted) > 1, "the next poll counts again"


def test_partitions_share_what_is_decoded_ahead(world, kit, calls, monkeypatch):
    """All partitions run out at about the same time, so that they are decoded together again."""
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 100)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 100)
    parts = world.simple(*[0] * 5)
    world.receive({p.tp: b"".join(kit.batch(n * 5, 5) for n in range(40)) for p in parts})
    most, got = 0, dict.fromkeys(range(5), 0)
    while more := take(world, 10):
        most = max(most, ahead(world))
        for number, offsets in more.items():
            assert offsets[0] == got[number]
            got[number] = offsets[-1] + 1
    assert got == dict.fromkeys(range(5), 200)
    assert most <= 150 and len(calls) <= 1000 // 50


@pytest.mark.parametrize("max_records", [1, 7, 50, 100, 130, 250, 399, 400, 1000])
@pytest.mark.parametrize("partitions", [1, 3, 6, 20, 60])
def test_polls_of_any_size_decode_many_records_together(world, kit, calls, monkeypatch, partitions, max_records):
    """Fewer would take more time each; more would be in memory."""
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 400)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 400)
    monkeypatch.setattr(chunks, "AHEAD_BYTES", 1600 * (chunks.COLUMNS_BYTES + 20))
    parts = world.simple(*[0] * partitions)
    each = 12_000 // partitions
    world.receive({p.tp: b"".join(kit.batch(n * 4, 4) for n in range(each // 4)) for p in parts})
    count = most = 0
    while more := take(world, max_records):
        count += sum(map(len, more.values()))
        most = max(most, ahead(world))
    assert count == each * partitions
    # 400 on average, but fewer if batches leave so many records decoded ahead that these reach their limit.
    assert len(calls) <= count / 400 * (3.5 if (partitions, max_records) == (20, 50) else 2 if partitions > 20 else 1.1)
    assert most <= 1600 + max(400, max_records) + 8 * partitions


@pytest.mark.parametrize("max_records", [7, 50, 130, 1000])
@pytest.mark.parametrize("each", [12, 40])
def test_records_of_very_many_partitions_are_decoded_many_at_a_time(world, kit, calls, monkeypatch, each, max_records):
    """A decode of few records takes as long as one of many, and to look at all partitions takes longer."""
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 400)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 400)
    monkeypatch.setattr(chunks, "TURNS_MAX", 100)
    looked_at = []
    original = Buffer.decoded
    monkeypatch.setattr(Buffer, "decoded", lambda *args: looked_at.append(1) or original(*args))
    parts = world.simple(*[0] * 500)
    world.receive({p.tp: b"".join(kit.batch(n * 4, 4) for n in range(each // 4)) for p in parts})
    count = 0
    while more := take(world, max_records):
        count += sum(map(len, more.values()))
    assert count == each * 500
    assert len(calls) <= 1.1 * count / 400 and len(looked_at) <= 100 * len(calls)


def test_only_records_that_the_next_polls_return_are_decoded(world, kit):
    """A poll that ends within a partition leaves the rest of it until all other partitions had their turn."""
    parts = world.simple(*[0] * 300)
    world.receive({p.tp: b"".join(kit.batch(n * 10, 10) for n in range(8)) for p in parts})
    for number in range(0, 200, 2):
        assert {number: 80, number + 1: 20} == {n: len(offsets) for n, offsets in take(world, 100).items()}
        assert sum(map(world.buffer.decoded, parts[:number])) == 0


def test_polls_of_changing_sizes_decode_no_more_ahead(world, kit, calls):
    """A poll of 37 leaves most of what was decoded for one of 500, and its partition waits for all others then."""
    parts = world.simple(*[0] * 400)
    world.receive({p.tp: b"".join(kit.batch(n * 20, 20) for n in range(40)) for p in parts})
    most = 0
    for number in range(400):
        take(world, (500, 37)[number % 2])
        most = max(most, ahead(world))
    assert most <= 12_000


def test_a_partition_without_more_records_leaves_its_share_to_others(world, kit, calls, monkeypatch):
    """Reading to the end of a transactional log ends before its last marker, a batch that is never decoded."""
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 400)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 400)
    a, *others = world.simple(*[0] * 40)
    marker = build_marker(ControlType.COMMIT, producer_id=7, base_offset=0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(240)), **{p.tp: marker for p in others}})
    ends = {a.tp: 2400, **{p.tp: 0 for p in others}}
    count = 0
    while (poll_result := world.collector.gather(10, ends)).count:
        world.collector.settle(poll_result)
        count += poll_result.count
    assert count == 2400 and len(calls) <= 8


def test_the_rest_of_a_batch_keeps_nothing_else_in_memory_among_very_many_partitions(world, kit, monkeypatch):
    """The rest waits for its next turn, in which time everything buffered would be in memory decompressed, too."""
    monkeypatch.setattr(chunks, "TURNS_MAX", 20)
    builders = []
    original = decode.RowBuilder
    monkeypatch.setattr(decode, "RowBuilder", lambda *args: builders.append(ref(made := original(*args))) or made)
    parts = world.simple(*[0] * 100)
    world.receive({p.tp: b"".join(kit.batch(n * 20, 20) for n in range(12)) for p in parts})
    for _ in range(30):
        assert sum(map(len, take(world, 230).values())) == 230
    assert len(builders) > 1 and sum(builder() is not None for builder in builders) <= 1


@pytest.mark.parametrize("partitions", [3, 6, 60, 300])
def test_what_is_decoded_ahead_of_large_records_is_bounded(world, kit, monkeypatch, partitions):
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 400)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 400)
    monkeypatch.setattr(chunks, "AHEAD_BYTES", 100_000)
    parts = world.simple(*[0] * partitions)
    each = 1200 // partitions
    world.receive({p.tp: b"".join(kit.batch(n, 1, size=2000) for n in range(each)) for p in parts})
    most = 0
    while take(world, 1):
        most = max(most, ahead(world))
    assert most <= 100_000 // 2000 + 400 + 2 * partitions


def test_what_is_decoded_ahead_is_bounded_if_partitions_run_out_at_different_times(world, kit, monkeypatch):
    """A partition that has run out is decoded as far as the others leave room, in bytes too."""
    monkeypatch.setattr(chunks, "TOGETHER_RECORDS", 400)
    monkeypatch.setattr(chunks, "FIRST_RECORDS", 400)
    monkeypatch.setattr(chunks, "AHEAD_BYTES", 100_000)
    counts = [200, 600, 200, 600, 600, 600, 600, 50, 200, 50, 600, 50]
    parts = world.simple(*[0] * len(counts))
    batches = [b"".join(kit.batch(n, 1, size=2000) for n in range(count)) for count in counts]
    world.receive({partition.tp: data for partition, data in zip(parts, batches, strict=True)})
    most = 0
    while take(world, 3):
        most = max(most, ahead(world))
    assert most <= 100_000 // 2000 + 400 + 4 * len(parts)


def test_large_batches_are_decoded_about_four_megabytes_at_a_time(world, kit):
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10, size=10_000) for n in range(50))})
    take(world, 1)
    assert ahead(world) == 419, "42 batches of 100 kB, without the record that was returned"


def test_paused_partitions_hold_only_some_decoded_records_back(world, kit, calls):
    """A program may pause each partition after its first record: not all of them may keep decoded records."""
    parts = world.simple(*[0] * 40)
    world.receive({p.tp: b"".join(kit.batch(n * 10, 10) for n in range(100)) for p in parts})
    for _ in parts:
        [number] = take(world, 1)
        parts[number].paused = True
    together = len(calls)
    assert sum(world.buffer.decoded(p) > 10 for p in parts) <= 40 and ahead(world) <= 2 * chunks.TOGETHER_RECORDS
    for partition in parts:
        partition.paused = False
    got = dict.fromkeys(range(40), 1)
    while more := take(world, 500):
        for number, offsets in more.items():
            assert offsets[0] == got[number]
            got[number] = offsets[-1] + 1
    assert got == dict.fromkeys(range(40), 1000) and len(calls) > together


def test_partitions_paused_one_by_one_are_decoded_batch_by_batch(world, kit, calls):
    parts = world.simple(*[0] * 30)
    for partition in parts:
        partition.paused = True
    for partition in parts:
        partition.paused = False
        world.receive({partition.tp: b"".join(kit.batch(n * 10, 10) for n in range(400))})
        take(world, 1)
        partition.paused = True
    assert len(calls) == chunks.WITHHELD_MAX + 1
    assert ahead(world) < (chunks.WITHHELD_MAX + 1) * 4100 + 30 * 10


@pytest.mark.parametrize("place", [0, 20, 29])
def test_malformed_records_under_a_right_checksum_are_raised_after_those_before_them(world, kit, calls, place):
    """They are found only when all batches are decoded together, and then each is decoded alone."""
    [a] = world.simple(0)
    batches = [kit.batch(n * 10, 10) for n in range(30)]
    records = [NewRecord(b"x", offset=offset) for offset in (1, 0)]
    batches[place] = build_batch(records, base_offset=place * 10, last_offset_delta=9, leader_epoch=5)
    world.receive({a.tp: b"".join(batches)})
    if place:
        assert take(world, 10**6) == {0: list(range(place * 10))}
    with pytest.raises(chunks.RecordError) as caught:
        world.collector.gather(10**6)
    assert caught.value.offset == place * 10 and calls == [30]


def test_records_are_deserialized_when_their_batch_is_returned(make, kit, calls):
    """Deserializers are user code: those of records that a seek skips are not called."""
    seen = []

    def note(tp, records):
        seen.extend(record.offset for record in records)
        return records, None

    world = make(note)
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(30))})
    assert take(world, 15) == {0: list(range(15))}
    assert seen == list(range(20)) and calls == [30]
    assert take(world, 95) == {0: list(range(15, 110))}
    assert seen == list(range(110))


def test_batches_are_deserialized_together_up_to_what_a_poll_returns(make, kit, calls):
    """To deserialize each batch alone would take half as long again."""
    seen = []

    def note(tp, records):
        seen.append(len(records))
        return records, None

    world = make(note)
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 7, 7) for n in range(400))})
    got = []
    while more := take(world, 500):
        got += more[0]
    assert got == list(range(2800)) and seen == [497, 7, *[497] * 4, 308] and calls == [72, 328]


@pytest.mark.parametrize("bad", [1, 6, 7, 57, 69])
def test_a_deserializer_that_recovers_continues_within_batches_that_are_deserialized_together(make, kit, bad):
    failing, seen = {bad}, []

    def value(data):
        offset = int(data.rstrip(b"."))
        seen.append(offset)
        if offset in failing:
            raise ValueError
        return data

    world = make(lambda tp, records: deserialize(records, None, Deserializer.adapt(value)))
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 7, 7) for n in range(30))})
    assert take(world, 70).get(0, []) == list(range(bad))
    with pytest.raises(DeserializationError) as caught:
        world.collector.gather(70)
    assert caught.value.offset == bad
    failing.clear()
    got = []
    while more := take(world, 70):
        got += more[0]
    assert got == list(range(bad, 210)) and sorted(set(seen)) == list(range(210))
    assert all(seen.count(offset) == 1 for offset in range(210) if offset != bad)


def test_a_deserializer_that_recovers_gets_no_aborted_record_and_none_twice(make, kit):
    """The records after the failed one were counted from the chunk's first, aborted ones included."""
    failing, seen = {115}, []

    def value(data):
        seen.append(int(data))
        if int(data) in failing:
            raise ValueError
        return int(data)

    world = make(
        lambda tp, records: deserialize(records, None, Deserializer.adapt(value)), isolation_level="read_committed"
    )
    [a] = world.simple(0)
    log = kit.batch(0, 50) + kit.batch(50, 50, producer_id=1, transactional=True)
    log += build_marker(ControlType.ABORT, producer_id=1, base_offset=100) + kit.batch(101, 50)
    world.receive({a.tp: {"records": log, "aborted": [(1, 50)]}})
    expected = [*range(50), *range(101, 151)]
    assert take(world, 500)[0] == expected[:64]
    for _ in range(2):
        with pytest.raises(DeserializationError):
            world.collector.gather(500)
    failing.clear()
    assert take(world, 500)[0] == expected[64:]
    assert [offset for offset in seen if offset != 115] == [offset for offset in expected if offset != 115]


def test_a_failing_record_has_only_its_own_key_deserialized_again(make, kit):
    """While a schema registry does not respond, each poll would call the deserializer for all the keys behind it."""
    keys = []

    def key(data):
        keys.append(data)

    def value(data):
        raise ValueError

    world = make(lambda tp, records: deserialize(records, Deserializer.adapt(key), Deserializer.adapt(value)))
    [a] = world.simple(0)
    world.receive({a.tp: build_batch([NewRecord(b"v", b"k")] * 300, base_offset=0)})
    for _ in range(10):
        with pytest.raises(DeserializationError):
            world.collector.gather(500)
    assert len(keys) <= 300 + 10


def test_without_numpy_batches_are_decoded_alone(world, kit, monkeypatch):
    monkeypatch.setitem(sys.modules, chunks.DECODER, None)
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 10, 10) for n in range(30))})
    assert take(world, 15) == {0: list(range(15))}
    assert ahead(world) == 5
    assert take(world, 10**6) == {0: list(range(15, 300))}


def test_polls_of_many_records_collect_no_garbage_meanwhile(world, kit, monkeypatch):
    """Each collection would visit the new records, and free none: a sixth of the time of a record without numpy."""
    monkeypatch.setitem(sys.modules, chunks.DECODER, None)
    [a] = world.simple(0)
    world.receive({a.tp: b"".join(kit.batch(n * 100, 100) for n in range(50))})
    collections = []
    note = lambda phase, about: collections.append(phase)  # noqa: E731
    gc.callbacks.append(note)
    try:
        poll_result = world.collector.gather_many(5000)
    finally:
        gc.callbacks.remove(note)
    assert (poll_result.count, gc.isenabled()) == (5000, True)
    assert collections in ([], ["start", "stop"]), "at most one, after them"
