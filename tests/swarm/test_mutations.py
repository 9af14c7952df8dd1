"""The swarms notice bugs: each mutation of the client is caught by the seed that is written down for it."""

import contextlib
import functools

import pytest
from mutations import TABLE
from planting import WORLDS, Edit, Outcome, run

from thinconsumer.testing.simulation.swarm import Swarm

#: A world and its twin without the bug take seconds of CPU time.
pytestmark = pytest.mark.timeout(300)

PINS = TABLE.pins()


@functools.cache
def sound(swarm: type[Swarm], seed: int) -> Outcome:
    """Run a seed without any mutation; many mutations share one."""
    return run(swarm, seed)


def test_each_mutation_has_a_seed() -> None:
    """A mutation without a seed is not checked; a seed without a mutation is a leftover."""
    assert len(PINS) >= 50
    assert PINS.keys() == TABLE.mutations.keys()


@pytest.mark.parametrize("name", PINS)
def test_swarm_catches(name: str) -> None:
    """The same seed is fine without the bug, and accused with it."""
    mutation, seed = TABLE.mutations[name], PINS[name]
    again = f"if knobs have changed, find another seed: PYTHONPATH=. python {TABLE.file} --find {name!r} --write"
    if seed not in WORLDS[mutation.swarm]:  # test_swarm.py runs these worlds
        fine = sound(mutation.swarm, seed)
        assert not fine.accuser, f"seed {seed} fails without the mutation: {fine.words}; {again}"
    caught = run(mutation.swarm, seed, mutation)
    assert caught.accuser, f"no checker notices with seed {seed} that {mutation.breaks!r}; {again}"


@pytest.mark.parametrize("name", TABLE.mutations)
def test_every_bug_can_still_be_planted(name: str) -> None:
    """Words that are gone from the client would make a mutation that changes nothing."""
    for edit in TABLE.mutations[name].edits:
        assert edit.rewritten() is not None


def test_mutation_is_taken_back() -> None:
    """The tests after it must run the real client, even if a run raised."""
    mutation = TABLE.mutations["max_poll_records ignored"]
    owner, method = mutation.edits[0].owner, mutation.edits[0].method
    before = vars(owner)[method]
    with contextlib.suppress(ZeroDivisionError), mutation.applied():
        assert vars(owner)[method] is not before
        raise ZeroDivisionError
    assert vars(owner)[method] is before


def test_words_that_are_gone_are_an_error() -> None:
    """A mutation that changes nothing would never be caught, without a hint why."""
    edit = Edit(Swarm, "run", "no such words", "")
    with pytest.raises(LookupError, match="no such words"):
        edit.rewritten()
