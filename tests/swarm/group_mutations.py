"""Deliberate bugs in group membership, each of which the swarm of groups has to notice; see ``planting.py``."""

import sys
from collections.abc import Callable
from pathlib import Path

from planting import BugTable, bug

from thinconsumer.consumer.reader import ConsumerCore
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
from thinconsumer.member import _Role as MemberRole
from thinconsumer.metadata import Metadata
from thinconsumer.partitions import Partition
from thinconsumer.testing.simulation import GroupSwarm
from thinconsumer.testing.simulation.knobs import STYLES, Knobs


def cooperative(knobs: Knobs) -> bool:
    """Some members give up only what goes elsewhere, at some time."""
    return any(("cooperative-sticky",) in STYLES[group.style] for group in knobs.group_knobs)


def eager(knobs: Knobs) -> bool:
    """Some members give up everything."""
    return any(STYLES[group.style][0] != ("cooperative-sticky",) for group in knobs.group_knobs)


def commits(*how: str) -> Callable[[Knobs], bool]:
    """Some members commit in one of these ways."""
    return lambda knobs: any(mate.commits in how for group in knobs.group_knobs for mate in group.clients)


def errors_or_absences(knobs: Knobs) -> object:
    """Coordinators refuse, or members are away for too long."""
    return knobs.group_error_rate or knobs.absences


def raising(knobs: Knobs) -> bool:
    """Some callbacks raise."""
    return any(mate.raise_rate for group in knobs.group_knobs for mate in group.clients)


