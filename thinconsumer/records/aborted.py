"""The batches that ``isolation_level="read_committed"`` skips, as in Kafka's ``CompletedFetch``.

A Fetch response lists the aborted transactions in its range by producer id and first offset. From that offset up to the
producer's next abort marker, its transactional batches are skipped.
"""

from collections.abc import Iterable

from .batch import ControlType, RecordBatch


class AbortedTransactions:
    """Tells which batches of one partition in one Fetch response are aborted. Pass it all batches in offset order."""

    __slots__ = ("_open", "_partition", "_pending", "_topic")

    def __init__(self, aborted: Iterable[tuple[int, int]], topic: str = "", partition: int = -1) -> None:
        """``aborted``: pairs of producer id and first offset, in any order. Topic and partition are for error texts."""
        # Brokers list aborted transactions in the order of their abort markers, but :meth:`skip` needs them by first
        # offset: otherwise the first records of a transaction that began early and was aborted late would be returned.
        self._pending = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()
        self._topic = topic
        self._partition = partition

    def skip(self, batch: RecordBatch, check_crcs: bool = True) -> bool:
        """Return whether ``batch`` holds aborted records. False for control batches, which are never returned.

        Raises: CorruptRecordError, UnsupportedCodecError, when an abort marker cannot be read.
        """
        if batch.producer_id < 0:
            return False
        pending = self._pending
        while pending and pending[-1][0] < batch.next_offset:
            # If Ctrl-C interrupts between these two lines, the transaction is still pending, and the next call adds the
            # same producer id to the set again.
            self._open.add(pending[-1][1])
            pending.pop()
        if batch.producer_id not in self._open:
            return False
        if batch.is_control:
            if batch.control_type(self._topic, self._partition, check_crcs) is ControlType.ABORT:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional
