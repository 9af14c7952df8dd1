"""The committed contents of partitions: the records that were ever committed, and those of them that still count.

Checkers compare consumers with this ground truth. It comes from the brokers' logs: :class:`ObservedLog` tells a
:class:`Truth` whenever a replica's high watermark moves, a leader begins its epoch, the log's start moves, or a log is
compacted. A record's offset and leader epoch identify it for ever, since one epoch has one leader. Committed records
can be lost legally, by an unclean election, retention or compaction: a record *counts* if a reader that reads the
newest leader's log would still find it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from thinconsumer.records.batch import ControlType, RecordBatch
from thinconsumer.types import ConsumerRecord, TopicPartition

from ..broker.config import TopicConfig
from ..broker.log.log import Log

Row = ConsumerRecord[Any, Any]
#: The offset and leader epoch of a record, which identify it.
Key = tuple[int, int]


class Truth:
    """The committed contents of one partition of a topic. A topic with another id has a Truth of its own."""

    def __init__(self, tp: TopicPartition, lost: Callable[[Truth, int, int], None]) -> None:
        """Set the partition, and the function to call when a leader begins an epoch and lacks committed records.

        ``lost(truth, offset, epoch)``: the log of the leader of ``epoch`` lacks the committed records from ``offset``
        on. They count until the call returns, and afterwards, too, if a newer epoch has begun before.
        """
        self.tp = tp
        self.rows: dict[Key, Row] = {}  #: Every record that was ever committed.
        self.start: int = 0
        self.end: int = 0  #: The offset after the last batch that counts, that is, that the newest leader's log has.
        self.records: int = 0
        #: The epochs that count, with their start offsets: those with batches in the newest leader's log, older ones
        #: whose records retention has deleted, and the newest leader's.
        self.epochs: list[tuple[int, int]] = []
        self._lost = lost
        #: The newest leader's epoch and the older epochs in its log, each with its start offset. By these a leader
        #: answers OffsetForLeaderEpoch.
        self._leader: list[tuple[int, int]] = []
        #: Rivals: epochs that the newest leader's log lacks, and the first offset at which their leader's log differs.
        self._rivals: list[tuple[int, int]] = []
        self._offsets: list[int] = []  #: Offsets of the records in the newest leader's log.
        self._epoch_of: dict[int, int] = {}  #: The leader epoch of each of these records, by offset.
        self._hidden: set[Key] = set()  #: Records of open and aborted transactions.
        self._revealed: set[Key] = set()  #: Records of committed transactions, even if the marker was lost later.
        self._open: dict[int, list[Key]] = {}  #: Records of open transactions by producer id.
        #: Transaction markers: offset, producer id, the transaction's records, whether it was committed.
        self._decided: list[tuple[int, int, list[Key], bool]] = []
        self._seen: set[Key] = set()  #: Base offset and leader epoch of each batch that was ever committed.

    @property
    def latest_epoch(self) -> int:
        """The newest leader's epoch, -1 before the first leader."""
        return self.epochs[-1][0] if self.epochs else -1

    def counts(self, offset: int, epoch: int) -> bool:
        """Return whether the record of this leader epoch at this offset counts: the newest leader's log has it."""
        return offset >= self.start and self._epoch_of.get(offset) == epoch

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at this offset in the newest leader's log, -1 if there is none."""
        return self._epoch_of.get(offset, -1)

    def is_hidden(self, offset: int, epoch: int) -> bool:
        """Return whether read_committed must not return this record: its transaction is open or was aborted."""
        key = offset, epoch
        return key in self._hidden and key not in self._revealed

    def first_from(
        self, low: int, high: int, *, committed: bool, but: Mapping[int, int] = MappingProxyType({})
    ) -> int | None:
        """Return the first offset from ``low`` to below ``high`` with a record that counts; None if there is none.

        ``committed`` skips records of open and aborted transactions. ``but`` has further records to skip: their leader
        epochs by offset.
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
        """Return whether a transaction is open: a read_committed consumer cannot read beyond its first record."""
        return any(self._open.values())

    def successor(self, offset: int, epoch: int) -> int | None:
        """Return None if a record's leader epoch counts at its offset, else the next newer epoch that counts.

        The epoch of a deposed leader does not count at the offsets of records that this leader wrote after the next one
        was elected. An epoch that the newest leader's log lacks counts at no offset.
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
                return None  # the epoch is older than all known ones, since retention has deleted its records
        return next((newer for newer, _ in self.epochs if newer > epoch), self.latest_epoch)

    def rival(self, offset: int, epoch: int) -> int | None:
        """Return a newer epoch that the newest leader's log lacks, if that epoch's leader lacks this record; else None.

        Until that leader learns that it was deposed, it answers OffsetForLeaderEpoch as if the record was truncated,
        so that its readers may go back (KIP-320).
        """
        return next((newer for newer, end in self._rivals if newer > epoch and end <= offset), None)

    def answer_for(self, epoch: int) -> int | None:
        """Return an epoch's end offset in the newest leader's log, as OffsetForLeaderEpoch answers (KIP-320).

        For an epoch that the log lacks, return the end of the epoch before. Return None for epoch -1, and if the log
        has no newer epoch: then the epoch has not ended.
        """
        if epoch < 0:
            return None
        return next((start for newer, start in self._leader if newer > epoch), None)

    def begin_epoch(self, epoch: int, log: Log) -> None:
        """Begin a leader's epoch: report committed records that ``log`` lacks as lost.

        They stop counting, unless a newer epoch has begun.
        """
        lost_from = self._first_not_in(log)
        if self.epochs and epoch <= self.epochs[-1][0]:
            if lost_from < self.end and epoch not in dict(self.epochs + self._rivals):
                self._rivals.append((epoch, lost_from))
                self._lost(self, lost_from, epoch)
            return
        self._leader = [*log.epochs, (epoch, log.end_offset)]
        if lost_from < self.end:
            self._forget_from(lost_from, epoch)
        # From now on, only epochs in the new leader's log count. If the log lacks an epoch, even one without records,
        # the epoch before it no longer ends where the missing one began: later records of the epoch before count now.
        starts = dict(self.epochs)
        known = [(own, min(start, starts.get(own, start))) for own, start in log.epochs if start < log.end_offset]
        first = known[0][0] if known else epoch
        expired = [(own, start) for own, start in self.epochs if own < first and start < log.start_offset]
        self.epochs = [*expired, *known, (epoch, log.end_offset)]
        # The log of a missing epoch may differ already before that epoch: its leader had another one's records.
        missing = [(own, start) for own, start in starts.items() if own not in dict(self.epochs)]
        self._rivals += [(own, min(start, lost_from)) for own, start in missing]
        # If an older leader is elected again, the records that were lost under another leader are back and count again.
        self.commit(log, self.end, log.high_watermark)

    def commit(self, log: Log, low: int, high: int) -> None:
        """Handle that a replica's high watermark moved from ``low`` to ``high``: the batches between are committed."""
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
                # Only a deposed leader's log has this commit marker. Consumers that fetch from it may still return the
                # transaction's records.
                self._revealed.update(self._open.get(batch.producer_id, ()))

    def move_start(self, offset: int) -> None:
        """Handle that a replica's log start offset has moved: records before the highest one no longer count."""
        if offset > self.start:
            self.start = offset
            self.end = max(self.end, offset)

    def compacted(self, log: Log) -> None:
        """Handle that a replica's log was compacted: the removed records no longer count."""
        kept: set[int] = set()
        for batch in log.read_batches(log.start_offset, log.high_watermark):
            kept.update(row.offset for row in batch.decode(self.tp.topic, self.tp.partition, False))
        high = log.high_watermark
        gone = {offset for offset in self._offsets if log.start_offset <= offset < high and offset not in kept}
        if gone:
            self._offsets = [offset for offset in self._offsets if offset not in gone]
            for offset in gone:
                del self._epoch_of[offset]

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
        """Return whether a deposed leader wrote this batch after the next epoch's start, and will truncate it later."""
        return self.successor(batch.base_offset, batch.leader_epoch) is not None

    def _first_not_in(self, log: Log) -> int:
        """Return the first offset at which a log differs from the newest leader's, at most the lower of their ends."""
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
        self._lost(self, offset, epoch)  # called before the records are removed, so that checkers still find them
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
    """A replica's log that reports its changes to a Truth."""

    def __init__(self, tp: TopicPartition, config: TopicConfig, truth: Truth) -> None:
        self._truth: Truth | None = None
        self._reported = 0
        super().__init__(tp, config)
        self._truth = truth

    @property
    def high_watermark(self) -> int:
        """Return the replica's high watermark. Setting it reports the batches between the old and the new one."""
        return self._reported

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before, self._reported = self._reported, offset
        if offset > before and self._truth is not None:
            self._truth.commit(self, before, offset)

    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the end of this log, after reporting it to the Truth."""
        if self._truth is not None:
            self._truth.begin_epoch(epoch, self)
        super().begin_epoch(epoch)

    def delete_before(self, offset: int) -> None:
        """Move the log's start offset up, and report it to the Truth."""
        super().delete_before(offset)
        if self._truth is not None:
            self._truth.move_start(self.start_offset)

    def compact(self, now_ms: int, high_watermark: int) -> None:
        """Compact the committed part of the log, and report the result to the Truth."""
        super().compact(now_ms, high_watermark)
        if self._truth is not None and self.config.compact:
            self._truth.compacted(self)
