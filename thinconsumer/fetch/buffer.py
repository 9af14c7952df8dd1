"""Hold fetched batches until a poll returns them, and count their memory.

Batches are slices of their response: ``max_buffered_bytes`` counts whole frames until their last slice is released.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..positions.partitions import Cursor, Partition
from ..positions.states import PositionState
from ..support.lazy_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..errors import RecordError
    from ..records.aborted import AbortedTransactions
    from ..records.batches import Batches
    from ..support.agenda import Alarm
    from ..types import ConsumerRecord


@dataclass(slots=True, eq=False)
class Frame:
    """The memory of one response: its size, and the number of ``Fetched`` objects that hold slices of it."""

    size: int
    users: int = 0


class Chunk(NamedTuple):
    """Decoded batches: their records from the position on, and the position (offset and epoch) after them."""

    records: Sequence[ConsumerRecord[Any, Any]]
    next_offset: int
    epoch: int
    error: RecordError | None = None  #: Why the record right after ``records`` cannot be returned.
    is_deserialized: bool = True  #: Whether the deserializers, if there are any, were applied to ``records``.
    batches: int = 1  #: Number of batches; the entries of all but the first are None in :attr:`Fetched.chunks`.
    rest: Sequence[ConsumerRecord[Any, Any]] = ()  #: The records after ``records``, if a retry soon needs them again.


@dataclass(slots=True, eq=False)
class Fetched:
    """Batches of one partition from one Fetch response.

    ``chunks`` holds one entry per batch that was decoded or returned: None if the batch was returned, or is part of an
    earlier batch's chunk. ``batches[len(chunks)]`` is decoded next. No other attribute counts decoded batches, so an
    exception between two statements can neither skip nor repeat a batch. ``verdicts`` grows in the same way: an entry
    tells whether the batch's transaction was aborted.
    """

    partition: Partition
    batches: Batches
    frame: Frame
    count: int  #: Number of batches; if one was found corrupt, only of those before it.
    size: int
    records: int  #: Number of records according to the batch headers.
    #: The partition's cursor at the Fetch. If the partition has another one now, the batches are stale.
    cursor: Cursor
    #: The offset in the Fetch request. Brokers return whole batches, so the first one may begin below this offset.
    start: int
    error: RecordError | None = None  #: Why the records after the ``count`` batches cannot be returned.
    aborted: AbortedTransactions | None = None
    chunks: list[Chunk | None] = field(default_factory=list)
    chunk: int = 0  #: Index of the first batch with records not yet returned.
    record: int = 0  #: Index of the first record not yet returned in that batch's chunk.
    verdicts: list[bool] = field(default_factory=list)

    @property
    def fresh(self) -> bool:
        """Whether the partition has the cursor of the Fetch: no seek, reset or rewind has replaced it."""
        return self.partition.cursor is self.cursor


class Buffer:
    """Queues of fetched batches, one per partition."""

    def __init__(self) -> None:
        #: By partition, in round-robin order: its fetched batches, oldest first. No queue is empty.
        self.queues: dict[Partition, deque[Fetched]] = {}
        self.pinned = 0  #: Total size of the responses of which a slice is buffered.
        #: Number of records in all queues according to the batch headers, those already returned included.
        self.records = 0
        #: The planner's alarm, to be touched when batches are dropped or returned; None if the planner needs no room.
        self.awaited_by: Alarm | None = None

    def clear(self) -> None:
        self.queues.clear()
        self.pinned = self.records = 0

    def add(self, fetched: Fetched) -> int:
        """Append batches to their partition's queue; return the size in bytes of the partition's buffered batches."""
        queue = self.queues.get(fetched.partition)
        if queue is None:
            queue = self.queues[fetched.partition] = deque()
        queue.append(fetched)
        self.records += fetched.records
        if fetched.frame.users == 0:
            self.pinned += fetched.frame.size
        fetched.frame.users += 1
        return fetched.size if len(queue) == 1 else self.size_of(fetched.partition)

    def head(self, partition: Partition) -> Fetched | None:
        """Drop stale and fully returned ``Fetched`` from the partition's queue; return the first one left."""
        queue = self.queues.get(partition)
        while queue:
            first = queue[0]
            # ``fresh``, and with a batch or an error to return
            if partition.cursor is first.cursor and (first.chunk < first.count or first.error is not None):
                return first
            self._release(queue.popleft())
        if queue is not None:
            del self.queues[partition]
            if not self.queues:
                # An emptied dict keeps its memory until it is cleared: to list one that had 10,000 partitions took a
                # seventh of an idle poll.
                self.queues.clear()
        return None

    def queue(self, partition: Partition) -> deque[Fetched]:
        return self.queues.get(partition) or deque()

    def next_turns(self, partition: Partition) -> list[Partition]:
        """Return the other partitions with batches, in the order of their turns after ``partition``."""
        turns = list(self.queues)
        place = turns.index(partition)
        return turns[place + 1 :] + turns[:place]

    def rotate(self, partition: Partition) -> None:
        if partition in self.queues:
            self.queues[partition] = self.queues.pop(partition)

    def size_of(self, partition: Partition) -> int:
        """Return the size in bytes of the partition's buffered batches."""
        size = 0
        for fetched in self.queues.get(partition, ()):
            size += fetched.size
        return size

    def decoded(self, partition: Partition) -> int:
        """Return the number of the partition's records that are decoded, but not yet returned."""
        return sum(
            sum(len(chunk.records) for chunk in fetched.chunks[fetched.chunk :] if chunk is not None) - fetched.record
            for fetched in self.queues.get(partition, ())
        )

    def waiting(self, partition: Partition) -> int:
        """Return the number of the partition's records that are not yet returned, according to the batch headers."""
        return sum(
            sum(fetched.batches.counts[fetched.chunk : fetched.count]) - fetched.record
            for fetched in self.queues.get(partition, ())
        )

    def withheld(self) -> int:
        """Return the number of partitions with decoded records that may not be returned now."""
        return sum(not p.may_hand_out and self.decoded(p) > 0 for p in self.queues)

    def broken(self, partition: Partition) -> bool:
        """Whether some of the fetched bytes cannot be decoded: no records after them are returned before a seek."""
        return any(fetched.error is not None for fetched in self.queues.get(partition, ()))

    def break_off(self, fetched: Fetched, error: RecordError) -> None:
        """Drop the partition's batches not yet returned; instead, polls raise ``error`` until the application seeks."""
        fetched.error = error
        del fetched.chunks[fetched.chunk :]
        fetched.count = fetched.chunk
        fetched.batches.release()
        queue = self.queues[fetched.partition]
        while queue[-1] is not fetched:
            self._release(queue.pop())
        self._release(fetched)
        fetched.frame = Frame(0, users=1)
        fetched.size = fetched.records = 0
        fetched.partition.report_change()  # the partition is not fetched any longer

    def drop_one(self) -> None:
        """Drop the batches of one partition, preferably one whose records polls may not return."""
        holders = [p for p in self.queues if p.state is PositionState.FETCHING]
        for partition in sorted(holders, key=lambda p: p.may_hand_out)[:1]:
            partition.rewind()
            self.head(partition)

    def has_ready(self) -> bool:
        """Whether any partition has batches or an error to return now."""
        return any(partition.may_hand_out and self.head(partition) for partition in list(self.queues))

    def sweep(self, assigned: set[Partition]) -> None:
        """Drop the batches of partitions that are no longer assigned, and those fetched before a seek or reset."""
        for partition in list(self.queues):
            queue = self.queues[partition]
            while queue and partition not in assigned:
                self._release(queue.popleft())
            self.head(partition)

    def _release(self, fetched: Fetched) -> None:
        if self.awaited_by is not None:
            self.awaited_by.touch()
            fetched.partition.report_change()  # the partition is not fetched while its batches fill its share
        self.records -= fetched.records
        fetched.frame.users -= 1
        if fetched.frame.users == 0:
            self.pinned -= fetched.frame.size
