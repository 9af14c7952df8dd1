"""Each kind of fault does what it says, ends by itself, and comes from a stream of its own; peace ends all of them."""

from __future__ import annotations

from dataclasses import fields
from random import Random

import pytest

from thinconsumer.broker.config import BrokerConfig
from thinconsumer.testing.simulation import Simulation, chaos
from thinconsumer.testing.simulation.chaos import FAULTS, Chaos
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
#: How often a minute, where a test wants faults of that kind to come by themselves.
OFTEN = 20.0
PER_REQUEST = ("error_rate", "delay_rate", "silence_rate", "disconnect_rate", "corruptions")


@pytest.fixture
def make():
    """Return what makes chaos in a small world with these knobs and no other faults."""

    def make(readers=2, seed=1, **rates):
        config = BrokerConfig(
            default_replication_factor=3, unclean_leader_election_enable=True, replica_lag_time_max_ms=500
        )
        sim = Simulation(seed, 3, {"a": 2}, config=config)
        knobs = Knobs.draw(1)
        for name in (*FAULTS, *PER_REQUEST):
            setattr(knobs, name, 0.0)
        knobs.silent_share = knobs.one_way_share = 0.0
        knobs.unclean, knobs.min_insync_replicas = True, 1
        for name, rate in rates.items():
            assert hasattr(knobs, name)
            setattr(knobs, name, rate)
        consumers = [sim.consumer([A0, A1], auto_offset_reset="earliest") for _ in range(readers)]
        sim.produce("a", 0, [b"x"] * 20)
        sim.produce("a", 1, [b"x"] * 20)
        sim.run_for(1.0)
        return Chaos(sim, knobs, consumers, [A0, A1])

    return make


def nodes(made):
    return made.sim.brokers.cluster.nodes.values()


def leaders(made):
    return [made.sim.cluster.controller.image.partition(*tp).leader for tp in made.tps]


# -- the table


def test_every_fault_has_a_knob_that_says_how_often():
    assert set(FAULTS) <= {f.name for f in fields(Knobs)}


def test_without_rates_nothing_happens(make):
    made = make()
    made.sim.run_for(60)
    assert made.counts == {} and len(made.sim.cluster.rules) == 0
    assert not made.sim.network.cuts and all(node.is_running for node in nodes(made))


@pytest.mark.parametrize("name", FAULTS)
def test_each_knob_lets_its_own_fault_come_and_no_other(make, name):
    made = make(readers=1, **{name: OFTEN})
    made.sim.run_for(20)
    assert set(made.counts) == {name}


def test_unclean_elections_come_only_where_they_are_allowed(make):
    made = make(readers=1, unclean_elections=OFTEN, unclean=False)
    made.sim.run_for(20)
    assert made.counts == {}


def test_a_fault_comes_at_the_same_moments_whatever_others_there_are(make):
    def moments(**rates):
        made = make(readers=1, slow=OFTEN, **rates)
        seen = []
        made.sim.network.slow = type("Slow", (dict,), {"__setitem__": lambda self, *_: seen.append(made.sim.now())})()
        made.sim.run_for(20)
        return seen

    alone = moments()
    assert len(alone) >= 2 and moments(resets=OFTEN, stalls=OFTEN) == alone


# -- each of them


def test_killed_brokers_come_back(make):
    made = make()
    assert chaos.kill(made, Random(1))
    assert sum(not node.is_alive for node in nodes(made)) == 1
    made.sim.run_for(13)
    assert all(node.is_alive for node in nodes(made))


def test_paused_brokers_go_on_and_are_not_paused_twice(make):
    made = make()
    assert chaos.pause(made, Random(1))
    (paused,) = [node for node in nodes(made) if node.is_paused]
    assert not all(chaos.pause(made, Random(1)) for _ in range(1))  # the same one is drawn, and it does not run
    made.sim.run_for(9)
    assert not paused.is_paused


def test_cuts_part_some_from_others_and_heal(make):
    made = make()
    assert chaos.cut(made, Random(1))
    cuts = set(made.sim.network.cuts)
    assert cuts and cuts == {(b, a) for a, b in cuts}  # both ways, as one_way_share is 0
    made.sim.run_for(11)
    assert not made.sim.network.cuts


def test_cuts_may_be_one_way(make):
    made = make(one_way_share=1.0)
    assert chaos.cut(made, Random(1))
    cuts = made.sim.network.cuts
    assert cuts and not any((b, a) in cuts for a, b in cuts)


def test_healing_one_cut_leaves_the_others(make):
    made = make()
    made.cut([1], ["x"], 2.0)
    made.cut([2], ["y"], 5.0)
    made.sim.run_for(3)
    assert made.sim.network.cuts == {(2, "y")}
    made.sim.run_for(3)
    assert made.sim.network.cuts == set()


def test_resets_break_some_connections(make):
    made = make()
    before = list(made.sim.network.connections)
    for number in range(5):
        assert chaos.reset(made, Random(number))
    made.sim.run_for(0.1)
    assert made.sim.network.mishaps.resets > 0 and any(not connection.is_open for connection in before)


def test_slow_brokers_become_fast_again(make):
    made = make()
    assert chaos.slow(made, Random(1))
    ((node, seconds),) = made.sim.network.slow.items()
    assert node in (1, 2, 3) and 0.05 <= seconds <= 1.5
    made.sim.run_for(11)
    assert not made.sim.network.slow


