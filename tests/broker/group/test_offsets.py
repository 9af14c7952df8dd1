"""Committed offsets, and pending offsets of transactions."""

import pytest

from thinconsumer_testing.broker.group.log_format import OffsetCommitValue
from thinconsumer_testing.broker.group.offsets import CommittedOffset, OffsetStore


@pytest.fixture
def store() -> OffsetStore:
    return OffsetStore()


def at(offset: int, record: int = 0) -> CommittedOffset:
    return CommittedOffset(OffsetCommitValue(offset=offset), record)


def test_later_commit_counts_even_with_a_lower_offset(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9))
    store.put("g", "t", 0, at(4, 1))
    assert store.get("g", "t", 0) == at(4, 1)
    assert store.get("g", "t", 1) is None
    assert store.get("other", "t", 0) is None


def test_offsets_are_removed(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9))
    store.remove("g", "t", 0)
    store.remove("g", "t", 0)
    assert store.get("g", "t", 0) is None
    assert store.groups() == []


def test_transactional_offset_counts_after_the_commit(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(3))
    store.put("g", "t", 0, at(9, 1), 7)
    assert store.get("g", "t", 0) == at(3)
    assert store.is_unstable("g", "t", 0)
    assert not store.is_unstable("g", "t", 1)
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) == at(9, 1)
    assert not store.is_unstable("g", "t", 0)
    assert not store.has_open_transactions("g")


def test_offset_of_an_aborted_transaction_never_counts(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9, 1), 7)
    assert store.has_open_transactions("g")
    store.end_transaction(7, False)
    assert store.get("g", "t", 0) is None
    assert not store.has_open_transactions("g")


def test_later_plain_commit_takes_precedence_over_a_transaction(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9, 1), 7)
    store.put("g", "t", 0, at(4, 2))
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) == at(4, 2)


def test_partition_is_unstable_until_the_last_transaction_ends(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1), 7)
    store.put("g", "t", 0, at(2, 1), 8)
    store.end_transaction(7, True)
    assert store.is_unstable("g", "t", 0)
    store.end_transaction(8, False)
    assert not store.is_unstable("g", "t", 0)
    assert store.get("g", "t", 0) == at(1)


def test_removal_includes_pending_offsets(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1), 7)
    store.remove("g", "t", 0)
    assert not store.is_unstable("g", "t", 0)
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) is None


def test_end_of_an_unknown_transaction_changes_nothing(store: OffsetStore) -> None:
    store.end_transaction(7, True)
    assert store.groups() == []


def test_places_include_pending_offsets(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1))
    store.put("g", "u", 2, at(1, 1), 7)
    assert store.places("g") == [("t", 0), ("u", 2)]
    assert list(store.everything()) == [("g", ("t", 0), at(1)), ("g", ("u", 2), at(1, 1))]
    assert dict(store.of_group("g")) == {("t", 0): at(1)}
