"""Choose the partition of a record: by the hash of its key as in Java, without a key by a sticky partitioner.

After Java's ``BuiltInPartitioner`` (KIP-794, without its adaptation to slow brokers).
"""

from collections.abc import Sequence

from ..linear_hashing import PartitionCounts
from ..partitioning import murmur2, partition
from ..timers import Random


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner chooses for this key. The key may be empty bytes."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_for_ordered_key(key: bytes, counts: PartitionCounts) -> int:
    """Return the partition of a key on a topic with ordered delivery (KIP-253), by linear hashing of the same hash."""
    return partition(key, *counts)


class StickyPartitioner:
    """Chooses a random partition for records without a key, and another after ``stick_bytes`` bytes.

    Round robin would produce batches of one record each (KIP-480). If the partition changed with each batch, a slow
    broker would get larger batches than others, and so a larger share (KIP-794).
    """

    __slots__ = ("_chosen", "_left", "_random", "_stick_bytes")

    def __init__(self, stick_bytes: int, random: Random) -> None:
        self._stick_bytes = stick_bytes
        self._random = random
        self._chosen = -1
        self._left = 0

    def choose(self, size: int, partitions: int, available: Sequence[int]) -> int:
        """Return the partition for a record of ``size`` bytes: one with a leader (``available``), if any has one."""
        if self._left <= 0 or self._chosen >= partitions:
            if available:
                self._chosen = available[self._random.randrange(len(available))]
            else:
                self._chosen = self._random.randrange(partitions)
            self._left = self._stick_bytes
        self._left -= size
        return self._chosen

    def keep_to(self, available: Sequence[int]) -> None:
        """Choose another partition for the next record if the current one is not ``available``: it has no leader."""
        if self._chosen not in available:
            self._left = 0
