"""Regular expressions that the coordinator evaluates: when they are resolved, and what that changes."""

from __future__ import annotations

from typing import Any

import pytest

TOPIC = "orders"


def pattern_member(new_member: Any, name: str = "m1", regex: str = "ord.*") -> Any:
    return new_member(name, subscribed_topic_names=None, subscribed_topic_regex=regex)


@pytest.fixture
def member(new_member: Any, world: Any, settled: Any) -> Any:
    """Return the only member of the group; its expression ``ord.*`` is resolved."""
    found = pattern_member(new_member)
    found.join()
    world.advance(0)
    settled(found)
    return found


def test_a_second_member_with_the_expression_needs_no_look_up(new_member: Any, world: Any, settled: Any) -> None:
    first, second = pattern_member(new_member, "m1"), pattern_member(new_member, "m2")
    first.join()
    world.advance(0)
    epoch = world.group.epoch
    second.join()
    assert world.group.epoch == epoch + 1
    settled(first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2]


def test_new_topics_are_found_after_the_shortest_interval(member: Any, world: Any, settled: Any) -> None:
    world.put_topic("ordinary", 1)
    world.advance(9)
    member.beat()
    world.advance(0)
    assert world.group.resolved["ord.*"].topics == {TOPIC}
    world.advance(1.1)
    member.beat()
    world.advance(0)
    settled(member)
    assert len(member.owned) == 4


def test_without_new_topics_nothing_is_looked_up(member: Any, world: Any) -> None:
    writes = world.replica.appends
    world.advance(11)
    member.beat()
    world.advance(0)
    assert world.replica.appends == writes


def test_the_next_coordinator_resolves_again(member: Any, world: Any, settled: Any) -> None:
    world.put_topic("ordinary", 1)
    world.crash()
    world.advance(10.1)
    member.beat()
    world.advance(0)
    settled(member)
    assert len(member.owned) == 4


def test_the_interval_of_the_configuration(new_world: Any, member_of: Any, settled: Any) -> None:
    world = new_world(group_consumer_regex_refresh_interval_ms=20_000)
    member = member_of(world, "m1", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    member.join()
    world.advance(0)
    settled(member)
    before = world.group.resolved["ord.*"].timestamp_ms
    world.advance(21)
    member.beat()
    world.advance(0)
    assert world.group.resolved["ord.*"].timestamp_ms > before


def test_another_expression_takes_the_place_of_the_former_one(member: Any, world: Any, settled: Any) -> None:
    world.put_topic("other", 2)
    member.beat(subscribed_topic_regex="oth.*")
    assert "ord.*" not in world.group.resolved
    world.advance(0)
    settled(member)
    assert (member.partitions, len(member.owned)) == ([], 2)


def test_a_group_that_is_gone_is_not_resolved(new_member: Any, world: Any) -> None:
    member = pattern_member(new_member)
    member.join()
    member.leave()
    writes = world.replica.appends
    world.advance(0)
    assert world.replica.appends == writes


def test_a_clock_that_was_set_back_delays_no_look_up(
    member: Any, world: Any, settled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka finds no new topics until its clock has reached the time of the last look-up again."""
    world.put_topic("ordinary", 1)
    hour_ago = world.shard.wall_ms() - 3_600_000
    monkeypatch.setattr(type(world.shard), "wall_ms", lambda shard: hour_ago)
    member.beat()
    world.advance(0)
    settled(member)
    assert len(member.owned) == 4
