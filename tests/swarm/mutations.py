"""Deliberate bugs in the client, each of which the swarm has to notice: what a checker never catches, it may not check.

Owns the table :data:`MUTATIONS` and the ways to run one. A mutation replaces methods of the client by themselves with a
few words changed, so that a row shows the bug as a reviewer would see it, and says so when the client has changed so
much that the words are not there any more. The seed that shows each bug is in ``mutations.json``. Which seeds do so
shifts with every knob; this finds them again and writes them down:

    PYTHONPATH=. python tests/swarm/mutations.py --find all --seeds 1:500 --write
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from thinconsumer import metadata
from thinconsumer.consumer.managers import ConsumerManagers
from thinconsumer.fetch import resets
from thinconsumer.fetch.answers import Answers
from thinconsumer.fetch.buffer import Buffer, Fetched
from thinconsumer.fetch.collector import Collector
from thinconsumer.fetch.planner import Planner
from thinconsumer.fetch.resets import Resets
from thinconsumer.fetch.sessions import FetchSession
from thinconsumer.fetch.validation import Validation
from thinconsumer.partitions import Partition
from thinconsumer.records.batch import RecordBatch
from thinconsumer.testing.simulation.__main__ import limit
from thinconsumer.testing.simulation.knobs import Knobs
from thinconsumer.testing.simulation.swarm import Swarm
from thinconsumer.testing.simulation.world import Violation
from thinconsumer.timers import Backoff, Retry

PINS = Path(__file__).with_name("mutations.json")
COMMAND = "PYTHONPATH=. python tests/swarm/mutations.py --find {name} --seeds 1:500 --write"

#: Events of a whole run beyond which something goes round in circles; sound runs have a tenth of it.
EVENTS_MAX = 100_000
#: Seconds of the processor that a run may take: some bugs make every step a long one.
CPU_S = 12.0
#: A pinned seed is replayed for ever: one that takes so few events, with the bug and without, is not improved upon, any
#: other is compared with those that so many more seeds come to.
CHEAP = 1500
TRIES = 30
#: Consumers times brokers: worlds up to here are looked at first, as they take a tenth of the time of the largest.
SMALL = 6


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


def transactions(knobs: Knobs) -> object:
    """There are control batches."""
    return knobs.transactional


def compaction(knobs: Knobs) -> object:
    """There are batches with holes."""
    return knobs.compacted and knobs.compactions


def truncation(knobs: Knobs) -> object:
    """Logs lose what was committed."""
    return knobs.unclean and (knobs.unclean_elections or knobs.takeovers) and knobs.replication > 1


def oddities(knobs: Knobs) -> object:
    """Somebody seeks, pauses or assigns anew."""
    return any(client.odd_rate for client in knobs.clients)


def old_metadata(knobs: Knobs) -> object:
    """Somebody would not learn of new leaders in time by the age of what it knows."""
    return any(client.metadata_max_age_ms >= 300_000 for client in knobs.clients)


def corruption(knobs: Knobs) -> object:
    """Bits flip on their way to somebody who looks."""
    return knobs.corruptions and any(client.check_crcs for client in knobs.clients)


def bug(
    name: str,
    breaks: str,
    *edits: tuple[type | ModuleType, str, str, str],
    needs: Callable[[Knobs], object] = lambda knobs: True,
) -> Mutation:
    """Return one row of the table."""
    return Mutation(name, breaks, tuple(Edit(*edit) for edit in edits), needs)


MUTATIONS = {
    row.name: row
    for row in (
        # -- positions
        bug(
            "control batch not passed",
            "The position stays before a control batch; it must pass what is never handed out, or never is at the end.",
            (Collector, "_drain", "max(offset, chunk.next_offset), chunk.epoch",
             "(max(offset, chunk.next_offset) if chunk.records else offset), chunk.epoch"),
            needs=transactions,
        ),
        bug(
            "fetch offset stays at control batches",
            "What ends in a control batch is asked for again from there, for ever; reading must get past it.",
            (Answers, "_take_records", "cursor.fetch_offset = batches[-1].next_offset",
             "cursor.fetch_offset = max([cursor.fetch_offset, *(b.next_offset for b in batches if not b.is_control)])"),
            needs=transactions,
        ),
        bug(
            "next offset counted",
            "The next offset is the first one plus the number of records; compaction leaves holes.",
            (Answers, "_take_records", "cursor.fetch_offset = batches[-1].next_offset",
             "cursor.fetch_offset = batches[-1].base_offset + max(1, batches[-1].count)"),
            needs=compaction,
        ),
        bug(
            "front of batch not dropped",
            "Records below the position are handed out with the batch they are in; a seek must begin where it says.",
            (Collector, "_decode", "start=fetched.start", "start=0"),
        ),
        bug(
            "rest of a poll forgotten",
            "Only the first of what one poll handed over moves its position; what was handed out must not come again.",
            (Collector, "place", "in poll_result.moves:", "in poll_result.moves[:1]:"),
        ),
        bug(
            "paused data thrown away",
            "What is buffered of a paused partition is dropped and not fetched again; pausing must lose nothing.",
            (Collector, "_due", "self._buffer.head(partition)  # lets go of what has become stale",
             "[setattr(lost, 'chunk', 1 << 30) for lost in self._buffer.queue(partition) if partition.paused]"),
            needs=oddities,
        ),
        bug(
            "newest first",
            "What was fetched last of a partition is handed out first; records come in the order of their offsets.",
            (Buffer, "add", "queue.append(fetched)", "queue.appendleft(fetched)"),
        ),
        # -- what is stale
        bug(
            "stale fetch accepted",
            "What was fetched for the position before a seek is taken for the new one; it must be dropped.",
            (Answers, "handle", "is not partition or partition.cursor is not cursor:", "is not partition:"),
        ),
        bug(
            "slower leader spliced on",
            "Of two leaders asked for one offset, the second goes on where the first ended; their logs have parted.",
            (Answers, "handle", "elif asked.wanted[tp].fetch_offset != cursor.fetch_offset:", "elif False:"),
            needs=truncation,
        ),
        bug(
            "truncation not raised",
            "Under policy none a truncated log is not raised: the partition stands still, and the application waits.",
            (Validation, "_truncated", "partition.error = LogTruncationError(", "_ = LogTruncationError("),
            needs=truncation,
        ),
        bug(
            "stale buffer handed out",
            "What was buffered before a seek is handed out after it; it must be dropped.",
            (Fetched, "fresh", "self.partition.cursor is self.cursor", "True"),
        ),
        bug(
            "stale reset accepted",
            "The answer to an earlier lookup sets the position that a later one was asked for; the last wish counts.",
            (resets, "_lookup", "return partition.cursor is cursor and partition", "return partition"),
            needs=oddities,
        ),
        bug(
            "unassigned data handed out",
            "What is buffered of a partition is handed out after it was unassigned; it belongs to somebody else then.",
            (Collector, "_due", " and self._partitions.get(partition.tp) is partition:", ":"),
            (ConsumerManagers, "_follow_assignment", "self.buffer.sweep(set(self.partitions))", "pass"),
            needs=oddities,
        ),
        bug(
            "pause ignored",
            "Paused partitions are read on; nobody wants their records until they are resumed.",
            (Partition, "may_hand_out", "and not self.paused", ""),
            needs=oddities,
        ),
        # -- leaders and logs that change
        bug(
            "leader change not validated",
            "A new leader is believed to have all that was read; after a truncation records are skipped (KIP-320).",
            (Validation, "_compare", "if doubtful and", "if False and"),
            needs=truncation,
        ),
        bug(
            "truncated buffer kept",
            "What is buffered above the point of truncation is handed out; the new leader has other records there.",
            (Validation, "_take",
             "partition.place(PositionEvent.TRUNCATED, position, min(epoch, data.leader_epoch))",
             "partition.move(PositionEvent.VALIDATED)"),
            needs=truncation,
        ),
        bug(
            "leader epoch not sent",
            "Fetches carry no leader epoch, so a deposed leader answers them; it must refuse (KIP-320).",
            (Planner, "_want", "-1 if info is None else info.leader_epoch", "-1"),
            needs=truncation,
        ),
        bug(
            "epochs go back",
            "Metadata of a broker that is behind replaces what is known; leaders must not go back to old ones.",
            (metadata, "_newer", "if new.leader_epoch >= seen:", "if True:"),
            needs=truncation,
        ),
        bug(
            "read twice after a leader change",
            "A new leader is asked from the position on, and what is buffered is kept: records come twice.",
            (Validation, "_take", "data.end_offset >= received:",
             "data.end_offset >= received and not setattr(partition.cursor, 'fetch_offset', position):"),
        ),
        bug(
            "leader errors ask for nothing",
            "A broker that is not the leader any more is asked on; the new leader has to be found.",
            (Answers, "_partition_error", "if action is Action.REFRESH_METADATA:", "if False:"),
            (metadata.Metadata, "hint_leader", "if topic is None or", "if True or"),
            needs=old_metadata,
        ),
        bug(
            "out of range goes to the end",
            "A position that expired goes to the log's end, whatever the policy; earliest must lose nothing more.",
            (Resets, "_decide", "self._by_policy(partition, wall_time, f",
             "self._look_up(partition, Reset(-1, '')), (f"),
        ),
        bug(
            "checksum not compared",
            "Records are believed whatever their batch's checksum says; flipped bits must be an error (check_crcs).",
            (RecordBatch, "check_crc", "if computed != self.crc:", "if False:"),
            needs=corruption,
        ),
        # -- transactions
        bug(
            "aborted list ignored",
            "read_committed hands out records of aborted transactions.",
            (Collector, "_is_aborted", "fetched.aborted is None:", "True:"),
            needs=transactions,
        ),
        bug(
            "isolation level not sent",
            "read_committed does not say so to the broker, and is given records of open transactions.",
            (Planner, "_message", "1 if settings.isolation_level == \"read_committed\" else 0", "0"),
            needs=transactions,
        ),
        # -- sessions and requests
        bug(
            "forgotten partitions not named",
            "A session is not told what is not wanted any more (KIP-227), so brokers send it again and again.",
            (Planner, "_message", "in plan.forget.items()", "in ()"),
            needs=oddities,
        ),
        bug(
            "changed offsets not named",
            "A session is not told of new offsets (KIP-227), so brokers send the same records again and again.",
            (FetchSession, "plan", "if held.get(tp) != new", "if tp not in held"),
        ),
        bug(
            "session not renewed",
            "After an error the session goes on with its old epoch, which the broker refuses each time (KIP-227).",
            (FetchSession, "reset", "self.epoch = INITIAL_EPOCH", "pass"),
        ),
        bug(
            "two fetches at once",
            "A second Fetch goes out before the first is answered; a session is strictly sequential (KIP-227).",
            (Planner, "step", "if not session.retry.may_send(now):", "if False:"),
        ),
        bug(
            "retry without backoff",
            "What failed is tried again at once, for ever; brokers in trouble must not be stormed (KIP-580).",
            (Backoff, "delay", "return min(min(grown, self.maximum) * spread, self.maximum)", "return 0.0"),
        ),
        bug(
            "refusals without backoff",
            "What a broker refuses is asked again as fast as it refuses; it must get time to recover (KIP-580).",
            (Retry, "failed", "self.not_before = now + self.backoff.delay(self.attempts, self.random)", "pass"),
        ),
        bug(
            "fetches wait for ever",
            "A Fetch has no deadline, so one that a broker swallows ends reading from it.",
            (Planner, "_wrap", "now + self._settings.request_timeout_ms / 1000", "NEVER"),
        ),
        bug(
            "max_poll_records ignored",
            "A poll returns whole batches, however few records it was allowed.",
            (Collector, "_drain", "min(len(chunk.records), record + room)", "len(chunk.records)"),
        ),
    )
}  # fmt: skip


#: Bugs without a seed up to 500 in the worlds of today, and why that may be: holes of the swarm. One that gets a seed
#: leaves this list.
NOT_CAUGHT: dict[str, str] = {}


# -- running them


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    accuser: str  #: Who found something wrong; empty: nobody did.
    words: str
    events: int
    seconds: float


class Accusers:
    """Notes in a run who accuses: a checker, the application or a bound; nobody has to when peace does not come."""

    def __init__(self, swarm: Swarm) -> None:
        self.first = ""
        self._swarm = swarm
        self._world = world = swarm.sim.world
        self._accuse, self._step = world.accuse, world.step
        world.accuse = functools.partial(self.accuse, "application")  # type: ignore[method-assign]
        world.step = self.step  # type: ignore[method-assign]
        for checker in swarm.sim.jury.checkers:
            checker.accuse = functools.partial(self.accuse, type(checker).__name__)

    def accuse(self, who: str, words: str) -> None:
        """Remember who was first."""
        self.first = self.first or who
        self._accuse(words)

    def step(self) -> None:
        """Let one event of the world happen, but not for ever."""
        if self._world.happened > EVENTS_MAX:
            self.first = self.first or "bounds"
            raise Violation(f"more than {EVENTS_MAX} events")
        self._step()


def run(seed: int, mutation: Mutation | None = None) -> Outcome:
    """Run the swarm of a seed, up to the first thing that is wrong."""
    began = time.perf_counter()
    with ExitStack() as stack:
        if mutation is not None:
            stack.enter_context(mutation.applied())
        swarm = Swarm(seed)
        accusers = Accusers(swarm)
        who = words = ""
        limit(CPU_S)
        stack.callback(limit, 0.0)
        try:
            swarm.run()
        except Violation as violation:
            who, words = accusers.first or "liveness", _first_words(str(violation))
        except TimeoutError:
            pass  # it may be caught or not: another machine would have come further
        except Exception as error:  # noqa: BLE001 - a client that breaks in any way has been caught
            who, words = type(error).__name__, str(error)
    return Outcome(who, words, swarm.sim.world.happened, time.perf_counter() - began)


def _first_words(report: str) -> str:
    parts = report.split("\n\n")
    return parts[min(1, len(parts) - 1)].splitlines()[0][:200]


# -- the seeds that show them


@dataclass
class Catch:
    """A seed that shows a bug and runs well without it."""

    seed: int
    accuser: str
    events: int  #: With the bug and without.
    seconds: float = 0.0
    words: str = ""


def pins(path: Path = PINS) -> dict[str, Catch]:
    """Return what was written down last."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: Catch(*row) for name, row in found.items()}


