"""The coordinator of one partition: electing, catching up, resigning, and who waits for the log."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.group.records import end_transaction
from thinconsumer.broker.group.states import GroupState, ShardState
from thinconsumer.errors import IllegalStateError


def test_catching_up_takes_its_time(new_world: Any) -> None:
    world = new_world(coordinator_load_s=2.0)
    assert world.shard.state is ShardState.CATCHING_UP
    assert world.commit().code == 14
    world.advance(2.0)
    assert world.shard.state is ShardState.READY
    assert world.commit().code == 0


def test_what_the_log_gets_while_it_is_being_read_is_read(new_world: Any) -> None:
    """A transaction may end meanwhile."""
    world = new_world()
    world.txn_commit(7, 3)
    world.config = type(world.config)(coordinator_load_s=2.0, group_min_session_timeout_ms=10)
    world.crash()
    world.marker(7)
    world.advance(2.0)
    assert world.offset() == 3


def test_resigning_while_catching_up(new_world: Any) -> None:
    world = new_world(coordinator_load_s=2.0)
    world.resign()
    world.advance(5)
    assert world.shard.state is ShardState.DOWN
    world.elect()
    world.advance(2)
    assert world.shard.state is ShardState.READY


def test_cannot_be_elected_twice(world: Any) -> None:
    with pytest.raises(IllegalStateError, match="ready"):
        world.elect()


def test_resigning_twice_is_nothing(world: Any) -> None:
    world.resign()
    world.resign()
    assert world.shard.state is ShardState.DOWN


def test_everybody_who_waits_is_sent_elsewhere(world: Any) -> None:
    leader, follower = world.stable(2)
    joining = world.join(leader.member_id)
    world.replica.hold = True
    committing = world.commit(follower)
    beating = world.heartbeat(follower)
    world.resign()
    assert joining.answer.error_code == 16
    assert committing.code == 16
    assert beating.answer == 16


def test_a_parked_sync_is_sent_elsewhere(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.hold = True
    brought = world.sync(leader, {})
    world.resign()
    assert (waiting.answer.error_code, brought.answer.error_code) == (16, 16)


def test_a_static_member_that_waits_for_the_log_is_sent_elsewhere(world: Any) -> None:
    world.settle([world.seat(a) for a in [world.join(instance="i")] if world.advance(0) is None])
    world.replica.hold = True
    back = world.join(instance="i")
    world.resign()
    assert back.answer.error_code == 16


def test_nothing_of_a_shard_that_resigned_happens_later(world: Any) -> None:
    world.stable(2, session_ms=1_000)
    world.newcomer(session_ms=1_000)
    group = world.group
    world.resign()
    assert group.state is GroupState.DEAD
    assert group.timers == {}
    appends = world.replica.appends
    world.advance(2_000)
    assert world.replica.appends == appends


def test_an_append_that_ends_after_resigning_changes_nothing_here(world: Any) -> None:
    world.replica.hold = True
    asked = world.commit(offset=9)
    old = world.replica
    world.resign()
    assert asked.code == 16
    old.release(code=6)
    world.elect()
    assert world.offset() == -1
    world.replica.release()  # but it was in the log, which the next coordinator, here ourselves, has read
    assert world.offset() == 9


def test_a_log_that_all_replicas_have_is_seen_at_once(world: Any) -> None:
    world.commit(offset=9)
    world.resign()
    world.elect()
    assert world.offset() == 9
    assert world.replica.watchers == 0


def test_the_end_of_the_log_is_seen_when_all_replicas_have_it(world: Any) -> None:
    """What the coordinator before left unconfirmed may still be lost."""
    world.commit(offset=1)
    world.replica.hold = True
    world.commit(offset=2)
    world.resign()
    world.elect()
    assert world.offset() == 1
    asked = world.fetch(0, require_stable=True)
    assert asked.is_parked
    world.replica.release()
    assert world.offset() == 2
    assert asked.answer[1][0].partitions[0].committed_offset == 2
    assert world.replica.watchers == 0


def test_the_end_of_the_log_does_not_hide_what_came_after_it(world: Any) -> None:
    """The replica tells those who append before those who watch: the older offset would have been taken last."""
    world.replica.hold = True
    world.commit(offset=1)
    world.resign()
    world.elect()
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.replica.release()
    assert asked.code == 0
    assert world.offset() == 2


def test_nobody_watches_a_replica_after_resigning(world: Any) -> None:
    world.replica.hold = True
    world.commit()
    world.resign()
    world.elect()
    assert world.replica.watchers == 1
    world.resign()
    assert world.replica.watchers == 0


def test_a_new_group_is_seen_when_the_log_has_it(world: Any) -> None:
    world.replica.hold = True
    assert world.join().answer.error_code == 79  # which does not wait
    assert world.coordinator.describe(["billing"], 6)[0].error_code == 69
    assert world.coordinator.list_groups([], []) == (0, [])
    world.replica.release()
    assert world.coordinator.describe(["billing"], 6)[0].group_state == "Empty"


def test_a_new_group_that_cannot_be_written_does_not_exist(world: Any) -> None:
    world.replica.refuse = 19
    assert world.join().answer.error_code == 79  # on its way already, as in Kafka
    assert world.shard.latest.groups == {}
    assert world.join(version=3).answer.error_code == 15
    world.advance(10)
    assert world.shard.latest.groups == {}


def test_a_group_that_only_joined_outlives_its_coordinator(world: Any) -> None:
    world.newcomer()
    world.crash()
    assert world.group.state is GroupState.EMPTY
    assert world.group.protocol_type is None


def test_a_deleted_group_is_seen_until_the_log_has_its_end(world: Any) -> None:
    world.commit()
    world.replica.hold = True
    asked = world.delete("billing")
    assert asked.is_parked
    assert [g.group_id for g in world.coordinator.list_groups([], [])[1]] == ["billing"]
    world.replica.release()
    assert asked.answer[0].error_code == 0
    assert world.coordinator.list_groups([], []) == (0, [])
    assert world.offset() == -1


def test_nothing_is_written_once_it_has_resigned(world: Any) -> None:
    """The replica may lead again already, in another epoch, in which we have not caught up."""
    world.resign()
    codes: list[int] = []
    world.shard.write_group(world.shard.new_group("g"), {}, codes.append)
    assert codes == [16]
    assert world.replica.appends == 0


def test_writes_are_waited_for_in_order(world: Any) -> None:
    world.replica.hold = True
    first, second = world.commit(offset=1), world.commit(offset=2)
    world.replica.release(1)
    assert (first.code, world.offset()) == (0, 1)
    assert second.is_parked
    world.replica.release()
    assert (second.code, world.offset()) == (0, 2)


def test_an_end_of_a_transaction_means_nothing_to_a_shard_that_is_not_ready(world: Any) -> None:
    world.resign()
    world.shard.apply(end_transaction(7, True))
    assert world.shard.latest.offsets.groups() == []


def test_ids_come_from_the_nodes_randomness(new_world: Any) -> None:
    assert new_world().newcomer() == new_world().newcomer()


def test_old_offsets_are_looked_for_every_ten_minutes(new_world: Any) -> None:
    world = new_world(offsets_retention_minutes=15)
    world.commit()
    world.advance(900)
    assert world.offset() == 5
    world.advance(310)
    assert world.offset() == -1
    assert world.shard.latest.groups == {}
    appends = world.replica.appends
    world.advance(1_200)
    assert world.replica.appends == appends
