"""Choose the partition of a record: by the hash of its key as in Java, without a key by a sticky partitioner.

After Java's ``Utils.murmur2`` and ``BuiltInPartitioner`` (KIP-794, without its adaptation to slow brokers).
"""

from collections.abc import Sequence

from ..linear_hashing import PartitionCounts, partition_of
from ..timers import Random

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return Java's murmur2 of ``data`` as an unsigned number of 32 bits."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for place in range(0, whole, 4):
        k = int.from_bytes(data[place : place + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner chooses for this key. The key may be empty bytes."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_for_ordered_key(key: bytes, counts: PartitionCounts) -> int:
    """Return the partition of a key on a topic with ordered delivery (KIP-253), by linear hashing of the same hash."""
    return partition_of(murmur2(key) & 0x7FFFFFFF, *counts)


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
