"""Decode messages of formats 0 and 1 to columns: uncompressed messages, and those inside a compressed one.

Follows Kafka's ``AbstractLegacyRecordBatch``: inner offsets are absolute in format 0 and relative in format 1, where
the compressed message has the offset of the last inner one. With log append time, the timestamp of the compressed
message replaces the inner timestamps.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from . import compression
from .columns import Columns
from .varints import Malformed

if TYPE_CHECKING:
    from .batch import RecordBatch

OFFSET_AND_LENGTH = Struct(">qi")
#: The first fields of a message: CRC, magic and attributes. Timestamp (in format 1 only), key and value follow.
MESSAGE = Struct(">Ibb")
TIMESTAMP = Struct(">q")
LENGTH = Struct(">i")
CODEC_MASK = 0x07
MESSAGE_SIZE_MIN = 14


def decode(batch: RecordBatch, check_crcs: bool) -> Columns:
    """Decode a message, or all messages inside a compressed one. Raises: Malformed, CodecError."""
    try:
        found = _decode(batch, check_crcs)
    except StructError:
        raise Malformed("the batch's bytes end inside a message") from None
    offsets = found.offsets
    if any(after <= before for before, after in pairwise(offsets)) or offsets[0] < 0:
        raise Malformed("the offsets of the messages inside a compressed message are negative or do not ascend")
    if offsets[-1] >= batch.next_offset and batch.base_offset:
        raise Malformed(
            f"the last message inside a compressed message has offset {offsets[-1]}, above the compressed "
            f"message's own offset {batch.next_offset - 1}"
        )
    return found


def _decode(batch: RecordBatch, check_crcs: bool) -> Columns:
    codec = batch.codec
    timestamp, key, value = _fields(batch.view[OFFSET_AND_LENGTH.size :], batch.magic)
    if not codec:
        return Columns([batch.base_offset], [timestamp], [key], [value], [()])
    if value is None:
        raise Malformed("a compressed message has no value")
    if codec == compression.Codec.ZSTD:
        raise Malformed(f"a message of format {batch.magic} is compressed with zstd, which needs format 2")
    data = compression.decompress(codec, memoryview(value), magic=batch.magic)
    found = _messages(memoryview(data), check_crcs)
    offsets = found.offsets
    # Relative inner offsets become absolute, but not if the outer offset is 0: in a Produce request, the broker has not
    # assigned it yet.
    if batch.magic == 1 and batch.base_offset > max(offsets[-1], 0):
        shift = batch.base_offset - offsets[-1]
        found = found._replace(offsets=[offset + shift for offset in offsets])
    if batch.timestamp_type == 1:
        found = found._replace(timestamps=[timestamp] * len(offsets))
    return found


def _fields(message: memoryview, magic: int) -> tuple[int, bytes | None, bytes | None]:
    """Return timestamp, key and value of one message."""
    timestamp, pos = -1, MESSAGE.size
    if magic == 1:
        (timestamp,) = TIMESTAMP.unpack_from(message, pos)
        pos += TIMESTAMP.size
    key, pos = _nullable(message, pos)
    value, pos = _nullable(message, pos)
    if pos != len(message):
        raise Malformed(f"{len(message) - pos} bytes follow a message's value")
    return timestamp, key, value


def _nullable(message: memoryview, pos: int) -> tuple[bytes | None, int]:
    (length,) = LENGTH.unpack_from(message, pos)
    pos += LENGTH.size
    if length < 0:
        return None, pos
    if length > len(message) - pos:
        raise Malformed(f"a key or value claims {length} bytes, but {len(message) - pos} are left")
    return bytes(message[pos : pos + length]), pos + length


def _messages(data: memoryview, check_crcs: bool) -> Columns:
    """Decode the messages inside a compressed message."""
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    pos, end = 0, len(data)
    while end - pos >= OFFSET_AND_LENGTH.size:
        offset, length = OFFSET_AND_LENGTH.unpack_from(data, pos)
        pos += OFFSET_AND_LENGTH.size
        if length < MESSAGE_SIZE_MIN:
            raise Malformed(f"an inner message claims {length} bytes, below the minimum of {MESSAGE_SIZE_MIN}")
        if length > end - pos:  # the last message may be truncated
            break
        message = data[pos : pos + length]
        pos += length
        crc, magic, attributes = MESSAGE.unpack_from(message)
        if magic not in (0, 1):
            raise Malformed(f"an inner message has magic {magic}, not 0 or 1")
        if attributes & CODEC_MASK:
            raise Malformed("a message inside a compressed message is itself compressed")
        if check_crcs and zlib.crc32(message[4:]) != crc:
            raise Malformed(f"inner message {len(found)} has a wrong checksum")
        found.append((offset, *_fields(message, magic)))
    if not found:
        raise Malformed("a compressed message contains no complete message")
    offsets, timestamps, keys, values = map(list, zip(*found))
    return Columns(offsets, timestamps, keys, values, [()] * len(found))