def test_of_overlapping_slowness_the_worst_counts_until_the_last_has_ended(make):
    made = make(readers=0)
    made.slow(1, 0.5, 2.0)
    made.slow(1, 1.0, 4.0)
    made.slow(1, 0.2, 6.0)
    made.slow(2, 0.3, 1.0)
    slow = made.sim.network.slow
    seen = [dict(slow)]
    for _ in range(3):
        made.sim.run_for(2.1)
        seen.append(dict(slow))
    assert seen == [{1: 1.0, 2: 0.3}, {1: 1.0}, {1: 0.2}, {}]


def test_a_takeover_needs_somebody_else_in_sync_for_what_is_committed(make):
    made = make(min_insync_replicas=3)
    assert not chaos.take_over(made, Random(1))
    made.knobs.min_insync_replicas = 1
    assert chaos.take_over(made, Random(1))


def test_a_cut_that_heals_does_not_let_anything_through_the_others(make):
    """Else a broker that is to know nothing would learn everything in that very moment."""
    made = make()
    made.cut([1], [2, 3, -1], 10.0)
    healed = []
    made.sim.cluster.nodes[1].apply_due_deltas = lambda: bool(healed.append(made.sim.cluster.reachable(1, -1)))
    made.cut([2], [3], 1.0)
    made.sim.run_for(2)
    assert not any(healed) and not made.sim.cluster.reachable(1, 2) and made.sim.cluster.reachable(2, 3)
    made.sim.run_for(10)
    assert made.sim.cluster.reachable(1, -1)


def test_bits_flip_only_for_those_who_compare_checksums(make):
    made = make(corruptions=1.0)
    assert made.sim.brokers.spoil is made.corruption
    assert made.corruption._clients == {consumer.name for consumer in made.consumers}
    made.over()
    assert made.corruption.rate == 0.0


def test_another_replica_leads(make):
    made = make()
    before = leaders(made)
    assert chaos.move_leader(made, Random(1))
    assert sum(old != new for old, new in zip(before, leaders(made))) == 1


def write_all_the_time(made):
    """Have both partitions grow, acknowledged by whoever is in sync."""

    def write():
        for tp in made.tps:
            made.sim.produce(*tp, [b"x"])
        return 0.1

    made.sim.actor(write)


def test_a_replica_that_lacks_something_leads_and_what_it_lacks_is_lost(make):
    made = make(readers=1, replica_lag_time_max_ms=500)
    write_all_the_time(made)
    before = leaders(made)
    assert chaos.elect_unclean(made, Random(1))
    made.sim.run_for(15)
    assert sum(old != new for old, new in zip(before, leaders(made))) == 1
    assert any(line.event == "lost" for line in made.sim.trace)
    assert not made.sim.network.cuts


def test_records_are_deleted_from_the_beginning_while_there_are_any(make):
    made = make()
    for _ in range(60):
        chaos.delete_records(made, made.sim.world.streams("test"))
    logs = [made.sim.cluster.leader(tp).log for tp in made.tps]
    assert all(log.start_offset == log.end_offset == 20 for log in logs)
    assert not chaos.delete_records(made, Random(1))


def test_growing_topics_stop_at_six_and_some_read_the_new_partition(make):
    made = make(readers=3)
    grown = [chaos.expand(made, Random(1)) for _ in range(6)]
    assert grown == [True] * 4 + [False] * 2
    assert made.tps == [TopicPartition("a", number) for number in range(6)]
    made.sim.run_for(3)
    assert any(len(consumer.assigned) > 2 for consumer in made.consumers)


def test_calendars_jump_for_all_or_for_one_host(make):
    made = make()
    began = made.sim.world.clock.wall_time()
    for number in range(20):
        assert chaos.jump_clock(made, Random(number))
    assert made.sim.world.clock.wall_time() != began
    assert any(consumer.driver.wall_skew for consumer in made.consumers)


def test_applications_stall_and_crash_and_start_again(make):
    made = make(readers=1)
    (ann,) = made.consumers
    assert chaos.stall(made, Random(1)) and ann.stalled_until > made.sim.now()
    assert chaos.crash(made, Random(1)) and not ann.is_running
    assert not chaos.crash(made, Random(1))
    made.sim.run_for(6)
    assert ann.is_running and ann.lives == 2 and ann.crashes == 1


# -- peace


def test_peace_ends_everything_and_nothing_comes_any_more(make):
    made = make(**dict.fromkeys(FAULTS, OFTEN), error_rate=0.5, silence_rate=0.2)
    sim = made.sim
    sim.network.faults.refuse_rate = sim.network.faults.reset_rate = 0.5
    sim.run_for(15)
    chaos.kill(made, Random(1))
    chaos.cut(made, Random(1))
    chaos.slow(made, Random(1))
    for consumer in made.consumers:
        consumer.stall(100)
    made.consumers[0].crash()
    made.over()
    counts, mishandled = dict(made.counts), made.mishandling.count
    assert mishandled and len(counts) > 3
    assert not sim.network.cuts and not sim.network.slow and len(sim.cluster.rules) == 0
    assert sim.network.faults.refuse_rate == sim.network.faults.reset_rate == 0.0
    assert all(node.is_running for node in nodes(made))
    assert all(consumer.is_running and consumer.stalled_until <= sim.now() for consumer in made.consumers)
    sim.run_for(60)
    assert made.counts == counts and made.mishandling.count == mishandled
    assert all(node.is_running for node in nodes(made)) and not sim.network.cuts
