"""Find the batches in a partition's bytes of a Fetch response.

Follows Kafka's ``ByteBufferLogInputStream``. Only a few fields of each header are read, and no object is made for a
batch: for batches of a single record, making objects would take longer than all the rest. Nothing is decompressed
either: the next Fetch request is to be sent first. A response may begin with batches that end at or before the fetch
offset: the caller drops them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct

from ..errors import CorruptRecordError
from ..support.lazy_dataclass import dataclass
from ..types import TopicPartition
from .batch import HEADER_SIZE, LEGACY_HEADER, LENGTH_MIN, LOG_OVERHEAD, MAGIC_AT, OFFSET_MAX, RecordBatch
from .legacy import OFFSET_AND_LENGTH

#: The fields of a header of format 2 that tell where the batch ends, and which offsets and how many records it has:
#: base offset, length, leader epoch, magic, last offset delta, record count.
EXTENT = Struct(">qiib6xi30xi")
UNKNOWN_PARTITION = TopicPartition("", -1)


@dataclass(slots=True, eq=False, repr=False)
class Batches:
    """The batches of one partition in a Fetch response. A batch's header is parsed each time the batch is accessed."""

    source: memoryview  #: The partition's bytes; they keep the memory of the whole response alive.
    starts: array[int]  #: Where each batch begins in ``source``; at the end, where the last one ends.
    counts: array[int]  #: The number of records of each batch according to its header.
    first_end: int  #: The offset after the first batch; 0 if there is none.
    next_offset: int  #: The offset after the last batch; 0 if there is none.
    leader_epoch: int  #: The leader epoch of the last batch; -1 if unknown.
    is_ascending: bool  #: Whether each batch begins after the offsets of the one before it.
    is_mixed: bool  #: Whether there are batches of the formats 0 or 1.

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[RecordBatch]:
        return map(self.__getitem__, range(len(self.counts)))

    def __getitem__(self, index: int) -> RecordBatch:
        starts = self.starts
        if index < 0:
            index += len(self.counts)
        return RecordBatch(self.source[starts[index] : starts[index + 1]])

    def first_from(self, offset: int, begin: int, end: int) -> int:
        """Return the index of the first batch from ``begin`` to ``end`` that begins at or after ``offset``, or ``end``.

        Only batches of format 2 count: in older formats, the header of a compressed batch has the last offset, not the
        first. The batches must be ascending.
        """
        if begin >= end or offset >= self.next_offset:
            return end
        source, starts = self.source, self.starts
        if self.is_mixed:
            of_format_2 = (index for index in range(begin, end) if source[starts[index] + MAGIC_AT] == 2)
            return next((index for index in of_format_2 if _base_offset(source, starts[index]) >= offset), end)
        return bisect_left(starts, offset, begin, end, key=lambda start: _base_offset(source, start))

    def end_of_corrupt(self, index: int, low: int) -> int:
        """Return the first offset after a corrupt batch, at least ``low`` + 1.

        It is the base offset of the next batch, if the checksum of the next batch is right; otherwise see
        :meth:`.RecordBatch.probable_end`. If the corrupt batch has an older format, it ends at the offset in its own
        header, since the next header may have the last offset of a compressed batch, not the first. An older format of
        a neighbor has the same effect: the magic of the corrupt batch may be damaged.
        """
        batch = self[index]
        neighbors = [self[at] for at in (index - 1, index + 1) if 0 <= at < len(self.counts)]
        if any(each.magic < 2 for each in (batch, *neighbors)):
            return max(batch.base_offset, low) + 1
        following = neighbors[-1] if index + 1 < len(self.counts) else None
        if following is not None and following.base_offset > low and following.is_whole():
            return following.base_offset
        return batch.probable_end(low)

    def release(self) -> None:
        """Forget the bytes: no batch may be accessed from now on."""
        self.source = memoryview(b"")


def _base_offset(source: memoryview, start: int) -> int:
    offset: int = OFFSET_AND_LENGTH.unpack_from(source, start)[0]
    return offset


