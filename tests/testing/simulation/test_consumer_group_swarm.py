"""A run of groups with the consumer group protocol: its knobs, events and traces."""

import pytest
from lab import ConsumerGroupSwarm


def with_broker_patterns():
    """Return a swarm of which the first group subscribes by regular expressions that the broker evaluates."""
    seed = next(seed for seed in range(60) if ConsumerGroupSwarm.draw(seed).group_knobs[0].broker_pattern)
    return ConsumerGroupSwarm(seed)


def test_a_partition_of_a_topic_that_its_owner_does_not_match_is_wrong():
    swarm = with_broker_patterns()
    group = swarm.groups[0]
    swarm.sim.run_until(
        lambda: any(member.assignment() for member in group.running()) and not swarm.what_is_wrong(), 60
    )
    owner = next(member for member in group.running() if member.assignment())
    owner.topics = ["another"]
    assert "but subscribes to another" in swarm.what_is_wrong()


@pytest.mark.parametrize("has_leader", [False, True])
def test_rebalances_are_enforced_in_groups_without_a_leader(monkeypatch, has_leader):
    """Seeds 1828, 9101 and 9171 of the swarm; docs/groups.md advises it to users of Kafka."""
    swarm = ConsumerGroupSwarm(2)
    group = swarm.groups[0]
    swarm.sim.run_until(lambda: len(group.running()) > 1, 30)
    reasons = []
    for member in group.members:
        monkeypatch.setattr(member, "enforce_rebalance", reasons.append)
    monkeypatch.setattr(swarm.group_log, "without_leader", lambda: set() if has_leader else {group.name})

    def is_enforced():
        return "no member knows that it leads the group" in reasons

    monkeypatch.setattr(swarm, "what_is_wrong", lambda: "" if is_enforced() else "no owner")
    assert swarm.wait_until_settled() == ("no owner" if has_leader else "")
    assert is_enforced() is not has_leader
