"""Each kind of group fault has its effect, and ends with the faults' phase."""

import random

import pytest
from lab import GroupSwarm
from lab.group_faults import GROUP_FAULTS, PARTITIONS_MAX, appear, grow, kill_coordinator, vanish
from lab.knobs import Knobs


@pytest.fixture
def swarm():
    """Two settled members without random faults."""
    knobs = Knobs.draw(2, groups=True)
    for name in (*GROUP_FAULTS, "kills", "pauses", "cuts", "resets", "slow", "leader_moves", "stalls", "crashes",
                 "clock_jumps", "jitter_s", "split_rate", "reset_rate", "refuse_rate", "swallow_rate",
                 "dns_failure_rate", "error_rate", "delay_rate", "silence_rate", "disconnect_rate", "group_error_rate",
                 "transactional", "metadata_lag_s", "replication_s", "coordinator_load_s"):  # fmt: skip
        setattr(knobs, name, 0.0)
    knobs.appearances = 1e-9  # gives names to new topics
    knobs.brokers, knobs.replication, knobs.topics = 3, 3, 2
    for team in knobs.group_knobs:
        team.style, team.pattern, team.mixed_topics = "range", False, False
        for mate in team.clients:
            mate.odd_rate = mate.raise_rate = mate.think_s = 0.0
    swarm = GroupSwarm(2, knobs=knobs)
    swarm.sim.run_until(lambda: all(m.is_running and m.assignment() for m in swarm.actors))
    return swarm


@pytest.fixture
def lot():
    return random.Random(5)


def test_topics_grow_appear_and_vanish_and_owners_follow(swarm, lot):
    chaos = swarm.chaos
    before = len(swarm.tps)
    assert grow(chaos, lot) and len(swarm.tps) > before
    assert appear(chaos, lot) and len(swarm.topics) == 3
    assert appear(chaos, lot) and not appear(chaos, lot), "there are no more names"
    assert vanish(chaos, lot) and len(swarm.topics) == 3
    assert {tp.topic for tp in swarm.tps} == set(swarm.topics)
    swarm.sim.run_until(
        lambda: all(
            sorted(tp for member in team.members for tp in member.assignment()) == sorted(swarm.tps)
            for team in swarm.groups
        ),
        60,
    )
    for _ in range(20):
        grow(chaos, lot)
    counts = [sum(tp.topic == topic for tp in swarm.tps) for topic in swarm.topics]
    assert max(counts) <= PARTITIONS_MAX
    while len(swarm.topics) > 1:
        assert vanish(chaos, lot)
    assert not vanish(chaos, lot)


def test_ending_faults_stops_all_group_faults(swarm, lot):
    for member in swarm.actors:
        member.stall(1000)
    swarm.actors[0].crash()
    kill_coordinator(swarm.chaos, lot)
    swarm.end_faults()
    assert all(member.is_running and member.is_calm for member in swarm.actors)
    assert all(node.is_running for node in swarm.sim.cluster.nodes.values())
    swarm.liveness()
