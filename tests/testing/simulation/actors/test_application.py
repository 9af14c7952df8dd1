"""Applications crash, stall and restart, and only one at a time waits in a call."""

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Behaviour
from thinconsumer_testing.simulation.actors.application import SPINS_MAX

A1 = TopicPartition("a", 1)


def test_a_crash_in_the_middle_of_a_call_ends_it(sim, reader):
    ann = reader(A1)
    sim.world.call_later(0.5, ann.crash)
    sim.run_for(3)
    assert not ann.is_running and sim.world.depth == 0


def test_a_stalled_application_does_nothing_until_the_stall_ends(sim, reader):
    ann = reader(behaviour=Behaviour(blocks=False))
    ann.stall(7)
    began = sim.now()
    sim.run_for(6.9)
    assert ann.records == []
    sim.run_until(lambda: ann.records)
    assert 7 <= sim.now() - began < 8


def test_only_one_application_waits_in_a_call_while_others_poll_with_0(sim, reader):
    depths = set()
    readers = [reader(name=f"reader-{number}") for number in range(3)]
    sim.actor(lambda: depths.add(sim.world.depth) or 0.01)
    sim.run_until(lambda: all(len(actor.records) == 10 for actor in readers))
    sim.run_for(3)
    assert depths <= {0, 1} and 1 in depths


def test_a_crash_drops_queued_calls(sim, reader):
    ann = reader()
    sim.run_for(1)
    done = []
    ann.stall(5)
    ann.soon(lambda: done.append("by whom?"))
    ann.crash()
    ann.start()
    sim.run_for(10)
    assert done == []


def test_empty_polls_that_ask_for_another_at_once_are_a_spin(sim, reader):
    ann = reader(A1, behaviour=Behaviour(blocks=False))
    sim.run_for(1)
    ann.consumer.raw.wake_at = sim.now
    for _ in range(SPINS_MAX):
        ann.turn()
    assert sim.world.violations == []
    ann.turn()
    assert "ann is in a busy loop" in str(sim.world.violations[0])
