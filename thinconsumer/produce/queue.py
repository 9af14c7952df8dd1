"""The batches of one partition that are neither acknowledged nor failed, and their sequence numbers (KIP-98)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..timers import Retry
from ..types import TopicPartition
from .batch import NO_SEQUENCE, BatchState, ProducerBatch

#: The highest epoch. After it, the partition needs a new producer id.
EPOCH_MAX = 2**15 - 1
#: Sequence numbers wrap from 2**31 - 1 to 0.
_SEQUENCE_MASK = 2**31 - 1

NO_ID = -1


class Sequences:
    """One partition's producer id, epoch and next sequence number.

    By sequence numbers the broker tells a retry from a gap; after a new epoch it rejects batches of the old one. Java's
    producer has one epoch for all partitions. Here each partition has its own, which brokers accept: without
    transactions they keep producer state per partition.
    """

    __slots__ = ("epoch", "next", "producer_id")

    def __init__(self) -> None:
        self.drop()

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Set a new producer id and begin at sequence 0."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.next = 0

    def number(self, batch: ProducerBatch) -> None:
        """Set the batch's base sequence, unless it has one: a retry must have the same sequence numbers."""
        if batch.base_sequence == NO_SEQUENCE:
            following = (self.next + len(batch)) & _SEQUENCE_MASK
            # Python handles Ctrl-C only at calls, so none may come between these statements: the broker would drop the
            # next batch as a duplicate of this one.
            batch.base_sequence = self.next
            self.next = following

    def start_new_epoch(self) -> None:
        """Begin the next epoch at sequence 0, since the broker's last sequence number is not known.

        From the first batch of the new epoch on, the broker rejects batches of the old one.
        """
        self.next = 0
        if self.epoch >= EPOCH_MAX:
            self.producer_id = NO_ID
        else:
            self.epoch += 1

    def drop(self) -> None:
        """Remove the producer id; the next batch uses the current one of :class:`.ProducerIds`."""
        self.adopt(NO_ID, -1)


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """One partition's batches, oldest first, and its sequence numbers and backoff."""

    tp: TopicPartition
    #: Backoff before the next attempt to send the first batch or, without a leader, before the next metadata request.
    retry: Retry
    batches: deque[ProducerBatch] = field(default_factory=deque)
    sequences: Sequences = field(default_factory=Sequences)
    #: Whether the backoff of ``retry`` is that of metadata requests for a leader; it ends once a leader is known.
    awaits_leader: bool = False

    @property
    def in_flight(self) -> bool:
        """Whether the first batch is in flight, so that no other may be sent."""
        return bool(self.batches) and self.batches[0].state is BatchState.IN_FLIGHT
