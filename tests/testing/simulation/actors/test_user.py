"""A test's own function gets turns as an actor, and may wait in calls meanwhile."""

from contextlib import nullcontext

import pytest

from thinconsumer import Consumer
from thinconsumer.support.agenda import Agenda
from thinconsumer_testing.simulation import Simulation, UserActor, Violation, World


def test_turns_follow_the_returned_pauses_until_the_function_returns_none():
    world, moments, pauses = World(1), [], [1.0, 0.5, None]

    def function():
        moments.append(world.now())
        return pauses.pop(0)

    began = world.now()
    actor = UserActor(world, "mine", function)
    actor.wake()
    world.run_until(began + 100)
    assert moments == [began, began + 1.0, began + 1.5]
    actor.wake()
    pauses.append(None)
    world.run_until(began + 200)
    assert moments[3:] == [began + 100]


def test_other_actors_run_while_a_function_waits_in_a_call():
    sim = Simulation(1, topics={"a": 1})
    ticks, got = [], []
    consumer = Consumer(
        bootstrap_servers=sim.bootstrap_servers, driver=sim.driver("mine"), auto_offset_reset="earliest"
    )
    consumer.assign([("a", 0)])

    def read():
        for records in consumer.poll(5000).values():
            got.extend(record.value for record in records)
        return 0.0

    def tick():
        ticks.append(sim.now())
        if len(ticks) == 3:
            sim.produce("a", 0, [b"x"])
        return 1.0

    reader = sim.actor(read)
    sim.actor(tick, name="ticks")
    sim.run_until(lambda: got)
    assert got == [b"x"] and len(ticks) == 3
    assert [actor.name for actor in sim.actors] == ["actor-1", "ticks"]
    reader.is_active = False  # closing waits, and the world continues meanwhile
    consumer.close()


def drop_touch(agenda, key=""):
    """In place of ``Agenda.touch``."""


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_client_that_waits_and_overlooks_a_request_is_a_violation(is_planted, monkeypatch):
    """What is asked for is due only by a touch: without it the client would wait for ever."""
    sim = Simulation(1, topics={"a": 1})
    consumer = Consumer(bootstrap_servers=sim.bootstrap_servers, driver=sim.driver("mine"))
    consumer.assign([("a", 0)])
    questions = []

    def read():
        consumer.poll(1000)
        if not questions:
            questions.append(consumer._reader.managers.metadata.inquire(["a"], "a question"))
        return 0.0

    if is_planted:
        monkeypatch.setattr(Agenda, "touch", drop_touch)
    reader = sim.actor(read)
    with pytest.raises(Violation, match="overlooks that metadata has to send Meta") if is_planted else nullcontext():
        sim.run_for(10)
    assert is_planted or questions[0].done
    reader.is_active = False
    monkeypatch.undo()
    consumer.close(timeout_ms=0)
