"""Finding the batches in a partition's bytes, checking them, and turning one at a time into rows.

Follows Kafka's ``ByteBufferLogInputStream`` (walking), ``DefaultRecordBatch`` and ``AbstractLegacyRecordBatch``
(headers). Walking reads headers only, so that the next fetch can leave before anything is decompressed. Knows nothing
of positions: whoever walks skips batches whose ``next_offset`` is not above its own.
"""

from __future__ import annotations

import enum
import zlib
from struct import Struct

import crc32c as _crc32c

from ..errors import CorruptRecordError, UnsupportedCodecError
from ..types import ConsumerRecord, TopicPartition
from . import columns, compression, legacy, rows
from .columns import Columns, Malformed

__all__ = ["HEADER_SIZE", "ControlType", "RecordBatch", "info", "split"]

crc32c = _crc32c.crc32c

#: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
#: epoch, base sequence, record count.
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
#: offset, length, CRC, magic, attributes of formats 0 and 1, which have length and magic in the same places.
LEGACY_HEADER = Struct(">qiIbb")
OFFSET_AND_LENGTH = Struct(">qi")
TIMESTAMP = Struct(">q")
LOG_OVERHEAD = 12
CRC_COVERS_FROM = 21
LEGACY_CRC_COVERS_FROM = 16
#: The smallest length each format can have. Where the magic says nothing yet, the smallest of all.
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_SIZE - LOG_OVERHEAD}
#: An offset above this would overflow in ``base_offset + last_offset_delta + 1``.
OFFSET_MAX = 2**63 - 2**32
NOWHERE = TopicPartition("", -1)

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class ControlType(enum.IntEnum):
    """What a control batch says; others (KRaft's) are for brokers only."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


class RecordBatch:
    """One batch's header, and its bytes, still to be checked, decompressed and decoded.

    In formats 0 and 1 every message is a batch; a compressed one says only its last offset, so that ``base_offset`` is
    the last record's there, and its ``count`` is 1.
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

    base_offset: int  #: The first offset it ever held; after compaction its first record may come later.
    next_offset: int  #: The position after it, whether or not it yields records.
    size: int  #: Bytes, header included.
    leader_epoch: int  #: -1 when unknown.
    magic: int  #: Message format: 0, 1 or 2.
    crc: int
    attributes: int
    base_timestamp: int  #: What records' timestamps are relative to; may be a delete horizon (KIP-534).
    max_timestamp: int
    producer_id: int  #: -1: neither idempotent nor transactional.
    producer_epoch: int
    count: int  #: Records, as the header claims.
    view: memoryview  #: All of it; pins the response's frame.
    source: memoryview  #: What it was found in, together with its neighbours, ...
    at: int  #: ... and where in there it begins.

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
        """A :class:`~.compression.Codec`, or a number nobody knows yet."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's end instead of records."""
        return self.magic == 2 and self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether its records count only once the transaction is committed."""
        return self.magic == 2 and self.attributes & TRANSACTIONAL != 0

    @property
    def timestamp_type(self) -> int:
        """0: CreateTime, 1: LogAppendTime, -1: format 0 has none."""
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
        """All its records at once, those below offset ``start`` left out; none for a control batch.

        Raises: CorruptRecordError, UnsupportedCodecError; nothing else, whatever the bytes are.
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
        """Its records as columns; None for a control batch, whose marker :meth:`control_type` tells.

        Raises: as :meth:`decode`.
        """
        if check_crcs:
            self.check_crc(topic, partition)
        if self.is_control:
            return None
        return self._decode(topic, partition, check_crcs, decompressed_bytes_max)

    def check_crc(self, topic: str = "", partition: int = -1) -> None:
        """Compare the bytes with their checksum.

        Raises: CorruptRecordError.
        """
        if self.magic == 2:
            computed = crc32c(self.view[CRC_COVERS_FROM:])
        else:
            computed = zlib.crc32(self.view[LEGACY_CRC_COVERS_FROM:])
        if computed != self.crc:
            raise self._corrupt(topic, partition, f"its checksum is {computed:#010x}, its header says {self.crc:#010x}")

    def control_type(self, topic: str = "", partition: int = -1, check_crcs: bool = True) -> ControlType | None:
        """What a control batch says, None for any other batch or an empty one.

        Raises: as :meth:`decode`.
        """
        if not self.is_control:
            return None
        if check_crcs:
            self.check_crc(topic, partition)
        keys = self._decode(topic, partition, check_crcs, compression.DECOMPRESSED_BYTES_MAX).keys
        if not keys:
            return None
        key = keys[0]
        if key is None or len(key) < 4 or key[0] & 0x80:
            raise self._corrupt(topic, partition, f"its control record has the key {key!r}")
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
            f"seek to {self.next_offset} to go on behind it",
            TopicPartition(topic, partition),
            self.base_offset,
            self.next_offset,
        )


