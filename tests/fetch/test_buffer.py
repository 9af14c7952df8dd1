"""The buffer counts whole frames until their last slice is released, and drops stale batches."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import CorruptRecordError
from thinconsumer.fetch.buffer import Buffer, Fetched, Frame
from thinconsumer.positions.partitions import Partition
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import TopicPartition


def partition(number: int = 0) -> Partition:
    found = Partition(TopicPartition("t", number), PositionState.AWAITING_RESET)
    found.place(PositionEvent.RESET_FOUND, 0)
    return found


def fetched(of: Partition, frame: Frame, batches: int = 1, **more: object) -> Fetched:
    found, _ = split(memoryview(build_batch([NewRecord(b"x")]) * batches))
    return Fetched(of, found, frame, batches, 10 * batches, batches, of.cursor, 0, **more)  # type: ignore[arg-type]


def drain(buffer: Buffer, of: Partition) -> None:
    """Mark the partition's oldest entry as returned."""
    head = buffer.head(of)
    assert head is not None
    head.chunk = head.count
    buffer.head(of)


def broken() -> CorruptRecordError:
    return CorruptRecordError("m", TopicPartition("t", 0), 5, 6)


def test_a_frame_counts_whole_and_once_until_its_last_slice_is_released():
    buffer, frame = Buffer(), Frame(1000)
    a, b = partition(0), partition(1)
    buffer.add(fetched(a, frame))
    buffer.add(fetched(b, frame))
    assert buffer.pinned == 1000 and (buffer.size_of(a), buffer.size_of(b)) == (10, 10)
    drain(buffer, a)
    assert buffer.pinned == 1000 and buffer.size_of(a) == 0
    drain(buffer, b)
    assert buffer.pinned == 0 and not buffer.queues and buffer.records == 0


def test_an_unknown_partition_has_no_entries():
    buffer, a = Buffer(), partition()
    assert buffer.head(a) is None and buffer.size_of(a) == 0 and not buffer.queue(a) and not buffer.broken(a)
    buffer.rotate(a)
    assert not buffer.queues


def test_only_partitions_that_may_return_records_are_ready():
    buffer, a = Buffer(), partition()
    buffer.add(fetched(a, Frame(1)))
    assert buffer.has_ready()
    a.paused = True
    assert not buffer.has_ready()


def test_drop_one_rewinds_one_partition_paused_ones_first():
    buffer = Buffer()
    reading, paused, validating = (partition(n) for n in range(3))
    for each in (reading, paused, validating):
        buffer.add(fetched(each, Frame(100)))
        each.cursor.fetch_offset = 50
    paused.paused = True
    validating.move(PositionEvent.LEADER_CHANGED)
    agenda = Agenda()
    buffer.awaited_by = agenda.alarm("fetch")
    buffer.drop_one()
    assert buffer.pinned == 200 and agenda.take(0.0) == {"fetch": None}
    assert paused.cursor.fetch_offset == 0 and reading.cursor.fetch_offset == 50
    buffer.drop_one()
    buffer.drop_one()
    assert buffer.pinned == 100, "a partition in validation keeps its cursor"
    assert validating.cursor.fetch_offset == 50


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_pinned_bytes_equal_the_held_frames_after_any_operations(seed):
    rng = random.Random(seed)
    buffer = Buffer()
    partitions = [partition(n) for n in range(4)]
    for _ in range(60):
        some = rng.choice(partitions)
        what = rng.randrange(7)
        if what < 2:
            frame = Frame(rng.randrange(1, 1000))
            for each in rng.sample(partitions, rng.randrange(1, 5)):
                buffer.add(fetched(each, frame))
        elif what == 2 and buffer.head(some):
            drain(buffer, some)
        elif what == 3:
            some.place(PositionEvent.SEEK, 0)
        elif what == 4:
            buffer.sweep(set(rng.sample(partitions, 2)))
        elif what == 5 and (head := buffer.head(some)):
            buffer.break_off(head, broken())
        elif what == 6:
            buffer.drop_one()
        frames = {id(f.frame): f.frame for each in partitions for f in buffer.queue(each)}
        assert buffer.pinned == sum(frame.size for frame in frames.values())
        assert set(buffer.queues) == {each for each in partitions if buffer.queue(each)}
    buffer.sweep(set())
    assert buffer.pinned == 0 and not buffer.queues and buffer.records == 0


@pytest.mark.parametrize("emptied", ["by returns", "by a sweep"])
def test_a_buffer_that_held_thousands_of_partitions_is_listed_as_fast_as_a_new_one(emptied):
    """Each poll lists it: an emptied dict keeps its size, and Python looks at each place of it."""
    buffer, parts = Buffer(), [partition(number) for number in range(3000)]
    for one in parts:
        buffer.add(fetched(one, Frame(10)))
    for one in parts if emptied == "by returns" else ():
        drain(buffer, one)
    buffer.sweep(set())
    assert buffer.queues == {} and buffer.records == 0
    assert sys.getsizeof(buffer.queues) == sys.getsizeof({})
