"""Deliberate bugs in the client's group code, each of which the swarm of groups has to notice.

Owns the table :data:`MUTATIONS`; how a mutation is made is as in ``mutations.py``. The seed that shows each bug is in
``group_mutations.json``. Which seeds do so shifts with every knob; this finds them again and writes them down:

    PYTHONPATH=. python tests/swarm/group_mutations.py --find all --seeds 1:500 --write
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from thinconsumer.consumer.reader import Reader
from thinconsumer.group.classic import coordinator_channel
from thinconsumer.group.classic.join_failures import JoinFailurePolicy
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.commit_queue import CommitQueue
from thinconsumer.group.commits import Commits
from thinconsumer.group.committed import Committed
from thinconsumer.group.consumer_role import ConsumerRole
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.group import Group
from thinconsumer.group.identity import Identity
from thinconsumer.group.revocation import PartitionRevocation
from thinconsumer.metadata import Metadata
from thinconsumer.partitions import Partition
from thinconsumer.testing.simulation.groups import GroupSwarm, GroupWorldKnobs
from thinconsumer.testing.simulation.groups.knobs import STYLES
from thinconsumer.testing.simulation.world import Violation


def _load(name: str) -> ModuleType:
    """Load a file beside this one; tests are not importable by name."""
    spec = importlib.util.spec_from_file_location(f"swarm_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


shared = _load("mutations")
Catch, Mutation, Outcome = shared.Catch, shared.Mutation, shared.Outcome

PINS = Path(__file__).with_name("group_mutations.json")
COMMAND = "PYTHONPATH=. python tests/swarm/group_mutations.py --find {name} --seeds 1:500 --write"
#: A seed that takes so few events, with the bug and without, is not improved upon; any other is compared with those
#: that so many more likely seeds come to.
CHEAP = 5000
TRIES = 6
#: Sound runs have a tenth of it.
EVENTS_MAX = 60_000


def cooperative(knobs: GroupWorldKnobs) -> bool:
    """Some members give up only what goes elsewhere, at some time."""
    return any(("cooperative-sticky",) in STYLES[team.style] for team in knobs.teams)


def eager(knobs: GroupWorldKnobs) -> bool:
    """Some members give up everything."""
    return any(STYLES[team.style][0] != ("cooperative-sticky",) for team in knobs.teams)


def commits(*how: str) -> Callable[[GroupWorldKnobs], bool]:
    """Some members commit in one of these ways."""
    return lambda knobs: any(mate.commits in how for team in knobs.teams for mate in team.mates)


def trouble(knobs: GroupWorldKnobs) -> object:
    """Coordinators refuse, or members are away for too long."""
    return knobs.group_error_rate or knobs.absences


def raising(knobs: GroupWorldKnobs) -> bool:
    """Some callbacks raise."""
    return any(mate.raise_rate for team in knobs.teams for mate in team.mates)


bug = shared.bug
MUTATIONS = {
    row.name: row
    for row in (
        # -- who we are
        bug(
            "identity kept after UNKNOWN_MEMBER_ID",
            "Who is expelled goes on under its old id, which is refused for ever; it must come back as nobody.",
            (Identity, "lost", "Identity(self.group_id, NO_GENERATION, UNKNOWN_MEMBER_ID, self.group_instance_id)",
             "self"),
            needs=trouble,
        ),
        bug(
            "id dropped on ILLEGAL_GENERATION",
            "Who has missed a generation comes back as nobody, and the group waits for its ghost; the id must stay.",
            (Identity, "behind", "self._replace(generation_id=NO_GENERATION)", "self.lost()"),
            needs=trouble,
        ),
        bug(
            "given id ignored",
            "The id given with MEMBER_ID_REQUIRED is not used (KIP-394), so joining never ends.",
            (ClassicMember, "_join_answered", "self.identity = self.identity.named(response.member_id)", "pass"),
        ),
        bug(
            "heartbeat behind a parked join",
            "A heartbeat follows an unanswered JoinGroup on its connection; it is read too late, and fails.",
            (coordinator_channel.CoordinatorChannel, "beat", "if not self.is_open or",
             "if self._coordinator.target(MEMBERSHIP) is None or"),
        ),
        bug(
            "absence ignored",
            "After an absence longer than the session records are handed out; they may be somebody else's by now.",
            (Reader, "_poll", "if group is not None and group.held else", "if False else"),
            needs=lambda knobs: knobs.absences or knobs.stalls,
        ),
        bug(
            "joins without backoff",
            "A join that was refused is sent again at once, for ever; coordinators in trouble must not be stormed.",
            (JoinFailurePolicy, "pace", "self._retry.failed(now)", "return"),
            needs=lambda knobs: knobs.coordinator_load_s or knobs.group_error_rate,
        ),
        bug(
            "coordinator never lost",
            "NOT_COORDINATOR and broken connections are not believed, so nobody looks for the new coordinator.",
            (Coordinator, "lost", "if self.state is not CoordinatorState.KNOWN or", "if True or"),
            needs=lambda knobs: knobs.coordinator_moves or knobs.coordinator_kills,
        ),
        # -- what we own, and what users hear of it
        bug(
            "losing keeps partitions",
            "Partitions stay after they were lost, and are read on; they belong to others by now.",
            (PartitionRevocation, "lose", "self._partitions.assign(())", "pass"),
            needs=trouble,
        ),
        bug(
            "lost called revoked",
            "Users hear that lost partitions are revoked, and commit what they may not.",
            (PartitionRevocation, "lose", "self._hear(hear_lost,", "self._hear(hear_revoked,"),
            needs=trouble,
        ),
        bug(
            "pending revocation delivered",
            "Records come of partitions whose last offsets are being committed; they will come again elsewhere (D4).",
            (Partition, "may_hand_out", "and not self.pending_revocation", ""),
        ),
        bug(
            "delivered before the callback is through",
            "Records come of partitions whose on_partitions_assigned has failed; it must succeed first.",
            (Partition, "may_hand_out", "and not self.callback_pending", ""),
            needs=raising,
        ),
        bug(
            "failed callback forgotten",
            "An on_partitions_assigned that has raised is not called again.",
            (PartitionRevocation, "tell_assigned", "hear_assigned(self._listener(), [p.tp for p in new])",
             ("[(setattr(p, 'callback_pending', False), p.state is PositionState.AWAITING_CALLBACK"
             " and p.move(PositionEvent.CALLBACK_DONE)) for p in new];"
             " hear_assigned(self._listener(), [p.tp for p in new])")),
            needs=raising,
        ),
        bug(
            "eager keeps everything",
            "Eager members join with what they own, and are given it again; they must give it up first (seeds/004).",
            (ConsumerRole, "prepare", "return self.revocation.give_up(owned, now, always_tell=identity.is_member)",
             "return True"),
            needs=eager,
        ),
        bug(
            "cooperative gives everything up",
            "Cooperative members give up what they could keep, before each join (KIP-429).",
            (ConsumerRole, "prepare", "[tp for tp in owned if tp.topic not in wanted]", "owned"),
            needs=cooperative,
        ),
        bug(
            "given up without rejoining",
            "Who has given partitions up for others does not join again, so nobody gets them (KIP-429).",
            (ConsumerRole, "take", "self._due = \"partitions were given up, so that others can take them\"", "pass"),
            # Else the leader, who would do so after a while, hides it.
            (ConsumerRole, "rejoin_reason", "now >= self._handed_over_by", "False"),
            needs=cooperative,
        ),
        bug(
            "retained partitions start over",
            "What is kept in a cooperative rebalance goes back to what is committed, and comes again.",
            (PartitionRevocation, "take_over", "for partition in self._partitions:",
             ("for partition in [p for p in self._partitions if p.tp in before]:\n"
             "        partition.state = PositionState.AWAITING_COMMITTED\n"
             "        partition.rewind()\n"
             "    for partition in self._partitions:")),
            needs=cooperative,
        ),
        bug(
            "assigned tells of all",
            "on_partitions_assigned hears of what is kept, too; users must hear what is new.",
            (PartitionRevocation, "tell_assigned", "[p.tp for p in new]", "self._partitions.tps()"),
            needs=cooperative,
        ),
        # -- who rejoins for what
        bug(
            "rejoin with every refresh",
            "Every metadata refresh is a reason to join, so the group never comes to rest (E5).",
            (ConsumerRole, "rejoin_reason", "reason = topics_changed(self._joined_with, self._wanted())",
             "reason = 'metadata' if self._seen is not None else None; self._seen = seen"),
        ),
        bug(
            "growth ignored",
            "The leader does not notice that a topic has new partitions, so nobody reads them.",
            (ConsumerRole, "rejoin_reason", "if reason is None and self._planned_with is not None:", "if False:"),
            needs=lambda knobs: knobs.growths,
        ),
        bug(
            "vanished topics kept",
            "A pattern's topic that is gone stays matched, and is asked about for ever.",
            (Metadata, "_take_listing", "self.topics[name].partitions = {}", "pass"),
            needs=lambda knobs: knobs.vanishings and any(team.pattern for team in knobs.teams),
        ),
        # -- commits
        bug(
            "no commit before giving up",
            "What was read since the last auto-commit is not committed before partitions go, and is read twice (D4).",
            (PartitionRevocation, "give_up", "if self._auto_commit is not None and self.commits_by_itself:",
             "if False:"),
            needs=commits("auto"),
        ),
        bug(
            "commit stamped when asked for",
            "A commit goes out as who we were when it was asked for; it must be stamped when it is sent.",
            (Commits, "_judge", "entry.identity = who", "pass"),
            (Commits, "_build", "stamp = who or self._commit_identity.by_hand",
             ("stamp = min((e.identity for e in flight.entries.values()), default=who or"
              " self._commit_identity.by_hand)")),
        ),
        bug(
            "auto-commit ahead of the user",
            "Auto-commit covers what this very poll returns; a crash before it is processed loses it (D2).",
            (Reader, "_poll",
             "if poll_result.count:\n            self._owes_records = False\n            return poll_result\n",
             ("if poll_result.count:\n"
             "            self._owes_records = False\n"
             "            self.managers.collector.place(poll_result)\n"
             "            if group is not None and group.auto_commit is not None:\n"
             "                group.auto_commit.poll(now)\n"
             "                shell.engine.step(now)\n"
             "                shell.driver.step(shell.engine, now)\n"
             "            return poll_result\n")),
            (Group, "polled", "self.auto_commit.poll(now)", "pass"),
            needs=commits("auto"),
        ),
        bug(
            "commits of the lost go on",
            "What was to be committed before the membership was lost is committed after joining again.",
            (Commits, "_judge", "if objection is not None:", "if False:"),
            (Commits, "_build", "if entry.identity != who and", "if False and"),
            needs=trouble,
        ),
        bug(
            "commit callbacks dropped",
            "A commit that has failed does not call its callback.",
            (CommitQueue, "_settle", "if pending.callback is not None:",
             "if pending.callback is not None and error is None:"),
            needs=commits("async", "offsets", "sync"),
        ),
        bug(
            "one behind what is committed",
            "Reading goes on one record behind the committed offset; that one is lost.",
            (Committed, "_take", "COMMITTED_FOUND, row.offset,", "COMMITTED_FOUND, row.offset + 1,"),
        ),
    )
}  # fmt: skip

#: Bugs without a seed up to 500 in the worlds of today, and why that may be.
NOT_CAUGHT: dict[str, str] = {}


class Accusers(shared.Accusers):  # type: ignore[misc, name-defined]
    """As there, with the bound of these worlds."""

    def step(self) -> None:
        """Let one event of the world happen, but not for ever."""
        if self._world.happened > EVENTS_MAX:
            self.first = self.first or "bounds"
            raise Violation(f"more than {EVENTS_MAX} events")
        self._step()


def run(seed: int, mutation: Any = None) -> Any:
    """Run the swarm of a seed, up to the first thing that is wrong."""
    began = time.perf_counter()
    with ExitStack() as stack:
        if mutation is not None:
            stack.enter_context(mutation.applied())
        swarm = GroupSwarm(seed)
        accusers = Accusers(swarm)
        who = words = ""
        try:
            swarm.run()
        except Violation as violation:
            who, words = accusers.first or "liveness", shared._first_words(str(violation))
        except Exception as error:  # noqa: BLE001 - a client that breaks in any way has been caught
            who, words = type(error).__name__, str(error)
    return Outcome(who, words, swarm.sim.world.happened, time.perf_counter() - began)


def pins() -> dict[str, Any]:
    """Return what was written down last."""
    found: dict[str, Any] = shared.pins(PINS)
    return found


def find(names: list[str], seeds: range, tell: Callable[[str], None], until: float) -> dict[str, Any]:
    """Return a seed for each of these mutations that is caught at all."""
    for edit in (edit for name in names for edit in MUTATIONS[name].edits):
        edit.rewritten()  # says at once what cannot be
    catches: dict[str, Any] = {}
    left = dict.fromkeys(names, -1)  #: How many more seeds may be tried; negative: as many as there are.
    sound_runs: dict[int, Any] = {}
    for seed in seeds:
        knobs = GroupWorldKnobs.draw(seed)
        for name in [name for name, tries in left.items() if tries and MUTATIONS[name].needs(knobs)]:
            if time.perf_counter() > until:
                return catches
            outcome = run(seed, MUTATIONS[name])
            left[name] -= 1
            if not outcome.accuser:
                continue
            sound = sound_runs.setdefault(seed, None) or run(seed)
            sound_runs[seed] = sound
            if sound.accuser:
                tell(f"seed {seed} fails without any mutation and is left out: {sound.words}")
                break
            events = sound.events + outcome.events
            if name not in catches or events < catches[name].events:
                seconds = outcome.seconds + sound.seconds
                left[name] = 0 if events <= CHEAP else left[name] if name in catches else TRIES
                catches[name] = Catch(seed, outcome.accuser, events, seconds, outcome.words)
                tell(f"seed {seed}: {name}: {outcome.accuser}, {events} events, {seconds:.2f} s: {outcome.words}")
    return catches


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
    tell = functools.partial(print, flush=True)
    catches = find(names, range(int(first), int(last or first) + 1), tell, until)
    print(shared.table(names, catches))
    if options.write:
        shared.write({name: row for name, row in {**pins(), **catches}.items() if name in MUTATIONS}, PINS)
    return 0 if len(catches) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
