"""Validation of batches from producers, before a leader appends them.

The checks and their order follow Kafka's ``UnifiedLog.analyzeAndValidateRecords`` and ``LogValidator``. Kafka decodes
all records. Here records are decoded in small batches, as most tests send such batches, and in all batches for
compacted topics or topics that limit old timestamps. Of other batches only the record lengths are checked. Kafka would
also reject such a batch if a record is longer than its fields or has a timestamp out of range, and would correct a
wrong ``maxTimestamp``.

Kafka accepts an uncompressed batch with offset deltas other than 0, 1, 2, ..., and renumbers those of a compressed one.
Here both batches are rejected if the records are decoded, because the decoder requires ascending offsets within the
batch's range; no current producer sends such batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import crc32c as _crc32c

from thinconsumer.records import columns, compression
from thinconsumer.records.batch import (
    CODEC_MASK,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LENGTH_MIN,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
)
from thinconsumer.records.batches import split
from thinconsumer.records.compression import Codec
from thinconsumer.records.varints import LENGTH_TABLES, Malformed, varint
from thinconsumer.wire.error_codes import Code

from ..config import TopicConfig
from .stored import AppendRefused, StoredBatch

crc32c = _crc32c.crc32c

#: Records of batches with up to this many records are decoded and validated, in about half a microsecond per record.
RECORDS_READ_MAX = 20
#: Limit of invalid records that are reported. Kafka reports all: many megabytes for a megabyte of empty records.
RECORD_ERRORS_MAX = 1_000
UP_TO_MAGIC = _CRC_AT = 17
_MAGIC = 2
_LENGTH_MAX = 2**31 - 1 - LOG_OVERHEAD
#: Record lengths by the one or two bytes of the varint that encodes them. A negative length is mapped to a length above
#: any batch size, so that the record does not fit.
_ONE_BYTE, _TWO_BYTES = LENGTH_TABLES[1], LENGTH_TABLES[2]
#: Values of ``compression.type`` other than "producer", which keeps batches as they are.
CODECS: Mapping[str, Codec] = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip
_ATTRIBUTES_LOW_BYTE_AT = 22
_MAX_TIMESTAMP_AT = 35
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")


class ValidatedBatch(NamedTuple):
    """A valid batch; the producer's sequence numbers and epoch are checked later."""

    data: bytes
    max_timestamp: int  #: The highest record timestamp if the records were decoded, else the header's maximum.
    changes_timestamps: bool  #: Whether the header's maximum timestamp or timestamp type must be corrected.


def validate_batch(
    data: bytes | bytearray | memoryview, config: TopicConfig, now_ms: int, *, from_client: bool = True
) -> ValidatedBatch:
    """Validate the single batch in ``data`` against the topic's config, and return it. Without ``from_client`` neither
    the header nor the records are checked further than size, checksum and codec.

    Raises:
        AppendRefused: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR or
            UNSUPPORTED_COMPRESSION_TYPE.
    """
    header = parse_batch(data)
    view = memoryview(header.data)
    if from_client and header.base_offset != 0:
        raise AppendRefused(Code.INVALID_RECORD, f"the base offset is {header.base_offset}; producers must send 0")
    if len(view) > config.max_message_bytes:
        raise AppendRefused(
            Code.MESSAGE_TOO_LARGE, f"the batch has {len(view)} bytes; max.message.bytes is {config.max_message_bytes}"
        )
    if crc32c(view[CRC_COVERS_FROM:]) != _UINT32.unpack_from(view, _CRC_AT)[0]:
        raise AppendRefused(Code.CORRUPT_MESSAGE, "the checksum in the batch header does not match the data")
    if header.codec not in CODECS.values():
        raise AppendRefused(Code.UNKNOWN_SERVER_ERROR, f"unknown compression codec {header.codec}")
    if not from_client:
        return ValidatedBatch(header.data, header.max_timestamp, False)
    _validate_header(header)
    highest = _validate_records(view, header, config, now_ms)
    changes_timestamps = highest != header.max_timestamp or header.has_log_append_time
    return ValidatedBatch(header.data, highest, changes_timestamps and not config.log_append_time)


