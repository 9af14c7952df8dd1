"""Who gets into a group, as whom: newcomers (KIP-394), static members (KIP-345, KIP-814), and those who come again."""

from __future__ import annotations

import re
from typing import Any

from thinconsumer.broker.group.states import GroupState

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
OTHER = {"range": b"new", "roundrobin": b""}


def static(world: Any, *instances: str, **options: Any) -> list[Any]:
    """Let static members form a stable group; the leader first."""
    asked = [world.join(instance=name, **options) for name in instances]
    world.advance(0)
    seats = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    world.settle(seats)
    return seats


def test_a_newcomer_is_given_an_id_and_comes_back_with_it(world: Any) -> None:
    """KIP-394."""
    turned_away = world.join(client="app").answer
    assert turned_away.error_code == 79
    assert re.fullmatch(f"app-{UUID}", turned_away.member_id)
    assert not world.group.members
    back = world.join(turned_away.member_id)
    world.advance(0)
    assert world.seat(back).member_id == turned_away.member_id


def test_ids_are_never_the_same(world: Any) -> None:
    assert len({world.newcomer() for _ in range(50)}) == 50


def test_before_version_4_a_newcomer_is_in_at_once(world: Any) -> None:
    asked = world.join(version=3)
    assert asked.is_parked
    world.advance(0)
    assert re.fullmatch(f"app-{UUID}", world.seat(asked).member_id)


def test_a_static_member_is_in_at_once_and_its_id_begins_with_its_instance_id(world: Any) -> None:
    (seat,) = static(world, "i")
    assert re.fullmatch(f"i-{UUID}", seat.member_id)


def test_version_0_has_no_rebalance_timeout_and_uses_the_session_timeout(world: Any) -> None:
    world.join(version=0, session_ms=7_000, rebalance_ms=-1)
    (member,) = world.group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 7_000)


def test_a_pending_id_holds_the_next_generation_up(world: Any) -> None:
    (leader,) = world.stable(1)
    pending = world.newcomer()
    rejoined = world.join(leader.member_id)
    assert rejoined.is_parked
    came = world.join(pending)
    assert {world.seat(rejoined).generation, world.seat(came).generation} == {2}


def test_a_pending_id_cannot_become_a_static_member(world: Any) -> None:
    """Kafka runs into an exception of its own here, and says UNKNOWN_SERVER_ERROR."""
    pending = world.newcomer()
    assert world.join(pending, instance="i").answer.error_code == -1


