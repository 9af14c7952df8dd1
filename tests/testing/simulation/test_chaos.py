"""Each kind of fault has its own rate and random stream, and all end with the faults' phase."""

from random import Random

import pytest
from lab import faults
from lab.faults import FAULTS

#: How often a minute, where a test wants faults of that kind to come by themselves.
OFTEN = 20.0


def nodes(made):
    return made.sim.cluster.nodes.values()


# -- the table


@pytest.mark.parametrize("name", FAULTS)
def test_each_knob_causes_its_own_fault_only(make_chaos, name):
    made = make_chaos(readers=1, **{name: OFTEN})
    made.sim.run_for(20)
    assert set(made.counts) == {name}


def test_worst_of_overlapping_slowdowns_counts_until_the_last_ends(make_chaos):
    made = make_chaos(readers=0)
    made.slow(1, 0.5, 2.0)
    made.slow(1, 1.0, 4.0)
    made.slow(1, 0.2, 6.0)
    made.slow(2, 0.3, 1.0)
    seen = [made.sim.network.slow]
    for _ in range(3):
        made.sim.run_for(2.1)
        seen.append(made.sim.network.slow)
    assert seen == [{1: 1.0, 2: 0.3}, {1: 1.0}, {1: 0.2}, {}]


def test_healing_one_cut_delivers_nothing_through_other_cuts(make_chaos):
    """Otherwise an isolated broker would get all held messages at that moment."""
    made = make_chaos()
    made.cut([1], [2, 3, -1], 10.0)
    healed = []
    made.sim.cluster.nodes[1].apply_due_deltas = lambda: bool(healed.append(made.sim.cluster.reachable(1, -1)))
    made.cut([2], [3], 1.0)
    made.sim.run_for(2)
    assert not any(healed) and not made.sim.cluster.reachable(1, 2) and made.sim.cluster.reachable(2, 3)
    made.sim.run_for(10)
    assert made.sim.cluster.reachable(1, -1)


# -- peace


def test_ending_faults_stops_all_present_and_future_faults(make_chaos):
    made = make_chaos(**dict.fromkeys(FAULTS, OFTEN), error_rate=0.5, silence_rate=0.2)
    sim = made.sim
    sim.network.faults.refuse_rate = sim.network.faults.reset_rate = 0.5
    sim.run_for(15)
    faults.kill(made, Random(1))
    faults.cut(made, Random(1))
    faults.slow(made, Random(1))
    for consumer in made.actors:
        consumer.stall(100)
    made.actors[0].crash()
    made.over()
    counts, mishandled = dict(made.counts), made.request_faults.count
    assert mishandled and len(counts) > 3
    assert not sim.network.cuts and not sim.network.slow and len(sim.cluster.rules) == 0
    assert sim.network.faults.refuse_rate == sim.network.faults.reset_rate == 0.0
    assert all(node.is_running for node in nodes(made))
    assert all(consumer.is_running and consumer.stalled_until <= sim.now() for consumer in made.actors)
    sim.run_for(60)
    assert made.counts == counts and made.request_faults.count == mishandled
    assert all(node.is_running for node in nodes(made)) and not sim.network.cuts
