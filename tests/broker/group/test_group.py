"""A classic group's data: leader, protocols, static members, parked requests, timers."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.broker.group.group import ClassicGroup
from thinconsumer_testing.broker.group.member import ClassicGroupMember
from thinconsumer_testing.broker.group.states import GroupEvent, GroupState
from thinconsumer_testing.broker.schedule import Schedule

RANGE_FIRST = ("range", "roundrobin")
ROUNDROBIN_FIRST = ("roundrobin", "range")


class FakeShard:
    """A clock, and no log."""

    def __init__(self) -> None:
        self.schedule = Schedule(0.0, 1.0)
        self.wall_ms = self.schedule.wall_ms
        self.call_later = self.schedule.call_later


@pytest.fixture
def shard() -> FakeShard:
    return FakeShard()


@pytest.fixture
def group(shard: FakeShard) -> ClassicGroup:
    return ClassicGroup("billing", shard)


def member(name: str, protocols: tuple[str, ...] = RANGE_FIRST, **options: Any) -> ClassicGroupMember:
    listed = tuple((protocol, name.encode()) for protocol in protocols)
    instance = options.pop("instance", None)
    kind = options.pop("kind", "consumer")
    return ClassicGroupMember(name, instance, "c", "/h", options.pop("rebalance_ms", 1), 1, kind, listed, **options)


def test_first_member_leads_and_sets_the_protocol_type(group: ClassicGroup) -> None:
    group.add(member("a"))
    group.add(member("b"))
    assert (group.leader_id, group.protocol_type, group.is_consumer_group) == ("a", "consumer", True)


def test_removed_leader_is_replaced(group: ClassicGroup) -> None:
    group.add(member("a"))
    group.add(member("b"))
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    assert group.leader_id is None


def test_duplicate_instance_id_is_rejected(group: ClassicGroup) -> None:
    group.add(member("a", instance="i"))
    with pytest.raises(IllegalStateError, match="'i'"):
        group.add(member("b", instance="i"))


def test_member_without_common_protocol_is_rejected(group: ClassicGroup) -> None:
    group.add(member("a"))
    group.move(GroupEvent.CHANGED)
    with pytest.raises(IllegalStateError, match="protocol in common"):
        group.add(member("b", ("mine",)))


def test_leader_without_join_is_replaced_by_a_joined_member(group: ClassicGroup) -> None:
    for name in "abc":
        group.add(member(name), print if name == "c" else None)
    assert group.elect_joined_leader()
    assert group.leader_id == "c"


def test_no_leader_without_joined_members(group: ClassicGroup) -> None:
    assert not group.elect_joined_leader()
    group.add(member("a"))
    assert not group.elect_joined_leader()


def test_protocol_with_most_votes_is_selected(group: ClassicGroup) -> None:
    for name, protocols in (("a", RANGE_FIRST), ("b", ROUNDROBIN_FIRST), ("c", ROUNDROBIN_FIRST)):
        group.add(member(name, protocols))
    assert group.select_protocol() == "roundrobin"


def test_protocol_must_be_supported_by_all_members(group: ClassicGroup) -> None:
    group.add(member("a", ("sticky", "range")))
    group.add(member("b", ("sticky", "range")))
    group.add(member("c", ("range",)))
    assert group.select_protocol() == "range"


def test_equal_votes_follow_javas_hash_map_order(group: ClassicGroup) -> None:
    """The order is ['sticky', 'range', 'roundrobin'] whatever the order of the members."""
    group.add(member("a", ("roundrobin", "range", "sticky")))
    group.add(member("b", ("sticky", "range", "roundrobin")))
    assert group.select_protocol() == "sticky"


@pytest.mark.parametrize(("kind", "names", "good"), [("x", ["p"], True), ("", ["p"], False), ("x", [], False)])
def test_empty_group_supports_any_protocols(group: ClassicGroup, kind: str, names: Any, good: bool) -> None:
    assert group.supports(kind, names) is good


def test_rebalance_timeout_is_the_longest_of_all_members(group: ClassicGroup) -> None:
    assert group.rebalance_timeout_ms == 0
    group.add(member("a", rebalance_ms=5))
    group.add(member("b", rebalance_ms=9))
    assert group.rebalance_timeout_ms == 9


def test_replaced_static_member_only_changes_its_id(group: ClassicGroup) -> None:
    seen: list[Any] = []
    old = member("a", instance="i", assignment=b"plan")
    group.add(old, seen.append)
    old.sync = seen.append
    new = group.replace_static("i", "a", "a2")
    assert [answer.error_code for answer in seen] == [82, 82]
    assert (new.member_id, new.assignment, new.protocols) == ("a2", b"plan", old.protocols)
    assert group.leader_id == "a2"
    assert group.static_members == {"i": "a2"}
    assert list(group.members) == ["a2"]


def test_replaced_parked_request_gets_an_error(group: ClassicGroup) -> None:
    """Kafka never responds to it; its client has disconnected."""
    seen: list[Any] = []
    one = member("a")
    group.add(one, seen.append)
    group.park_join(one, print)
    group.park_sync(one, seen.append)
    group.park_sync(one, print)
    assert [answer.error_code for answer in seen] == [27, 27]
    assert one.join is print


def test_generation_begins_with_the_current_members(group: ClassicGroup) -> None:
    group.add(member("a"))
    group.pending_syncs.add("gone")
    group.move(GroupEvent.CHANGED)
    group.begin_generation()
    assert (group.generation, group.protocol_name, group.state) == (1, "range", GroupState.COMPLETING_REBALANCE)
    assert not group.pending_syncs


def test_generation_without_members_is_empty(group: ClassicGroup) -> None:
    group.move(GroupEvent.CHANGED)
    group.begin_generation()
    assert (group.generation, group.protocol_name, group.state) == (1, None, GroupState.EMPTY)


def test_subscribed_topics_of_consumers(group: ClassicGroup) -> None:
    assert not group.is_subscribed_to("t")
    metadata = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"
    group.add(ClassicGroupMember("a", None, "c", "/h", 1, 1, "consumer", (("range", metadata),)))
    group.move(GroupEvent.CHANGED)
    group.begin_generation()
    assert group.subscribed_topics == {"t"}
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")


def test_unknown_subscription_counts_as_any_topic(group: ClassicGroup) -> None:
    group.add(member("a"))  # with metadata that is no subscription
    group.move(GroupEvent.CHANGED)
    group.begin_generation()
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("t")


def test_timer_replaces_the_one_of_the_same_name(group: ClassicGroup, shard: FakeShard) -> None:
    seen: list[str] = []
    group.schedule("join", 1000, lambda: seen.append("first"))
    group.schedule("join", 3000, lambda: seen.append("second"))
    shard.schedule.advance(2.0)
    assert seen == []
    shard.schedule.advance(3.0)
    assert seen == ["second"]
    assert not group.timers


def test_state_change_sets_the_timestamp(group: ClassicGroup, shard: FakeShard) -> None:
    shard.schedule.advance(2.0)
    group.move(GroupEvent.CHANGED)
    assert group.state_timestamp_ms == 3000
    assert group.previous_state is GroupState.EMPTY
