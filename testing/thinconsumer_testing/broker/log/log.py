"""One replica's log: appends, reads and truncation, with the resulting epochs, producer state and transactions.

Follows Kafka's ``UnifiedLog``. The caller passes the leader epoch and the high watermark. The log is not divided into
segments; only ``retention``, which deletes whole segments, computes where they would end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from thinconsumer.records.batch import ControlType, RecordBatch
from thinconsumer.records.batches import split
from thinconsumer.records.builder import build_marker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from ..config import TopicConfig
from . import compaction, lookups, retention
from .batches import BatchList
from .producers import ProducerStateManager
from .stored import AppendInfo, AppendRefused, LoadedLog, StoredBatch
from .validation import recompress, restamp, validate_batch, with_offsets

if TYPE_CHECKING:
    from ..directory import PartitionFile

__all__ = ["AppendInfo", "AppendRefused", "LoadedLog", "Log", "StoredBatch"]

#: The log's file is rewritten when the deleted batches in it have more bytes than the remaining batches, and more than
#: this number of bytes.
STALE_BYTES_MAX = 1 << 20
#: A log needs compaction when its size exceeds twice the size after the last compaction by more than this number of
#: bytes.
GROWN_BYTES = 1 << 20


class LeaderEpochs(list[tuple[int, int]]):
    """The leader epochs of one log as (epoch, first offset), oldest first (KIP-101, KIP-279, KIP-320).

    Follows Kafka's ``LeaderEpochFileCache``. Both epochs and offsets are strictly ascending.
    """

    @property
    def latest(self) -> int:
        """The latest leader epoch of the log, -1 if it has none."""
        return self[-1][0] if self else -1

    def assign(self, epoch: int, start: int) -> None:
        """Add an epoch that starts at the offset ``start``, unless it is -1, or the log's latest epoch already.

        Entries with the same or a later epoch, or with the same or a later start offset, are removed.
        """
        if epoch < 0 or (self and self[-1][0] == epoch and self[-1][1] <= start):
            return
        while self and (self[-1][0] >= epoch or self[-1][1] >= start):
            self.pop()
        self.append((epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the highest epoch of the log that is not above ``epoch``, and its end offset (exclusive).

        If ``epoch`` is below all epochs of the log, return ``epoch`` with the start offset of the log's first epoch:
        its records, if any, are deleted. Return (-1, -1) if ``epoch`` is -1 or above all epochs, or there are none.
        """
        if epoch == -1 or not self:
            return -1, -1
        if epoch == self.latest:
            return epoch, log_end
        found = epoch
        for known, start in self:
            if known > epoch:
                return found, start
            found = known
        return -1, -1

    def truncate_to(self, end: int) -> None:
        """Remove the epochs that start at or after ``end``, the new log end offset."""
        while self and self[-1][1] >= end:
            self.pop()

    def start_at(self, start: int) -> None:
        """Remove the epochs that end at or before ``start``, the new log start offset. The epoch that contains this
        offset then starts there.
        """
        before = sum(first <= start for _, first in self)
        if before:
            self[:before] = [(self[before - 1][0], start)]


