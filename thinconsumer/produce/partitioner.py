"""Which partition a record goes to: by its key's hash, exactly as in Java, else to one that sticks for a while.

Owns the hash and the choice; knows no batches. Follows ``Utils.murmur2`` and ``BuiltInPartitioner`` (KIP-794, without
its adaption to slow brokers).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Return where Java's default partitioner puts this key. An empty key is one, None is none."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Sticky:
    """Chooses for records without a key: the same partition until ``enough`` bytes went there, then one by lot.

    One after the other in turn would make batches of one record each (KIP-480); to switch by bytes and not by batches
    keeps the shares equal, since a slow broker would get larger batches (KIP-794).
    """

    __slots__ = ("_chosen", "_enough", "_left", "_random")

    def __init__(self, enough: int, random: Random) -> None:
        self._enough = enough
        self._random = random
        self._chosen = -1
        self._left = 0

    def choose(self, size: int, partitions: int, available: Sequence[int]) -> int:
        """Return a partition for ``size`` bytes; one of the ``available`` ones, which have a leader, if there are."""
        if self._left <= 0 or self._chosen >= partitions:
            if available:
                self._chosen = available[self._random.randrange(len(available))]
            else:
                self._chosen = self._random.randrange(partitions)
            self._left = self._enough
        self._left -= size
        return self._chosen

    def keep_to(self, available: Sequence[int]) -> None:
        """Choose anew next time unless the chosen partition is ``available``: it has lost its leader."""
        if self._chosen not in available:
            self._left = 0
