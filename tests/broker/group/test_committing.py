"""Committing offsets and asking for them."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics


def test_what_is_committed_can_be_fetched(world: Any) -> None:
    assert world.commit(offset=42, epoch=3, metadata="note").code == 0
    code, topics = world.fetch(0, 1).answer
    there, missing = topics[0].partitions
    assert code == 0
    assert (there.committed_offset, there.committed_leader_epoch, there.metadata) == (42, 3, "note")
    assert (missing.committed_offset, missing.committed_leader_epoch, missing.metadata) == (-1, -1, "")
    assert missing.error_code == 0


def test_no_note_is_an_empty_one(world: Any) -> None:
    world.commit(metadata=None)
    assert world.fetch(0).answer[1][0].partitions[0].metadata == ""


def test_everything_can_be_fetched(world: Any) -> None:
    world.put_topic("clicks", 2)
    for topic, partition in (("orders", 0), ("orders", 2), ("clicks", 1)):
        world.commit(topic=topic, partition=partition, offset=partition)
    _, topics = world.fetch().answer
    assert {(t.name, p.partition_index, p.committed_offset) for t in topics for p in t.partitions} == {
        ("orders", 0, 0),
        ("orders", 2, 2),
        ("clicks", 1, 1),
    }


def test_a_group_that_does_not_exist_has_no_offsets(world: Any) -> None:
    assert world.fetch().answer == (0, [])
    assert world.offset() == -1


def test_a_group_without_a_name_has_offsets_of_its_own(world: Any) -> None:
    """The oldest clients had such groups; nothing of theirs is anybody else's."""
    assert world.commit(group="", offset=3).code == 0
    assert world.offset(group="") == 3
    assert world.offset(group="nobody") == -1


def test_a_rewind_is_as_good_as_any_commit(world: Any) -> None:
    world.commit(offset=9)
    world.commit(offset=4)
    assert world.offset() == 4


def test_a_commit_is_answered_and_seen_when_the_log_has_it(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    asked = world.commit(offset=2)
    assert asked.is_parked
    assert world.offset() == 1
    world.replica.release()
    assert asked.code == 0
    assert world.offset() == 2


def test_a_stable_fetch_waits_for_commits_under_way(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    world.commit(offset=2)
    asked = world.fetch(0, require_stable=True)
    assert asked.is_parked
    world.replica.release()
    assert asked.answer[1][0].partitions[0].committed_offset == 2


def test_a_stable_fetch_that_waits_too_long_is_sent_elsewhere(world: Any) -> None:
    """NOT_COORDINATOR and not COORDINATOR_NOT_AVAILABLE, which older clients do not know here."""
    world.replica.hold = True
    world.commit()
    asked = world.fetch(0, require_stable=True)
    world.advance(5.1)
    assert asked.answer == (16, [])


@pytest.mark.parametrize(("refuse", "told"), [(19, 15), (6, 16), (10, -1), (3, 15)])
def test_a_commit_that_cannot_be_written(world: Any, refuse: int, told: int) -> None:
    world.commit(offset=1)
    world.replica.refuse = refuse
    assert world.commit(offset=2).code == told
    world.replica.refuse = 0
    assert world.offset() == 1


def test_a_commit_that_takes_too_long_is_told_so_and_may_count_all_the_same(world: Any) -> None:
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.advance(4.9)
    assert asked.is_parked
    world.advance(0.2)
    assert asked.code == 15
    world.replica.release()
    assert world.offset() == 2


def test_a_commit_with_too_few_replicas_after_all_counts(world: Any) -> None:
    """It is in the log of all that there are: Kafka's coordinators look at the high watermark only."""
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.replica.release(code=20)
    assert asked.code == 0
    assert world.offset() == 2


@pytest.mark.parametrize(("length", "code"), [(4096, 0), (4097, 12)])
def test_a_note_that_is_too_long(world: Any, length: int, code: int) -> None:
    assert world.commit(metadata="x" * length).code == code
    assert world.offset() == (-1 if code else 5)


@pytest.mark.parametrize(("length", "code"), [(2048, 0), (2049, 12)])
def test_a_note_is_measured_in_javas_units(world: Any, length: int, code: int) -> None:
    assert world.commit(metadata="\U0001f600" * length).code == code


def test_a_commit_keeps_a_session(world: Any) -> None:
    (leader,) = world.stable(1, session_ms=3_000)
    for _ in range(5):
        world.advance(2)
        assert world.commit(leader).code == 0
    assert world.heartbeat(leader).answer == 0


def test_members_commit_in_the_first_half_of_a_rebalance_and_not_in_the_second(world: Any) -> None:
    """Seen on real brokers: 22 for the old generation, 27 for the new."""
    leader, follower = world.stable(2)
    world.join(leader.member_id)
    assert world.commit(leader, 7).code == 0
    rejoined = world.seat(world.join(follower.member_id))
    assert world.commit(follower).code == 22
    assert world.commit(rejoined).code == 27
    assert world.offset() == 7


def test_nobody_commits_beside_the_members(world: Any) -> None:
    world.stable(1)
    assert world.commit().code == 25


def test_an_administrator_commits_for_a_group_that_has_no_members_left(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    assert world.commit(offset=3).code == 0


def test_an_old_client_says_how_long_to_keep_an_offset(world: Any) -> None:
    world.commit(version=4, retention_ms=60_000)
    world.commit(partition=1)
    world.advance(601)
    assert (world.offset(0), world.offset(1)) == (-1, 5)


def test_an_offset_of_an_earlier_topic_of_the_name_is_not_told(world: Any) -> None:
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


def test_an_offset_in_a_transaction_counts_from_its_commit_on(world: Any) -> None:
    world.commit(offset=1)
    assert world.txn_commit(7, 2).code == 0
    assert world.offset() == 1
    world.marker(7)
    assert world.offset() == 2


def test_an_offset_in_an_aborted_transaction_never_counts(world: Any) -> None:
    world.commit(offset=1)
    world.txn_commit(7, 2)
    world.marker(7, commit=False)
    assert world.offset() == 1


def test_while_a_transaction_is_open_its_partitions_are_unstable(world: Any) -> None:
    """KIP-447."""
    world.commit(offset=1, partition=1)
    world.txn_commit(7, 2)
    open_one, other = world.fetch(0, 1, require_stable=True).answer[1][0].partitions
    assert (open_one.error_code, open_one.committed_offset) == (88, -1)
    assert (other.error_code, other.committed_offset) == (0, 1)
    assert world.offset() == -1
    world.marker(7)
    assert world.fetch(0, require_stable=True).answer[1][0].partitions[0].committed_offset == 2


def test_members_commit_in_transactions_all_through_a_rebalance(world: Any) -> None:
    leader, _ = world.joined(2)
    assert world.txn_commit(7, seat=leader).code == 0


def test_a_transaction_for_a_group_without_a_name(world: Any) -> None:
    assert world.txn_commit(7, group="").code == 24


def test_a_producer_that_the_log_fences(world: Any) -> None:
    world.replica.refuse = 47
    assert world.txn_commit(7).code == 47


def test_a_note_in_a_transaction_is_not_longer_than_others(new_world: Any) -> None:
    world = new_world(offset_metadata_max_bytes=0)
    assert world.txn_commit(7).code == 0
    assert world.commit(metadata="x").code == 12