def split(
    view: memoryview, partition: TopicPartition = NOWHERE, low: int = 0, high: int = OFFSET_MAX
) -> tuple[list[RecordBatch], CorruptRecordError | None]:
    """The batches in a partition's bytes of a Fetch response, by their headers alone, and what stopped the walk.

    The second value is None, or an error to raise once the batches before it have been used up: a header that cannot
    be. Its ``offset`` is where the broken batch must begin; ``low`` and ``high`` (where the fetch began, where the log
    ends) bound what a broken header is believed about that, or skipping it would jump to wherever it says.

    Bytes at the end that are not a whole batch are no error: brokers cut the last one off; when nothing at all comes
    out of a non-empty answer, that is the caller's to notice.
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
        other, problem = _not_plain(view, pos)
        if problem:
            first = batches[-1].next_offset if batches else low
            return batches, _bad_header(view, pos, max(first, low), high, partition, problem)
        if other is None:
            return batches, None
        batches.append(other)
        pos += other.size


def _not_plain(view: memoryview, pos: int) -> tuple[RecordBatch | None, str]:
    """What is not a whole batch of format 2: one of an old format, a cut-off end (None), or nonsense (and what)."""
    left = len(view) - pos
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    size = LOG_OVERHEAD + length
    if offset == -1 and size > left:  # an old broker fills up a down-converted answer like this
        return None, ""
    if length < LENGTH_MIN[0]:
        return None, f"a length of {length} bytes"
    if left < LEGACY_HEADER.size:
        return None, ""
    magic = view[pos + 16]
    if magic not in LENGTH_MIN:
        return None, f"magic {magic}, where 0, 1 and 2 are known"
    if length < LENGTH_MIN[magic]:
        return None, f"a length of {length} bytes, too few for magic {magic}"
    if size > left:
        return None, ""
    if magic == 2 or not 0 <= offset < OFFSET_MAX:
        return None, f"impossible offsets, beginning with {offset}"
    _, _, crc, _, attributes = LEGACY_HEADER.unpack_from(view, pos)
    timestamp = TIMESTAMP.unpack_from(view, pos + LEGACY_HEADER.size)[0] if magic else -1
    batch = RecordBatch(
        view[pos : pos + size], offset, offset + 1, -1, magic, crc, attributes, timestamp, timestamp, -1, -1, 1,
        view, pos,
    )  # fmt: skip
    return batch, ""


def _bad_header(
    view: memoryview, pos: int, low: int, high: int, partition: TopicPartition, problem: str
) -> CorruptRecordError:
    """The error for a header that cannot be; the offset after it is the next header's, where that can be told."""
    offset, length = OFFSET_AND_LENGTH.unpack_from(view, pos)
    if not low <= offset < high:
        offset = low
    next_offset = offset + 1
    after = pos + LOG_OVERHEAD + length
    if length > 0 and after + LEGACY_HEADER.size <= len(view):
        # Believed only if a header seems to stand there: this one's length may be what is broken.
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
    """Which implementations checksums and codecs run on, for support questions and ``Consumer.health()``."""
    native = "native, in hardware" if _crc32c.hardware_based else "native, in software"
    return {"crc32c": f"{native} (crc32c {_crc32c.__version__})", **compression.available()}
