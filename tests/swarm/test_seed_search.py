"""The swarms notice planted bugs: each is shown by one of the worlds that are searched for it."""

import contextlib
from types import SimpleNamespace

import pytest
from lab.swarm import Swarm
from planting import Edit, PlantedBug, planted
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
        edits = (Edit(SmallWorld, "is_broken", "False", "True"),)
        return PlantedBug(world, "small", "It is wrong.", edits, lambda knobs: knobs % 10 == 0), world.tried

    return make


def test_a_hint_is_tried_first(shown):
    bug, tried = shown({(20, True): "wrong", (77, True): "bad"})
    catch = search(bug, 77)
    assert (catch.seed, catch.violation) == (77, "bad")
    assert tried == [77, 77]  # with the bug, and without it


def test_a_stale_hint_is_no_failure(shown):
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


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_can_still_be_planted(name):
    """Words that are gone from the client would make a mutation that changes nothing."""
    with planted(*BUGS[name].edits):
        pass


@pytest.mark.parametrize("name", ["max_poll_records ignored", "gates of awaited partitions forgotten"])
def test_a_bug_is_taken_back(name):
    """The tests after it must run the real client, even if a run raised."""
    edits = BUGS[name].edits
    before = [vars(edit.owner)[edit.method] for edit in edits]
    with contextlib.suppress(ZeroDivisionError), planted(*edits):
        assert all(vars(edit.owner)[edit.method] is not known for edit, known in zip(edits, before, strict=True))
        raise ZeroDivisionError
    assert [vars(edit.owner)[edit.method] for edit in edits] == before


def test_words_that_are_gone_are_an_error():
    """A mutation that changes nothing would never be caught, without a hint why."""
    edit = Edit(Swarm, "run", "no such words", "")
    with pytest.raises(LookupError, match="no such words"):
        edit.rewritten()
