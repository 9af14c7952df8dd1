"""The log cleaner of compacted topics.

Follows Kafka's ``Cleaner``, ``CleanedTransactionMetadata`` and ``MemoryRecords.filterTo``. The last record of each key
is retained. A batch keeps its base offset, last offset and sequence numbers when records are removed from it. A batch
without remaining records stays as a header if it is the last one of its producer, or the last one that is cleaned. The
first cleaning of tombstones, and of markers of transactions without remaining batches, gives them a delete horizon: the
time after which a later cleaning removes them (KIP-534).
"""

from collections.abc import Iterator, Sequence

from thinconsumer.errors import KafkaError
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch

from .markers import control_record, marker_of
from .producers import CompletedTransaction, LogTransactions, ProducerStateManager
from .stored import StoredBatch


def clean(
    batches: Sequence[StoredBatch],
    producers: ProducerStateManager,
    end: int,
    now_ms: int,
    delete_retention_ms: int | None,
    start: int = 0,
) -> list[StoredBatch]:
    """Clean the batches below the offset ``end``; return the batches that remain, and the later ones unchanged.

    Aborted transactions that had no batches left before this cleaning are removed from ``producers``. Without
    ``delete_retention_ms``, tombstones and markers are kept, and get no delete horizon. ``start`` is the log start
    offset: records before it are already deleted, though their batch may still exist.
    """
    below = [batch for batch in batches if batch.next_offset <= end]
    horizon_ms = None if delete_retention_ms is None else now_ms + delete_retention_ms
    kept = list(_Cleaner(below, producers, now_ms, horizon_ms, start).clean())
    return kept + list(batches[len(below) :])


