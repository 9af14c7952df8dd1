"""The swarms notice bugs: each mutation of the client is caught by the seed that is written down for it."""

import contextlib
import functools

import group_mutations
import mutations
import pytest
from planting import Edit

#: A world and its twin without the bug take seconds of CPU time.
pytestmark = pytest.mark.timeout(300)

TABLES = {"reading": mutations.TABLE, "groups": group_mutations.TABLE}
PINS = {kind: table.pins() for kind, table in TABLES.items()}


@functools.cache
def sound(kind: str, seed: int) -> object:
    """Run a seed without any mutation; many mutations share one."""
    return TABLES[kind].run(seed)


@pytest.mark.parametrize("kind", TABLES)
def test_there_are_at_least_twelve_mutations_and_each_has_a_seed(kind: str) -> None:
    """A mutation without a seed is not checked; a seed without a mutation is a leftover."""
    table = TABLES[kind]
    assert len(PINS[kind]) >= 12
    assert set(PINS[kind]) == set(table.mutations), table.command("all")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, pins in PINS.items() for name in pins])
def test_swarm_catches(kind: str, name: str) -> None:
    """The same seed is fine without the bug, and accused with it."""
    table, seed = TABLES[kind], PINS[kind][name].seed
    again = f"if knobs have changed, find another seed: {table.command(repr(name))}"
    fine = sound(kind, seed)
    assert not fine.accuser, f"seed {seed} fails without the mutation: {fine.words}; {again}"
    caught = table.run(seed, table.mutations[name])
    assert caught.accuser, f"no checker notices with seed {seed} that {table.mutations[name].breaks!r}; {again}"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, table in TABLES.items() for name in table.mutations])
def test_every_bug_can_still_be_planted(kind: str, name: str) -> None:
    """Words that are gone from the client would make a mutation that changes nothing."""
    for edit in TABLES[kind].mutations[name].edits:
        assert edit.rewritten() is not None


def test_mutation_is_taken_back() -> None:
    """The tests after it must run the real client, even if a run raised."""
    mutation = mutations.TABLE.mutations["max_poll_records ignored"]
    owner, method = mutation.edits[0].owner, mutation.edits[0].method
    before = vars(owner)[method]
    with contextlib.suppress(ZeroDivisionError), mutation.applied():
        assert vars(owner)[method] is not before
        raise ZeroDivisionError
    assert vars(owner)[method] is before


def test_words_that_are_gone_are_an_error() -> None:
    """A mutation that changes nothing would never be caught, without a hint why."""
    edit = Edit(mutations.Collector, "place", "no such words", "")
    with pytest.raises(LookupError, match="no such words"):
        edit.rewritten()
