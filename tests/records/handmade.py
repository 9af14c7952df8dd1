"""Records and message sets that current clients do not write: single records, and message formats 0 and 1."""

import zlib
from collections.abc import Sequence
from struct import Struct

from thinconsumer.records import compression
from thinconsumer.records.batch import HEADER_SIZE, LOG_APPEND_TIME
from thinconsumer.records.builder import NewRecord, build_batch

_INT32 = Struct(">i")


def varint_of(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*out, raw))


def encode_record(record: NewRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    record = record._replace(offset=offset_delta, timestamp=timestamp_delta)
    return build_batch([record], delete_horizon=0, max_timestamp=0, last_offset_delta=0)[HEADER_SIZE:]


def break_lz4_checksum(frame: bytes) -> bytes:
    """Return an lz4 frame without a dictionary id with a wrong header checksum, as Kafka 0.8 and 0.9 wrote it."""
    at = 14 if frame[4] & 0x08 else 6
    return frame[:at] + bytes((frame[at] ^ 0xFF,)) + frame[at + 1 :]


def build_legacy(
    records: Sequence[NewRecord],
    *,
    magic: int,
    base_offset: int = 0,
    codec: int = 0,
    log_append_time: int | None = None,
    inner_magic: int | None = None,
) -> bytes:
    """Encode a message set of format 0 or 1. With a codec it is one wrapper message, with relative offsets in format 1.

    These formats have no headers. ``log_append_time`` is for format 1 only.
    """
    stamped = LOG_APPEND_TIME if log_append_time is not None else 0
    inner = bytearray()
    delta = -1
    first = 0 if codec and magic else base_offset
    for record in records:
        delta = delta + 1 if record.offset is None else record.offset
        timestamp = record.timestamp if codec or log_append_time is None else log_append_time
        inner += _message(
            magic if inner_magic is None else inner_magic,
            first + delta, 0 if codec else stamped, timestamp, record.key, record.value,
        )  # fmt: skip
    if not codec:
        return bytes(inner)
    timestamp = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    packed = compression.compress(codec, bytes(inner))
    if codec == compression.Codec.LZ4 and not magic:
        packed = break_lz4_checksum(packed)
    return _message(magic, base_offset + delta, codec | stamped, timestamp, None, packed)


def _message(magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    covered = bytes((magic, attributes)) + (Struct(">q").pack(timestamp) if magic else b"") + b"".join(
        _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data for data in (key, value)
    )  # fmt: skip
    return Struct(">qiI").pack(offset, len(covered) + 4, zlib.crc32(covered)) + covered
