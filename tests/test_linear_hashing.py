"""Linear hashing, exhaustively for up to 16 initial partitions and counts up to 256."""

import math
from collections.abc import Container, Iterable

import pytest

from thinconsumer.linear_hashing import PartitionCounts, ancestors_of, parent_of, partition_of

pytestmark = pytest.mark.once

COUNT_MAX = 256
INITIAL = range(1, 17)


def literally(hashed: int, initial: int, count: int) -> int:
    """The definition with N, L and S, searched instead of computed."""
    level = max(level for level in range(12) if initial * 2**level <= count)
    split = count - initial * 2**level
    partition = hashed % (initial * 2**level)
    return hashed % (initial * 2 ** (level + 1)) if partition < split else partition


def hashes(initial: int) -> range:
    """Return hashes with every residue that decides about a count up to ``COUNT_MAX``."""
    size = initial
    while size < COUNT_MAX:
        size *= 2
    return range(size)


def keeper_of(partition: int, initial: int, count: int) -> int:
    """Return the partition to which keys of ``partition`` belong while there are ``count`` partitions: ``partition``
    itself if it exists then, else its nearest ancestor that does.

    With the count before an expansion, this is the one partition that a new partition has to wait for. With the count
    after a shrinking, it is the one partition that inherits the keys of a deleted one.
    """
    if partition < count:
        return partition
    return next(one for one in ancestors_of(partition, initial) if one < count)


def heirs_of(deleted: int, initial: int, undeleted: Container[int]) -> tuple[int, ...]:
    """Return the ``undeleted`` partitions that a partition marked for deletion may block, in descending order.

    The first one has inherited the keys. Further ones inherit them if the count shrinks again, so the deleted partition
    blocks at most O(log n) of n partitions.
    """
    return tuple(one for one in ancestors_of(deleted, initial) if one in undeleted)


def blocked_by(partition: int, initial: int, deleted: Iterable[int]) -> tuple[int, ...]:
    """Return those of the ``deleted`` partitions that may block ``partition``, in ascending order: its descendants.

    A single shrinking can mark many descendants of one partition. KIP-253 states O(log n) here, which holds only for
    the children of one partition; see :func:`heirs_of` for the bound in the other direction.
    """
    return tuple(one for one in sorted(deleted) if partition in ancestors_of(one, initial))


@pytest.mark.parametrize("initial", INITIAL)
def test_partitions_are_those_of_the_definition(initial):
    for count in range(initial, COUNT_MAX + 1, 17):
        assert all(partition_of(h, initial, count) == literally(h, initial, count) for h in hashes(initial))


@pytest.mark.parametrize("initial", INITIAL)
def test_each_step_splits_exactly_one_partition_and_moves_no_other_key(initial):
    """Keys never move between partitions that exist before and after; a new partition has one parent."""
    before = [partition_of(h, initial, initial) for h in hashes(initial)]
    for count in range(initial + 1, COUNT_MAX + 1):
        after = [partition_of(h, initial, count) for h in hashes(initial)]
        moves = {(old, new) for old, new in zip(before, after, strict=True) if old != new}
        assert moves == {(parent_of(count - 1, initial), count - 1)}
        before = after


@pytest.mark.parametrize("initial", INITIAL)
def test_a_change_of_any_size_moves_keys_only_between_a_partition_and_its_keeper(initial):
    counts = sorted({initial, initial + 1, 2 * initial - 1, 2 * initial, 3 * initial + 1, 100, 255, COUNT_MAX})
    at = {count: [partition_of(h, initial, count) for h in hashes(initial)] for count in counts}
    for small in counts:
        for large in counts:
            if small <= large:
                kept = [keeper_of(partition, initial, small) for partition in range(large)]
                assert [kept[partition] for partition in at[large]] == at[small]


@pytest.mark.parametrize("initial", INITIAL)
def test_ancestors_are_few_and_end_at_an_initial_partition(initial):
    for partition in range(COUNT_MAX):
        found = ancestors_of(partition, initial)
        assert (parent_of(partition, initial) is None) == (partition < initial)
        if partition < initial:
            assert found == ()
            continue
        assert found[0] == parent_of(partition, initial) < partition
        assert list(found) == sorted(set(found), reverse=True)
        assert found[-1] < initial <= partition
        assert all(one >= initial for one in found[:-1])
        assert len(found) <= math.log2(partition / initial) + 1


@pytest.mark.parametrize("initial", INITIAL)
def test_a_deleted_partition_blocks_few_others_and_both_directions_agree(initial):
    for undeleted in range(initial, COUNT_MAX, 31):
        deleted = range(undeleted, COUNT_MAX)
        blocked = {(one, heir) for one in deleted for heir in heirs_of(one, initial, range(undeleted))}
        again = {(one, heir) for heir in range(undeleted) for one in blocked_by(heir, initial, deleted)}
        assert blocked == again
        for one in deleted:
            heirs = heirs_of(one, initial, range(undeleted))
            assert heirs[0] == keeper_of(one, initial, undeleted)
            assert 1 <= len(heirs) <= math.log2(one / initial) + 1


def test_one_large_shrinking_blocks_one_partition_by_all_others():
    assert blocked_by(0, 1, range(1, 8)) == (1, 2, 3, 4, 5, 6, 7)
    assert [heirs_of(one, 1, range(1)) for one in range(1, 8)] == [(0,)] * 7


def test_hashes_of_31_bits_are_spread_over_all_partitions():
    counts = [0] * 12
    for number in range(24_000):
        counts[partition_of(number * 2_654_435_761 % 2**31, 8, 12)] += 1
    assert all(abs(count - (1500 if partition % 8 < 4 else 3000)) < 300 for partition, count in enumerate(counts))


@pytest.mark.parametrize(("initial", "undeleted"), [(-1, -1), (0, 4), (5, 4), (-1, 4), (4, -1)])
def test_counts_of_a_broker_are_checked(initial, undeleted):
    assert PartitionCounts.checked(initial, undeleted) is None
    assert PartitionCounts.checked(1, 1) == (1, 1)
    assert PartitionCounts.checked(3, 7) == PartitionCounts(initial=3, undeleted=7)
