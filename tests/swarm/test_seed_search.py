"""The swarms notice planted bugs: each is shown by one of the worlds that are searched for it."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lab.swarm import Swarm
from planting import Plant, PlantedBug, planted, returns
from seed_search import BUGS, WORLDS_MAX, hints, search

from thinconsumer_testing.simulation import Violation

#: A search takes a second of CPU time if the hint shows the bug, and minutes if no near seed does.
pytestmark = pytest.mark.timeout(900)

HINTS = hints()


@pytest.mark.parametrize("name", BUGS)
def test_a_checker_notices(name):
    """One of the worlds shows the bug, and has no violation without it."""
    assert search(BUGS[name], HINTS.get(name)).violation


class SmallWorld:
    """A world whose knobs are its seed. Its class has ``outcomes``, by seed and whether there is a bug."""

    def __init__(self, seed):
        self.seed, self.cluster = seed, SimpleNamespace(bugs=[])
        self.tried.append(seed)

    @staticmethod
    def draw(seed):
        return seed

    def is_broken(self):
        return False

    def run(self):
        outcome = self.outcomes.get((self.seed, self.is_broken()))
        if outcome == "broker":
            self.cluster.bugs.append("KeyError()")
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            raise Violation(f"seed {self.seed}\n\n{outcome}\nat 1000.0")


@pytest.fixture
def shown():
    """``shown({(seed, is_broken): outcome})``: return a bug that needs seeds divisible by 10, and the seeds tried."""

    def make(outcomes):
        world = type("World", (SmallWorld,), {"outcomes": outcomes, "tried": []})
        plants = (returns(SmallWorld, "is_broken", True),)
        return PlantedBug(world, "small", "It is wrong.", plants, lambda knobs: knobs % 10 == 0), world.tried

    return make


def test_a_hint_is_tried_first_and_a_stale_one_is_no_failure(shown):
    bug, tried = shown({(20, True): "wrong", (77, True): "bad"})
    assert (search(bug, 77).violation, tried) == ("bad", [77, 77])  # with the bug, and without it
    bug, tried = shown({(20, True): "wrong"})
    assert search(bug, 77).seed == search(bug, None).seed == 20
    assert tried == [77, 0, 10, 20, 20, 0, 10, 20]  # the run without the bug is shared


def test_a_bug_that_no_world_shows_is_a_failure(shown):
    bug, tried = shown({(WORLDS_MAX * 10, True): "beyond the limit"})
    with pytest.raises(AssertionError, match=rf"notices in {WORLDS_MAX} worlds: It is wrong\."):
        search(bug)
    assert len(tried) == WORLDS_MAX


def test_a_seed_that_fails_without_the_bug_is_a_failure(shown):
    bug, _ = shown({(10, True): "wrong", (10, False): "always wrong"})
    with pytest.raises(AssertionError, match="seed 10 of World fails without any bug: always wrong"):
        search(bug)


@pytest.mark.parametrize("outcome", [TypeError("of the planted code"), "broker"])
def test_an_exception_that_no_checker_reports_shows_nothing(shown, outcome):
    """Else planted code that only raises would pass for a bug that is noticed."""
    bug, _ = shown({(10, True): outcome, (30, True): "wrong"})
    assert search(bug).seed == 30
    bug, _ = shown(dict.fromkeys([(10 * n, True) for n in range(WORLDS_MAX)], outcome))
    with pytest.raises(AssertionError, match="no checker notices") as caught:
        search(bug)
    assert "planted code" in repr(caught.value.__cause__) or "inside of a broker" in repr(caught.value.__cause__)


def test_an_exception_of_planted_code_is_raised(shown):
    """A bug that uses what is no longer there would be searched for in all worlds."""
    bug, tried = shown({(10, True): "wrong"})
    with pytest.raises(TypeError, match="missing"):
        search(replace(bug, plants=(Plant(SmallWorld, "is_broken", lambda is_broken, self, missing: True),)))
    assert tried == [0]


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_can_be_planted_and_is_taken_back(name):
    """The tests after it must run the real client, even if a run raised."""
    plants = BUGS[name].plants
    before = [plant.original for plant in plants]
    with contextlib.suppress(ZeroDivisionError), planted(*plants):
        assert all(plant.original is not known for plant, known in zip(plants, before, strict=True))
        raise ZeroDivisionError
    assert [plant.original for plant in plants] == before


def test_a_name_that_is_gone_is_an_error(shown):
    """A bug that changes nothing would never be noticed, without a hint why."""
    bug, tried = shown({(0, True): "wrong"})
    with pytest.raises(AttributeError, match="no_such_name"):
        search(replace(bug, plants=(returns(Swarm, "no_such_name"),)))
    assert not tried


class Owner:
    constant = 1

    def method(self, value):
        return value

    @property
    def named(self):
        return "name"


class Heir(Owner):
    pass


@pytest.mark.parametrize("owner", [Owner, Heir])
def test_methods_properties_and_constants_are_replaced(owner):
    """Also inherited ones, of which only those of the heir are replaced."""
    plants = (
        Plant(owner, "method", lambda method, self, value: method(self, value) + 1),
        Plant(owner, "named", lambda named, self: named(self).upper()),
        Plant(owner, "constant", lambda value: value + 2),
    )
    one, attributes = owner(), set(vars(owner))
    with planted(*plants):
        assert (one.method(1), one.named, one.constant) == (2, "NAME", 3)
        assert Owner().method(1) == (2 if owner is Owner else 1)
    assert (one.method(1), one.named, one.constant) == (1, "name", 1)
    assert set(vars(owner)) == attributes
