"""JoinGroup: new members (KIP-394), static members (KIP-345, KIP-814), and rejoining members."""

import re
from itertools import repeat
from typing import Any

import pytest

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire.join_group import JoinGroupRequestProtocol
from thinconsumer_testing.broker.group.member import ClassicGroupMember, protocols_of
from thinconsumer_testing.broker.group.states import GroupState

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
OTHER = {"range": b"new", "roundrobin": b""}


def test_new_member_gets_an_id_and_joins_with_it(world: Any) -> None:
    """KIP-394."""
    rejected = world.join(client="app").answer
    assert rejected.error_code == 79
    assert re.fullmatch(f"app-{UUID}", rejected.member_id)
    assert not world.group.members
    back = world.join(rejected.member_id)
    world.advance(0)
    assert world.seat(back).member_id == rejected.member_id


def test_static_member_joins_immediately_with_an_id_from_its_instance_id(world: Any) -> None:
    (seat,) = world.static("i")
    assert re.fullmatch(f"i-{UUID}", seat.member_id)


def test_version_0_has_no_rebalance_timeout_and_uses_the_session_timeout(world: Any) -> None:
    world.join(version=0, session_ms=7_000, rebalance_ms=-1)
    (member,) = world.group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 7_000)


def test_pending_member_id_delays_the_generation(world: Any) -> None:
    (leader,) = world.stable(1)
    pending = world.newcomer()
    rejoined = world.join(leader.member_id)
    assert rejoined.is_parked
    came = world.join(pending)
    assert {world.seat(rejoined).generation, world.seat(came).generation} == {2}


def test_pending_member_id_with_instance_id_is_rejected(world: Any) -> None:
    """Kafka fails with an internal exception here, and returns UNKNOWN_SERVER_ERROR."""
    pending = world.newcomer()
    assert world.join(pending, instance="i").answer.error_code == -1


def test_repeated_join_gets_the_same_response(world: Any) -> None:
    leader, follower = world.joined(2)
    again = world.join(leader.member_id).answer
    assert (again.generation_id, len(again.members)) == (1, 2)
    assert world.join(follower.member_id).answer.members == []
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_repeated_join_replies_on_the_new_connection(world: Any) -> None:
    leader, follower = world.stable(2)
    first = world.join(leader.member_id)
    second = world.join(leader.member_id)
    assert first.answer.error_code == 27
    world.join(follower.member_id)
    assert world.seat(second).generation == 2


def test_session_timeout_out_of_bounds_is_rejected(world: Any) -> None:
    low, high = world.config.group_min_session_timeout_ms, world.config.group_max_session_timeout_ms
    assert world.join(session_ms=low - 1).answer.error_code == 26
    assert world.join("m", session_ms=high + 1).answer.member_id == "m"
    assert world.join(session_ms=low).answer.error_code == 79
    assert world.join(session_ms=high).answer.error_code == 79


def test_empty_group_id(world: Any) -> None:
    refused = world.join("m", group="", session_ms=-1).answer
    assert (refused.error_code, refused.member_id) == (24, "m")


# -- static members


def test_parked_join_of_the_old_member_id_is_fenced(world: Any) -> None:
    leader, _ = world.static("i", "j")
    name = leader.member_id[0]
    parked = world.join(leader.member_id, instance=name)
    again = world.join(instance=name)
    assert (parked.answer.error_code, parked.answer.member_id) == (82, leader.member_id)
    assert again.is_parked


def test_returning_static_member_with_changed_metadata_and_same_protocol(world: Any) -> None:
    world.static("i", "j")
    assert world.join(instance="i", protocols=OTHER).answer.error_code == 0
    assert world.group.state is GroupState.STABLE


def test_returning_static_member_with_another_protocol_begins_a_rebalance(world: Any) -> None:
    world.static("i")
    back = world.join(instance="i", protocols={"roundrobin": b"", "range": b""})
    answer = back.answer
    assert (answer.generation_id, answer.protocol_name) == (2, "roundrobin")


