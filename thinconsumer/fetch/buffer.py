"""What was fetched and not handed over yet, and what it costs.

Owns the memory bound. Records are slices of the response they came in, so the smallest unused slice keeps the whole
response alive: what counts is whole frames, until their last slice is gone, plus what outstanding requests may bring.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..partitions import Cursor, Partition, PositionState

if TYPE_CHECKING:
    from ..errors import RecordError
    from ..records.aborted import AbortedTransactions
    from ..records.batch import RecordBatch
    from ..types import ConsumerRecord


@dataclass(slots=True, eq=False)
class Frame:
    """One response's memory, shared by what was sliced from it."""

    size: int
    users: int = 0


class Chunk(NamedTuple):
    """One decoded batch: its records from the position on, and where the position is after it."""

    records: list[ConsumerRecord[Any, Any]]
    next_offset: int
    epoch: int
    error: RecordError | None = None  #: What stands right after ``records`` cannot be handed out.


class Fetched:
    """What one response held for one partition.

    ``chunks`` grows as batches are decoded: batch number ``len(chunks)`` is next. Nothing else says how far decoding
    has come, so that an exception between two statements can neither skip a batch nor repeat one. The same holds of
    ``verdicts``, which say of batch after batch whether its transaction was aborted.

    What is read as columns is not kept here: its batches are passed over, ``None`` in ``chunks``.
    """

    __slots__ = (
        "aborted",
        "batches",
        "chunk",
        "chunks",
        "cursor",
        "error",
        "frame",
        "partition",
        "record",
        "size",
        "start",
        "verdicts",
    )

    def __init__(
        self,
        partition: Partition,
        batches: list[RecordBatch],
        frame: Frame,
        size: int,
        *,
        error: RecordError | None = None,
        aborted: AbortedTransactions | None = None,
    ) -> None:
        self.partition = partition
        self.cursor: Cursor = partition.cursor  #: As it was then: another one now means all this is stale.
        self.start = partition.cursor.fetch_offset  #: The first batch may begin earlier: brokers send whole batches.
        self.batches: list[RecordBatch | None] = list(batches)
        self.chunks: list[Chunk | None] = []
        self.chunk = 0  #: First chunk not handed over whole ...
        self.record = 0  #: ... and its first record not handed over.
        self.error = error  #: What follows the last batch could not be understood.
        self.aborted = aborted
        self.verdicts: list[bool] = []
        self.frame = frame
        self.size = size

    @property
    def fresh(self) -> bool:
        """Whether the partition is still where this was fetched for."""
        return self.partition.cursor is self.cursor

    @property
    def drained(self) -> bool:
        """Whether everything was handed over."""
        return self.chunk >= len(self.batches) and self.error is None


class Buffer:
    """All that was fetched, per partition in the order fetched; partitions take turns."""

    def __init__(self) -> None:
        self._queues: dict[Partition, deque[Fetched]] = {}
        self._turns: deque[Partition] = deque()
        self.pinned = 0  #: Bytes of all frames with an unused slice.
        self.starving = False  #: Something would be fetched, but for want of room.
        self.freed = False  #: Something was let go of since :class:`~.planner.Planner` looked last.

    def __bool__(self) -> bool:
        return bool(self._turns)

    def clear(self) -> None:
        """Drop everything."""
        self._queues.clear()
        self._turns.clear()
        self.pinned = 0
        self.starving = self.freed = False

    def add(self, fetched: Fetched) -> None:
        """Take what came for one partition."""
        queue = self._queues.get(fetched.partition)
        if queue is None:
            queue = self._queues[fetched.partition] = deque()
            self._turns.append(fetched.partition)
        queue.append(fetched)
        if fetched.frame.users == 0:
            self.pinned += fetched.frame.size
        fetched.frame.users += 1

    def head(self, partition: Partition) -> Fetched | None:
        """Return the oldest of what is held for the partition; stale and drained ones are dropped on the way."""
        queue = self._queues.get(partition)
        while queue:
            if queue[0].fresh and not queue[0].drained:
                return queue[0]
            self._release(queue.popleft())
        if queue is not None:
            del self._queues[partition]
            self._turns.remove(partition)
        return None

    def queue(self, partition: Partition) -> deque[Fetched]:
        """Return all that is held for the partition, oldest first."""
        return self._queues.get(partition) or deque()

    def turns(self) -> list[Partition]:
        """Return the partitions that hold something, the one whose turn it is first."""
        return list(self._turns)

    def rotate(self, partition: Partition) -> None:
        """The partition had its turn: the others come first now."""
        if partition in self._queues:
            self._turns.remove(partition)
            self._turns.append(partition)

    def held(self, partition: Partition) -> int:
        """Return how many bytes of batches wait for the partition."""
        queue = self._queues.get(partition)
        return sum(fetched.size for fetched in queue) if queue else 0

    def broken(self, partition: Partition) -> bool:
        """Whether what was fetched last ends in something that cannot be read: asking on would bring the same."""
        queue = self._queues.get(partition)
        return bool(queue) and queue[-1].error is not None  # type: ignore[index]

    def break_off(self, fetched: Fetched, error: RecordError) -> None:
        """Nothing behind ``error`` can be handed over before a seek: keep the error, let go of the bytes."""
        fetched.error = error
        del fetched.batches[fetched.chunk :], fetched.chunks[fetched.chunk :]
        queue = self._queues[fetched.partition]
        while queue[-1] is not fetched:
            self._release(queue.pop())
        self._release(fetched)
        fetched.frame = Frame(0, users=1)
        fetched.size = 0

    def make_room(self) -> None:
        """Give up what one partition holds, when nothing can be handed over now and others starve for its memory.

        Without this, paused partitions could keep all the others from being read for ever.
        """
        holders = [p for p in self._turns if p.state is PositionState.FETCHING]
        for partition in sorted(holders, key=lambda p: p.may_hand_out)[:1]:
            partition.rewind()
            self.head(partition)

    def has_ready(self) -> bool:
        """Whether anything could be handed over now."""
        return any(partition.may_hand_out and self.head(partition) for partition in list(self._turns))

    def sweep(self, assigned: set[Partition]) -> None:
        """Drop what belongs to partitions that are gone or have moved."""
        for partition in list(self._queues):
            if partition not in assigned:
                for fetched in self._queues.pop(partition):
                    self._release(fetched)
                self._turns.remove(partition)
            else:
                self.head(partition)

    def _release(self, fetched: Fetched) -> None:
        self.freed = True
        fetched.frame.users -= 1
        if fetched.frame.users == 0:
            self.pinned -= fetched.frame.size
