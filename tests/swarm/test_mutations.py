"""The swarms notice bugs: each mutation of the client is caught by the seed that is written down for it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """Load a file beside this one; tests are not importable by name."""
    spec = importlib.util.spec_from_file_location(f"swarm_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutations = _load("mutations")  # of reading
TABLES = {"reading": mutations, "groups": _load("group_mutations")}
PINS = {kind: table.pins() for kind, table in TABLES.items()}


@functools.cache
def sound(kind: str, seed: int) -> object:
    """Run a seed without any mutation; many mutations share one."""
    return TABLES[kind].run(seed)


@pytest.mark.parametrize("kind", TABLES)
def test_there_are_at_least_twelve_mutations_and_each_has_a_seed(kind: str) -> None:
    """A mutation without a seed is not checked, unless it is named as a hole; a seed without one is a leftover."""
    table = TABLES[kind]
    assert len(PINS[kind]) >= 12
    assert set(PINS[kind]) == set(table.MUTATIONS) - set(table.NOT_CAUGHT), table.COMMAND.format(name="all")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, pins in PINS.items() for name in pins])
def test_swarm_catches(kind: str, name: str) -> None:
    """The same seed is fine without the bug, and accused with it."""
    table, seed = TABLES[kind], PINS[kind][name].seed
    again = f"if knobs have changed, find another seed: {table.COMMAND.format(name=repr(name))}"
    fine = sound(kind, seed)
    assert not fine.accuser, f"seed {seed} fails without the mutation: {fine.words}; {again}"
    caught = table.run(seed, table.MUTATIONS[name])
    assert caught.accuser, f"nobody notices with seed {seed} that {table.MUTATIONS[name].breaks!r}; {again}"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, table in TABLES.items() for name in table.MUTATIONS])
def test_every_bug_can_still_be_planted(kind: str, name: str) -> None:
    """Words that are gone from the client would make a mutation that changes nothing."""
    for edit in TABLES[kind].MUTATIONS[name].edits:
        assert edit.rewritten() is not None


def test_mutation_is_taken_back() -> None:
    """Whatever runs after it must meet the real client, also when the run was cut short."""
    mutation = mutations.MUTATIONS["max_poll_records ignored"]
    owner, method = mutation.edits[0].owner, mutation.edits[0].method
    before = vars(owner)[method]
    with contextlib.suppress(ZeroDivisionError), mutation.applied():
        assert vars(owner)[method] is not before
        raise ZeroDivisionError
    assert vars(owner)[method] is before


def test_words_that_are_gone_are_an_error() -> None:
    """A mutation that changes nothing would be one that is never caught, and nobody would know why."""
    edit = mutations.Edit(mutations.Collector, "place", "no such words", "")
    with pytest.raises(LookupError, match="no such words"):
        edit.rewritten()
