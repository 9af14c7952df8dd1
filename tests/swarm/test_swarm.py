"""150 worlds drawn from 150 seeds: no checker accuses, every reader gets to the end, and no world is empty.

Each has a virtual minute of faults and then peace; see ``thinconsumer.testing.simulation.swarm``. Seeds run in blocks,
so that one that fails is named at once; the sums are checked at the end. A failing seed prints its knobs, its trace's
end, and the command that repeats it.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from thinconsumer.testing.simulation import ReaderSwarm, Violation
from thinconsumer.testing.simulation.knobs import Knobs

SEEDS = 150
BLOCK = 5
#: The least counts of 150 worlds: about half of what they did when this was written.
MINIMUMS = {
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
}


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BLOCK))
def test_no_checker_accuses_and_every_reader_gets_to_the_end(first: int, summed: Callable[..., None]) -> None:
    """Safety and liveness, with every checker on."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        counts.update(ReaderSwarm(seed).run())
    summed("worlds", first, SEEDS // BLOCK, counts, MINIMUMS)


def test_the_same_seed_is_the_same_run_in_every_process(digest_in_child: Callable[[str, str], str]) -> None:
    """Traces are equal line by line, whatever ``hash()`` does: otherwise no failure could be repeated."""
    digests = {digest_in_child("ReaderSwarm", hash_seed) for hash_seed in ("0", "1", "4711")}
    assert len(digests) == 1
    other = ReaderSwarm(8, traced=True)
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


def test_a_world_costs_less_than_half_a_second() -> None:
    """150 of them are to take less than a minute on one core."""
    began = time.process_time()
    for seed in range(1, 11):
        ReaderSwarm(seed).run()
    assert time.process_time() - began < 6.0
