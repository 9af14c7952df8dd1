"""A batch as a log keeps it, what appending one came to, and who may keep the bytes beyond this process.

A :class:`StoredBatch` is immutable and never copied: followers hold the objects that their leader holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ...records.batch import CODEC_MASK, CONTROL, HEADER, LOG_APPEND_TIME, TRANSACTIONAL
from ...records.builder import DELETE_HORIZON

SEQUENCE_MAX = 2**31 - 1


class AppendRefused(Exception):
    """The log would not take a batch: Kafka's error code, why, and which of its records are to blame, if some are."""

    def __init__(self, code: int, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message, record_errors)
        self.code = int(code)
        self.message = message
        self.record_errors = record_errors

    def __str__(self) -> str:
        return f"error {self.code}: {self.message}"


class AppendInfo(NamedTuple):
    """Where a batch went."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int = -1  #: -1 unless the topic is dated by the broker.
    duplicate: bool = False  #: It had been appended before, and nothing was appended now.


class StoredBatch(NamedTuple):
    """The header's fields that a log asks for, and all the bytes."""

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
        """Read the header of a batch whose bytes are known to be good."""
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
        """The number of what it is compressed with."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it is a marker."""
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction; markers do too."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def has_log_append_time(self) -> bool:
        """Whether all its records have the time of the append."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on its tombstones, or its marker, may go (KIP-534); None: not yet decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        """The offset of its last record, be that still there or not."""
        return self.next_offset - 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record, -1 when it has none; they go round after 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.next_offset - 1 - self.base_offset) & SEQUENCE_MAX


class LoadedLog(NamedTuple):
    """What a store has kept: whole batches back to back, and where the log began."""

    start_offset: int = 0
    data: bytes = b""


class LogStore(Protocol):
    """Keeps one log's bytes beyond this process. Positions count from the first byte it has."""

    def load(self) -> LoadedLog:
        """Return what was kept; asked once, before anything else."""
        ...

    def append(self, data: bytes) -> None:
        """Add a batch at the end. Raises: OSError; then it is as it was."""
        ...

    def truncate(self, size: int) -> None:
        """Keep so many bytes from the front."""
        ...

    def rewrite(self, batches: Iterable[bytes]) -> None:
        """Keep these batches instead of all there was. Raises: OSError; then it is as it was."""
        ...

    def start_at(self, offset: int) -> None:
        """Remember where the log begins; bytes before that may stay."""
        ...
