"""Worlds of consumer groups drawn from seeds: nothing wrong happens, everybody gets to the end, and none is empty.

See ``thinconsumer.testing.simulation.groups.swarm``: a virtual minute of faults, peace, and a change in good order.
"""

from __future__ import annotations

from collections import Counter

import pytest

from thinconsumer.testing.simulation.groups import GroupSwarm

SEEDS = range(5, 17)
#: What these worlds have to bring about at least: about half of what they did when this was written.
MINIMUMS = {
    "processed": 1200,
    "rebalances": 75,
    "assigned": 190,
    "revoked": 95,
    "coordinator_kills": 3,
    "coordinator_moves": 9,
    "crashes": 5,
    "departures": 6,
    "bounces": 9,
    "stalls": 8,
    "absences": 6,
    "drops": 90,
}

total: Counter[str] = Counter()
done: list[int] = []


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong_and_everybody_gets_to_the_end(seed: int) -> None:
    """Safety, liveness and order, with every checker on."""
    total.update(GroupSwarm(seed).run())
    done.append(seed)


def test_the_worlds_are_not_empty() -> None:
    """Each kind of trouble has happened, and records came through it; judged where all seeds ran in this process."""
    for seed in set(SEEDS) - set(done):
        total.update(GroupSwarm(seed).run())
    assert {name: (total[name], least) for name, least in MINIMUMS.items() if total[name] < least} == {}
