"""What a leader looks at before it appends bytes that came from a producer.

Follows Kafka's ``UnifiedLog.analyzeAndValidateRecords`` and ``LogValidator``, in their order. Kafka reads every record
of every batch; here that is done for batches of few records, which is what tests send, and wherever a topic's settings
ask about single records. Of larger batches only the records' lengths are followed, which finds bytes that are no
records at all; what Kafka finds besides are fields that do not fill their record and single timestamps out of range,
and it corrects a wrong ``maxTimestamp``.

Stricter than Kafka: it keeps an uncompressed batch whose records are not numbered 0, 1, 2, ..., and numbers those of a
compressed one anew. Here both are refused, for the decoder takes ascending offsets only, and no producer of today sends
others on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import crc32c as _crc32c

from ...records import columns, compression
from ...records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_SIZE,
    LENGTH_MIN,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    split,
)
from ...records.builder import restamp
from ...records.varints import LENGTH_TABLES, Malformed, varint
from ...wire.error_codes import Code
from ..config import TopicConfig
from .stored import AppendRefused

crc32c = _crc32c.crc32c

#: Up to so many records are all read. Reading costs about half a microsecond each.
RECORDS_READ_MAX = 20
#: Kafka names every bad record of a batch; a megabyte of empty ones would become many megabytes of complaints.
RECORD_ERRORS_MAX = 1_000
UP_TO_MAGIC = 17
_MAGIC = 2
#: Lengths by the bytes that say them; one below zero is larger than any batch.
_ONE_BYTE, _TWO_BYTES = LENGTH_TABLES[1], LENGTH_TABLES[2]
_KNOWN_CODECS = frozenset(compression.Codec)
_INT64 = Struct(">q")
_UINT32 = Struct(">I")


class ValidatedBatch(NamedTuple):
    """A batch that may be appended, but for what its producer did before."""

    data: bytes
    max_timestamp: int  #: The records' own, where they were read; else the header's.
    changes_timestamps: bool  #: Whether that, or who dated the batch, is not as its header says.


class _Header(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def validate_batch(
    data: bytes | bytearray | memoryview, config: TopicConfig, now_ms: int, *, from_client: bool = True
) -> ValidatedBatch:
    """Look at the one batch in there.

    Raises:
        Refused: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR or
            UNSUPPORTED_COMPRESSION_TYPE.
    """
    view = memoryview(data)
    header = _header(view)
    if from_client and header.base_offset != 0:
        raise AppendRefused(
            Code.INVALID_RECORD, f"its base offset is {header.base_offset}, and producers have to send 0"
        )
    if len(view) > config.max_message_bytes:
        raise AppendRefused(
            Code.MESSAGE_TOO_LARGE, f"it has {len(view)} bytes, and max.message.bytes is {config.max_message_bytes}"
        )
    if crc32c(view[CRC_COVERS_FROM:]) != header.crc:
        raise AppendRefused(Code.CORRUPT_MESSAGE, "its checksum is wrong")
    if header.attributes & CODEC_MASK not in _KNOWN_CODECS:
        raise AppendRefused(Code.UNKNOWN_SERVER_ERROR, f"no codec has the number {header.attributes & CODEC_MASK}")
    if not from_client:
        return ValidatedBatch(bytes(view), header.max_timestamp, False)
    _validate_header(header)
    highest = _validate_records(view, header, config, now_ms)
    changes_timestamps = highest != header.max_timestamp or header.attributes & LOG_APPEND_TIME != 0
    return ValidatedBatch(bytes(view), highest, changes_timestamps and not config.log_append_time)


def with_offsets(validated: ValidatedBatch, base_offset: int, leader_epoch: int, log_append_time: int | None) -> bytes:
    """Return the batch as it is appended."""
    data = restamp(validated.data, base_offset, leader_epoch, log_append_time)
    if not validated.changes_timestamps:
        return data
    out = bytearray(data)
    out[22] &= ~LOG_APPEND_TIME
    _INT64.pack_into(out, 35, validated.max_timestamp)
    _UINT32.pack_into(out, 17, crc32c(memoryview(out)[CRC_COVERS_FROM:]))
    return bytes(out)


def _header(view: memoryview) -> _Header:
    if len(view) < UP_TO_MAGIC:
        raise AppendRefused(Code.INVALID_RECORD, "there is no batch")
    length = int.from_bytes(view[8:12], "big", signed=True)
    magic = view[16]
    if length < LENGTH_MIN[0] or magic > _MAGIC:
        raise AppendRefused(Code.CORRUPT_MESSAGE, f"its length is {length}, its magic {magic}")
    if magic != _MAGIC:
        raise AppendRefused(Code.INVALID_RECORD, f"its magic is {magic}, and 2 is what producers send")
    if length < LENGTH_MIN[_MAGIC]:
        raise AppendRefused(Code.CORRUPT_MESSAGE, f"its length is {length}, too little for a header")
    size = LOG_OVERHEAD + length
    if size > len(view):
        raise AppendRefused(Code.INVALID_RECORD, f"{len(view)} bytes of its {size} are there")
    if size < len(view):
        raise AppendRefused(Code.INVALID_RECORD, f"{len(view) - size} bytes follow the batch")
    return _Header._make(HEADER.unpack_from(view))


def _validate_header(header: _Header) -> None:
    if not 0 < header.record_count == header.last_offset_delta + 1:
        raise AppendRefused(
            Code.INVALID_RECORD,
            f"it has {header.record_count} records, and {header.last_offset_delta} for its last offset's distance",
        )
    if header.attributes & CONTROL:
        raise AppendRefused(Code.INVALID_RECORD, "it is a control batch, which clients may not write")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise AppendRefused(
            Code.INVALID_RECORD, f"producer {header.producer_id} sent sequence number {header.base_sequence}"
        )


def _validate_records(view: memoryview, header: _Header, config: TopicConfig, now_ms: int) -> int:
    """Return the highest timestamp."""
    asks_for_each = config.compact or config.message_timestamp_before_max_ms < now_ms
    try:
        if header.record_count <= RECORDS_READ_MAX or asks_for_each:
            (batch,), _ = split(view)
            found = columns.decode(batch, _body(view, header))
            keys: Sequence[bytes | None] = found.keys
            timestamps: Sequence[int] = found.timestamps
        else:
            _follow_lengths(_body(view, header), header.record_count)
            keys, timestamps = (), (header.max_timestamp,)
    except compression.MissingCodecError as exc:
        if asks_for_each:
            raise AppendRefused(Code.UNSUPPORTED_COMPRESSION_TYPE, str(exc)) from None
        return header.max_timestamp  # a broker keeps what it is sent: whoever reads it needs the codec
    except Malformed as exc:
        raise AppendRefused(Code.INVALID_RECORD, str(exc)) from None
    except compression.CodecError as exc:
        # Kafka has no better word for it either: to its validator this is an IOException.
        raise AppendRefused(Code.UNKNOWN_SERVER_ERROR, str(exc)) from None
    _validate_fields(keys, timestamps, config, now_ms, header.attributes & LOG_APPEND_TIME != 0)
    return max(timestamps)


def _body(view: memoryview, header: _Header) -> bytes:
    body = view[HEADER_SIZE:]
    codec = header.attributes & CODEC_MASK
    return compression.decompress(codec, body) if codec else bytes(body)


def _follow_lengths(data: bytes, count: int) -> None:
    """Follow the lengths of records. Raises: Malformed."""
    size = len(data)
    if count * columns.RECORD_SIZE_MIN > size:
        raise Malformed(f"{count} records claimed in {size} bytes")
    pos = 0
    try:
        for _ in range(count):
            low = data[pos]
            if low < 0x80:
                pos += _ONE_BYTE[low] + 1
            elif data[pos + 1] < 0x80:
                pos += _TWO_BYTES[low | data[pos + 1] << 8] + 2
            else:
                length, pos = varint(data, pos)
                if length < 0:
                    raise Malformed("a record of negative length")
                pos += length
    except IndexError:
        raise Malformed(f"its {size} bytes end before its {count} records do") from None
    if pos != size:
        raise Malformed(f"its {count} records have {pos} bytes, and there are {size}")


def _validate_fields(
    keys: Sequence[bytes | None], timestamps: Sequence[int], config: TopicConfig, now_ms: int, has_log_append_time: bool
) -> None:
    """Refuse the batch for what single records lack. Raises: Refused."""
    errors: dict[int, str] = {}
    code = Code.INVALID_RECORD
    for at, timestamp in enumerate(timestamps):
        if _is_out_of_range(timestamp, config, now_ms, has_log_append_time):
            code = Code.INVALID_TIMESTAMP
            errors[at] = f"timestamp {timestamp} is not what the topic accepts at {now_ms}"
    if config.compact and None in keys:
        # Kafka looks at the key first, and at nothing else where it is missing.
        errors |= {at: "a compacted topic needs a key" for at, key in enumerate(keys) if key is None}
        if not any(text.startswith("timestamp") for text in errors.values()):
            code = Code.INVALID_RECORD
    if errors:
        raise AppendRefused(
            code, f"{len(errors)} of its records are not valid", sorted(errors.items())[:RECORD_ERRORS_MAX]
        )


def _is_out_of_range(timestamp: int, config: TopicConfig, now_ms: int, has_log_append_time: bool) -> bool:
    """Whether a record's time is refused. Only brokers date whole batches: Kafka minds that where it would be kept."""
    if config.log_append_time:
        return has_log_append_time
    if timestamp == -1:
        return has_log_append_time
    return (
        now_ms - timestamp > config.message_timestamp_before_max_ms
        or timestamp - now_ms > config.message_timestamp_after_max_ms
    )