def split(
    view: memoryview, partition: TopicPartition = UNKNOWN_PARTITION, low: int = 0, high: int = OFFSET_MAX
) -> tuple[Batches, CorruptRecordError | None]:
    """Find the batches in a partition's bytes.

    Returns the batches and either None or the error for a corrupt header, to be raised after the batches before it are
    consumed. The error's ``offset`` and ``next_offset`` lie between ``low`` (the fetch offset) and ``high`` (the log
    end); otherwise skipping a corrupt header could move the position to any offset that the header claims.

    An incomplete batch at the end is no error, because a broker cuts off the last batch where the response reaches its
    maximum size. But a broker sends at least one whole batch (KIP-74), so the caller must treat a non-empty response
    without a whole batch as corrupt.
    """
    starts, counts = array("q"), array("i")
    end = len(view)
    pos = reached = first_end = 0
    leader_epoch = -1
    is_ascending, is_mixed = True, False
    error: CorruptRecordError | None = None
    unpack, length_min = EXTENT.unpack_from, LENGTH_MIN[2]
    while True:
        while end - pos >= HEADER_SIZE:
            base_offset, length, epoch, magic, last_offset_delta, count = unpack(view, pos)
            stop = pos + LOG_OVERHEAD + length
            if (
                magic != 2
                or length < length_min
                or stop > end
                or last_offset_delta < 0
                or not 0 <= base_offset < OFFSET_MAX
            ):
                break
            if base_offset < reached:
                is_ascending = False
            reached = base_offset + last_offset_delta + 1
            if not pos:
                first_end = reached
            leader_epoch = epoch
            starts.append(pos)
            counts.append(count)
            pos = stop
        if end - pos < LOG_OVERHEAD:
            break
        length, problem = _legacy_or_incomplete(view, pos)
        if problem:
            error = _corrupt_header(view, pos, max(reached, low), high, partition, problem)
        if not length:
            break
        base_offset = _base_offset(view, pos)
        is_ascending, is_mixed = is_ascending and base_offset >= reached, True
        reached, leader_epoch = base_offset + 1, -1
        if not pos:
            first_end = reached
        starts.append(pos)
        counts.append(1)
        pos += length
    starts.append(pos)
    return Batches(view, starts, counts, first_end, reached, leader_epoch, is_ascending, is_mixed), error


def _legacy_or_incomplete(view: memoryview, pos: int) -> tuple[int, str]:
    """Return the size of a batch of format 0 or 1 at ``pos``, and an empty text.

    Returns 0 and an empty text for an incomplete batch of any format, 0 and the problem for a corrupt header.
    """
    left = len(view) - pos
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    size: int = LOG_OVERHEAD + length
    if offset == -1 and size > left:  # end of a response down-converted by an old broker: not corrupt
        return 0, ""
    if length < LENGTH_MIN[0]:
        return 0, f"its length is {length}, below the minimum of {LENGTH_MIN[0]}"
    if left < LEGACY_HEADER.size:
        return 0, ""
    magic = view[pos + MAGIC_AT]
    if magic not in LENGTH_MIN:
        return 0, f"its magic is {magic}, not 0, 1 or 2"
    if length < LENGTH_MIN[magic]:
        return 0, f"its length is {length}, below the minimum of {LENGTH_MIN[magic]} for magic {magic}"
    if size > left:
        return 0, ""
    if magic == 2 or not 0 <= offset < OFFSET_MAX:
        return 0, f"its base offset {offset} or its last offset delta is out of range"
    return size, ""


def claimed_end(view: memoryview, low: int) -> int:
    """Return the offset after the batch at the beginning of ``view``, as a header of format 2 claims, or ``low`` + 1.

    The batch may end before ``view`` does, or be incomplete.
    """
    if len(view) < HEADER_SIZE or view[MAGIC_AT] != 2:
        return low + 1
    return RecordBatch(view).probable_end(low)


def _corrupt_header(
    view: memoryview, pos: int, low: int, high: int, partition: TopicPartition, problem: str
) -> CorruptRecordError:
    """Return the error for the corrupt header at byte ``pos``, with the probable offset of the next batch."""
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    if not low <= offset < high:
        offset = low
    next_offset = min(claimed_end(view[pos:], offset), max(high, offset + 1))
    after = pos + LOG_OVERHEAD + length
    if length > 0 and after + LEGACY_HEADER.size <= len(view):
        # The corrupt header's length says where the next batch begins, but may itself be corrupt. So the bytes there
        # count as a batch only if their offset, length and magic are plausible.
        following, length = OFFSET_AND_LENGTH.unpack_from(view, after)
        magic = view[after + MAGIC_AT]
        if offset < following < high and length >= LENGTH_MIN.get(magic, 2**31):
            # In older formats, the next header may have the last offset of a compressed batch, not the first.
            next_offset = following if magic == 2 else offset + 1
    return CorruptRecordError(
        f"corrupt batch header in {partition.topic}-{partition.partition} at offset {offset}, byte {pos} of "
        f"{len(view)}: {problem}",
        partition,
        offset,
        next_offset,
    )
