"""Plants deliberate bugs in the client, and finds the seeds of swarms in which a checker notices them.

A bug that no checker notices shows that the checkers miss something. A :class:`Mutation` replaces methods of the client
by themselves with a few words changed; it raises LookupError once these words are gone from the client. All mutations
are in ``mutations.py``, and a seed that shows each is in a JSON file. This command finds the seeds anew, for example
after a change of the knobs; with ``--cheapest`` it goes on to the end of the range, and takes the shortest runs:

    PYTHONPATH=. python tests/swarm/mutations.py --find all --seeds 0:500 --write
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from thinconsumer.testing.simulation import ConsumerGroupSwarm, GroupSwarm, ReaderSwarm, Violation
from thinconsumer.testing.simulation.__main__ import limit
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.testing.simulation.swarm import Swarm

#: The seeds that ``test_swarm.py`` runs without any bug; with ``--soak`` it runs ``SOAKED`` times as many.
WORLDS: dict[type[Swarm], range] = {ReaderSwarm: range(40), GroupSwarm: range(16), ConsumerGroupSwarm: range(8)}
SOAKED = 10
#: Seconds of CPU time that a run may take: some bugs make every step a long one.
CPU_S = 12.0
#: Events after which a run is taken for an endless one; sound runs have a tenth of it.
EVENTS_MAX = 100_000


@dataclass(frozen=True)
class Edit:
    """One method of the client with some of its words changed."""

    owner: type | ModuleType
    method: str
    old: str
    new: str

    def rewritten(self) -> Any:
        """Return the method as it reads with the change. Raises: LookupError, where there is nothing to change."""
        found = inspect.getattr_static(self.owner, self.method)
        function = found.fget if isinstance(found, property) else found
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.owner.__name__}.{self.method} has {self.old!r} {source.count(self.old)} times")
        code = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        names: dict[str, Any] = {}
        exec(compile(code, f"<{self.owner.__name__}.{self.method}, mutated>", "exec"), function.__globals__, names)
        return names[function.__name__]


@dataclass(frozen=True)
class Mutation:
    """One bug: ``breaks`` says what is wrong with it, and what a user was promised instead."""

    swarm: type[Swarm]
    name: str
    breaks: str
    edits: tuple[Edit, ...]
    needs: Callable[[Knobs], object]  #: Worlds in which the bug cannot do anything need not be searched.

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Have the bug inside of the block."""
        with ExitStack() as stack:
            for edit in self.edits:
                original = inspect.getattr_static(edit.owner, edit.method)
                new = edit.rewritten()
                stack.callback(setattr, edit.owner, edit.method, original)
                setattr(edit.owner, edit.method, new)
            yield


def bug(
    swarm: type[Swarm],
    name: str,
    breaks: str,
    *edits: tuple[type | ModuleType, str, str, str],
    needs: Callable[[Knobs], object] = lambda knobs: True,
) -> Mutation:
    """Return one row of the table."""
    return Mutation(swarm, name, breaks, tuple(Edit(*edit) for edit in edits), needs)


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    accuser: str  #: The checker that accused; empty if none did.
    words: str
    events: int = 0  #: How many events of the world have happened: what the run costs.


class Accusers:
    """Notes which checker accuses first in a run; the application or a bound may, too."""

    def __init__(self, swarm: Swarm, events_max: int) -> None:
        self.first = ""
        self._events_max = events_max
        self._world = world = swarm.sim.world
        self._accuse, self._step = world.accuse, world.step
        world.accuse = functools.partial(self.accuse, "application")  # type: ignore[method-assign]
        world.step = self.step  # type: ignore[method-assign]
        for checker in swarm.sim.jury.checkers:
            checker.accuse = functools.partial(self.accuse, type(checker).__name__)

    def accuse(self, who: str, words: str) -> None:
        """Remember the first."""
        self.first = self.first or who
        self._accuse(words)

    def step(self) -> None:
        """Let one event of the world happen, but not without end."""
        if self._world.happened > self._events_max:
            if self._events_max < EVENTS_MAX:
                raise TimeoutError
            self.first = self.first or "bounds"
            raise Violation(f"more than {EVENTS_MAX} events")
        self._step()


def _first_words(report: str) -> str:
    parts = report.split("\n\n")
    return parts[min(1, len(parts) - 1)].splitlines()[0][:200]