def with_offsets(validated: ValidatedBatch, base_offset: int, leader_epoch: int, log_append_time: int | None) -> bytes:
    """Return the batch with this base offset and leader epoch. With ``log_append_time``, all records get this time.
    Without it, the header's maximum timestamp and timestamp type are corrected if necessary.
    """
    data = restamp(validated.data, base_offset, leader_epoch, log_append_time)
    if not validated.changes_timestamps:
        return data
    out = bytearray(data)
    out[_ATTRIBUTES_LOW_BYTE_AT] &= ~LOG_APPEND_TIME
    _INT64.pack_into(out, 35, validated.max_timestamp)
    _UINT32.pack_into(out, _CRC_AT, crc32c(memoryview(out)[CRC_COVERS_FROM:]))
    return bytes(out)


def recompress(data: bytes, compression_type: str) -> bytes:
    """Return the batch ``data`` in the topic's codec, a value of ``compression.type``. Return ``data`` itself if it has
    this codec, for "producer", and if a codec's Python package is missing.

    Follows Kafka's ``BrokerCompressionType``. Records stay unchanged; compression levels are ignored.
    """
    target = CODECS.get(compression_type)
    codec = data[_ATTRIBUTES_LOW_BYTE_AT] & CODEC_MASK
    if target is None or target == codec:
        return data
    body = memoryview(data)[HEADER_SIZE:]
    try:
        plain = compression.decompress(codec, body) if codec else bytes(body)
        packed = compression.compress(target, plain) if target else plain
    except compression.MissingCodecError:
        return data
    out = bytearray(data[:HEADER_SIZE]) + packed
    _INT32.pack_into(out, 8, len(out) - LOG_OVERHEAD)
    out[_ATTRIBUTES_LOW_BYTE_AT] = out[_ATTRIBUTES_LOW_BYTE_AT] & ~CODEC_MASK | target
    _UINT32.pack_into(out, _CRC_AT, crc32c(memoryview(out)[CRC_COVERS_FROM:]))
    return bytes(out)


def parse_batch(data: bytes | bytearray | memoryview) -> StoredBatch:
    """Return the single batch in the data; as in Kafka, cut off an incomplete one after it. Raises: AppendRefused."""
    view = memoryview(data)
    size = _batch_size(view)
    if size == 0 or view[16] != _MAGIC:
        raise AppendRefused(Code.INVALID_RECORD, f"the {len(view)} bytes do not begin with a complete batch of magic 2")
    if size < HEADER_SIZE:
        raise AppendRefused(Code.CORRUPT_MESSAGE, f"the batch has {size} bytes, fewer than its header")
    if _batch_size(view[size:]):
        raise AppendRefused(
            Code.INVALID_RECORD, f"{len(view) - size} bytes follow the first batch; only one is allowed"
        )
    return StoredBatch.of(data if isinstance(data, bytes) and size == len(data) else bytes(view[:size]))


def _batch_size(view: memoryview) -> int:
    """Return the size of the first batch, 0 if it is incomplete. Raises: AppendRefused."""
    if len(view) < LOG_OVERHEAD:
        return 0
    length = int.from_bytes(view[8:12], "big", signed=True)
    if length < LENGTH_MIN[0]:
        raise AppendRefused(Code.CORRUPT_MESSAGE, f"batch length {length} is below {LENGTH_MIN[0]}, the minimum")
    # With a higher length the batch size overflows Java's int, and Kafka fails with an unexpected exception.
    if length > _LENGTH_MAX:
        raise AppendRefused(Code.UNKNOWN_SERVER_ERROR, f"batch length {length} is above {_LENGTH_MAX}, the maximum")
    if len(view) < UP_TO_MAGIC:
        return 0
    if view[16] > _MAGIC:
        raise AppendRefused(Code.CORRUPT_MESSAGE, f"the magic is {view[16]}; producers must send 2")
    return LOG_OVERHEAD + length if len(view) >= LOG_OVERHEAD + length else 0


def _validate_header(header: StoredBatch) -> None:
    if not 0 < header.record_count == header.next_offset - header.base_offset:
        delta = header.last_offset - header.base_offset
        raise AppendRefused(
            Code.INVALID_RECORD, f"record count {header.record_count} does not match last offset delta {delta}"
        )
    if header.is_control:
        raise AppendRefused(Code.INVALID_RECORD, "the batch is a control batch; clients may not write these")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise AppendRefused(
            Code.INVALID_RECORD, f"sequence number {header.base_sequence} of producer {header.producer_id} is negative"
        )


