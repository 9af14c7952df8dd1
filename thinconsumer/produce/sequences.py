"""Under which id, epoch and sequence number one partition's batches are written.

Owns the numbers that let a broker tell a repetition from a gap (KIP-98), and fence what is still on its way when they
start anew. Java counts epochs for all partitions together and lets each follow when it can; here each partition counts
its own, which brokers cannot tell apart: without transactions they keep this state per partition.
"""

from __future__ import annotations

from .batch import NO_SEQUENCE, ProducerBatch

#: The highest epoch there is; after it comes another producer id.
EPOCH_MAX = 2**15 - 1
#: Sequence numbers go from 0 to 2**31 - 1, and then from 0 on again.
_SEQUENCE_MASK = 2**31 - 1

NO_ID = -1


class Sequences:
    """One partition's numbers."""

    __slots__ = ("epoch", "next", "producer_id")

    def __init__(self) -> None:
        self.producer_id = NO_ID
        self.epoch = -1
        self.next = 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Begin with a new producer id."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.next = 0

    def number(self, batch: ProducerBatch) -> None:
        """Give the batch its number, unless it has one: what is sent again has to look the same."""
        if batch.base_sequence == NO_SEQUENCE:
            following = (self.next + len(batch)) & _SEQUENCE_MASK
            # No call between these: interrupted there, the next batch would have this number, too, and be taken for it.
            batch.base_sequence = self.next
            self.next = following

    def start_over(self) -> None:
        """Go to the next epoch and sequence 0: nobody knows how far the broker has come.

        From the first batch of the new epoch on, whatever is still on its way in the old one is refused.
        """
        self.next = 0
        if self.epoch >= EPOCH_MAX:
            self.producer_id = NO_ID
        else:
            self.epoch += 1

    def drop(self) -> None:
        """Use the id no more."""
        self.producer_id = NO_ID
        self.next = 0
