"""A coordinator shard: election, loading, resignation, and replies that wait for the log."""

from itertools import repeat
from typing import Any

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.broker.group.shard import EventProcessor
from thinconsumer_testing.broker.group.states import GroupState, ShardState


def test_records_appended_while_loading_are_loaded(new_world: Any) -> None:
    """A transaction may end meanwhile."""
    world = new_world()
    world.txn_commit(7, 3)
    world.config = type(world.config)(coordinator_load_s=2.0, group_min_session_timeout_ms=10)
    world.crash()
    world.marker(7)
    world.advance(2.0)
    assert world.offset() == 3


def test_resignation_while_loading(new_world: Any) -> None:
    world = new_world(coordinator_load_s=2.0)
    world.resign()
    world.advance(5)
    assert world.shard.state is ShardState.DOWN
    world.elect()
    world.advance(2)
    assert world.shard.state is ShardState.READY


def test_second_election_is_invalid(world: Any) -> None:
    with pytest.raises(IllegalStateError, match="ready"):
        world.elect()


def test_second_resignation_is_ignored(world: Any) -> None:
    world.resign()
    world.resign()
    assert world.shard.state is ShardState.DOWN


def test_resignation_fails_waiting_requests(world: Any) -> None:
    leader, follower = world.stable(2)
    asked = [world.join(leader.member_id)]
    other_leader, other_follower = world.joined(2, group="other")
    asked.append(world.sync(other_follower, group="other"))
    world.replica.hold = True
    asked += [world.sync(other_leader, {}, group="other"), world.commit(follower), world.heartbeat(follower)]
    assert all(one.is_parked for one in asked)
    world.resign()
    assert [one.code for one in asked] == [16] * 5


def test_resignation_cancels_all_timers(world: Any) -> None:
    world.stable(2, session_ms=1_000)
    world.newcomer(session_ms=1_000)
    group = world.group
    world.resign()
    assert group.state is GroupState.DEAD
    assert group.timers == {}
    appends = world.replica.appends
    world.advance(2_000)
    assert world.replica.appends == appends


def test_append_completed_after_resignation_is_ignored(world: Any) -> None:
    world.replica.hold = True
    asked = world.commit(offset=9)
    old = world.replica
    world.resign()
    assert asked.code == 16
    old.stop()
    world.elect()
    assert world.offset() == -1
    world.replica.replicate()  # the record is in the log, and the next coordinator, here the same broker, has loaded it
    assert world.offset() == 9


def test_uncommitted_loaded_records_become_visible_at_the_high_watermark(world: Any) -> None:
    """Uncommitted records of the previous coordinator may still be lost."""
    world.commit(offset=1)
    world.replica.hold = True
    world.commit(offset=2)
    world.resign()
    world.elect()
    assert world.offset() == 1
    asked = world.fetch(0, require_stable=True)
    assert asked.is_parked
    world.replica.replicate()
    assert world.offset() == 2
    assert asked.answer[1][0].partitions[0].committed_offset == 2
    assert world.replica.listeners == 0


def test_loaded_records_do_not_overwrite_later_appends(world: Any) -> None:
    """The replica completes appends before it calls listeners: the older offset would be applied last."""
    world.replica.hold = True
    world.commit(offset=1)
    world.resign()
    world.elect()
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.replica.replicate()
    assert asked.code == 0
    assert world.offset() == 2


def test_resignation_removes_the_listener(world: Any) -> None:
    world.replica.hold = True
    world.commit()
    world.resign()
    world.elect()
    assert world.replica.listeners == 1
    world.resign()
    assert world.replica.listeners == 0


def test_new_group_is_visible_once_committed(world: Any) -> None:
    world.replica.hold = True
    assert world.join().answer.error_code == 79  # a plain fetch does not wait
    assert world.coordinator.describe(["billing"], 6)[0].error_code == 69
    assert world.coordinator.list_groups([], []) == (0, [])
    world.replica.replicate()
    assert world.coordinator.describe(["billing"], 6)[0].group_state == "Empty"


def test_rejected_append_removes_a_new_group(world: Any) -> None:
    world.replica.codes = repeat(19)
    assert world.join().answer.error_code == 79  # appended already, as in Kafka
    assert world.shard.latest.groups == {}
    assert world.join(version=3).answer.error_code == 15
    world.advance(10)
    assert world.shard.latest.groups == {}


def test_group_in_its_first_join_phase_survives_the_coordinator(world: Any) -> None:
    world.newcomer()
    world.crash()
    assert world.group.state is GroupState.EMPTY
    assert world.group.protocol_type is None


def test_deleted_group_is_visible_until_the_tombstone_is_committed(world: Any) -> None:
    world.commit()
    world.replica.hold = True
    asked = world.delete("billing")
    assert asked.is_parked
    assert [g.group_id for g in world.coordinator.list_groups([], [])[1]] == ["billing"]
    world.replica.replicate()
    assert asked.answer[0].error_code == 0
    assert world.coordinator.list_groups([], []) == (0, [])
    assert world.offset() == -1


def test_no_appends_after_resignation(world: Any) -> None:
    """The replica may lead again in another epoch that is not loaded yet."""
    world.resign()
    codes: list[int] = []
    world.shard.write_group(world.shard.new_group("g"), {}, codes.append)
    assert codes == [16]
    assert world.replica.appends == 0


def test_appends_complete_in_order(world: Any) -> None:
    world.replica.hold = True
    first, second = world.commit(offset=1), world.commit(offset=2)
    world.replica.replicate(1)
    assert (first.code, world.offset()) == (0, 1)
    assert second.is_parked
    world.replica.replicate()
    assert (second.code, world.offset()) == (0, 2)


def test_member_ids_use_the_nodes_random_source(new_world: Any) -> None:
    assert new_world().newcomer() == new_world().newcomer()


# -- the event processor


def test_nested_operation_is_part_of_the_outer_one() -> None:
    turns, seen = EventProcessor(), []

    def outer() -> None:
        turns.defer(lambda: seen.append("answer"))
        turns.run(lambda: seen.append("inner"))
        seen.append("outer")

    turns.run(outer)
    assert seen == ["inner", "outer", "answer"]


def test_operation_within_a_deferred_reply_runs_separately() -> None:
    turns, seen = EventProcessor(), []

    def request(number: int) -> None:
        seen.append(f"request {number}")
        turns.defer(lambda: seen.append(f"answer {number}"))
        if number == 1:
            turns.defer(lambda: turns.run(lambda: request(2)))
        turns.defer(lambda: seen.append(f"end of {number}"))

    turns.run(lambda: request(1))
    assert seen == ["request 1", "answer 1", "request 2", "end of 1", "answer 2", "end of 2"]


def test_exception_does_not_stop_later_operations() -> None:
    turns, seen = EventProcessor(), []
    with pytest.raises(ZeroDivisionError):
        turns.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    turns.run(lambda: seen.append("next"))
    assert seen == ["next"]