def write(catches: dict[str, Catch], path: Path = PINS) -> None:
    """Write down what was found, without what depends on the machine."""
    rows = [f"  {json.dumps(name)}: {json.dumps([c.seed, c.accuser, c.events])}" for name, c in sorted(catches.items())]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def find(names: list[str], seeds: range, tell: Callable[[str], None], until: float) -> dict[str, Catch]:
    """Return a seed for each of these mutations that is caught at all: small worlds first, and then by number."""
    for edit in (edit for name in names for edit in MUTATIONS[name].edits):
        edit.rewritten()  # says at once what cannot be
    catches: dict[str, Catch] = {}
    left = dict.fromkeys(names, -1)  #: How many more seeds may be tried; negative: as many as there are.
    worlds = {seed: Knobs.draw(seed) for seed in seeds}
    for seed in sorted(worlds, key=lambda seed: (worlds[seed].consumers * worlds[seed].brokers > SMALL, seed)):
        likely = [name for name, tries in left.items() if tries and MUTATIONS[name].needs(worlds[seed])]
        if time.perf_counter() > until:
            break
        sound = run(seed) if likely else None
        if sound is None or sound.accuser:
            if sound is not None:
                tell(f"seed {seed} fails without any mutation and is left out: {sound.words}")
            continue
        for name in likely:
            outcome = run(seed, MUTATIONS[name])
            events = sound.events + outcome.events
            left[name] -= 1
            if outcome.accuser and (name not in catches or events < catches[name].events):
                seconds = outcome.seconds + sound.seconds
                left[name] = 0 if events <= CHEAP else left[name] if name in catches else TRIES
                catches[name] = Catch(seed, outcome.accuser, events, seconds, outcome.words)
                tell(f"seed {seed}: {name}: {outcome.accuser}, {events} events, {seconds:.2f} s: {outcome.words}")
    return catches


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


def main(arguments: list[str] | None = None) -> int:
    """Find seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--find", default="all", help="names of mutations with commas between, or all")
    parser.add_argument("--seeds", default="1:500", help="a range, first:last")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop searching after so long")
    parser.add_argument("--write", action="store_true", help=f"write the seeds to {PINS.name}")
    options = parser.parse_args(arguments)
    names = list(MUTATIONS) if options.find == "all" else [name.strip() for name in options.find.split(",")]
    first, _, last = options.seeds.partition(":")
    until = time.perf_counter() + options.minutes * 60
    catches = find(names, range(int(first), int(last or first) + 1), lambda line: print(line, flush=True), until)
    print(table(names, catches))
    if options.write:
        write({name: row for name, row in {**pins(), **catches}.items() if name in MUTATIONS})
    return 0 if len(catches) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
