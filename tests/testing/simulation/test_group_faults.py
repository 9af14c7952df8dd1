"""Each kind of group fault has its effect, and ends with the faults' phase."""

import random

import pytest
from lab import GroupSwarm
from lab.group_faults import (
    GROUP_FAULTS,
    PARTITIONS_MAX,
    absent,
    appear,
    change_mind,
    coordinator,
    depart,
    grow,
    kill_coordinator,
    move_coordinator,
    pause_coordinator,
    vanish,
)
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


def test_the_coordinator_can_be_killed_paused_and_moved(swarm, lot):
    chaos, nodes = swarm.chaos, swarm.sim.cluster.nodes
    first = coordinator(chaos, lot)
    assert kill_coordinator(chaos, lot) and not nodes[first].is_alive
    swarm.sim.run_for(12)
    assert nodes[first].is_alive
    second = coordinator(chaos, lot)
    assert pause_coordinator(chaos, lot) and nodes[second].is_paused
    assert not pause_coordinator(chaos, lot) or coordinator(chaos, lot) != second
    swarm.sim.run_for(15)
    assert not nodes[second].is_paused
    third = coordinator(chaos, lot)
    assert move_coordinator(chaos, lot)
    swarm.sim.run_for(1)
    assert coordinator(chaos, lot) != third


def test_members_are_absent_depart_and_return(swarm, lot):
    now = swarm.sim.now()
    assert absent(swarm.chaos, lot)
    assert max(member.stalled_until for member in swarm.actors) > now + 1
    assert depart(swarm.chaos, lot)
    swarm.sim.run_until(lambda: any(not member.is_running for member in swarm.actors), 60)
    swarm.sim.run_until(lambda: all(member.is_running for member in swarm.actors), 60)
    assert sum(member.lives for member in swarm.actors) == len(swarm.actors) + 1
    for member in swarm.actors:
        member.crash()
    assert not (absent(swarm.chaos, lot) or depart(swarm.chaos, lot) or change_mind(swarm.chaos, lot))


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
