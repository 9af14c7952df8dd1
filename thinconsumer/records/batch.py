"""Split a partition's bytes into batches, check their checksums, and decode one batch at a time.

Follows Kafka's ``ByteBufferLogInputStream`` (splitting), ``DefaultRecordBatch`` and ``AbstractLegacyRecordBatch``
(headers). Splitting reads headers only, so that the next Fetch request can be sent before anything is decompressed. A
response may begin with batches that end at or before the fetch offset: the caller skips them.
"""

from __future__ import annotations

import enum
import zlib
from struct import Struct

from ..errors import CorruptRecordError, UnsupportedCodecError
from ..types import ConsumerRecord, TopicPartition
from . import checksum, columns, compression, legacy, rows
from .columns import Columns, Malformed

__all__ = ["HEADER_SIZE", "ControlType", "RecordBatch", "info", "split"]

#: The fields of a batch header in format 2: base offset, length, leader epoch, magic, CRC, attributes, last offset
#: delta, base and max timestamp, producer id and epoch, base sequence, record count.
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
#: The first fields of a message in formats 0 and 1: offset, length, CRC, magic, attributes. Length and magic are at the
#: same positions as in format 2.
LEGACY_HEADER = Struct(">qiIbb")
OFFSET_AND_LENGTH = Struct(">qi")
TIMESTAMP = Struct(">q")
LOG_OVERHEAD = 12
CRC_COVERS_FROM = 21
LEGACY_CRC_COVERS_FROM = 16
#: By message format (magic): the minimum of the header's length field. A header with a lower length is corrupt.
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_SIZE - LOG_OVERHEAD}
#: A header with a base offset from this one on is corrupt: its last offset plus one could exceed 64 bits.
OFFSET_MAX = 2**63 - 2**32
UNKNOWN_PARTITION = TopicPartition("", -1)

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class ControlType(enum.IntEnum):
    """The type of a control record. UNKNOWN stands for all other types, which are in KRaft's internal topics only."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


class RecordBatch:
    """A batch's decoded header and its bytes, not yet checked, decompressed or decoded.

    In formats 0 and 1, each message is a batch with a ``count`` of 1. If the message is compressed and contains others,
    its header has only the offset of the last of these, which is then the ``base_offset``.
    """

    __slots__ = (
        "at",
        "attributes",
        "base_offset",
        "base_timestamp",
        "count",
        "crc",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "next_offset",
        "producer_epoch",
        "producer_id",
        "size",
        "source",
        "view",
    )

    base_offset: int  #: The offset of the first record when written; compaction may have removed that record.
    next_offset: int  #: The offset after the batch's last one, also if compaction has removed all its records.
    size: int  #: Size in bytes, with the header.
    leader_epoch: int  #: The epoch of the leader that appended the batch; -1 if unknown.
    magic: int  #: Message format: 0, 1 or 2.
    crc: int
    attributes: int
    #: The time to which the records' timestamp deltas are added. In a batch rewritten by compaction, the delete horizon
    #: may replace it (KIP-534).
    base_timestamp: int
    max_timestamp: int
    producer_id: int  #: The id of an idempotent or transactional producer; -1 for other producers.
    producer_epoch: int
    count: int  #: Number of records according to the header.
    view: memoryview  #: The batch's bytes; keeps the memory of the whole response alive.
    source: memoryview  #: The partition's bytes in the response, which contain this batch.
    at: int  #: The index of the batch's first byte in ``source``.

    def __init__(
        self, view: memoryview, base_offset: int, next_offset: int, leader_epoch: int, magic: int, crc: int,
        attributes: int, base_timestamp: int, max_timestamp: int, producer_id: int, producer_epoch: int, count: int,
        source: memoryview, at: int,
    ) -> None:  # fmt: skip
        self.view = view
        self.source = source
        self.at = at
        self.size = len(view)
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.count = count

    @property
    def codec(self) -> int:
        """The :class:`~.compression.Codec` of the records, or the number of an unknown codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record, such as a transaction's commit or abort marker."""
        return self.magic == 2 and self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.magic == 2 and self.attributes & TRANSACTIONAL != 0

    @property
    def timestamp_type(self) -> int:
        """The type of the timestamps: 0 for CreateTime, 1 for LogAppendTime, -1 for none (format 0)."""
        if self.magic == 0:
            return -1
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    def __repr__(self) -> str:
        return (
            f"<RecordBatch offsets {self.base_offset}..{self.next_offset - 1}, magic {self.magic}, codec {self.codec}, "
            f"{self.count} records, {self.size} bytes, leader epoch {self.leader_epoch}"
            f"{', transactional' * self.is_transactional}{', control' * self.is_control}>"
        )

    def decode(
        self,
        topic: str,
        partition: int,
        check_crcs: bool = True,
        *,
        start: int = 0,
        decompressed_bytes_max: int = compression.DECOMPRESSED_BYTES_MAX,
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return all records from offset ``start`` on; none for a control batch.

        Raises: CorruptRecordError, UnsupportedCodecError; nothing else, even for hostile bytes.
        """
        found = self.columns(topic, partition, check_crcs, decompressed_bytes_max=decompressed_bytes_max)
        if found is None:
            return []
        return rows.build(topic, partition, self.leader_epoch, self.timestamp_type, found, start)

    def columns(
        self,
        topic: str = "",
        partition: int = -1,
        check_crcs: bool = True,
        *,
        decompressed_bytes_max: int = compression.DECOMPRESSED_BYTES_MAX,
    ) -> Columns | None:
        """Return the records as one sequence per field; None for a control batch. Raises as :meth:`decode`."""
        if check_crcs:
            self.check_crc(topic, partition)
        if self.attributes & CONTROL and self.is_control:
            return None
        return self._decode(topic, partition, check_crcs, decompressed_bytes_max)

    def check_crc(self, topic: str = "", partition: int = -1) -> None:
        """Verify the checksum; raise CorruptRecordError if it is wrong."""
        if self.magic == 2:
            computed = checksum.crc32c(self.view[CRC_COVERS_FROM:])
        else:
            computed = zlib.crc32(self.view[LEGACY_CRC_COVERS_FROM:])
        if computed != self.crc:
            raise self._corrupt(topic, partition, f"the checksum is {computed:#010x}, the header has {self.crc:#010x}")

    def control_type(self, topic: str = "", partition: int = -1, check_crcs: bool = True) -> ControlType | None:
        """Return a control batch's type; None for other batches and for an empty one. Raises as :meth:`decode`."""
        if not self.is_control:
            return None
        if check_crcs:
            self.check_crc(topic, partition)
        keys = self._decode(topic, partition, check_crcs, compression.DECOMPRESSED_BYTES_MAX).keys
        if not keys:
            return None
        key = keys[0]
        if key is None or len(key) < 4 or key[0] & 0x80:
            raise self._corrupt(topic, partition, f"the control record has the malformed key {key!r}")
        kind = int.from_bytes(key[2:4], "big", signed=True)
        return ControlType(kind) if kind in (0, 1) else ControlType.UNKNOWN

    def _decode(self, topic: str, partition: int, check_crcs: bool, limit: int) -> Columns:
        try:
            if self.magic < 2:
                return legacy.decode(self, check_crcs, limit)
            body = self.view[HEADER_SIZE:]
            codec = self.attributes & CODEC_MASK
            data = compression.decompress(codec, body, limit) if codec else bytes(body)
            return columns.decode(self, data)
        except compression.MissingCodecError as exc:
            where = TopicPartition(topic, partition)
            raise UnsupportedCodecError(
                f"cannot decompress the batch at {topic}-{partition}, offsets {self.base_offset} to "
                f"{self.next_offset - 1}: {exc}",
                where, self.base_offset, self.next_offset, codec=exc.codec, extra=exc.extra,
            ) from exc  # fmt: skip
        except (Malformed, compression.CodecError) as exc:
            raise self._corrupt(topic, partition, str(exc)) from exc

    def _corrupt(self, topic: str, partition: int, what: str) -> CorruptRecordError:
        return CorruptRecordError(
            f"corrupt batch in {topic}-{partition}, offsets {self.base_offset} to {self.next_offset - 1}: {what}; "
            f"seek to {self.next_offset} to continue after it",
            TopicPartition(topic, partition),
            self.base_offset,
            self.next_offset,
        )


def split(
    view: memoryview, partition: TopicPartition = UNKNOWN_PARTITION, low: int = 0, high: int = OFFSET_MAX
) -> tuple[list[RecordBatch], CorruptRecordError | None]:
    """Split a partition's bytes in a Fetch response into batches, reading headers only.

    Returns the batches and either None or the error for a corrupt header, to be raised after the batches before it are
    consumed. The error's ``offset`` and ``next_offset`` lie between ``low`` (the fetch offset) and ``high`` (the log
    end); otherwise skipping a corrupt header could move the position to any offset that the header claims.

    An incomplete batch at the end is no error, because a broker cuts off the last batch where the response reaches its
    maximum size. But a broker sends at least one whole batch (KIP-74), so the caller must treat a non-empty response
    without a whole batch as corrupt.
    """
    batches: list[RecordBatch] = []
    end = len(view)
    pos = 0
    unpack = HEADER.unpack_from
    while True:
        while end - pos >= HEADER_SIZE:
            (
                base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
                base_timestamp, max_timestamp, producer_id, producer_epoch, _, count,
            ) = unpack(view, pos)  # fmt: skip
            stop = pos + LOG_OVERHEAD + length
            if magic != 2 or length < 49 or stop > end or last_offset_delta < 0 or not 0 <= base_offset < OFFSET_MAX:
                break
            batch = RecordBatch(
                view[pos:stop], base_offset, base_offset + last_offset_delta + 1, leader_epoch, 2, crc, attributes,
                base_timestamp, max_timestamp, producer_id, producer_epoch, count, view, pos,
            )  # fmt: skip
            batches.append(batch)
            pos = stop
        if end - pos < LOG_OVERHEAD:
            return batches, None
        other, problem = _legacy_or_incomplete(view, pos)
        if problem:
            expected = batches[-1].next_offset if batches else low
            return batches, _corrupt_header(view, pos, max(expected, low), high, partition, problem)
        if other is None:
            return batches, None
        batches.append(other)
        pos += other.size


def _legacy_or_incomplete(view: memoryview, pos: int) -> tuple[RecordBatch | None, str]:
    """Parse the batch at ``pos``, which :func:`split` could not read as a complete, valid batch of format 2.

    Returns a batch and an empty text for a batch of format 0 or 1, None and an empty text for an incomplete batch of
    any format, and None and the error's text for a corrupt header.
    """
    left = len(view) - pos
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    size = LOG_OVERHEAD + length
    if offset == -1 and size > left:  # end of a response down-converted by an old broker: not corrupt
        return None, ""
    if length < LENGTH_MIN[0]:
        return None, f"its length is {length}, below the minimum of {LENGTH_MIN[0]}"
    if left < LEGACY_HEADER.size:
        return None, ""
    magic = view[pos + 16]
    if magic not in LENGTH_MIN:
        return None, f"its magic is {magic}, not 0, 1 or 2"
    if length < LENGTH_MIN[magic]:
        return None, f"its length is {length}, below the minimum of {LENGTH_MIN[magic]} for magic {magic}"
    if size > left:
        return None, ""
    if magic == 2 or not 0 <= offset < OFFSET_MAX:
        return None, f"its base offset {offset} or its last offset delta is out of range"
    _, _, crc, _, attributes = LEGACY_HEADER.unpack_from(view, pos)
    timestamp = TIMESTAMP.unpack_from(view, pos + LEGACY_HEADER.size)[0] if magic else -1
    batch = RecordBatch(
        view[pos : pos + size], offset, offset + 1, -1, magic, crc, attributes, timestamp, timestamp, -1, -1, 1,
        view, pos,
    )  # fmt: skip
    return batch, ""


def _corrupt_header(
    view: memoryview, pos: int, low: int, high: int, partition: TopicPartition, problem: str
) -> CorruptRecordError:
    """Return the error for the corrupt batch header at byte ``pos``.

    The error's ``next_offset`` is the base offset of the batch after the corrupt one, if that batch can be found;
    otherwise the corrupt batch's base offset plus 1.
    """
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    if not low <= offset < high:
        offset = low
    next_offset = offset + 1
    after = pos + LOG_OVERHEAD + length
    if length > 0 and after + LEGACY_HEADER.size <= len(view):
        # The corrupt header's length says where the next batch begins, but may itself be corrupt. So the bytes there
        # count as a batch only if their offset, length and magic are plausible.
        following, length = OFFSET_AND_LENGTH.unpack_from(view, after)
        magic = view[after + 16]
        if offset < following < high and length >= LENGTH_MIN.get(magic, 2**31):
            next_offset = following
    return CorruptRecordError(
        f"corrupt batch header in {partition.topic}-{partition.partition} at offset {offset}, byte {pos} of "
        f"{len(view)}: {problem}",
        partition,
        offset,
        next_offset,
    )


def info() -> dict[str, str]:
    """Return the implementations of decoding, checksums and codecs, for the log."""
    from importlib.metadata import PackageNotFoundError, version  # takes 30 ms

    try:
        rows = f"many batches at once, by numpy {version('numpy')}"
    except PackageNotFoundError:
        rows = "one batch at a time, in pure Python; faster with numpy: pip install 'thinconsumer[fast]'"
    return {"rows": rows, "crc32c": checksum.describe(), **compression.available()}
