"""The data types of a log: a stored batch, the result of an append, and the contents of a log's file.

A :class:`StoredBatch` is immutable and never copied: followers share the objects of their leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thinconsumer.records.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER, LOG_APPEND_TIME, TRANSACTIONAL

SEQUENCE_MAX = 2**31 - 1


class AppendRefused(Exception):
    """A log rejects a batch, with Kafka's error code and the reason.

    ``record_errors`` has the index in the batch and the error of invalid records, if single records are the reason.
    """

    def __init__(self, code: int, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message, record_errors)
        self.code = int(code)
        self.message = message
        self.record_errors = record_errors

    def __str__(self) -> str:
        return f"error {self.code}: {self.message}"


class AppendInfo(NamedTuple):
    """The result of an append: the batch's first offset, the offset after its last one, and the time of the append."""

    base_offset: int
    next_offset: int
    #: The time of the append with LogAppendTime, -1 with CreateTime. For a duplicate always the batch's highest
    #: timestamp.
    log_append_time_ms: int
    duplicate: bool = False  #: Whether the batch was in the log already; the offsets are then those in the log.


class StoredBatch(NamedTuple):
    """A batch in a log: the header fields that the log uses, and all bytes of the batch."""

    base_offset: int
    next_offset: int
    max_timestamp: int
    leader_epoch: int
    data: bytes
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    base_timestamp: int

    @classmethod
    def of(cls, data: bytes) -> StoredBatch:
        """Return the batch with the fields of its header parsed; nothing is validated."""
        (
            base_offset, _, leader_epoch, _, _, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
        ) = HEADER.unpack_from(data)  # fmt: skip
        return cls(
            base_offset, base_offset + last_offset_delta + 1, max_timestamp, leader_epoch, data, attributes,
            producer_id, producer_epoch, base_sequence, count, base_timestamp,
        )  # fmt: skip

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, with its records or as its marker."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether all records have the time of the append (LogAppendTime)."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which compaction removes the batch's tombstones or its marker (KIP-534), if it is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed it."""
        return self.next_offset - 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 if the batch has none. After 2^31 - 1 follows 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.next_offset - 1 - self.base_offset) & SEQUENCE_MAX


class LoadedLog(NamedTuple):
    """A log as read from its file: the log start offset, and the bytes of all complete batches."""

    start_offset: int = 0
    data: bytes = b""