def _validate_records(view: memoryview, header: StoredBatch, config: TopicConfig, now_ms: int) -> int:
    """Validate the records; return their highest timestamp, or that in the header if they are not decoded."""
    checks_each = config.compact or config.message_timestamp_before_max_ms < now_ms
    try:
        if header.record_count <= RECORDS_READ_MAX or checks_each:
            (batch,), _ = split(view)
            found = columns.decode(batch, _body(view, header))
            keys: Sequence[bytes | None] = found.keys
            timestamps: Sequence[int] = found.timestamps
        else:
            _follow_lengths(_body(view, header), header.record_count)
            keys, timestamps = (), (header.max_timestamp,)
    except compression.MissingCodecError as exc:
        if checks_each:
            raise AppendRefused(Code.UNSUPPORTED_COMPRESSION_TYPE, str(exc)) from None
        # The topic's config needs no check of the records, so the broker need not decompress the batch.
        return header.max_timestamp
    except Malformed as exc:
        raise AppendRefused(Code.INVALID_RECORD, str(exc)) from None
    except compression.CodecError as exc:
        # In Kafka the codec raises an IOException, which the client gets as UNKNOWN_SERVER_ERROR, too.
        raise AppendRefused(Code.UNKNOWN_SERVER_ERROR, str(exc)) from None
    _validate_fields(keys, timestamps, config, now_ms, header.has_log_append_time)
    return max(timestamps)


def _body(view: memoryview, header: StoredBatch) -> bytes:
    body = view[HEADER_SIZE:]
    return compression.decompress(header.codec, body) if header.codec else bytes(body)


def _follow_lengths(data: bytes, count: int) -> None:
    """Check that the lengths of ``count`` records add up to the length of ``data``. Raises: Malformed."""
    size = len(data)
    if count * columns.RECORD_SIZE_MIN > size:
        raise Malformed(f"the batch header has a count of {count} records, which cannot fit into {size} bytes")
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
                    raise Malformed("a record has a negative length")
                pos += length
    except IndexError:
        raise Malformed(f"the {count} records of the batch exceed its {size} bytes") from None
    if pos != size:
        raise Malformed(f"the {count} records have {pos} bytes, but the batch has {size} bytes of records")


def _validate_fields(
    keys: Sequence[bytes | None], timestamps: Sequence[int], config: TopicConfig, now_ms: int, has_log_append_time: bool
) -> None:
    """Reject the batch if single records have invalid keys or timestamps. Raises: AppendRefused."""
    errors: dict[int, str] = {}
    code = Code.INVALID_RECORD
    for at, timestamp in enumerate(timestamps):
        if _is_out_of_range(timestamp, config, now_ms, has_log_append_time):
            code = Code.INVALID_TIMESTAMP
            errors[at] = f"timestamp {timestamp} is not allowed by the topic's config at broker time {now_ms}"
    if config.compact and None in keys:
        # Kafka checks the key first: a record without a key has no other error.
        errors |= {at: "records of a compacted topic need a key" for at, key in enumerate(keys) if key is None}
        if not any(text.startswith("timestamp") for text in errors.values()):
            code = Code.INVALID_RECORD
    if errors:
        raise AppendRefused(code, f"{len(errors)} records are invalid", sorted(errors.items())[:RECORD_ERRORS_MAX])


def _is_out_of_range(timestamp: int, config: TopicConfig, now_ms: int, has_log_append_time: bool) -> bool:
    """Return whether a record's timestamp is outside the topic's limits.

    With LogAppendTime in the topic's config, and for timestamp -1, there are no limits, but a producer must not set
    LogAppendTime in the batch: only brokers may.
    """
    if config.log_append_time:
        return has_log_append_time
    if timestamp == -1:
        return has_log_append_time
    return (
        now_ms - timestamp > config.message_timestamp_before_max_ms
        or timestamp - now_ms > config.message_timestamp_after_max_ms
    )


def restamp(batch: bytes, base_offset: int, leader_epoch: int, log_append_time: int | None = None) -> bytes:
    """Return a batch of magic 2 with the offset, leader epoch and, if given, append time that the leader assigns.

    The checksum does not cover offset and epoch, so only ``log_append_time`` requires a new checksum.
    """
    out = bytearray(batch)
    _INT64.pack_into(out, 0, base_offset)
    _INT32.pack_into(out, LOG_OVERHEAD, leader_epoch)
    if log_append_time is not None:
        out[_ATTRIBUTES_LOW_BYTE_AT] |= LOG_APPEND_TIME
        _INT64.pack_into(out, _MAX_TIMESTAMP_AT, log_append_time)
        _UINT32.pack_into(out, _CRC_AT, crc32c(memoryview(out)[CRC_COVERS_FROM:]))
    return bytes(out)
