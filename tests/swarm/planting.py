"""Plants deliberate bugs in the client, and finds seeds in which a checker notices them.

A bug that no checker notices shows that the checkers miss something. A :class:`Mutation` replaces methods of the client
by themselves with a few words changed; it raises LookupError once these words are gone from the client. A
:class:`BugTable` has the mutations for one kind of swarm, with the seed that shows each bug in a JSON file. The tables
are ``mutations.py`` (readers) and ``group_mutations.py``. A change of the knobs may change which seeds do; each table
finds them again:

    PYTHONPATH=. python tests/swarm/mutations.py --find all --seeds 1:500 --write
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

from thinconsumer.testing.simulation import Violation
from thinconsumer.testing.simulation.__main__ import limit
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.testing.simulation.swarm import Swarm

#: Seconds of CPU time that a run may take: some bugs make every step a long one.
CPU_S = 12.0


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
    name: str,
    breaks: str,
    *edits: tuple[type | ModuleType, str, str, str],
    needs: Callable[[Knobs], object] = lambda knobs: True,
) -> Mutation:
    """Return one row of the table."""
    return Mutation(name, breaks, tuple(Edit(*edit) for edit in edits), needs)


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    accuser: str  #: The checker that accused; empty if none did.
    words: str
    events: int
    seconds: float


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
            self.first = self.first or "bounds"
            raise Violation(f"more than {self._events_max} events")
        self._step()


def _first_words(report: str) -> str:
    parts = report.split("\n\n")
    return parts[min(1, len(parts) - 1)].splitlines()[0][:200]


@dataclass
class Catch:
    """A seed that shows a bug and runs well without it."""

    seed: int
    accuser: str
    events: int  #: With the bug and without.
    seconds: float = 0.0
    words: str = ""


@dataclass(frozen=True)
class BugTable:
    """The mutations for one kind of swarm, and how to search for seeds that show them."""

    file: Path
    swarm: type[Swarm]
    rows: Iterable[Mutation]
    events_max: int  #: Events after which a run goes round in circles; sound runs have a tenth of it.
    #: A seed with so few events, with the bug and without, ends the search for its bug: it is cheap to replay. After a
    #: dearer one, ``tries`` more seeds are compared.
    cheap: int
    tries: int
    small: float = float("inf")  #: Worlds with so many consumers times brokers come first: they cost a tenth.

    @functools.cached_property
    def mutations(self) -> dict[str, Mutation]:
        """Return the mutations by name."""
        return {row.name: row for row in self.rows}

    def command(self, name: str) -> str:
        """Return the command that finds a seed."""
        return f"PYTHONPATH=. python tests/swarm/{self.file.name} --find {name} --seeds 1:500 --write"

    @property
    def _json(self) -> Path:
        return self.file.with_suffix(".json")

    def pins(self) -> dict[str, Catch]:
        """Return the seeds that were written down last."""
        found = json.loads(self._json.read_text(encoding="utf-8")) if self._json.exists() else {}
        return {name: Catch(*row) for name, row in found.items()}

    def write(self, catches: dict[str, Catch]) -> None:
        """Write seeds down, without what depends on the machine."""
        found = {name: row for name, row in {**self.pins(), **catches}.items() if name in self.mutations}
        rows = [
            f"  {json.dumps(name)}: {json.dumps([c.seed, c.accuser, c.events])}" for name, c in sorted(found.items())
        ]
        self._json.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")

    def run(self, seed: int, mutation: Mutation | None = None) -> Outcome:
        """Run the swarm of a seed, up to the first broken promise."""
        began = time.perf_counter()
        with ExitStack() as stack:
            if mutation is not None:
                stack.enter_context(mutation.applied())
            swarm = self.swarm(seed)
            accusers = Accusers(swarm, self.events_max)
            who = words = ""
            limit(CPU_S)
            stack.callback(limit, 0.0)
            try:
                swarm.run()
            except Violation as violation:
                who, words = accusers.first or "liveness", _first_words(str(violation))
            except TimeoutError:
                pass  # not a catch: a faster machine would have come further
            except Exception as error:  # noqa: BLE001 - a client that breaks in any way has been caught
                who, words = type(error).__name__, str(error)
        return Outcome(who, words, swarm.sim.world.happened, time.perf_counter() - began)

    def find(self, names: list[str], seeds: range, tell: Callable[[str], None], until: float) -> dict[str, Catch]:
        """Return a seed for each of these mutations that any seed shows: small worlds first, and then by number."""
        for edit in (edit for name in names for edit in self.mutations[name].edits):
            edit.rewritten()  # raises at once if words are gone
        catches: dict[str, Catch] = {}
        left = dict.fromkeys(names, -1)  #: How many more seeds to try; negative: all.
        worlds = {seed: Knobs.draw(seed, groups=self.swarm.of_groups) for seed in seeds}
        for seed in sorted(worlds, key=lambda seed: (worlds[seed].consumers * worlds[seed].brokers > self.small, seed)):
            sound: Outcome | None = None
            for name in [name for name, tries in left.items() if tries and self.mutations[name].needs(worlds[seed])]:
                if time.perf_counter() > until:
                    return catches
                outcome = self.run(seed, self.mutations[name])
                left[name] -= 1
                if not outcome.accuser:
                    continue
                sound = sound or self.run(seed)
                if sound.accuser:
                    tell(f"seed {seed} fails without any mutation and is left out: {sound.words}")
                    break
                events = sound.events + outcome.events
                if name not in catches or events < catches[name].events:
                    seconds = outcome.seconds + sound.seconds
                    left[name] = 0 if events <= self.cheap else left[name] if name in catches else self.tries
                    catches[name] = Catch(seed, outcome.accuser, events, seconds, outcome.words)
                    tell(f"seed {seed}: {name}: {outcome.accuser}, {events} events, {seconds:.2f} s: {outcome.words}")
        return catches

    def main(self, arguments: list[str] | None = None) -> int:
        """Find seeds."""
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--find", default="all", help="names of mutations with commas between, or all")
        parser.add_argument("--seeds", default="1:500", help="a range, first:last")
        parser.add_argument("--minutes", type=float, default=60.0, help="stop searching after so long")
        parser.add_argument("--write", action="store_true", help=f"write the seeds to {self._json.name}")
        options = parser.parse_args(arguments)
        names = list(self.mutations) if options.find == "all" else [name.strip() for name in options.find.split(",")]
        first, _, last = options.seeds.partition(":")
        until = time.perf_counter() + options.minutes * 60
        tell = functools.partial(print, flush=True)
        catches = self.find(names, range(int(first), int(last or first) + 1), tell, until)
        print(table(names, catches))
        if options.write:
            self.write(catches)
        return 0 if len(catches) == len(names) else 1


def table(names: list[str], catches: dict[str, Catch]) -> str:
    """Return what was found as lines of text."""
    lines = [f"{'mutation':38}{'seed':>6}{'events':>8}{'seconds':>9}  caught by"]
    for name in names:
        caught = catches.get(name)
        if caught is None:
            lines.append(f"{name:38}     -       -        -  nobody")
        else:
            columns = f"{name:38}{caught.seed:>6}{caught.events:>8}{caught.seconds:>9.2f}"
            lines.append(f"{columns}  {caught.accuser}: {caught.words}")
    return "\n".join(lines)
