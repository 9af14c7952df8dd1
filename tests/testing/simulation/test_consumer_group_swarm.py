"""A run of groups with the consumer group protocol: its knobs, events and traces."""

import pytest
from lab import ConsumerGroupSwarm
from lab.knobs import Knobs


def test_run_counts_its_events():
    counts = ConsumerGroupSwarm(2).run()
    assert counts["processed"] and counts["epochs"] and counts["assigned"] and counts["revoked"]


def test_all_groups_share_the_brokers_session():
    for seed in range(30):
        knobs = ConsumerGroupSwarm.draw(seed)
        assert str(knobs) == str(Knobs.draw_consumer_groups(seed))
        config = ConsumerGroupSwarm.broker_config(knobs)
        for group in knobs.group_knobs:
            assert group.protocol in ("consumer", "auto", "mixed") and not group.shards
            assert config["group_consumer_session_timeout_ms"] == group.session_timeout_ms
            assert config["group_consumer_heartbeat_interval_ms"] == group.heartbeat_interval_ms
            assert "session_timeout_ms" not in group.options()


def test_some_runs_have_static_members_of_both_protocols_broker_patterns_and_double_absences():
    drawn = [ConsumerGroupSwarm.draw(seed) for seed in range(60)]
    groups = [group for knobs in drawn for group in knobs.group_knobs]
    assert any(group.protocol == "mixed" and group.static_share for group in groups)
    assert any(group.broker_pattern for group in groups) and not all(group.broker_pattern for group in groups)
    assert not any(group.protocol == "mixed" and group.broker_pattern for group in groups), "classic members have none"
    assert {bool(knobs.double_absences) for knobs in drawn} == {True, False}


def with_broker_patterns():
    """Return a swarm of which the first group subscribes by regular expressions that the broker evaluates."""
    seed = next(seed for seed in range(60) if ConsumerGroupSwarm.draw(seed).group_knobs[0].broker_pattern)
    return ConsumerGroupSwarm(seed)


def test_members_subscribe_by_a_regular_expression_of_the_broker():
    swarm = with_broker_patterns()
    member = swarm.groups[0].members[0]
    swarm.sim.run_until(lambda: member.is_running, 30)
    group = member.consumer.raw._reader.managers.group
    assert group.subscription.regex == "|".join(member.topics)
    member.subscribe(["topic1"])
    assert (group.subscription.regex, member.topics) == ("topic1", ["topic1"])


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
