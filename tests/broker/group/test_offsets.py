"""Committed offsets, and those of transactions that are still open."""

from __future__ import annotations

import pytest

from thinconsumer.broker.group.log_format import OffsetCommitValue
from thinconsumer.broker.group.offsets import CommittedOffset, OffsetStore


@pytest.fixture
def store() -> OffsetStore:
    return OffsetStore()


def at(offset: int, record: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, record_offset=record)


def test_the_later_commit_counts_even_when_it_is_smaller(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9))
    store.put("g", "t", 0, at(4, 1))
    assert store.get("g", "t", 0) == at(4, 1)
    assert store.get("g", "t", 1) is None
    assert store.get("other", "t", 0) is None


def test_forgets(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9))
    store.remove("g", "t", 0)
    store.remove("g", "t", 0)
    assert store.get("g", "t", 0) is None
    assert store.groups() == []


def test_a_transactions_offset_counts_from_its_commit_on(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(3))
    store.put("g", "t", 0, at(9, 1), 7)
    assert store.get("g", "t", 0) == at(3)
    assert store.is_unstable("g", "t", 0)
    assert not store.is_unstable("g", "t", 1)
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) == at(9, 1)
    assert not store.is_unstable("g", "t", 0)
    assert not store.has_open_transactions("g")


def test_an_aborted_transactions_offset_never_counts(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9, 1), 7)
    assert store.has_open_transactions("g")
    store.end_transaction(7, False)
    assert store.get("g", "t", 0) is None
    assert not store.has_open_transactions("g")


def test_a_commit_beside_a_transaction_that_is_later_in_the_log_wins(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(9, 1), 7)
    store.put("g", "t", 0, at(4, 2))
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) == at(4, 2)


def test_a_partition_is_unstable_until_the_last_transaction_ends(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1), 7)
    store.put("g", "t", 0, at(2, 1), 8)
    store.end_transaction(7, True)
    assert store.is_unstable("g", "t", 0)
    store.end_transaction(8, False)
    assert not store.is_unstable("g", "t", 0)
    assert store.get("g", "t", 0) == at(1)


def test_forgetting_takes_what_transactions_have_along(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1), 7)
    store.remove("g", "t", 0)
    assert not store.is_unstable("g", "t", 0)
    store.end_transaction(7, True)
    assert store.get("g", "t", 0) is None


def test_the_end_of_a_transaction_that_has_nothing_here_is_nothing(store: OffsetStore) -> None:
    store.end_transaction(7, True)
    assert store.groups() == []


def test_lists_places_pending_ones_too(store: OffsetStore) -> None:
    store.put("g", "t", 0, at(1))
    store.put("g", "u", 2, at(1, 1), 7)
    assert store.places("g") == [("t", 0), ("u", 2)]
    assert list(store.pending()) == [("g", ("u", 2), at(1, 1))]
    assert dict(store.of_group("g")) == {("t", 0): at(1)}


def test_values_come_back_from_records_as_they_were() -> None:
    offset = CommittedOffset(5, 2, "m", 7, 9, bytes(16), 11)
    assert CommittedOffset.from_value(offset.to_value(), 11) == offset
    assert offset.to_value() == OffsetCommitValue(
        offset=5, leader_epoch=2, metadata="m", commit_timestamp=7, expire_timestamp=9
    )
