"""Which records behind a committed offset are finished, as text for the metadata of the commit.

A group that works in parallel finishes records out of order, but commits one offset per partition: that of the first
unfinished record. The map names the other unfinished offsets up to the last finished one, so that the next owner of the
partition leaves out what is finished. Other clients see a plain offset with metadata that they ignore.

The text is ``tc1:`` and then base64 of these bytes; numbers are unsigned varints unless a size is given:

=========  ============================================================================================
1 byte     form of the body: 0 for gaps, 1 for a bitmap
16 bytes   topic id, zero if the broker has none: a topic that is made anew has another one
number     the committed offset
number     how many offsets the map covers, from the committed one on; the last of them is finished
number     how many leader epochs follow, of the records covered
pairs      offset of the epoch's first record, less that of the pair before; the epoch plus 1, 0 if unknown
body       gaps: for each other unfinished offset, how many offsets lie between it and the one before; or a
           bitmap: a bit per offset after the committed one, lowest bit first, 1 for finished
4 bytes    CRC-32C of all bytes before
=========  ============================================================================================
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..records import checksum
from ..wire.primitives import uvarint

PREFIX = "tc1:"
GAPS, BITMAP = 0, 1
#: The size of a map without its epochs and its body, at most: two numbers of ten bytes, and one of five.
HEADER_MAX = 1 + 16 + 10 + 10 + 5 + 4
#: The longest text that is decoded. ``offset.metadata.max.bytes`` limits what a broker stores, 4,096 by default.
TEXT_MAX = 65_536
_OFFSET_MAX = (1 << 63) - 1


class OffsetMapError(ValueError):
    """The text is no offset map, or not one of this partition and committed offset; the message says why."""


@dataclass(frozen=True)
class OffsetMap:
    """The finished and unfinished offsets of one partition from its committed offset on."""

    offset: int  #: The committed offset, which is the first unfinished one.
    end: int  #: The offset after the last finished record.
    unfinished: Sequence[int]  #: The unfinished offsets between ``offset`` and ``end``, in order, without ``offset``.
    epochs: Sequence[tuple[int, int]]  #: The first offset and the leader epoch of each run of records, in order.
    topic_id: bytes = bytes(16)

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch that the record at this offset had; -1 if unknown."""
        run = bisect_right(self.epochs, offset, key=lambda epoch: epoch[0]) - 1
        return self.epochs[run][1] if run >= 0 else -1


def room_for(text_max: int) -> int:
    """Return how many bytes a map may have whose text has at most ``text_max`` characters."""
    return max(text_max - len(PREFIX), 0) // 4 * 3


def number_size(number: int) -> int:
    """Return the size of a number in bytes."""
    return (number.bit_length() + 6) // 7 or 1


def gap_size(before: int, offset: int) -> int:
    """Return the bytes that an unfinished offset takes in a body of gaps after the one ``before``.

    Leaving out an offset between two others never makes the body larger: the gap that remains takes at most as many
    bytes as the two that it replaces. So the body of all unfinished offsets is as large as any that can follow.
    """
    return number_size(offset - before - 1)


def bitmap_size(offset: int, end: int) -> int:
    """Return the size of a bitmap of the offsets after the committed one and before ``end``."""
    return (end - offset - 1 + 7) // 8


def epoch_size(before: int, first: int, epoch: int) -> int:
    """Return the size of a pair of an epoch's first offset and the epoch, after a pair with the offset ``before``."""
    return number_size(first - before) + number_size(epoch + 1)


def encode(progress: OffsetMap) -> str:
    """Return the text of a map, in the smaller of the two forms."""
    offset, end = progress.offset, progress.end
    gaps = bytearray()
    before = offset
    for unfinished in progress.unfinished:
        gaps += uvarint(unfinished - before - 1)
        before = unfinished
    size = bitmap_size(offset, end)
    form, body = (GAPS, gaps) if len(gaps) <= size else (BITMAP, _bitmap(offset, end, progress.unfinished))
    data = bytearray([form]) + progress.topic_id + uvarint(offset) + uvarint(end - offset)
    data += uvarint(len(progress.epochs))
    before = offset
    for first, epoch in progress.epochs:
        data += uvarint(first - before) + uvarint(epoch + 1)
        before = first
    data += body
    data += checksum.crc32c(data).to_bytes(4, "big")
    return PREFIX + b64encode(data).decode()


def _bitmap(offset: int, end: int, unfinished: Iterable[int]) -> bytes:
    bits = (1 << end - offset - 1) - 1
    cleared = bytearray(bits.to_bytes(bitmap_size(offset, end), "little"))
    for each in unfinished:
        at = each - offset - 1
        cleared[at >> 3] &= ~(1 << (at & 7))
    return bytes(cleared)


def decode(text: str, offset: int, topic_id: bytes) -> OffsetMap:
    """Read the map in the metadata of a commit of ``offset``.

    Raises:
        OffsetMapError: the text is malformed, or a map of another topic or offset.
    """
    if not text.startswith(PREFIX):
        raise OffsetMapError("it was written by another program")
    if len(text) > TEXT_MAX:
        raise OffsetMapError(f"it has {len(text)} characters")
    try:
        data = b64decode(text[len(PREFIX) :], validate=True)
    except ValueError:
        raise OffsetMapError("it is not base64") from None
    if len(data) < 4 or checksum.crc32c(data[:-4]) != int.from_bytes(data[-4:], "big"):
        raise OffsetMapError("its checksum is wrong")
    found = _MapReader(data[:-4]).map()
    if found.offset != offset:
        raise OffsetMapError(f"it belongs to offset {found.offset}")
    if found.topic_id != topic_id:
        raise OffsetMapError("it belongs to a topic of the same name with another id")
    return found


class _MapReader:
    """Reads the bytes of a map. They have a valid checksum, but may come from another program."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def map(self) -> OffsetMap:
        form, topic_id = self._bytes(1)[0], self._bytes(16)
        offset = self._number()
        end = offset + self._number()
        if end > _OFFSET_MAX or end < offset + 2:
            raise OffsetMapError(f"it covers the offsets from {offset} to {end}")
        epochs = []
        first = offset
        for _ in range(self._number()):  # ends with the data, whatever the number is
            first += self._number()
            epochs.append((first, self._number() - 1))
        if form == GAPS:
            unfinished = self._gaps(offset, end)
        elif form == BITMAP:
            unfinished = self._bits(offset, end)
        else:
            raise OffsetMapError(f"its form {form} is unknown")
        return OffsetMap(offset, end, unfinished, epochs, topic_id)

    def _gaps(self, offset: int, end: int) -> list[int]:
        unfinished = []
        while self._at < len(self._data):
            offset += self._number() + 1
            unfinished.append(offset)
        if offset >= end - 1:
            raise OffsetMapError(f"its last offset {end - 1} is not finished")
        return unfinished

    def _bits(self, offset: int, end: int) -> list[int]:
        size = bitmap_size(offset, end)
        if size != len(self._data) - self._at:
            raise OffsetMapError(f"its bitmap has {len(self._data) - self._at} bytes instead of {size}")
        bits = self._bytes(size)
        covered = end - offset - 1
        if not bits[covered - 1 >> 3] >> (covered - 1 & 7) & 1:
            raise OffsetMapError(f"its last offset {end - 1} is not finished")
        return [offset + 1 + at for at in range(covered) if not bits[at >> 3] >> (at & 7) & 1]

    def _bytes(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise OffsetMapError("it ends early")
        self._at += count
        return found

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._bytes(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise OffsetMapError("a number in it has more than 64 bits")
