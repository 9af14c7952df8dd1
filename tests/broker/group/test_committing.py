"""OffsetCommit, TxnOffsetCommit and OffsetFetch."""

from itertools import repeat
from typing import Any

import pytest

from thinconsumer.wire.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics


def test_empty_group_id_has_offsets(world: Any) -> None:
    """The oldest clients used the empty group id."""
    assert world.commit(group="", offset=3).code == 0
    assert world.offset(group="") == 3
    assert world.offset(group="missing") == -1


def test_commit_is_answered_and_visible_once_committed_to_the_log(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    asked = world.commit(offset=2)
    assert asked.is_parked
    assert world.offset() == 1
    world.replica.replicate()
    assert asked.code == 0
    assert world.offset() == 2


def test_stable_fetch_waits_for_uncommitted_appends(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    world.commit(offset=2)
    asked = world.fetch(0, require_stable=True)
    assert asked.is_parked
    world.replica.replicate()
    assert asked.answer[1][0].partitions[0].committed_offset == 2


def test_stable_fetch_that_times_out_returns_not_coordinator(world: Any) -> None:
    """NOT_COORDINATOR, because older clients do not expect COORDINATOR_NOT_AVAILABLE here."""
    world.replica.hold = True
    world.commit()
    asked = world.fetch(0, require_stable=True)
    world.advance(5.1)
    assert asked.answer == (16, [])


@pytest.mark.parametrize(("append_code", "response_code"), [(19, 15), (6, 16), (10, -1), (3, 15)])
def test_rejected_append_fails_the_commit(world: Any, append_code: int, response_code: int) -> None:
    world.commit(offset=1)
    world.replica.codes = repeat(append_code)
    assert world.commit(offset=2).code == response_code
    world.replica.codes = repeat(0)
    assert world.offset() == 1


def test_timed_out_commit_may_take_effect(world: Any) -> None:
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.advance(4.9)
    assert asked.is_parked
    world.advance(0.2)
    assert asked.code == 15
    world.replica.replicate()
    assert world.offset() == 2


def test_commit_with_not_enough_replicas_after_append_counts(world: Any) -> None:
    """All ISR members have it; Kafka's coordinator only checks the high watermark."""
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.replica.fail(20)
    assert asked.code == 0
    assert world.offset() == 2


@pytest.mark.parametrize(("length", "code"), [(2048, 0), (2049, 12)])
def test_metadata_length_is_in_utf16_units(world: Any, length: int, code: int) -> None:
    assert world.commit(metadata="\U0001f600" * length).code == code


def test_commit_restarts_the_session_timeout(world: Any) -> None:
    (leader,) = world.stable(1, session_ms=3_000)
    for _ in range(5):
        world.advance(2)
        assert world.commit(leader).code == 0
    assert world.heartbeat(leader).answer == 0


def test_retention_time_of_old_clients_is_stored(world: Any) -> None:
    world.commit(version=4, retention_ms=60_000)
    world.commit(partition=1)
    world.advance(601)
    assert (world.offset(0), world.offset(1)) == (-1, 5)


def test_offset_of_a_deleted_topic_with_the_same_name_is_not_returned(world: Any) -> None:
    world.commit(offset=7)
    asked: list[Any] = []
    fetch = world.coordinator.fetch_offsets
    old_id = world.image.topics["orders"].topic_id
    for topic_id in (old_id, b"a new topic's id"):
        from_wire = _by_id(topic_id)
        fetch(from_wire, False, lambda code, topics: asked.append(topics[0].partitions[0].committed_offset))
    assert asked == [7, -1]


def _by_id(topic_id: bytes) -> Any:
    topic = OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])
    return OffsetFetchRequestGroup(group_id="billing", topics=[topic])


# -- transactions


def test_later_plain_commit_takes_precedence_over_a_transaction(world: Any) -> None:
    world.txn_commit(7, 9)
    world.commit(offset=4)
    world.marker(7)
    assert world.offset() == 4


def test_partitions_of_an_ongoing_transaction_are_unstable(world: Any) -> None:
    """KIP-447."""
    world.commit(offset=1, partition=1)
    world.txn_commit(7, 2)
    open_one, other = world.fetch(0, 1, require_stable=True).answer[1][0].partitions
    assert (open_one.error_code, open_one.committed_offset) == (88, -1)
    assert (other.error_code, other.committed_offset) == (0, 1)
    assert world.offset() == -1
    world.txn_commit(8, 3)
    world.marker(8, commit=False)
    assert world.fetch(0, require_stable=True).answer[1][0].partitions[0].error_code == 88
    world.marker(7)
    assert world.fetch(0, require_stable=True).answer[1][0].partitions[0].committed_offset == 2


def test_producer_fenced_by_the_log(world: Any) -> None:
    world.replica.codes = repeat(47)
    assert world.txn_commit(7).code == 47


def test_transactional_commit_metadata_limit(new_world: Any) -> None:
    world = new_world(offset_metadata_max_bytes=0)
    assert world.txn_commit(7).code == 0
    assert world.commit(metadata="x").code == 12
