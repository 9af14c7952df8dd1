"""The world runs events and turns in order of time, nested in waiting calls, and enters no actor twice."""

import pytest

from thinconsumer.support.timers import NEVER
from thinconsumer_testing.simulation.world import Actor, Violation, World


class Letterbox:
    """Waits for mail."""

    has_mail = False

    def drop(self):
        self.has_mail = True


class Worker(Actor):
    """Records its turns; ``plan`` has the time of each next turn, or a function to call in the turn."""

    def __init__(self, world, name="worker", *plan):
        super().__init__(world, name)
        self.plan = list(plan)
        self.turns = []

    def turn(self):
        self.turns.append(self.world.now())
        step = self.plan.pop(0) if self.plan else NEVER
        return step() if callable(step) else self.world.now() + step


@pytest.fixture
def world():
    """An empty world."""
    return World(1)


# -- events


def test_events_run_in_order_of_time_and_of_scheduling(world):
    came, began = [], world.now()
    for name, seconds in (("c", 2), ("a", 1), ("d", 2), ("b", 1)):
        world.call_later(seconds, lambda name=name: came.append((name, world.now() - began)))
    world.run_until(began + 5)
    assert came == [("a", 1), ("b", 1), ("c", 2), ("d", 2)]
    assert world.now() == began + 5 and world.happened == 4


def test_violation_is_raised_by_its_step_with_the_time(world):
    world.call_later(1.5, lambda: world.accuse("a record was skipped"))
    world.call_later(2, lambda: None)
    with pytest.raises(Violation, match=r"^at 1001\.500000: a record was skipped$"):
        world.run_until(world.now() + 10)
    assert world.now() == 1001.5


# -- waiting


def test_waiting_runs_events_until_input_arrives(world):
    box, began = Letterbox(), world.now()
    depths = []
    world.call_later(1, lambda: depths.append(world.depth))
    world.call_later(2, box.drop)
    world.call_later(3, lambda: depths.append("too late"))
    world.wait(box, began + 10)
    assert world.now() == began + 2 and depths == [1] and world.depth == 0


def test_waiting_ends_at_its_deadline_after_events_of_that_time(world):
    box, came, began = Letterbox(), [], world.now()
    world.call_later(4, lambda: came.append("at the deadline"))
    world.call_later(5, lambda: came.append("after"))
    world.wait(box, began + 4)
    assert came == ["at the deadline"] and world.now() == began + 4


def test_waiting_for_what_can_never_happen_fails(world):
    with pytest.raises(AssertionError, match="waiting without end"):
        world.wait(Letterbox(), NEVER)
    assert world.depth == 0


def test_nested_wait_returns_before_the_outer_one(world):
    outer, inner, order = Letterbox(), Letterbox(), []

    def wait_inside():
        world.wait(inner, world.now() + 3)
        order.append(("inner", world.now() - began, world.depth))

    began = world.now()
    world.call_later(1, wait_inside)
    world.call_later(2, outer.drop)
    world.wait(outer, began + 10)
    order.append(("outer", world.now() - began, world.depth))
    assert order == [("inner", 4, 1), ("outer", 4, 0)]


# -- actors


def test_waking_brings_a_turn_forward_and_adds_none(world):
    began = world.now()
    worker = Worker(world)
    for seconds in (5, 7, 2, 2):
        worker.wake(began + seconds)
    world.run_until(began + 100)
    assert worker.turns == [began + 2]


def test_an_actor_in_its_turn_is_not_entered_again(world):
    box, began = Letterbox(), world.now()
    worker = Worker(world)
    worker.plan = [lambda: world.wait(box, began + 4) or NEVER]
    worker.wake()
    for seconds in (1, 2, 3):
        world.call_later(seconds, worker.wake)
    world.run_until(began + 10)
    assert worker.turns == [began]


def test_other_actors_run_while_one_waits_in_a_call(world):
    box, began = Letterbox(), world.now()
    sleeper, worker = Worker(world, "sleeper"), Worker(world, "worker", 1, 1, 1, 1)
    sleeper.plan = [lambda: world.wait(box, began + 2.5) or NEVER]
    sleeper.wake()
    worker.wake()
    world.step()
    assert worker.turns == [began, began + 1, began + 2] and world.now() == began + 2.5


def test_busy_actor_has_its_turn_right_after_the_call(world):
    box, began = Letterbox(), world.now()
    worker = Worker(world)
    worker.wake(began + 1)
    with worker.busy():
        with worker.busy():
            world.wait(box, began + 3)
        world.wait(box, began + 4)
    assert worker.turns == []
    world.run_until(began + 9)
    assert worker.turns == [began + 4]