class Log:
    """The log of one replica; ``start_offset`` is the log start offset, ``end_offset`` the log end offset.

    ``high_watermark`` is kept for the replica, which sets it, and continues with it after a restart of its broker.
    """

    def __init__(self, tp: TopicPartition, config: TopicConfig, store: PartitionFile | None = None) -> None:
        self.tp = tp
        self.config = config
        self.high_watermark: int = 0
        self.start_offset: int = 0
        self.end_offset: int = 0
        self._batches = BatchList()
        self.epochs: LeaderEpochs = LeaderEpochs()
        self.producers: ProducerStateManager = ProducerStateManager()
        self._store: PartitionFile | None = None
        self.keeps_tombstones = False  #: Whether compaction keeps all tombstones; set before each :meth:`compact`.
        self._size_compacted = 0  #: Size in bytes after the last compaction.
        self._stored_from = 0  #: Byte position (see ``batches``) at which the log's file begins.
        if store is not None:
            self._load(store.load())
            self._store = store

    def __repr__(self) -> str:
        return (
            f"<Log {self.tp.topic}-{self.tp.partition} offsets {self.start_offset} to {self.end_offset}, "
            f"{len(self._batches)} batches, {self.size_bytes} bytes, epoch {self.epochs.latest}>"
        )

    @property
    def size_bytes(self) -> int:
        """The total size of the batches in bytes."""
        return self._batches.size

    @property
    def needs_compaction(self) -> bool:
        """Whether the log has grown enough since the last compaction to be compacted again."""
        return self.size_bytes > 2 * self._size_compacted + GROWN_BYTES

    def begin_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log end offset."""
        self.epochs.assign(epoch, self.end_offset)

    def append(
        self, data: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int, from_client: bool = True
    ) -> AppendInfo:
        """Validate one magic 2 batch as leader (see :mod:`.validation`), and append it. A batch that repeats one of its
        producer's last batches is not appended again: the result says where the log has it.

        ``from_client`` is False for batches that this broker's coordinators write; these have no sequence numbers.

        Raises:
            AppendRefused: The batch is rejected and nothing was appended.
        """
        validated = validate_batch(data, self.config, now_ms, from_client=from_client)
        if from_client and self.config.compression_type != "producer":
            validated = validated._replace(data=recompress(validated.data, self.config.compression_type))
            if len(validated.data) > self.config.max_message_bytes:  # recompression may increase the size
                size, limit = len(validated.data), self.config.max_message_bytes
                reason = f"the recompressed batch has {size} bytes; max.message.bytes is {limit}"
                raise AppendRefused(Code.MESSAGE_TOO_LARGE, reason)
        if len(validated.data) > self.config.segment_bytes:
            raise AppendRefused(
                Code.RECORD_LIST_TOO_LARGE,
                f"the batch has {len(validated.data)} bytes; segment.bytes is {self.config.segment_bytes}",
            )
        log_append_time = now_ms if self.config.log_append_time else None
        batch = StoredBatch.of(with_offsets(validated, self.end_offset, leader_epoch, log_append_time))
        if batch.producer_id >= 0:
            # For a duplicate, Kafka returns the batch's timestamp as log append time, even with CreateTime.
            repeated = self.find_repeated(batch) if from_client else None
            if repeated is not None:
                return repeated
            self.producers.check(batch, from_client)
        return self._append(batch, -1 if log_append_time is None else log_append_time)

    def find_repeated(self, batch: StoredBatch) -> AppendInfo | None:
        """Return where a batch was appended before, if it repeats one of its producer's last batches; else None."""
        seen = self.producers.duplicate_of(batch) if batch.producer_id >= 0 else None
        return None if seen is None else AppendInfo(seen.base_offset, seen.next_offset, seen.timestamp, True)

    def append_control(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a transaction marker as leader.

        Raises:
            AppendRefused: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED or KAFKA_STORAGE_ERROR; nothing was
                appended.
        """
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        data = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_offset=self.end_offset,
            leader_epoch=leader_epoch,
            timestamp=now_ms,
            coordinator_epoch=coordinator_epoch,
        )
        if self.config.log_append_time:
            data = restamp(data, self.end_offset, leader_epoch, now_ms)
        return self._append(StoredBatch.of(data), now_ms if self.config.log_append_time else -1)

    def append_stored(self, batch: StoredBatch) -> None:
        """Append a batch fetched from the leader, unchanged. An empty log may begin at any offset.

        Raises:
            ValueError: The log is not empty, and ``batch`` begins before the log end offset.
            AppendRefused: KAFKA_STORAGE_ERROR: the log's file cannot be written.
        """
        if batch.base_offset < self.end_offset and self._batches:
            raise ValueError(
                f"cannot append base offset {batch.base_offset} at log end offset {self.end_offset}: {self!r}"
            )
        self._append(batch, -1)

    def _append(self, batch: StoredBatch, log_append_time: int) -> AppendInfo:
        if self._store is not None:
            try:
                self._store.append(batch.data)
            except OSError as error:
                raise AppendRefused(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        self._add_batch(batch)
        return AppendInfo(batch.base_offset, batch.next_offset, log_append_time)

    def _add_batch(self, batch: StoredBatch) -> None:
        self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self._batches.append(batch)
        self.producers.note(batch)
        self.end_offset = batch.next_offset

    def batches_from(self, offset: int) -> Iterator[StoredBatch]:
        """Yield the batch that contains an offset and all later ones. During the iteration batches may be appended to
        the log, but not be removed from it.
        """
        return self._batches.from_offset(offset)

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Return the bytes of the batch that contains ``offset`` and of later ones that end by ``end_offset``.

        Like a slice of Kafka's log file, the last batch may be cut off at ``max_bytes``; the first one only if
        ``at_least_one`` is False.
        """
        return self._batches.read(offset, end_offset, max_bytes, at_least_one)

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        """Yield the undecoded batches with records from the offset ``start`` to below ``end``. The first and the last
        batch may also contain records outside this range.
        """
        for stored in self._batches.from_offset(start):
            if stored.base_offset >= end:
                return
            yield from split(memoryview(stored.data), self.tp)[0]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest epoch of the log that is not above ``epoch``, and its end offset (KIP-320).

        The result is (-1, -1) if the end offset of ``epoch`` is unknown; see :meth:`.LeaderEpochs.end_of`.
        """
        return self.epochs.end_of(epoch, self.end_offset)

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> lookups.TimestampedOffset | None:
        """Find the first record below ``end_offset`` with at least this timestamp; None if there is none."""
        return lookups.by_timestamp(self._batches, timestamp, self.start_offset, end_offset)

    def offset_of_max_timestamp(self, end_offset: int) -> lookups.TimestampedOffset | None:
        """Find a record below ``end_offset`` with the highest timestamp (see :func:`.lookups.of_max_timestamp`)."""
        return lookups.of_max_timestamp(self._batches, end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset, at most the high watermark.

        Every transaction with records below the last stable offset has a marker below the high watermark.
        """
        unstable = self.producers.transactions.first_unstable(high_watermark)
        if unstable is None:
            return high_watermark
        return min(max(unstable, self.start_offset), high_watermark)

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that may have batches in [``start``, ``end``)."""
        return self.producers.transactions.aborted_in(start, end)

    def open_transactions(self) -> Mapping[int, int]:
        """Return the first offset of each ongoing transaction by producer id, as a read-only view."""
        return MappingProxyType(self.producers.transactions.ongoing)

    def truncate_to(self, offset: int) -> None:
        """Remove all records from an offset on, with their epochs, producer state and transactions.

        A batch that spans the offset is removed as a whole; the log then ends at its base offset, so that the follower
        fetches the batch again.
        """
        self.epochs.truncate_to(min(offset, self.end_offset))
        if offset >= self.end_offset:
            return
        at = self._batches.index_of(offset)
        if at < len(self._batches):
            offset = min(offset, self._batches.items[at].base_offset)
            self._batches.drop_back(at)
            if self._store is not None:
                self._store.truncate(self._batches.end_position - self._stored_from)
        self.end_offset = offset
        if offset < self.start_offset:
            self._move_start(offset)
        self.epochs.truncate_to(offset)
        self.producers.rebuild(self._batches.items)

    def start_at(self, offset: int) -> None:
        """Empty the log and restart it at ``offset``, for example because the leader has deleted earlier records."""
        self._batches.replace(())
        self._stored_from = 0
        self.epochs = LeaderEpochs()
        self.producers = ProducerStateManager()
        self.end_offset = offset
        if self._store is not None:
            self._store.truncate(0)
        self._move_start(offset)

    def begin_at(self, offset: int) -> None:
        """If the log ends before ``offset``, empty it, and begin it at ``offset``, with the high watermark there."""
        if self.end_offset < offset:
            self.start_at(offset)
            self.high_watermark = offset

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset, at most to the log end offset; remove batches that are entirely below it."""
        offset = min(offset, self.end_offset)
        if offset <= self.start_offset:
            return
        self._batches.drop_front(self._batches.index_of(offset))
        self.epochs.start_at(offset)
        self.producers.transactions.forget_before(offset)
        self._move_start(offset)
        self._shrink_store()

    def apply_retention(self, now_ms: int, high_watermark: int) -> None:
        """Delete the oldest segments that exceed the topic's retention.bytes or retention.ms, if its cleanup.policy has
        "delete".
        """
        if self.config.delete:
            batches, start, end = self._batches.items, self.start_offset, self.end_offset
            self.delete_before(
                retention.retained_start_offset(batches, start, end, self.config, now_ms, high_watermark)
            )

    def compact(self, now_ms: int, high_watermark: int) -> None:
        """If the topic is compacted, run the log cleaner over the batches below the last stable offset."""
        end = self.last_stable_offset(high_watermark)
        if not self.config.compact or end <= self.start_offset:
            return
        aborted = self.producers.transactions.aborted
        retention_ms = None if self.keeps_tombstones else self.config.delete_retention_ms
        cleaned = compaction.clean(self._batches.items, self.producers, end, now_ms, retention_ms, self.start_offset)
        if self._rewrite_store(cleaned):
            self._batches.replace(cleaned)
            self._size_compacted = self.size_bytes
            self._stored_from = 0
        else:
            self.producers.transactions.aborted = aborted

    def _load(self, loaded: LoadedLog) -> None:
        view = memoryview(loaded.data)
        for batch in split(view, self.tp)[0]:
            self._add_batch(StoredBatch.of(bytes(batch.view)))
        self.end_offset = max(self.end_offset, loaded.start_offset)
        self.high_watermark = self.end_offset
        self.delete_before(loaded.start_offset)

    def _move_start(self, offset: int) -> None:
        self.start_offset = offset
        if self._store is not None:
            self._store.start_at(offset)

    def _shrink_store(self) -> None:
        stale = self._batches.start_position - self._stored_from
        is_much = self._store is not None and stale > max(STALE_BYTES_MAX, self._batches.size)
        if is_much and self._rewrite_store(self._batches.items):
            self._stored_from = self._batches.start_position

    def _rewrite_store(self, batches: Iterable[StoredBatch]) -> bool:
        """Rewrite the log's file with these batches; return False if this fails, for example on a full disk.

        The file then still has the old batches, so the caller must keep them in memory, too.
        """
        if self._store is not None:
            try:
                self._store.rewrite(batch.data for batch in batches)
            except OSError:
                return False
        return True