ROWS = (
    # -- identity
    bug(
        "identity kept after UNKNOWN_MEMBER_ID",
        "Who is expelled goes on under its old id, which is refused for ever; it must come back as nobody.",
        (Identity, "lost", "Identity(self.group_id, NO_GENERATION, UNKNOWN_MEMBER_ID, self.group_instance_id)",
         "self"),
        needs=errors_or_absences,
    ),
    bug(
        "id dropped on ILLEGAL_GENERATION",
        "Who has missed a generation comes back as nobody, and the group waits for its ghost; the id must stay.",
        (Identity, "behind", "self._replace(generation_id=NO_GENERATION)", "self.lost()"),
        needs=errors_or_absences,
    ),
    bug(
        "given id ignored",
        "The id given with MEMBER_ID_REQUIRED is not used (KIP-394), so joining never ends.",
        (ClassicMember, "_failed", "self.identity = self.identity.named(answer.response.member_id)", "pass"),
    ),
    bug(
        "heartbeat behind a parked join",
        "A heartbeat follows an unanswered JoinGroup on its connection; it is read too late, and fails.",
        (coordinator_channel.CoordinatorChannel, "heartbeat", "if not self.is_open or",
         "if self._coordinator.target(MEMBERSHIP) is None or"),
    ),
    bug(
        "absence ignored",
        "After an absence longer than the session records are handed out; they may be somebody else's by now.",
        (ConsumerCore, "_poll", "is_held = group is not None and group.member.held", "is_held = False"),
        needs=lambda knobs: knobs.absences or knobs.stalls,
    ),
    bug(
        "joins without backoff",
        "A join that was refused is sent again at once, for ever; coordinators in trouble must not be stormed.",
        (JoinFailurePolicy, "back_off", "self._retry.failed(now)", "return"),
        needs=lambda knobs: knobs.coordinator_load_s or knobs.group_error_rate,
    ),
    bug(
        "coordinator never lost",
        "NOT_COORDINATOR and broken connections are not believed, so nobody looks for the new coordinator.",
        (Coordinator, "lost", "if self.state is not CoordinatorState.KNOWN or", "if True or"),
        needs=lambda knobs: knobs.coordinator_moves or knobs.coordinator_kills,
    ),
    # -- ownership and rebalance callbacks
    bug(
        "losing keeps partitions",
        "Partitions stay after they were lost, and are read on; they belong to others by now.",
        (PartitionRevocation, "lose", "self._partitions.assign(())", "pass"),
        needs=errors_or_absences,
    ),
    bug(
        "lost called revoked",
        "Users hear that lost partitions are revoked, and commit what they may not.",
        (PartitionRevocation, "lose", 'self._call_listener("lost",', 'self._call_listener("revoked",'),
        needs=errors_or_absences,
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
        (PartitionRevocation, "call_assigned", 'call_listener(self._listener(), "assigned", [p.tp for p in new])',
         ("[(setattr(p, 'callback_pending', False), p.state is PositionState.AWAITING_CALLBACK"
         " and p.move(PositionEvent.CALLBACK_DONE)) for p in new];"
         " call_listener(self._listener(), 'assigned', [p.tp for p in new])")),
        needs=raising,
    ),
    bug(
        "eager keeps everything",
        "Eager members join with what they own, and are given it again; they must give it up first.",
        (ConsumerRole, "prepare", "return self.revocation.revoke(owned, now, always_call=identity.is_member)",
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
        (ConsumerRole, "accept", "self._rejoin_due = \"revoked partitions can now be assigned\"", "pass"),
        # The leader would rejoin after a while, which hides the bug.
        (ConsumerRole, "rejoin_reason", "now >= self._rejoin_by", "False"),
        needs=cooperative,
    ),
    bug(
        "retained partitions start over",
        "What is kept in a cooperative rebalance goes back to what is committed, and comes again.",
        (PartitionRevocation, "assign", "for partition in self._partitions:",
         ("for partition in [p for p in self._partitions if p.tp in before]:\n"
         "        partition.state = PositionState.AWAITING_COMMITTED\n"
         "        partition.rewind()\n"
         "    for partition in self._partitions:")),
        needs=cooperative,
    ),
    bug(
        "assigned tells of all",
        "on_partitions_assigned hears of what is kept, too; users must hear what is new.",
        (PartitionRevocation, "call_assigned", "[p.tp for p in new]", "self._partitions.tps()"),
        needs=cooperative,
    ),
    bug(
        "worker not told to stop",
        "A GroupMember is not called before a rebalance, so it goes on working on shards that others get.",
        (MemberRole, "install", "self._works = True", "pass"),
        needs=lambda knobs: knobs.shards,
    ),
    # -- reasons to rejoin
    bug(
        "rejoin with every refresh",
        "Every metadata refresh is a reason to join, so the group never comes to rest (E5).",
        (ConsumerRole, "rejoin_reason", "reason = topics_changed(self._joined_with, self.own_topics())",
         "reason = 'metadata' if self._seen is not None else None; self._seen = seen"),
    ),
    bug(
        "growth ignored",
        "The leader does not notice that a topic has new partitions, so nobody reads them.",
        (ConsumerRole, "rejoin_reason", "if reason is None and self._assigned_with is not None:", "if False:"),
        needs=lambda knobs: knobs.growths,
    ),
    bug(
        "vanished topics kept",
        "A pattern's topic that is gone stays matched, and is asked about for ever.",
        (Metadata, "_take_listing", "self.topics[name].partitions = {}", "pass"),
        needs=lambda knobs: knobs.vanishings and any(group.pattern for group in knobs.group_knobs),
    ),
    # -- commits
    bug(
        "no commit before giving up",
        "What was read since the last auto-commit is not committed before partitions go, and is read twice (D4).",
        (PartitionRevocation, "revoke", "if self._auto_commit is not None and self.auto_commits:",
         "if False:"),
        needs=commits("auto"),
    ),
    bug(
        "commit stamped when asked for",
        "A commit goes out as who we were when it was asked for; it must be stamped when it is sent.",
        (Commits, "_judge", "entry.identity = who", "pass"),
        (Commits, "_build", "stamp = who or Identity(self._group_id)",
         ("stamp = min((e.identity for e in flight.entries.values()), default=who or"
          " Identity(self._group_id))")),
    ),
    bug(
        "auto-commit ahead of the user",
        "Auto-commit covers what this very poll returns; a crash before it is processed loses it (D2).",
        (ConsumerCore, "_poll",
         "if poll_result.count:\n            self._owes_records = False\n            return poll_result\n",
         ("if poll_result.count:\n"
         "            self._owes_records = False\n"
         "            self.managers.collector.place(poll_result)\n"
         "            if group is not None and group.auto_commit is not None:\n"
         "                group.auto_commit.poll(now)\n"
         "                shell.engine.touch()\n"
         "                shell.engine.step(now)\n"
         "                shell.driver.step(shell.engine, now)\n"
         "            return poll_result\n")),
        (Group, "polled", "return self.auto_commit.poll(now) or is_back", "return is_back"),
        needs=commits("auto"),
    ),
    bug(
        "commits of the lost go on",
        "What was to be committed before the membership was lost is committed after joining again.",
        (Commits, "_judge", "if objection is not None:", "if False:"),
        (Commits, "_build", "if current.objection(", "if False and current.objection("),
        needs=errors_or_absences,
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
        (Committed, "_take", "COMMITTED_FOUND, value.offset,", "COMMITTED_FOUND, value.offset + 1,"),
    ),
)  # fmt: skip

TABLE = BugTable(Path(__file__), GroupSwarm, ROWS, events_max=60_000, cheap=5000, tries=6)

if __name__ == "__main__":
    sys.exit(TABLE.main())
