"""Linear hashing: the partition of a key on counted topics (glossary), and from which partition each was split off.

A topic begins with ``initial`` partitions (N). With ``count`` undeleted partitions, L is the largest integer with
``N * 2**L <= count``, and ``S = count - N * 2**L`` partitions are split already: a hash goes to ``hash % (N * 2**L)``,
or to ``hash % (N * 2**(L + 1))`` if the former is below S. Each partition from N on is therefore split off from exactly
one other, its parent, and no key moves between two partitions that exist both before and after a change of the count.

Pure functions of numbers, shared by the producer and the consumer. Arguments must satisfy ``1 <= initial <=
count``; :meth:`PartitionCounts.checked` checks numbers that come from a broker.
"""

from __future__ import annotations

from typing import NamedTuple


class PartitionCounts(NamedTuple):
    """The partition counts in the metadata of a counted topic (``wire.extensions``). Fetch and Produce requests repeat
    ``undeleted``; partitions from this number on are marked for deletion.
    """

    initial: int
    undeleted: int

    @staticmethod
    def checked(initial: int, undeleted: int) -> PartitionCounts | None:
        """Return the counts in a response, or None if the topic is not counted, or the counts are impossible."""
        return PartitionCounts(initial, undeleted) if 1 <= initial <= undeleted else None


def partition_of(hashed: int, initial: int, count: int) -> int:
    """Return the partition of the non-negative hash of a key."""
    round_size = _round_size(initial, count)
    partition = hashed % round_size
    return hashed % (2 * round_size) if partition < count - round_size else partition


def parent_of(partition: int, initial: int) -> int | None:
    """Return the partition that ``partition`` was split off from, or None for one of the initial partitions."""
    return partition - _round_size(initial, partition) if partition >= initial else None


def ancestors_of(partition: int, initial: int) -> tuple[int, ...]:
    """Return the parent of ``partition``, its parent's parent and so on: at most ``log2(partition / initial) + 1``."""
    parent = parent_of(partition, initial)
    return () if parent is None else (parent, *ancestors_of(parent, initial))


def _round_size(initial: int, count: int) -> int:
    """Return ``N * 2**L``, the number of partitions when the current round of splits began."""
    return initial << ((count // initial).bit_length() - 1)
