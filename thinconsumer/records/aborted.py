"""Which batches ``isolation_level="read_committed"`` leaves out.

After Kafka's ``CompletedFetch``: a Fetch response lists the aborted transactions that overlap it; a producer's batches
are skipped from its transaction's first offset up to its abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from .batch import ControlType, RecordBatch

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """Fed the batches of one partition of one Fetch response in offset order, tells for each whether it was aborted."""

    __slots__ = ("_open", "_partition", "_pending", "_topic")

    def __init__(self, aborted: Iterable[tuple[int, int]], topic: str = "", partition: int = -1) -> None:
        """``aborted``: pairs of producer id and first offset, in any order; topic and partition for errors only."""
        # Brokers list them as their index has them, by the abort marker's offset. Taken in that order, a transaction
        # that began early and was aborted late would be delivered.
        self._pending = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()
        self._topic = topic
        self._partition = partition

    def skip(self, batch: RecordBatch, check_crcs: bool = True) -> bool:
        """Whether ``batch`` is aborted data. False for control batches, which yield nothing anyway.

        Raises: CorruptRecordError, UnsupportedCodecError, when an abort marker cannot be read.
        """
        if batch.producer_id < 0:
            return False
        pending = self._pending
        while pending and pending[-1][0] < batch.next_offset:
            # Added before it is taken off: interrupted in between, it is added again, never forgotten.
            self._open.add(pending[-1][1])
            pending.pop()
        if batch.producer_id not in self._open:
            return False
        if batch.is_control:
            if batch.control_type(self._topic, self._partition, check_crcs) is ControlType.ABORT:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional
