"""60 worlds of groups drawn from 60 seeds: no checker accuses, and no world is empty.

Each has a virtual minute of faults, then peace, then a change in good order, then quiet; see
``thinconsumer.testing.simulation.group_swarm``. Seeds run in blocks, so that one that fails is named at once; the sums
are checked at the end. A failing seed prints its knobs, its trace's end, and the command that repeats it.
"""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from thinconsumer.testing.simulation import GroupSwarm

SEEDS = 60
BLOCK = 3
#: The least counts of 60 worlds: about half of what they did when this was written.
MINIMUMS = {
    "processed": 7500,
    "written": 5000,
    "fetches": 3300,
    "lives": 270,
    "rebalances": 390,
    "assigned": 1000,
    "revoked": 490,
    "lost": 38,
    "coordinator_kills": 28,
    "coordinator_moves": 40,
    "coordinator_pauses": 12,
    "leader_moves": 32,
    "kills": 19,
    "cuts": 22,
    "drops": 400,
    "half_open": 200,
    "fenced": 56,
    "refusals": 110,
    "crashes": 28,
    "absences": 29,
    "stalls": 50,
    "clock_jumps": 17,
    "bounces": 64,
    "departures": 27,
    "changes_of_mind": 11,
    "appearances": 11,
    "growths": 12,
    "vanishings": 8,
    "errors": 300,
    "lines": 2100,
}


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BLOCK))
def test_no_checker_accuses_and_every_group_settles(first: int, summed: Callable[..., None]) -> None:
    """Safety, liveness, order and quiet, with every checker on."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        counts.update(GroupSwarm(seed).run())
    summed("groups", first, SEEDS // BLOCK, counts, MINIMUMS)


def test_the_same_seed_is_the_same_run_in_every_process(digest_in_child: Callable[[str, str], str]) -> None:
    """Traces are equal line by line, whatever ``hash()`` does: otherwise no failure could be repeated."""
    digests = {digest_in_child("GroupSwarm", hash_seed) for hash_seed in ("0", "4711")}
    assert len(digests) == 1


def test_a_world_costs_less_than_a_second() -> None:
    """60 of them are to take less than half a minute on one core."""
    began = time.process_time()
    for seed in range(2, 5):
        GroupSwarm(seed).run()
    assert time.process_time() - began < 4.5
