"""One replica's log: appending, reading, going back, and what follows for epochs, producers and transactions.

Follows Kafka's ``UnifiedLog``. Owns no roles: whoever appends says in which leader epoch, and what is committed is
told. Segments exist only where they can be seen, in what retention deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ...records.batch import ControlType, RecordBatch, split
from ...records.builder import build_marker, restamp
from ...types import TopicPartition
from ...wire.error_codes import Code
from ..config import TopicConfig
from . import compaction, lookups, retention
from .batches import BatchList
from .epochs import LeaderEpochs
from .producers import ProducerStateManager
from .recompression import recompress
from .stored import AppendInfo, AppendRefused, LoadedLog, LogStore, StoredBatch
from .validation import validate_batch, with_offsets

__all__ = ["AppendInfo", "AppendRefused", "LoadedLog", "Log", "LogStore", "StoredBatch"]

#: A store is rewritten when what lies before the log's start is more than the rest, and more than this.
STALE_BYTES_MAX = 1 << 20
#: A log is worth compacting when it has more than doubled since it was last, and has grown by more than this.
GROWN_BYTES = 1 << 20


class Log:
    """See the module. Offsets are ints; ``start_offset`` is the first to be read, ``end_offset`` the next to be given.

    ``high_watermark`` is what this replica was told last. The log keeps it for whoever comes after a restart, and
    leaves it alone.
    """

    def __init__(self, tp: TopicPartition, config: TopicConfig, store: LogStore | None = None) -> None:
        self.tp = tp
        self.config = config
        self.high_watermark = 0
        self.start_offset = 0
        self.end_offset = 0
        self._batches = BatchList()
        self._epochs = LeaderEpochs()
        self._producers = ProducerStateManager()
        self._store: LogStore | None = None
        self._size_compacted = 0  #: Its size when it was compacted last.
        self._stored_from = 0  #: The position of the first byte that the store has.
        if store is not None:
            self._load(store.load())
            self._store = store

    def __repr__(self) -> str:
        return (
            f"<Log {self.tp.topic}-{self.tp.partition} offsets {self.start_offset} to {self.end_offset}, "
            f"{len(self._batches)} batches, {self.size_bytes} bytes, epoch {self.latest_epoch}>"
        )

    @property
    def size_bytes(self) -> int:
        """The size of all its batches."""
        return self._batches.size

    @property
    def needs_compaction(self) -> bool:
        """Whether there is much to win by compacting it (again)."""
        return self.size_bytes > 2 * self._size_compacted + GROWN_BYTES

    @property
    def latest_epoch(self) -> int:
        """The epoch of what came last, -1 when nothing is known."""
        return self._epochs.latest

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """Leader epochs and their first offsets, ascending."""
        return self._epochs.entries

    # -- appending

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins its epoch here."""
        self._epochs.assign(epoch, self.end_offset)

    def append(
        self, data: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int, from_client: bool = True
    ) -> AppendInfo:
        """Append one batch of format 2 as leader, after looking at it as brokers do (see :mod:`.checking`).

        ``from_client`` False is for coordinators, which have no sequence numbers.

        Raises:
            Refused: Nothing was appended.
        """
        validated = validate_batch(data, self.config, now_ms, from_client=from_client)
        if from_client and self.config.compression_type != "producer":
            validated = validated._replace(data=recompress(validated.data, self.config.compression_type))
            if len(validated.data) > self.config.max_message_bytes:  # it may have grown
                raise AppendRefused(Code.MESSAGE_TOO_LARGE, f"in the topic's codec it has {len(validated.data)} bytes")
        if len(validated.data) > self.config.segment_bytes:
            raise AppendRefused(
                Code.RECORD_LIST_TOO_LARGE, f"it has {len(validated.data)} bytes, more than segment.bytes"
            )
        log_append_time = now_ms if self.config.log_append_time else None
        batch = StoredBatch.of(with_offsets(validated, self.end_offset, leader_epoch, log_append_time))
        if batch.producer_id >= 0:
            seen = self._producers.duplicate_of(batch) if from_client else None
            if seen is not None:
                # Kafka tells the batch's own time, also where producers date their records.
                return AppendInfo(seen.base_offset, seen.next_offset, seen.timestamp, True)
            self._producers.check(batch, from_client)
        return self._append(batch, -1 if log_append_time is None else log_append_time)

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
        """Append the marker of a transaction's end, as leader.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED; nothing was appended.
        """
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
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
        """Append what the leader has, as follower, as it is.

        Raises:
            ValueError: Its offsets are here already.
        """
        if batch.base_offset < self.end_offset and self._batches:
            raise ValueError(f"a batch of offset {batch.base_offset} came when {self.end_offset} had to come: {self!r}")
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
        self._epochs.assign(batch.leader_epoch, batch.base_offset)
        self._batches.append(batch)
        self._producers.note(batch)
        self.end_offset = batch.next_offset

    # -- reading

    def batches_from(self, offset: int) -> Iterator[StoredBatch]:
        """Yield the batch that holds an offset and those behind it; nothing but appends may happen meanwhile."""
        return self._batches.from_offset(offset)

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Return the bytes of batches, from the one that holds ``offset`` up to ``end_offset``.

        As brokers send slices of files, the last one may be cut off at ``max_bytes``; the first one only unless
        ``at_least_one``.
        """
        return self._batches.read(offset, end_offset, max_bytes, at_least_one)

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        """Yield the batches between two offsets, to be decoded; the first and the last may reach beyond."""
        for stored in self._batches.from_offset(start):
            if stored.base_offset >= end:
                return
            yield from split(memoryview(stored.data), self.tp)[0]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest epoch up to this one, and where it ended (KIP-320); (-1, -1): unknown."""
        return self._epochs.end_of(epoch, self.end_offset)

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> lookups.TimestampedOffset | None:
        """Return the first record that is not older, below an offset, with its timestamp and leader epoch."""
        return lookups.by_timestamp(self._batches, timestamp, self.start_offset, end_offset)

    def offset_of_max_timestamp(self, end_offset: int) -> lookups.TimestampedOffset | None:
        """Return the first record with the highest timestamp of all below an offset."""
        return lookups.of_max_timestamp(self._batches, end_offset)

    # -- transactions

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return up to where read_committed reads: every transaction below is decided, by a committed marker."""
        unstable = self._producers.transactions.first_unstable(high_watermark)
        if unstable is None:
            return high_watermark
        return min(max(unstable, self.start_offset), high_watermark)

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions that may have batches between two offsets."""
        return self._producers.transactions.aborted_in(start, end)

    def open_transactions(self) -> Mapping[int, int]:
        """Return a view of the first offset of each producer's open transaction."""
        return MappingProxyType(self._producers.transactions.ongoing)

    def would_begin_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a transactional batch would be the first of its transaction here, so that its coordinator has
        to be asked; for an epoch that is over, too."""
        return self._producers.would_begin_transaction(producer_id, producer_epoch)

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, is_strict: bool, now_ms: int) -> None:
        """Its coordinator is being asked about a batch; none with a higher sequence number may come before it.

        ``is_strict``: nor any but the first, 0, where the producer is not known.
        """
        self._producers.start_verification(producer_id, epoch, sequence, is_strict=is_strict, now_ms=now_ms)

    def expire_producers(self, now_ms: int, after_ms: int) -> None:
        """Forget producers that have not written for so long."""
        self._producers.expire(now_ms, after_ms)

    # -- losing

    def truncate_to(self, offset: int) -> None:
        """Give up everything from an offset on, and whatever followed from it.

        A batch across the offset goes as a whole, and the log then ends where it began, so that it can be copied anew.
        """
        self._epochs.truncate_to(min(offset, self.end_offset))
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
        self._epochs.truncate_to(offset)
        self._producers.rebuild(self._batches.items)

    def start_at(self, offset: int) -> None:
        """Give up everything, and go on at an offset: the leader has deleted what comes before."""
        self._batches.replace(())
        self._stored_from = 0
        self._epochs = LeaderEpochs()
        self._producers = ProducerStateManager()
        self.end_offset = offset
        if self._store is not None:
            self._store.truncate(0)
        self._move_start(offset)

    def delete_before(self, offset: int) -> None:
        """Move the start up to an offset, not beyond the end; batches that lie before it as a whole go."""
        offset = min(offset, self.end_offset)
        if offset <= self.start_offset:
            return
        self._batches.drop_front(self._batches.index_of(offset))
        self._epochs.start_at(offset)
        self._producers.transactions.forget_before(offset)
        self._move_start(offset)
        self._shrink_store()

    def apply_retention(self, now_ms: int, high_watermark: int) -> None:
        """Delete whole segments that are older, or more, than the topic keeps."""
        if self.config.delete:
            self.delete_before(
                retention.retained_start_offset(self._batches.items, self.config, now_ms, high_watermark, self)
            )

    def compact(self, now_ms: int, high_watermark: int) -> None:
        """Clean what is committed and decided, all of it, if the topic is compacted at all."""
        end = self.last_stable_offset(high_watermark)
        if not self.config.compact or end <= self.start_offset:
            return
        aborted = self._producers.transactions.aborted
        cleaned = compaction.clean(
            self._batches.items, self._producers, end, now_ms, self.config.delete_retention_ms, self.start_offset
        )
        if self._rewrite_store(cleaned):
            self._batches.replace(cleaned)
            self._size_compacted = self.size_bytes
            self._stored_from = 0
        else:
            self._producers.transactions.aborted = aborted

    # -- the store

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
        """Let the store keep these instead; return False if it cannot: it has what it had then, and so must we."""
        if self._store is not None:
            try:
                self._store.rewrite(batch.data for batch in batches)
            except OSError:
                return False  # no room; it will be tried again
        return True
