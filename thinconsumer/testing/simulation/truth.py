"""The committed contents of partitions: which records were ever committed, and which of them still count.

Owns the ground truth that checkers compare consumers with. It comes from the brokers' own logs, by watching what they
take for committed: :class:`ObservedLog` tells a :class:`Truth` whenever a replica's high watermark moves, a leader
begins its epoch, the log's start moves, or a log is compacted. A record's offset and leader epoch identify it for ever,
since one epoch has one leader. Committed records can be lost legally, by an unclean election, by retention and by
compaction: what *counts* is what an ideal reader would still find.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...broker.config import TopicConfig
from ...broker.log.log import Log
from ...records.batch import ControlType, RecordBatch
from ...types import ConsumerRecord, TopicPartition

Row = ConsumerRecord[Any, Any]
#: Offset and leader epoch.
Key = tuple[int, int]


class Truth:
    """One partition of one topic id."""

    def __init__(self, tp: TopicPartition, lost: Callable[[Truth, int, int], None]) -> None:
        """``lost(truth, offset, epoch)`` is called when what is committed from there on will be lost, by a new leader.

        At that moment it still counts; and goes on counting where that leader was deposed before it began.
        """
        self.tp = tp
        self.rows: dict[Key, Row] = {}  #: Every record that was ever committed.
        self.start = 0
        self.end = 0  #: The next offset to be committed, in what counts.
        self.records = 0
        self.epochs: list[tuple[int, int]] = []  #: Leader epochs that counted, and where each began.
        self._lost = lost
        self._leader: list[tuple[int, int]] = []  #: The epochs of the newest leader's log, its own included.
        self._rivals: list[tuple[int, int]] = []  #: Epochs that do not count, and where the leader of each parts.
        self._offsets: list[int] = []  #: Of the records that count, ascending ...
        self._epoch_of: dict[int, int] = {}  #: ... and the epoch of each.
        self._hidden: set[Key] = set()  #: Records of open and aborted transactions.
        self._revealed: set[Key] = set()  #: Records with a committed transaction, even if its marker was lost again.
        self._open: dict[int, list[Key]] = {}  #: Records of open transactions by producer.
        self._decided: list[tuple[int, int, list[Key], bool]] = []  #: Markers: offset, producer, records, commit.
        self._seen: set[Key] = set()  #: Batches by their first offset.

    # -- for checkers

    @property
    def latest_epoch(self) -> int:
        """The newest leader's, -1 before there was one."""
        return self.epochs[-1][0] if self.epochs else -1

    def counts(self, offset: int, epoch: int) -> bool:
        """Return whether this record still is what an ideal reader finds there."""
        return offset >= self.start and self._epoch_of.get(offset) == epoch

    def is_hidden(self, offset: int, epoch: int) -> bool:
        """Return whether read_committed never could see this record: its transaction is open or was aborted."""
        key = offset, epoch
        return key in self._hidden and key not in self._revealed

    def first_from(
        self, low: int, high: int, *, committed: bool, but: Mapping[int, int] = MappingProxyType({})
    ) -> int | None:
        """Return the first offset from ``low`` up to ``high`` that counts; of read_committed if ``committed``.

        ``but`` are offsets that do not, where the record there is of the epoch given.
        """
        offsets = self._offsets
        for index in range(bisect_left(offsets, max(low, self.start)), len(offsets)):
            offset = offsets[index]
            if offset >= high:
                return None
            epoch = self._epoch_of[offset]
            if (not committed or (offset, epoch) not in self._hidden) and but.get(offset) != epoch:
                return offset
        return None

    def has_open_transactions(self) -> bool:
        """Return whether records wait for a marker, so that readers of committed ones must not pass them."""
        return any(self._open.values())

    def successor(self, offset: int, epoch: int) -> int | None:
        """Return the next epoch that counts, if a record's own does not count at its offset; None: it does.

        Its leader was deposed before it wrote the record, or its whole epoch was lost.
        """
        end: int | None = None
        for own, start in reversed(self.epochs):
            if own < epoch:
                break
            if own == epoch:
                if start <= offset and (end is None or offset < end):
                    return None
                break
            end = start
        else:
            if end is None or offset < end:
                return None  # older than all that is known: it has expired
        return next((newer for newer, _ in self.epochs if newer > epoch), self.latest_epoch)

    def rival(self, offset: int, epoch: int) -> int | None:
        """Return a newer epoch that does not count, of a leader without this record, which does; None if there is none.

        That leader was deposed by one that brought the record back, or before its own election reached it. Until then
        it answers that the record is lost, which is valid (KIP-320).
        """
        return next((newer for newer, end in self._rivals if newer > epoch and end <= offset), None)

    def answer_for(self, epoch: int) -> int | None:
        """Return where an epoch ended, as the newest leader answers (KIP-320); None: it goes on, or is unknown.

        That is as exact as the protocol is: of an epoch that its log has never had it tells where the one before ended.
        """
        if epoch < 0:
            return None
        return next((start for newer, start in self._leader if newer > epoch), None)

    # -- for logs

    def begin_epoch(self, epoch: int, log: Log) -> None:
        """A leader begins: what is committed and not in its log is lost, unless a newer one leads already."""
        lost_from = self._first_not_in(log)
        if self.epochs and epoch <= self.epochs[-1][0]:
            if lost_from < self.end and epoch not in dict(self.epochs + self._rivals):
                self._rivals.append((epoch, lost_from))
                self._lost(self, lost_from, epoch)
            return
        self._leader = [*log.epochs, (epoch, log.end_offset)]
        if lost_from < self.end:
            self._forget_from(lost_from, epoch)
        # Its history is the one that counts. An epoch that it knows nothing of is no more, even if nothing was written
        # in it: what an older leader wrote alone, there or behind it, counts from now on.
        starts = dict(self.epochs)
        known = [(own, min(start, starts.get(own, start))) for own, start in log.epochs if start < log.end_offset]
        first = known[0][0] if known else epoch
        expired = [(own, start) for own, start in self.epochs if own < first and start < log.start_offset]
        self.epochs = [*expired, *known, (epoch, log.end_offset)]
        self._rivals += [(own, start) for own, start in starts.items() if own not in dict(self.epochs)]
        # An older leader that is elected again brings back what was lost while another one led.
        self.commit(log, self.end, log.high_watermark)

    def commit(self, log: Log, low: int, high: int) -> None:
        """A replica takes its batches between two offsets for committed."""
        for batch in log.read_batches(low, high):
            key = batch.base_offset, batch.leader_epoch
            is_new, is_next = key not in self._seen, batch.base_offset >= self.end and not self._is_of_zombie(batch)
            if batch.next_offset > high or not (is_new or is_next):
                continue
            rows = batch.decode(self.tp.topic, self.tp.partition, False)
            if is_new:
                self._seen.add(key)
                self.records += len(rows)
                self.rows.update(((row.offset, row.leader_epoch), row) for row in rows)
            if is_next:
                self._take(batch, rows)
            elif batch.control_type() is ControlType.COMMIT:
                # Readers of a deposed leader see the transactions that it committed.
                self._revealed.update(self._open.get(batch.producer_id, ()))

    def move_start(self, offset: int) -> None:
        """The log begins there from now on."""
        if offset > self.start:
            self.start = offset
            self.end = max(self.end, offset)

    def compacted(self, log: Log) -> None:
        """A replica was cleaned: what is not there any more does not count any more."""
        kept: set[int] = set()
        for batch in log.read_batches(log.start_offset, log.high_watermark):
            kept.update(row.offset for row in batch.decode(self.tp.topic, self.tp.partition, False))
        high = log.high_watermark
        gone = {offset for offset in self._offsets if log.start_offset <= offset < high and offset not in kept}
        if gone:
            self._offsets = [offset for offset in self._offsets if offset not in gone]
            for offset in gone:
                del self._epoch_of[offset]

    # -- inside

    def _take(self, batch: RecordBatch, rows: list[Row]) -> None:
        self.end = batch.next_offset
        for row in rows:
            self._offsets.append(row.offset)
            self._epoch_of[row.offset] = row.leader_epoch
        if batch.is_control:
            keys = self._open.pop(batch.producer_id, [])
            is_commit = batch.control_type() is ControlType.COMMIT
            if is_commit:
                self._hidden.difference_update(keys)
                self._revealed.update(keys)
            self._decided.append((batch.base_offset, batch.producer_id, keys, is_commit))
        elif batch.is_transactional:
            keys = [(row.offset, row.leader_epoch) for row in rows]
            self._hidden.update(keys)
            self._open.setdefault(batch.producer_id, []).extend(keys)

    def _is_of_zombie(self, batch: RecordBatch) -> bool:
        """Whether a leader wrote this after another one's epoch had begun before it: it will be cut off."""
        return self.successor(batch.base_offset, batch.leader_epoch) is not None

    def _first_not_in(self, log: Log) -> int:
        """Return from where on a log parts from what is committed; the end, if it has all of it."""
        for index, (epoch, start) in enumerate(self.epochs):
            stop = min(self.end, self.epochs[index + 1][1] if index + 1 < len(self.epochs) else self.end)
            if stop <= max(start, log.start_offset):
                continue
            found, end = log.end_of_epoch(epoch)
            known = any(own == epoch for own, _ in log.epochs) or (log.epochs and epoch < log.epochs[0][0])
            if found < 0 or not known:
                return min(max(start, log.start_offset), log.end_offset)
            if end < stop:
                return min(end, log.end_offset)
        return min(self.end, log.end_offset)

    def _forget_from(self, offset: int, epoch: int) -> None:
        self._lost(self, offset, epoch)  # first: checkers need the contents before the loss
        at = bisect_left(self._offsets, offset)
        for gone in self._offsets[at:]:
            key = gone, self._epoch_of.pop(gone)
            self._hidden.discard(key)
        del self._offsets[at:]
        while self._decided and self._decided[-1][0] >= offset:
            _, producer_id, keys, is_commit = self._decided.pop()
            left = [key for key in keys if key[0] < offset]
            if is_commit:
                self._hidden.update(left)
            self._open[producer_id] = left
        for producer_id, keys in list(self._open.items()):
            self._open[producer_id] = [key for key in keys if key[0] < offset]
        self.end = offset


class ObservedLog(Log):
    """A log that reports its changes to a Truth."""

    def __init__(self, tp: TopicPartition, config: TopicConfig, truth: Truth) -> None:
        self._truth: Truth | None = None
        self._told = 0
        super().__init__(tp, config)
        self._truth = truth

    @property
    def high_watermark(self) -> int:
        """Return the last high watermark that the replica was given."""
        return self._told

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before, self._told = self._told, offset
        if offset > before and self._truth is not None:
            self._truth.commit(self, before, offset)

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins its epoch here."""
        if self._truth is not None:
            self._truth.begin_epoch(epoch, self)
        super().begin_epoch(epoch)

    def delete_before(self, offset: int) -> None:
        """Move the start up."""
        super().delete_before(offset)
        if self._truth is not None:
            self._truth.move_start(self.start_offset)

    def compact(self, now_ms: int, high_watermark: int) -> None:
        """Clean what is committed."""
        super().compact(now_ms, high_watermark)
        if self._truth is not None and self.config.compact:
            self._truth.compacted(self)
