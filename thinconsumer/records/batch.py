"""Read the header of a batch, check its checksum, and decode it.

Follows Kafka's ``DefaultRecordBatch`` and ``AbstractLegacyRecordBatch``. :mod:`.batches` finds the batches.
"""

from __future__ import annotations

import enum
import zlib
from struct import Struct

from ..errors import CorruptRecordError, UnsupportedCodecError
from ..types import ConsumerRecord, TopicPartition
from . import checksum, columns, compression, legacy, rows
from .columns import Columns
from .varints import Malformed

#: The fields of a batch header in format 2: base offset, length, leader epoch, magic, CRC, attributes, last offset
#: delta, base and max timestamp, producer id and epoch, base sequence, record count.
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
#: The fields of a header in format 2 that the checksum covers: those after the checksum.
COVERED = Struct(">hiqqqhii")
#: The first fields of a message in formats 0 and 1: offset, length, CRC, magic, attributes. Length and magic are at the
#: same positions as in format 2.
LEGACY_HEADER = Struct(">qiIbb")
LOG_OVERHEAD = 12
CRC_COVERS_FROM = 21
LEGACY_CRC_COVERS_FROM = 16
#: By message format (magic): the minimum of the header's length field. A header with a lower length is corrupt.
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_SIZE - LOG_OVERHEAD}
MAGIC_AT = 16
#: A header with a base offset from this one on is corrupt: its last offset plus one could exceed 64 bits.
OFFSET_MAX = 2**63 - 2**32

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: The base timestamp is a delete horizon (KIP-534), by which compaction has replaced the original timestamp.
DELETE_HORIZON = 0x40


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
        "attributes", "base_offset", "base_timestamp", "count", "crc", "leader_epoch", "magic", "max_timestamp",
        "next_offset", "producer_epoch", "producer_id", "size", "timestamp_type", "view",
    )  # fmt: skip

    base_offset: int  #: In format 2, the offset of the first record when written, which compaction may have removed.
    next_offset: int  #: The offset after the batch's last one, also if compaction has removed all its records.
    size: int  #: Size in bytes, with the header.
    leader_epoch: int  #: The epoch of the leader that appended the batch; -1 if unknown.
    magic: int  #: Message format: 0, 1 or 2.
    crc: int
    attributes: int
    base_timestamp: int  #: In format 2, the base of the records' timestamp deltas, also if it is a delete horizon.
    max_timestamp: int
    producer_id: int  #: The id of an idempotent or transactional producer; -1 for other producers.
    producer_epoch: int
    count: int  #: Number of records according to the header.
    timestamp_type: int  #: The type of the timestamps: 0 for CreateTime, 1 for LogAppendTime, -1 for none (format 0).
    view: memoryview  #: The batch's bytes; keeps the memory of the whole response alive.

    def __init__(self, view: memoryview) -> None:
        """``view`` are the bytes of the batch. The caller has checked the magic, and that a header fits into them."""
        self.view = view
        self.size = len(view)
        if view[MAGIC_AT] == 2:
            (
                self.base_offset, _, self.leader_epoch, self.magic, self.crc, self.attributes, last_offset_delta,
                self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch, _, self.count,
            ) = HEADER.unpack_from(view)  # fmt: skip
            self.next_offset = self.base_offset + last_offset_delta + 1
            self.timestamp_type = 1 if self.attributes & LOG_APPEND_TIME else 0
            return
        self.base_offset, _, self.crc, self.magic, self.attributes = LEGACY_HEADER.unpack_from(view)
        self.next_offset = self.base_offset + 1
        self.leader_epoch = self.producer_id = self.producer_epoch = -1
        self.base_timestamp = legacy.TIMESTAMP.unpack_from(view, LEGACY_HEADER.size)[0] if self.magic else -1
        self.max_timestamp = self.base_timestamp
        self.timestamp_type = (1 if self.attributes & LOG_APPEND_TIME else 0) if self.magic else -1
        self.count = 1

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

    def __repr__(self) -> str:
        return (
            f"<RecordBatch offsets {self.base_offset}..{self.next_offset - 1}, magic {self.magic}, codec {self.codec}, "
            f"{self.count} records, {self.size} bytes, leader epoch {self.leader_epoch}"
            f"{', transactional' * self.is_transactional}{', control' * self.is_control}>"
        )

    def decode(
        self, topic: str, partition: int, check_crcs: bool = True, *, start: int = 0
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return all records from offset ``start`` on; none for a control batch.

        Raises: CorruptRecordError, UnsupportedCodecError; nothing else, even for hostile bytes.
        """
        if check_crcs:
            self.check_crc(topic, partition)
        if self.attributes & CONTROL and self.is_control:
            return []
        found = self.columns(topic, partition, check_crcs)
        return rows.build(topic, partition, self.leader_epoch, self.timestamp_type, found, start)

    def columns(self, topic: str = "", partition: int = -1, check_crcs: bool = True) -> Columns:
        """Return the records, also control records, as one sequence per field. Raises as :meth:`decode`.

        The caller verifies the batch's own checksum; ``check_crcs`` is for the messages inside a compressed message.
        """
        try:
            if self.magic < 2:
                return legacy.decode(self, check_crcs)
            body = self.view[HEADER_SIZE:]
            codec = self.attributes & CODEC_MASK
            return columns.decode(self, compression.decompress(codec, body) if codec else bytes(body))
        except compression.MissingCodecError as exc:
            where = TopicPartition(topic, partition)
            raise UnsupportedCodecError(
                f"cannot decompress the batch at {topic}-{partition}, offsets {self.base_offset} to "
                f"{self.next_offset - 1}: {exc}",
                where, self.base_offset, self.next_offset, codec=exc.codec, extra=exc.extra,
            ) from exc  # fmt: skip
        except (Malformed, compression.CodecError) as exc:
            raise self.corrupt(topic, partition, str(exc)) from exc

    def is_whole(self) -> bool:
        """Return whether the checksum is right."""
        try:
            self.check_crc()
        except CorruptRecordError:
            return False
        return True

    def check_crc(self, topic: str = "", partition: int = -1) -> None:
        """Verify the checksum; raise CorruptRecordError if it is wrong."""
        if self.magic == 2:
            computed = checksum.crc32c(self.view[CRC_COVERS_FROM:])
        else:
            computed = zlib.crc32(self.view[LEGACY_CRC_COVERS_FROM:])
        if computed != self.crc:
            raise self.corrupt(topic, partition, f"the checksum is {computed:#010x}, the header has {self.crc:#010x}")

    def probable_end(self, low: int) -> int:
        """Return the offset after a batch of format 2 with a wrong checksum, at least ``low`` + 1.

        The last offset delta and the record count mostly give the same end. If one of these fields is damaged, the
        checksum is right once that field agrees with the other one. If the checksum stays wrong, the lower of the two
        ends is returned: records behind the batch must not be taken for a part of it. If neither end is possible, the
        result is ``low`` + 1.
        """
        by_delta, by_count = self.next_offset, self.base_offset + self.count
        ends = [by_delta] if by_delta == by_count else sorted((by_delta, by_count))
        if len(ends) == 2 and by_count > self.base_offset:
            for end in ends:
                size = end - self.base_offset
                fields = (self.attributes, size - 1, *HEADER.unpack_from(self.view)[7:12], size)
                if checksum.crc32c(COVERED.pack(*fields) + self.view[HEADER_SIZE:]) == self.crc:
                    ends = [end]
        return next((end for end in ends if low < end <= OFFSET_MAX), low + 1)

    def control_type(self, topic: str = "", partition: int = -1, check_crcs: bool = True) -> ControlType | None:
        """Return a control batch's type; None for other batches and for an empty one. Raises as :meth:`decode`."""
        if not self.is_control:
            return None
        if check_crcs:
            self.check_crc(topic, partition)
        keys = self.columns(topic, partition, check_crcs).keys
        if not keys:
            return None
        key = keys[0]
        if key is None or len(key) < 4 or key[0] & 0x80:
            raise self.corrupt(topic, partition, f"the control record has the malformed key {key!r}")
        kind = int.from_bytes(key[2:4], "big", signed=True)
        return ControlType(kind) if kind in (0, 1) else ControlType.UNKNOWN

    def corrupt(self, topic: str, partition: int, problem: str) -> CorruptRecordError:
        """Return an error with ``problem``, the batch's partition and its offsets."""
        return CorruptRecordError(
            f"corrupt batch in {topic}-{partition}, offsets {self.base_offset} to {self.next_offset - 1}: {problem}",
            TopicPartition(topic, partition),
            self.base_offset,
            self.next_offset,
        )


def info() -> dict[str, str]:
    """Return the implementations of decoding, checksums and codecs, for the log."""
    from importlib.metadata import PackageNotFoundError, version  # takes 30 ms

    try:
        rows = f"many batches at once, by numpy {version('numpy')}"
    except PackageNotFoundError:
        rows = "one batch at a time, in pure Python; faster with numpy: pip install 'thinconsumer[fast]'"
    return {"rows": rows, "crc32c": checksum.describe(), **compression.available()}
