"""Worlds drawn from seeds, 150 of readers and 60 of groups: no checker accuses, every client catches up, none is empty.

Each world has a virtual minute of faults and then peace; groups then change in good order, and rest. See
``thinconsumer.testing.simulation.swarm``. Seeds run in blocks, so that a failing one is named at once; the sums are
checked at the end. A failing seed prints its knobs, its trace's end, and the command that repeats it.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from thinconsumer.testing.simulation import GroupSwarm, ReaderSwarm, Violation
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.testing.simulation.swarm import Swarm

#: Worlds take seconds of CPU time: on a busy machine the usual limit ends a block of them.
pytestmark = pytest.mark.timeout(300)

#: The least counts of all worlds: about half of what they did when this was written.
READER_MINIMUMS = {
    "records": 170_000,
    "fetches": 14_000,
    "leader_changes": 430,
    "kills": 100,
    "cuts": 120,
    "drops": 1000,
    "half_open": 500,
    "refused": 600,
    "out_of_range": 75,
    "truncations": 65,
    "takeovers": 50,
    "corrupted": 50,
    "validations": 1700,
    "fenced": 600,
    "session_errors": 8,
    "crashes": 75,
    "stalls": 90,
    "clock_jumps": 50,
    "deletions": 80,
    "compactions": 170,
    "expansions": 20,
    "committed": 250,
    "aborted": 150,
    "mishandled": 500,
    "errors": 400,
    "logins": 560,
    "reauthentications": 310,
    "rejected_logins": 300,
    "rejections": 11,
    "provider_outages": 6,
    "tokens": 90,
}
GROUP_MINIMUMS = {
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
    "logins": 820,
    "reauthentications": 540,
    "rejected_logins": 370,
    "rejections": 8,
    "tokens": 10,
}
#: Of each kind of swarm: its seeds, how many of them are one test, and the least counts.
SWARMS: dict[type[Swarm], tuple[int, int, dict[str, int]]] = {
    ReaderSwarm: (150, 5, READER_MINIMUMS),
    GroupSwarm: (60, 3, GROUP_MINIMUMS),
}


@pytest.mark.parametrize(
    ("swarm", "first"),
    [(swarm, first) for swarm, (seeds, block, _) in SWARMS.items() for first in range(1, seeds, block)],
)
def test_no_checker_accuses_and_every_client_catches_up(
    swarm: type[Swarm], first: int, summed: Callable[..., None]
) -> None:
    """Safety and liveness, and of groups order and quiet, with every checker on."""
    seeds, block, minimums = SWARMS[swarm]
    counts: Counter[str] = Counter()
    for seed in range(first, first + block):
        counts.update(swarm(seed).run())
    summed(swarm.__name__, first, seeds // block, counts, minimums)


@pytest.mark.parametrize("swarm", SWARMS)
def test_the_same_seed_is_the_same_run_in_every_process(
    swarm: type[Swarm], digest_in_child: Callable[[str, str], str]
) -> None:
    """Traces are equal line by line, whatever ``hash()`` does: otherwise no failure could be repeated."""
    digests = {digest_in_child(swarm.__name__, hash_seed) for hash_seed in ("0", "1", "4711")}
    assert len(digests) == 1
    other = swarm(8, traced=True)
    other.run()
    assert other.sim.trace.digest() not in digests


def test_a_failure_says_how_to_repeat_it() -> None:
    """Seed, knobs, trace and the command are all there."""
    swarm = ReaderSwarm(3, traced=True)
    swarm.sim.world.call_later(20, lambda: swarm.sim.world.accuse("nothing is really wrong"))
    with pytest.raises(Violation) as caught:
        swarm.run()
    words = str(caught.value)
    assert "nothing is really wrong" in words
    assert "python -m thinconsumer.testing.simulation --seed 3" in words
    assert str(Knobs.draw(3)) in words
    place = Path(words.split("all of the trace: ")[1].splitlines()[0])
    trace = place.read_text(encoding="utf-8")
    assert trace.splitlines()[0].split() == ["time", "actor", "state", "event", "why"]
    assert trace.rstrip().endswith(words.rstrip().splitlines()[-1])
    place.unlink()


@pytest.mark.parametrize(
    ("swarm", "seeds", "seconds"), [(ReaderSwarm, range(1, 11), 1.0), (GroupSwarm, range(2, 5), 2.5)]
)
def test_worlds_are_cheap(swarm: type[Swarm], seeds: range, seconds: float) -> None:
    """Busy cores need 0.7 s of CPU time for a world of readers, and 1.6 s for one of groups."""
    began = time.process_time()
    for seed in seeds:
        swarm(seed).run()
    assert time.process_time() - began < seconds * len(seeds)
