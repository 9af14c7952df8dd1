"""The swarm of groups notices bugs: each mutation of the client's group code is caught by its seed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    """Load the file beside this one; tests are not importable by name."""
    path = Path(__file__).with_name("group_mutations.py")
    spec = importlib.util.spec_from_file_location("swarm_group_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutations = _load()
PINS = mutations.pins()


@functools.cache
def sound(seed: int) -> object:
    """Run a seed without any mutation; many mutations share one."""
    return mutations.run(seed)


def test_there_are_at_least_twelve_mutations_and_each_has_a_seed() -> None:
    """A mutation without a seed is not checked, unless it is named as a hole; a seed without one is a leftover."""
    assert len(PINS) >= 12
    assert set(PINS) == set(mutations.MUTATIONS) - set(mutations.NOT_CAUGHT), mutations.COMMAND.format(name="all")


@pytest.mark.parametrize("name", list(PINS))
def test_swarm_catches(name: str) -> None:
    """The same seed is fine without the bug, and accused with it."""
    seed = PINS[name].seed
    again = f"if knobs have changed, find another seed: {mutations.COMMAND.format(name=repr(name))}"
    fine = sound(seed)
    assert not fine.accuser, f"seed {seed} fails without the mutation: {fine.words}; {again}"
    caught = mutations.run(seed, mutations.MUTATIONS[name])
    assert caught.accuser, f"nobody notices with seed {seed} that {mutations.MUTATIONS[name].breaks!r}; {again}"


@pytest.mark.parametrize("name", list(mutations.MUTATIONS))
def test_every_bug_can_still_be_planted(name: str) -> None:
    """Words that are gone from the client would make a mutation that changes nothing."""
    for edit in mutations.MUTATIONS[name].edits:
        assert edit.rewritten() is not None