def test_a_member_that_missed_its_answer_gets_it_again(world: Any) -> None:
    leader, follower = world.joined(2)
    again = world.join(leader.member_id).answer
    assert (again.generation_id, len(again.members)) == (1, 2)
    assert world.join(follower.member_id).answer.members == []
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_new_metadata_while_the_leader_assigns_begins_a_rebalance(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    rejoined = world.join(leader.member_id, protocols=OTHER)
    assert waiting.answer.error_code == 27
    assert rejoined.is_parked


def test_a_follower_of_a_stable_group_just_gets_its_generation_again(world: Any) -> None:
    _, follower = world.stable(2)
    again = world.join(follower.member_id).answer
    assert (again.error_code, again.generation_id) == (0, 1)
    assert world.group.state is GroupState.STABLE


def test_a_leader_of_a_stable_group_that_joins_wants_to_assign_anew(world: Any) -> None:
    leader, _ = world.stable(2)
    assert world.join(leader.member_id).is_parked
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_a_member_that_joins_again_over_another_connection_is_answered_there(world: Any) -> None:
    leader, follower = world.stable(2)
    first = world.join(leader.member_id)
    second = world.join(leader.member_id)
    assert first.answer.error_code == 27
    world.join(follower.member_id)
    assert world.seat(second).generation == 2


def test_session_timeouts_out_of_bounds(world: Any) -> None:
    low, high = world.config.group_min_session_timeout_ms, world.config.group_max_session_timeout_ms
    assert world.join(session_ms=low - 1).answer.error_code == 26
    assert world.join("m", session_ms=high + 1).answer.member_id == "m"
    assert world.join(session_ms=low).answer.error_code == 79
    assert world.join(session_ms=high).answer.error_code == 79


def test_a_group_without_a_name(world: Any) -> None:
    refused = world.join("m", group="", session_ms=-1).answer
    assert (refused.error_code, refused.member_id) == (24, "m")


# -- static members


def test_a_static_member_that_returns_takes_its_place_without_a_rebalance(world: Any) -> None:
    leader, follower = static(world, "i", "j")
    name = follower.member_id[0]
    back = world.seat(world.join(instance=name))
    assert back.member_id != follower.member_id
    assert (back.generation, back.is_leader) == (1, False)
    assert world.group.state is GroupState.STABLE
    assert world.sync(back).answer.assignment == follower.member_id.encode()
    assert world.heartbeat(leader).answer == 0


def test_its_earlier_life_is_fenced(world: Any) -> None:
    _, follower = static(world, "i", "j")
    name = follower.member_id[0]
    world.join(instance=name)
    assert world.heartbeat(follower, instance=name).answer == 82
    assert world.commit(follower, instance=name).code == 82
    assert world.heartbeat(follower).answer == 25  # without its instance id it is just unknown


def test_its_earlier_life_is_fenced_out_of_a_parked_join(world: Any) -> None:
    leader, _ = static(world, "i", "j")
    name = leader.member_id[0]
    parked = world.join(leader.member_id, instance=name)
    again = world.join(instance=name)
    assert (parked.answer.error_code, parked.answer.member_id) == (82, leader.member_id)
    assert again.is_parked


def test_a_static_leader_that_returns_is_told_to_leave_the_assignment_alone(world: Any) -> None:
    """KIP-814."""
    leader, _ = static(world, "i", "j")
    back = world.join(instance=leader.member_id[0]).answer
    assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
    assert {m.group_instance_id for m in back.members} == {"i", "j"}


def test_a_static_follower_that_returns_is_not(world: Any) -> None:
    _, follower = static(world, "i", "j")
    back = world.join(instance=follower.member_id[0]).answer
    assert (back.skip_assignment, back.members) == (False, [])


def test_before_version_9_a_static_leader_that_returns_is_told_that_its_earlier_life_leads(world: Any) -> None:
    """So that it does not assign: it would do so from an empty list of members."""
    leader, _ = static(world, "i", "j")
    back = world.join(instance=leader.member_id[0], version=8).answer
    assert (back.leader, back.members, back.skip_assignment) == (leader.member_id, [], False)
    assert world.group.leader_id == back.member_id


def test_a_static_member_that_returns_with_other_metadata_but_the_same_protocol(world: Any) -> None:
    static(world, "i", "j")
    assert world.join(instance="i", protocols=OTHER).answer.error_code == 0
    assert world.group.state is GroupState.STABLE


def test_a_static_member_that_prefers_another_protocol_now_begins_a_rebalance(world: Any) -> None:
    static(world, "i")
    back = world.join(instance="i", protocols={"roundrobin": b"", "range": b""})
    answer = back.answer
    assert (answer.generation_id, answer.protocol_name) == (2, "roundrobin")


def test_a_static_member_that_returns_while_the_leader_assigns_begins_a_rebalance(world: Any) -> None:
    """The leader is assigning to the earlier member id: what it gives to that one, nobody would get."""
    asked = [world.join(instance=name) for name in ("i", "j")]
    world.advance(0)
    seats = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    waiting = world.sync(seats[1], instance=seats[1].member_id[0])
    back = world.join(instance=seats[1].member_id[0])
    assert waiting.answer.error_code == 82
    assert back.is_parked
    assert world.heartbeat(seats[0]).answer == 27


def test_a_static_member_that_returns_during_a_rebalance_takes_part_in_it(world: Any) -> None:
    leader, follower = static(world, "i", "j")
    rejoined = world.join(leader.member_id, instance=leader.member_id[0])
    back = world.join(instance=follower.member_id[0])
    assert {world.seat(rejoined).generation, world.seat(back).generation} == {2}
    assert len(world.group.members) == 2


def test_the_new_id_of_a_static_member_is_told_when_the_log_has_it(world: Any) -> None:
    static(world, "i", "j")
    world.replica.hold = True
    back = world.join(instance="i")
    assert back.is_parked
    world.replica.release()
    assert back.answer.error_code == 0


def test_a_static_member_whose_session_ends_while_it_is_written_is_missed_later(world: Any) -> None:
    static(world, "i", session_ms=1_000)
    world.replica.hold = True
    back = world.join(instance="i", session_ms=1_000)
    world.advance(2)
    world.replica.hold = False
    world.replica.release()
    assert back.answer.error_code == 0
    world.advance(2)
    assert world.group.state is GroupState.EMPTY


def test_a_new_id_that_cannot_be_written_leaves_the_earlier_one(world: Any) -> None:
    leader, follower = static(world, "i", "j")
    name = follower.member_id[0]
    world.replica.refuse = 19
    refused = world.join(instance=name).answer
    assert (refused.error_code, refused.member_id) == (15, "")
    assert refused.leader == leader.member_id
    world.replica.refuse = 0
    assert world.heartbeat(follower, instance=name).answer == 0
    assert set(world.group.members) == {leader.member_id, follower.member_id}


def test_a_new_id_that_is_replaced_before_it_is_written(world: Any) -> None:
    static(world, "i", "j")
    world.replica.hold = True
    first, second = world.join(instance="i"), world.join(instance="i")
    assert first.answer.error_code == 82
    world.replica.release(code=6)
    assert second.answer.error_code == 16
    assert len(world.group.members) == 2


def test_a_static_member_whose_session_ended_is_new(world: Any) -> None:
    static(world, "i", "j", session_ms=3_000)
    world.advance(3.1)
    back = world.join(instance="i", session_ms=3_000)
    world.advance(0)
    assert world.seat(back).is_leader
    assert world.group.generation > 1
