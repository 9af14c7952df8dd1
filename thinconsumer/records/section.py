"""The records section of a batch, to be written to another log without being decoded.

A section keeps its codec, the timestamps and the order of its records. The header before it, with the checksum and the
sequence numbers of the producer that writes it, is made anew. A leader that keeps the codec and the create times
(``compression.type=producer``, ``message.timestamp.type=CreateTime``) stores the section byte for byte.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import overload

from ..types import ConsumerRecord
from .batch import HEADER_SIZE, RecordBatch
from .builder import NewRecord, build_batch, frame_records
from .raw_batch import RawBatch


class Reencoded(enum.Enum):
    """Why a batch is encoded again: a leader would reject its section, or consumers would read other records."""

    COMPACTED = "compacted"  #: Compaction has rewritten the batch. Mostly its offsets have gaps: a leader rejects them.
    OLD_FORMAT = "old format"  #: Produce requests accept format 2 only.
    APPEND_TIME = "log append time"  #: The records' own timestamps are not those that consumers of the batch see.
    PARTIAL = "begun inside"  #: The position was inside the batch: records below it must not be written again.


class RecordSection(Sequence[NewRecord]):
    """The records of one batch in their encoded form. They are decoded only if one of them is accessed."""

    __slots__ = ("_base_timestamp", "_count", "_decoded", "_max_timestamp", "codec", "data")

    def __init__(self, batch: RecordBatch) -> None:
        """``batch`` has format 2, create times, no delete horizon, and no gaps in its offsets."""
        #: A copy: a slice would keep the memory of a whole response until the batch is acknowledged.
        self.data: bytes = bytes(batch.view[HEADER_SIZE:])
        self.codec: int = batch.codec
        self._count = batch.count
        self._base_timestamp, self._max_timestamp = batch.base_timestamp, batch.max_timestamp
        self._decoded: list[NewRecord] | None = None

    @classmethod
    def of(cls, batch: RawBatch) -> tuple[RecordSection | None, Reencoded | None]:
        """Return the section to write for a batch (None if no record is left), and why it was encoded again, if so.

        A transactional batch is written without its transactional attribute, so pass committed batches only.

        Raises:
            CorruptRecordError: the batch has to be decoded, and cannot be.
            UnsupportedCodecError: the batch has to be decoded, and its codec is unknown, or not installed.
        """
        reason = _reason(batch)
        if reason is None:
            return cls(batch._header), None
        records = _to_write(batch.decode())
        return (cls._encoded(records, batch._header.codec) if records else None), reason

    @classmethod
    def _encoded(cls, records: Sequence[NewRecord], codec: int) -> RecordSection:
        return cls(RecordBatch(memoryview(build_batch(records, codec=codec))))

    def encode(self, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
        """Return the batch with a new header."""
        return frame_records(
            self.data,
            self._count,
            attributes=self.codec,
            last_offset_delta=self._count - 1,
            timestamps=(self._base_timestamp, self._max_timestamp),
            producer=(producer_id, producer_epoch, base_sequence),
        )

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> NewRecord: ...

    @overload
    def __getitem__(self, index: slice) -> RecordSection: ...

    def __getitem__(self, index: int | slice) -> NewRecord | RecordSection:
        """Return a record, or a section of some records; the first access decodes all. Raises as :meth:`of`."""
        if self._decoded is None:
            self._decoded = _to_write(RecordBatch(memoryview(self.encode(-1, -1, -1))).decode("", -1))
        if isinstance(index, slice):
            return self._encoded(self._decoded[index], self.codec)
        return self._decoded[index]


def _to_write(records: Iterable[ConsumerRecord[bytes | None, bytes | None]]) -> list[NewRecord]:
    return [NewRecord(record.value, record.key, record.headers, record.timestamp) for record in records]


def _reason(batch: RawBatch) -> Reencoded | None:
    if batch.magic < 2:
        return Reencoded.OLD_FORMAT
    if batch.is_compacted:
        return Reencoded.COMPACTED
    if batch.timestamp_type == 1:
        return Reencoded.APPEND_TIME
    if batch.start > batch.base_offset:
        return Reencoded.PARTIAL
    return None
