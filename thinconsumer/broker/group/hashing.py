"""Java's string hash, which decides where a group lives, and the order in which Java walks a small hash map.

Both are visible to clients: the first in FindCoordinator, the second in which of two equally wanted protocols is
elected. Follows ``String.hashCode``, ``HashMap`` and ``GroupCoordinatorService.partitionFor``.
"""

from __future__ import annotations

from collections.abc import Iterable

_INT_MIN = -(2**31)
_TABLE_SIZE = 16
_LOAD_FACTOR = 0.75


def java_hash(text: str) -> int:
    """Return what Java's ``hashCode`` returns, over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = value * 31 + (units[index] << 8 | units[index + 1]) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of an internal topic that keeps a group or a transactional id.

    Kafka takes the absolute value, not the lower 31 bits, which give something else for half of all keys.
    """
    value = java_hash(key)
    return 0 if value == _INT_MIN else abs(value) % partitions


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return the keys as a Java ``HashMap`` that they were put into one by one would list them."""
    distinct = list(dict.fromkeys(keys))
    size = _TABLE_SIZE
    while len(distinct) > size * _LOAD_FACTOR:
        size *= 2
    return sorted(distinct, key=lambda key: _spread(key) & (size - 1))


def _spread(key: str) -> int:
    value = java_hash(key) & 0xFFFFFFFF
    return value ^ value >> 16
