"""Worlds drawn from seeds: no checker accuses, every client catches up, none is empty.

They are 40 of readers, 16 of classic groups, 8 of groups with the consumer group protocol, and 4 of each protocol whose
members have workers; with ``--soak``, ten times as many.

Each world has a virtual minute of faults and then peace; groups then change in good order, and rest. See
``lab.swarm``. Seeds run in blocks, so that a failing one is named at once; the sums are
checked at the end. A failing seed prints its knobs, its trace's end, and the command that repeats it.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import ConsumerGroupSwarm, GroupSwarm, ParallelConsumerGroupSwarm, ParallelSwarm, ReaderSwarm
from lab.knobs import Knobs
from lab.swarm import Swarm
from seed_search import SOAKED, WORLDS

from thinconsumer_testing.simulation import Violation

#: Worlds take seconds of CPU time: on a busy machine the usual limit ends a block of them.
pytestmark = pytest.mark.timeout(300)

#: The least counts of all worlds: about half of what they did when this was written.
READER_MINIMUMS = {
    "records": 66_000,
    "fetches": 4500,
    "leader_changes": 120,
    "kills": 32,
    "cuts": 38,
    "drops": 420,
    "half_open": 150,
    "refused": 280,
    "out_of_range": 22,
    "truncations": 20,
    "takeovers": 17,
    "corrupted": 16,
    "validations": 490,
    "fenced": 240,
    "session_errors": 5,
    "crashes": 18,
    "stalls": 30,
    "clock_jumps": 16,
    "deletions": 30,
    "compactions": 64,
    "expansions": 12,
    "committed": 70,
    "aborted": 41,
    "mishandled": 200,
    "errors": 260,
    "logins": 180,
    "reauthentications": 84,
    "rejected_logins": 100,
    "rejections": 6,
    "provider_outages": 4,
    "tokens": 18,
}
GROUP_MINIMUMS = {
    "processed": 1400,
    "written": 1200,
    "fetches": 880,
    "lives": 63,
    "rebalances": 83,
    "assigned": 220,
    "revoked": 120,
    "lost": 6,
    "coordinator_kills": 8,
    "coordinator_moves": 12,
    "coordinator_pauses": 4,
    "leader_moves": 10,
    "kills": 1,
    "cuts": 10,
    "drops": 94,
    "half_open": 46,
    "fenced": 18,
    "refusals": 22,
    "crashes": 5,
    "absences": 12,
    "stalls": 13,
    "clock_jumps": 4,
    "bounces": 11,
    "departures": 15,
    "changes_of_mind": 3,
    "appearances": 2,
    "growths": 2,
    "vanishings": 2,
    "errors": 48,
    "lines": 430,
    "logins": 130,
    "reauthentications": 82,
    "rejections": 1,
    "tokens": 11,
}
CONSUMER_GROUP_MINIMUMS = {"processed": 1500, "epochs": 140, "assigned": 160, "revoked": 72, "lives": 58}
PARALLEL_MINIMUMS = {
    "jobs": 250,
    "commits": 80,
    "maps": 2,
    "dead_letters": 12,
    "interrupts": 7,
    "assigned": 50,
    "revoked": 20,
    "lives": 20,
}
#: Of each kind of swarm: how many seeds are one test, and the least counts.
SWARMS: dict[type[Swarm], tuple[int, dict[str, int]]] = {
    ReaderSwarm: (4, READER_MINIMUMS),
    GroupSwarm: (2, GROUP_MINIMUMS),
    ConsumerGroupSwarm: (2, CONSUMER_GROUP_MINIMUMS),
    ParallelSwarm: (2, PARALLEL_MINIMUMS),
    ParallelConsumerGroupSwarm: (2, PARALLEL_MINIMUMS),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each block of seeds."""
    if "seeds" in metafunc.fixturenames and "summed" in metafunc.fixturenames:
        times = SOAKED if metafunc.config.getoption("--soak") else 1
        blocks = [
            pytest.param(swarm, range(first, first + block), id=f"{swarm.__name__}-{first}")
            for swarm, (block, _) in SWARMS.items()
            for first in range(0, times * len(WORLDS[swarm]), block)
        ]
        metafunc.parametrize(("swarm", "seeds"), blocks)


def test_no_checker_accuses_and_every_client_catches_up(
    swarm: type[Swarm], seeds: range, summed: Callable[..., None], pytestconfig: pytest.Config
) -> None:
    """Safety and liveness, and of groups order and quiet, with every checker on."""
    block, minimums = SWARMS[swarm]
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(swarm(seed).run())
    times = SOAKED if pytestconfig.getoption("--soak") else 1
    summed(swarm.__name__, seeds.start, times * len(WORLDS[swarm]) // block, counts, minimums)


@pytest.mark.parametrize("swarm", SWARMS)
def test_the_same_seed_is_the_same_run_in_every_process(
    swarm: type[Swarm], digest_in_child: Callable[[str, str], str]
) -> None:
    """Traces are equal line by line, whatever ``hash()`` does: otherwise no failure could be repeated."""
    here = swarm(7, traced=True)
    here.run()
    assert len(here.sim.trace) > 100
    # Hashes of strings are random in this process, unless PYTHONHASHSEED is set.
    hash_seed = "4711" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    assert digest_in_child(swarm.__name__, hash_seed) == here.sim.trace.digest()


def test_a_failure_says_how_to_repeat_it() -> None:
    """Seed, knobs, trace and the command are all there."""
    swarm = ReaderSwarm(3, traced=True)
    swarm.sim.world.call_later(20, lambda: swarm.sim.world.accuse("nothing is really wrong"))
    with pytest.raises(Violation) as caught:
        swarm.run()
    words = str(caught.value)
    assert "nothing is really wrong" in words
    assert "PYTHONPATH=testing:tests/swarm python -m lab --seed 3" in words
    assert str(Knobs.draw(3)) in words
    place = Path(words.split("all of the trace: ")[1].splitlines()[0])
    trace = place.read_text(encoding="utf-8")
    assert trace.splitlines()[0].split() == ["time", "actor", "state", "event", "why"]
    assert trace.rstrip().endswith(words.rstrip().splitlines()[-1])
    place.unlink()


@pytest.mark.parametrize(
    ("swarm", "seeds", "seconds"), [(ReaderSwarm, range(1, 6), 1.0), (GroupSwarm, range(2, 4), 2.5)]
)
def test_worlds_are_cheap(swarm: type[Swarm], seeds: range, seconds: float) -> None:
    """Busy cores need 0.7 s of CPU time for a world of readers, and 1.6 s for one of groups."""
    began = time.process_time()
    for seed in seeds:
        swarm(seed).run()
    assert time.process_time() - began < seconds * len(seeds)