def run(swarm: type[Swarm], seed: int, mutation: Mutation | None = None, *, events_max: int = EVENTS_MAX) -> Outcome:
    """Run the swarm of a seed, up to the first broken promise. After ``events_max`` events no promise counts."""
    with ExitStack() as stack:
        if mutation is not None:
            stack.enter_context(mutation.applied())
        world = swarm(seed)
        accusers, events = Accusers(world, events_max), world.sim.world
        limit(CPU_S)
        stack.callback(limit, 0.0)
        try:
            world.run()
        except Violation as violation:
            return Outcome(accusers.first or "liveness", _first_words(str(violation)), events.happened)
        except TimeoutError:
            pass  # not a catch: a faster machine would have come further
        except Exception as error:  # noqa: BLE001 - a client that breaks in any way has been caught
            return Outcome(type(error).__name__, str(error), events.happened)
    return Outcome("", "", events.happened)


@dataclass(frozen=True)
class BugTable:
    """The mutations, and the search for seeds that show them."""

    file: Path  #: The seeds are in a file of this name that ends in ``.json``.
    rows: Iterable[Mutation]

    @functools.cached_property
    def mutations(self) -> dict[str, Mutation]:
        """Return the mutations by name."""
        return {row.name: row for row in self.rows}

    @property
    def _json(self) -> Path:
        return self.file.with_suffix(".json")

    def pins(self) -> dict[str, int]:
        """Return the seeds that were written down last."""
        pins: dict[str, int] = json.loads(self._json.read_text(encoding="utf-8"))
        return pins

    def find(self, names: list[str], seeds: range, tell: Callable[[str], None], until: float) -> dict[str, int]:
        """Return the first seed that shows each of these mutations and runs well without it."""
        for edit in (edit for name in names for edit in self.mutations[name].edits):
            edit.rewritten()  # raises at once if words are gone
        catches: dict[str, int] = {}
        for seed in seeds:
            for mutation in [self.mutations[name] for name in names if name not in catches]:
                if time.perf_counter() > until:
                    return catches
                if not mutation.needs(mutation.swarm.draw(seed)):
                    continue
                outcome = run(mutation.swarm, seed, mutation)
                if outcome.accuser and not run(mutation.swarm, seed).accuser:
                    catches[mutation.name] = seed
                    tell(f"seed {seed}: {mutation.name}: {outcome.accuser}: {outcome.words}")
        return catches

    def find_cheapest(
        self, names: list[str], seeds: range, tell: Callable[[str], None], until: float
    ) -> dict[str, int]:
        """Return the seed that shows each of these mutations in the fewest events.

        The run without the mutation counts, too, unless ``test_swarm.py`` makes it anyhow.
        """
        catches: dict[str, int] = {}
        for name in names:
            mutation, best = self.mutations[name], EVENTS_MAX
            for seed in seeds:
                if time.perf_counter() > until:
                    return catches
                if not mutation.needs(mutation.swarm.draw(seed)):
                    continue
                outcome = run(mutation.swarm, seed, mutation, events_max=best)
                if not outcome.accuser:
                    continue
                sound = run(mutation.swarm, seed)
                cost = outcome.events + (0 if seed in WORLDS[mutation.swarm] else sound.events)
                if not sound.accuser and cost < best:
                    catches[name], best = seed, cost
                    tell(f"seed {seed}: {name}: {cost} events: {outcome.accuser}: {outcome.words}")
        return catches

    def main(self, arguments: list[str] | None = None) -> int:
        """Find seeds."""
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--find", default="all", help="names of mutations with commas between, or all")
        parser.add_argument("--seeds", default="0:500", help="a range, first:last")
        parser.add_argument("--minutes", type=float, default=60.0, help="stop searching after so long")
        parser.add_argument("--cheapest", action="store_true", help="the shortest runs instead of the first seeds")
        parser.add_argument("--write", action="store_true", help=f"write the seeds to {self._json.name}")
        options = parser.parse_args(arguments)
        names = list(self.mutations) if options.find == "all" else [name.strip() for name in options.find.split(",")]
        first, _, last = options.seeds.partition(":")
        until = time.perf_counter() + options.minutes * 60
        tell = functools.partial(print, flush=True)
        find = self.find_cheapest if options.cheapest else self.find
        catches = find(names, range(int(first), int(last or first) + 1), tell, until)
        tell("no seed:", ", ".join(name for name in names if name not in catches) or "none")
        if options.write:
            found = {name: seed for name, seed in {**self.pins(), **catches}.items() if name in self.mutations}
            self._json.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0 if len(catches) == len(names) else 1