class _TransactionCleaning:
    """Tracks the transactions of a log from batch to batch, to find records and markers that can be discarded."""

    def __init__(self, transactions: LogTransactions) -> None:
        self.needed: list[CompletedTransaction] = []  #: Aborted transactions that have batches in the log.
        self._upcoming = sorted(transactions.aborted, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, CompletedTransaction] = {}
        #: Producer ids of aborted transactions with a batch, but not yet the marker, among the batches seen so far.
        self._has_batches: set[int] = set()
        self._committed: set[int] = set()

    def is_discardable(self, batch: StoredBatch) -> bool:
        """Return whether the batch has records of an aborted transaction, or is the marker of a removed transaction.

        A transaction, committed or aborted, counts as removed when it has no batches left in the log. A marker whose
        record was removed is discardable, too. The method must be called for each batch, in the order of the log.
        """
        while self._upcoming and self._upcoming[-1].first_offset <= batch.last_offset:
            ended = self._upcoming.pop()
            self._aborted.setdefault(ended.producer_id, ended)
        if batch.is_control:
            return self._is_marker_discardable(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._has_batches.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _is_marker_discardable(self, batch: StoredBatch) -> bool:
        if not batch.record_count:
            return True
        marker = marker_of(batch)
        producer_id = batch.producer_id
        if marker is None:
            return False
        if not marker.is_abort:
            had_records = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_records
        ended = self._aborted.pop(producer_id, None)
        had_records = producer_id in self._has_batches
        self._has_batches.discard(producer_id)
        if ended is None or not had_records:
            return True
        self.needed.append(ended)
        return False


class _Cleaner:
    """One run of the log cleaner over the batches of one log."""

    def __init__(
        self,
        batches: list[StoredBatch],
        producers: ProducerStateManager,
        now_ms: int,
        horizon_ms: int | None,
        start: int,
    ) -> None:
        self._batches = batches
        self._producers = producers
        self._now_ms = now_ms
        self._horizon_ms = horizon_ms
        self._last_of: dict[bytes, int] = {}  #: The offset of each key's last record.
        self._records: dict[int, list[NewRecord] | None] = {}
        transactions_seen = _TransactionCleaning(producers.transactions)
        for batch in batches:
            if not transactions_seen.is_discardable(batch) and not batch.is_control:
                for record in self._read(batch) or ():
                    assert record.offset is not None
                    if record.key is not None and batch.base_offset + record.offset >= start:
                        self._last_of[record.key] = batch.base_offset + record.offset

    def clean(self) -> Iterator[StoredBatch]:
        """Yield the batches that remain, each with the records that are retained."""
        transactions = self._producers.transactions
        transactions_seen = _TransactionCleaning(transactions)
        end = self._batches[-1].next_offset if self._batches else 0
        for batch in self._batches:
            is_discardable = transactions_seen.is_discardable(batch)
            cleaned = self._cleaned(batch, is_discardable)
            if cleaned is not None:
                yield cleaned
            elif batch.next_offset == end or self._is_last_of_producer(batch):
                is_empty = not batch.record_count and not batch.codec and batch.delete_horizon_ms is None
                yield batch if is_empty else _rebuilt(batch, [], None)
        # Aborted transactions stay listed if they ended after the cleaned range, or had batches in it until now.
        needed = {id(one) for one in transactions_seen.needed}
        transactions.aborted = [one for one in transactions.aborted if one.marker_offset >= end or id(one) in needed]

    def _cleaned(self, batch: StoredBatch, is_discardable: bool) -> StoredBatch | None:
        """Return the batch with its retained records, None if all are removed."""
        horizon = batch.delete_horizon_ms
        if batch.is_control:
            if is_discardable and (not batch.record_count or self._has_passed(horizon)):
                return None
            if not is_discardable or horizon is not None or self._horizon_ms is None:
                return batch
            record = control_record(batch)
            assert record is not None
            return _rebuilt(batch, [record], self._horizon_ms)
        if is_discardable:
            return None
        records = self._read(batch)
        if records is None:
            return batch
        kept = [record for record in records if self._is_retained(batch, record)]
        if not kept:
            return None
        sets_horizon = horizon is None and any(record.value is None for record in kept) and self._horizon_ms is not None
        if len(kept) == len(records) and not sets_horizon:
            return batch
        return _rebuilt(batch, kept, self._horizon_ms if sets_horizon else horizon)

    def _is_retained(self, batch: StoredBatch, record: NewRecord) -> bool:
        if record.key is None:
            return False  # records without a key, from before the topic was compacted, are removed
        assert record.offset is not None
        if batch.base_offset + record.offset < self._last_of.get(record.key, -1):
            return False
        return record.value is not None or not self._has_passed(batch.delete_horizon_ms)

    def _has_passed(self, delete_horizon_ms: int | None) -> bool:
        if self._horizon_ms is None:
            return False  # tombstones and markers are kept
        return delete_horizon_ms is not None and delete_horizon_ms <= self._now_ms

    def _is_last_of_producer(self, batch: StoredBatch) -> bool:
        """Return whether the batch is the last data batch of its producer in the producer's current epoch. If the log
        has no data batch of this epoch, return True for every marker of this epoch.

        The header of such a batch must stay: a broker that loads the log takes the producer's epoch and last sequence
        number from it.
        """
        known = self._producers.by_id.get(batch.producer_id)
        if known is None:
            return False
        if known.batches:
            return batch.next_offset == known.batches[-1].next_offset
        return batch.is_control and batch.producer_epoch == known.epoch

    def _read(self, batch: StoredBatch) -> list[NewRecord] | None:
        """Return the batch's records, with offsets relative to its base offset. None means that they cannot be decoded;
        the cleaner then keeps the batch unchanged.
        """
        if batch.base_offset not in self._records:
            self._records[batch.base_offset] = _records(batch)
        return self._records[batch.base_offset]


def _records(batch: StoredBatch) -> list[NewRecord] | None:
    if not batch.record_count:
        return []
    try:
        found = split(memoryview(batch.data))[0][0].columns(check_crcs=False)
    except KafkaError:
        return None
    return [
        NewRecord(value, key, headers, timestamp, offset - batch.base_offset)
        for offset, timestamp, key, value, headers in zip(*found)
    ]


def _rebuilt(batch: StoredBatch, records: Sequence[NewRecord], horizon: int | None) -> StoredBatch:
    """Return the batch with only these records and this delete horizon. The header keeps its offsets, producer id and
    epoch, and sequence numbers.
    """
    data = build_batch(
        records,
        base_offset=batch.base_offset,
        codec=batch.codec if records else 0,
        leader_epoch=batch.leader_epoch,
        log_append_time=batch.max_timestamp if batch.has_log_append_time else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        delete_horizon=horizon,
        last_offset_delta=batch.last_offset - batch.base_offset,
        max_timestamp=None if records else batch.max_timestamp,
    )
    return StoredBatch.of(data)