def test_static_member_returning_in_the_sync_phase_begins_a_rebalance(world: Any) -> None:
    """The leader may assign partitions to the old member id; no member would get them."""
    asked = [world.join(instance=name) for name in ("i", "j")]
    world.advance(0)
    seats = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    waiting = world.sync(seats[1], instance=seats[1].member_id[0])
    back = world.join(instance=seats[1].member_id[0])
    assert waiting.answer.error_code == 82
    assert back.is_parked
    assert world.heartbeat(seats[0]).answer == 27


def test_static_member_returning_in_the_join_phase_takes_part(world: Any) -> None:
    leader, follower = world.static("i", "j")
    rejoined = world.join(leader.member_id, instance=leader.member_id[0])
    back = world.join(instance=follower.member_id[0])
    assert {world.seat(rejoined).generation, world.seat(back).generation} == {2}
    assert len(world.group.members) == 2


def test_new_id_of_a_static_member_is_returned_once_committed(world: Any) -> None:
    world.static("i", "j")
    world.replica.hold = True
    back = world.join(instance="i")
    assert back.is_parked
    world.replica.replicate()
    assert back.answer.error_code == 0


def test_session_expiring_during_the_append_is_restarted(world: Any) -> None:
    world.static("i", session_ms=1_000)
    world.replica.hold = True
    back = world.join(instance="i", session_ms=1_000)
    world.advance(2)
    world.replica.hold = False
    world.replica.replicate()
    assert back.answer.error_code == 0
    world.advance(2)
    assert world.group.state is GroupState.EMPTY


def test_rejected_append_restores_the_old_member_id(world: Any) -> None:
    leader, follower = world.static("i", "j")
    name = follower.member_id[0]
    world.replica.codes = repeat(19)
    refused = world.join(instance=name).answer
    assert (refused.error_code, refused.member_id) == (15, "")
    assert refused.leader == leader.member_id
    world.replica.codes = repeat(0)
    assert world.heartbeat(follower, instance=name).answer == 0
    assert set(world.group.members) == {leader.member_id, follower.member_id}


def test_new_member_id_is_replaced_before_it_is_written(world: Any) -> None:
    world.static("i", "j")
    world.replica.hold = True
    first, second = world.join(instance="i"), world.join(instance="i")
    assert first.answer.error_code == 82
    world.replica.fail(6)
    assert second.answer.error_code == 16
    assert len(world.group.members) == 2


def test_static_member_with_an_expired_session_is_new(world: Any) -> None:
    world.static("i", "j", session_ms=3_000)
    world.advance(3.1)
    back = world.join(instance="i", session_ms=3_000)
    world.advance(0)
    assert world.seat(back).is_leader
    assert world.group.generation > 1


# -- protocols and subscriptions of one member


def member(**options: Any) -> ClassicGroupMember:
    protocols = options.pop("protocols", (("range", b"r"), ("sticky", b"s")))
    return ClassicGroupMember("m", None, "c", "/h", 1, 1, "consumer", protocols, **options)


def test_first_of_two_protocols_with_the_same_name_counts() -> None:
    listed = [JoinGroupRequestProtocol(name="a", metadata=b"1"), JoinGroupRequestProtocol(name="a", metadata=b"2")]
    assert protocols_of(listed) == (("a", b"1"),)


TOPICS = b"\0\0\0\2\0\6orders\0\6m\xc3\xb6bel"
NO_USER_DATA = b"\xff\xff\xff\xff"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_topics_of_every_subscription_version_are_read(version: int) -> None:
    metadata = version.to_bytes(2, "big") + TOPICS + NO_USER_DATA + b"fields of later versions"
    assert member(protocols=(("range", metadata),)).subscribed_topics("range") == ["orders", "m\u00f6bel"]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + TOPICS + NO_USER_DATA, b"\0\0" + TOPICS[:-1]])
def test_metadata_that_is_no_subscription_raises(data: bytes) -> None:
    with pytest.raises(KafkaProtocolError):
        member(protocols=(("range", data),)).subscribed_topics("range")
