"""Java's string hash, which maps a group id or transactional id to a partition, and a Java HashMap's iteration order.

Clients can observe both. The hash decides which coordinator FindCoordinator returns. The order decides which protocol
is elected if several have equally many votes. Follows ``String.hashCode``, ``HashMap`` and
``GroupCoordinatorService.partitionFor``.
"""

from collections.abc import Iterable

_INT_MIN = -(2**31)
_TABLE_SIZE = 16
_LOAD_FACTOR = 0.75


def java_hash(text: str) -> int:
    """Return Java's ``hashCode`` of a string, computed over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = value * 31 + (units[index] << 8 | units[index + 1]) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of an internal topic for a group id or a transactional id.

    As in Kafka, the partition follows from the absolute value of the key's hash. If only the sign bit was cleared, as
    producers do with the hash of a record's key, a negative hash could give another partition.
    """
    value = java_hash(key)
    return 0 if value == _INT_MIN else abs(value) % partitions


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the iteration order of a Java ``HashMap`` that they were inserted into one by one."""
    distinct = list(dict.fromkeys(keys))
    size = _TABLE_SIZE
    while len(distinct) > size * _LOAD_FACTOR:
        size *= 2
    return sorted(distinct, key=lambda key: _spread(key) & (size - 1))


def _spread(key: str) -> int:
    value = java_hash(key) & 0xFFFFFFFF
    return value ^ value >> 16
