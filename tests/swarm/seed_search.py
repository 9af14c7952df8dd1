"""Searches swarms for a seed in which a checker notices a planted bug.

A bug counts as noticed if any of :data:`WORLDS_MAX` worlds shows it, so that no change of the client moves it out of
sight. The search begins with the seed of ``hints.json``, which only saves time: the search goes on if that seed does
not show the bug any more. This command searches for some or all bugs, and writes the seeds found to that file:

    PYTHONPATH=.:testing python tests/swarm/seed_search.py ['newest first' ...]
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from consumer_group_bugs import CONSUMER_GROUP_BUGS
from group_bugs import GROUP_BUGS
from lab import ConsumerGroupSwarm, GroupSwarm, ParallelConsumerGroupSwarm, ParallelSwarm, ReaderSwarm
from lab.__main__ import limit
from lab.checkers.key_order import OutOfOrder
from login_bugs import LOGIN_BUGS
from order_bugs import ORDER_BUGS
from order_work_bugs import ORDER_WORK_BUGS
from planting import AnySwarm, PlantedBug, planted
from reader_bugs import READER_BUGS
from work_bugs import WORK_BUGS

from thinconsumer_testing.simulation import Violation

BUGS: dict[str, PlantedBug] = {
    bug.name: bug
    for bugs in (READER_BUGS, LOGIN_BUGS, GROUP_BUGS, CONSUMER_GROUP_BUGS, ORDER_BUGS, WORK_BUGS, ORDER_WORK_BUGS)
    for bug in bugs
}
HINTS = Path(__file__).with_name("hints.json")
#: The number of worlds, among those that meet a bug's ``needs``, of which at least one has to show the bug.
WORLDS_MAX = 300
#: Of so many seeds at most one meets a bug's ``needs``, or these are too narrow.
SEEDS_PER_WORLD = 100
#: The seeds that ``test_swarm.py`` runs without any bug; with ``--soak`` it runs ``SOAKED`` times as many.
WORLDS: dict[AnySwarm, range] = {
    ReaderSwarm: range(40),
    GroupSwarm: range(16),
    ConsumerGroupSwarm: range(8),
    ParallelSwarm: range(4),
    ParallelConsumerGroupSwarm: range(4),
}
SOAKED = 10
#: The files with planted code end so.
PLANTED = ("_bugs.py", "planting.py")
#: Seconds of CPU time that a run may take: some bugs make every step a long one.
CPU_S = 12.0


@dataclass(frozen=True)
class Catch:
    """A seed that shows a bug, and the violation that a checker reported."""

    seed: int
    violation: str


def hints() -> dict[str, int]:
    """Return the seeds that were written down last, by the name of the bug."""
    found: dict[str, int] = json.loads(HINTS.read_text(encoding="utf-8"))
    return found


def search(bug: PlantedBug, hint: int | None = None) -> Catch:
    """Return the first seed that shows the bug. Without the bug the run of this seed has no violation.

    Raises: AssertionError; and whatever planted code itself raises, as it uses or replaces what is no longer there.
    """
    with planted(*bug.plants):
        crash: Exception | None = None
    for seed in _seeds(bug, hint):
        try:
            violation = run(bug.swarm, seed, bug)
        except Exception as error:  # a crash is no finding of a checker; another seed may show the bug
            if traceback.extract_tb(error.__traceback__)[-1].filename.endswith(PLANTED):
                raise
            crash = error
            continue
        if violation:
            fine = seed in WORLDS.get(bug.swarm, ()) or not (sound := run_sound(bug.swarm, seed))
            assert fine, f"seed {seed} of {bug.swarm.__name__} fails without any bug: {sound}"
            return Catch(seed, violation)
    raise AssertionError(f"no checker notices in {WORLDS_MAX} worlds: {bug.breaks}") from crash


def run(swarm: AnySwarm, seed: int, bug: PlantedBug | None = None) -> str:
    """Run a seed up to the first violation, and return its first line; an empty string if there is none.

    Raises: whatever the client or the planted code raises, and AssertionError for an exception inside of a broker.
    """
    with planted(*bug.plants if bug is not None else ()):
        world = swarm(seed)
        limit(CPU_S)
        try:
            world.run()
        except (Violation, OutOfOrder) as found:
            bugs = getattr(world, "sim", world).cluster.bugs
            assert not bugs, f"an exception inside of a broker is not a checker's finding: {bugs[0]}"
            return _first_line(str(found))
        except TimeoutError:
            pass  # a faster machine would have come further
        finally:
            limit(0.0)
    return ""


@functools.cache
def run_sound(swarm: AnySwarm, seed: int) -> str:
    """Run a seed without any bug; several bugs share it."""
    return run(swarm, seed)


def _seeds(bug: PlantedBug, hint: int | None) -> Iterator[int]:
    """Yield the hint, and then the first seeds whose worlds meet the needs of the bug."""
    if hint is not None:
        yield hint
    every = range(WORLDS_MAX * SEEDS_PER_WORLD)
    yield from islice((seed for seed in every if seed != hint and bug.can_show(seed)), WORLDS_MAX)


def _first_line(report: str) -> str:
    parts = report.split("\n\n")
    return parts[min(1, len(parts) - 1)].splitlines()[0][:200]


def main(names: list[str]) -> int:
    """Search for these bugs, all by default, and write the seeds to the file of hints."""
    known, missed = hints(), 0
    for name in names or BUGS:
        try:
            catch = search(BUGS[name], known.get(name))
        except AssertionError as error:
            missed += 1
            print(f"{name}: {error}", flush=True)
            continue
        known[name] = catch.seed
        print(f"{name}: seed {catch.seed}: {catch.violation}", flush=True)
        seeds = {name: seed for name, seed in sorted(known.items()) if name in BUGS}
        HINTS.write_text(json.dumps(seeds, indent=2) + "\n", encoding="utf-8")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
