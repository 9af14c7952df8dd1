"""Run swarms, which are simulations with random faults: one seed with its knobs and trace, or many seeds with totals.

The knobs are the parameters that a run draws from its seed. ``--seed 123`` repeats one run and shows its knobs, and the
trace if it fails. ``--seeds 1:20000 --jobs 2`` runs many seeds; those that fail are listed with the first line of their
error, and the exit code is 1. ``--groups`` simulates consumer groups instead of readers with assigned partitions,
``--consumer-groups`` those whose members use the consumer group protocol (KIP-848), and ``--order`` groups that read a
topic while its partition count changes. Members have workers with ``--workers``, ``--consumer-workers`` and
``--order-workers``.
"""

import argparse
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from thinconsumer_testing.simulation.world import Violation

from .consumer_group_swarm import ConsumerGroupSwarm
from .group_swarm import GroupSwarm
from .order_swarm import OrderSwarm
from .order_work_swarm import OrderWorkSwarm
from .parallel_swarm import ParallelConsumerGroupSwarm, ParallelSwarm
from .reader_swarm import ReaderSwarm
from .swarm import Swarm

#: Seconds between two progress lines.
PROGRESS_S = 10.0
#: Limit of a run's CPU time, in seconds.
CPU_S = 60.0


def say(*words: object) -> None:
    """Print a line and flush it: without that, a long run with piped output would show nothing."""
    print(*words, flush=True)


READERS, GROUPS, CONSUMER_GROUPS, ORDER = "readers", "groups", "consumer-groups", "order"
WORKERS, CONSUMER_WORKERS, ORDER_WORKERS = "workers", "consumer-workers", "order-workers"
ORDERED: dict[str, type[OrderSwarm]] = {ORDER: OrderSwarm, ORDER_WORKERS: OrderWorkSwarm}


def swarm_of(kind: str) -> type[Swarm]:
    """Return the class of a kind of run, other than those in ORDERED."""
    return {
        GROUPS: GroupSwarm,
        CONSUMER_GROUPS: ConsumerGroupSwarm,
        WORKERS: ParallelSwarm,
        CONSUMER_WORKERS: ParallelConsumerGroupSwarm,
    }.get(kind, ReaderSwarm)


def run_one(seed: int, *, kind: str = READERS) -> tuple[int, Counter[str], str]:
    """Run one seed; return the seed, counts of events, and the first line of the error (empty if there was none)."""
    limit(CPU_S)
    try:
        return seed, ORDERED.get(kind, swarm_of(kind))(seed).run(), ""
    except Exception as error:  # noqa: BLE001 - a run that breaks in any way is one that failed
        first = str(error).split("\n\n", 2)
        words = first[1].splitlines()[0] if isinstance(error, Violation) and len(first) > 1 else repr(error)
        return seed, Counter(), words[:400]
    finally:
        limit(0.0)


def limit(seconds: float) -> None:
    """Raise TimeoutError after ``seconds`` of CPU time (an endless loop); 0 cancels. Does nothing on Windows."""
    if hasattr(signal, "setitimer"):

        def too_long(*_: object) -> None:
            raise TimeoutError(f"more than {seconds:g} s of CPU time: the run is in an endless loop")

        signal.signal(signal.SIGVTALRM, too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def repeat(seed: int, show_trace: bool, *, kind: str = READERS) -> int:
    """Run one seed and print its knobs, and its trace if it fails or ``show_trace`` is set; return the exit code."""
    swarm = swarm_of(kind)(seed, traced=True)
    say(f"seed {seed}\n{swarm.knobs}\n")
    try:
        counts = swarm.run()
    except Violation as violation:
        say(str(violation).split("\n\n", 1)[-1])
        return 1
    if show_trace:
        say(swarm.sim.trace.text())
    say(_words(counts))
    say(f"trace {swarm.sim.trace.digest()}")
    return 0


def run_many(seeds: Sequence[int], jobs: int, *, kind: str = READERS) -> int:
    """Run all seeds in ``jobs`` processes and print totals; return the exit code."""
    began = told = time.monotonic()
    total: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    done = 0
    for seed, counts, error in _results(partial(run_one, kind=kind), seeds, jobs):
        done += 1
        total += counts
        if error:
            failed.append((seed, error))
            say(f"seed {seed} failed: {error}")
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            say(f"{done} of {len(seeds)}, {done / (told - began):.1f} seeds/s, {len(failed)} failed")
    seconds = time.monotonic() - began
    say(f"{done} seeds in {seconds:.1f} s, {done / max(seconds, 1e-9):.2f} seeds/s, {len(failed)} failed")
    say(_words(total))
    if failed:
        say("failed seeds:", *(seed for seed, _ in failed))
    return 1 if failed else 0


def _results(
    run: Callable[[int], tuple[int, Counter[str], str]], seeds: Sequence[int], jobs: int
) -> Iterator[tuple[int, Counter[str], str]]:
    if jobs <= 1:
        yield from map(run, seeds)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=testing:tests/swarm python -m lab", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat one run, with its trace")
    parser.add_argument("--seeds", default="1:150", help="a range of seeds, first:last (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in (default %(default)s)")
    parser.add_argument("--trace", action="store_true", help="with --seed: show the whole trace")
    parser.add_argument("--knobs", action="store_true", help="with --seed: show the knobs and run nothing")
    kinds = parser.add_mutually_exclusive_group()
    for kind, words in (
        (GROUPS, "worlds of consumer groups"),
        (CONSUMER_GROUPS, "worlds of groups with the consumer group protocol"),
        (ORDER, "worlds of a topic whose partition count changes"),
        (WORKERS, "worlds of groups whose members have workers"),
        (CONSUMER_WORKERS, "the same with the consumer group protocol"),
        (ORDER_WORKERS, "worlds of a topic whose partition count changes, and whose readers have workers"),
    ):
        kinds.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind", help=words)
    parser.set_defaults(kind=READERS)
    options = parser.parse_args(arguments)
    if options.seed is None:
        first, _, last = options.seeds.partition(":")
        return run_many(range(int(first), int(last or first) + 1), options.jobs, kind=options.kind)
    if options.kind in ORDERED:
        say(f"seed {options.seed}\n{ORDERED[options.kind].draw(options.seed)}\n")
        return 0 if options.knobs else run_many([options.seed], 1, kind=options.kind)
    if options.knobs:
        say(swarm_of(options.kind).draw(options.seed))
        return 0
    return repeat(options.seed, options.trace, kind=options.kind)


if __name__ == "__main__":
    sys.exit(main())
