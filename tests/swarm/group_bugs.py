"""Deliberate bugs in classic groups, each of which a swarm has to notice; see ``planting.py``."""

import functools
from collections.abc import Callable

from lab import GroupSwarm
from lab.knobs import STYLES, Knobs
from planting import Plant, bug, meanwhile, planted, returns, returns_itself, within

from thinconsumer.consumer.core import ConsumerCore
from thinconsumer.group import consumer_role, revocation
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.consumer_role import ConsumerRole
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.group.join_failures import JoinFailurePolicy
from thinconsumer.group.offsets.commit_identity import CommitIdentity
from thinconsumer.group.offsets.commit_queue import CommitQueue
from thinconsumer.group.offsets.commits import Commits
from thinconsumer.group.revocation import PartitionRevocation
from thinconsumer.member import _Role as MemberRole
from thinconsumer.network.metadata import Metadata
from thinconsumer.positions.partitions import Partition, Partitions
from thinconsumer.positions.states import PositionEvent, PositionState

grouped = functools.partial(bug, GroupSwarm)

# -- the worlds that a bug needs: in others it does nothing, and they need not be searched


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


# -- identity


def heartbeat_anyhow(heartbeat, self, now):
    in_flight, self._rebalances.in_flight = self._rebalances.in_flight, None
    try:
        return heartbeat(self, now)
    finally:
        self._rebalances.in_flight = in_flight


IDENTITY = (
    grouped(
        "identity kept after UNKNOWN_MEMBER_ID",
        "An expelled member keeps its old member id, which is rejected for ever; it must join again without one.",
        returns_itself(Identity, "lost"),
        needs=errors_or_absences,
    ),
    grouped(
        "id dropped on ILLEGAL_GENERATION",
        "A member that has missed a generation drops its member id, so that the group waits for the old one.",
        Plant(Identity, "behind", lambda behind, self: self.lost()),
        needs=errors_or_absences,
    ),
    grouped(
        "given id ignored",
        "The id given with MEMBER_ID_REQUIRED is not used (KIP-394), so joining never ends.",
        returns_itself(Identity, "named"),
    ),
    grouped(
        "heartbeat behind a parked join",
        "A heartbeat follows an unanswered JoinGroup on its connection; it is read too late, and fails.",
        Plant(ClassicMember, "_heartbeat", heartbeat_anyhow),
    ),
    grouped(
        "absence ignored",
        "After an absence longer than the session records are returned; another member may own the partitions by now.",
        returns(ClassicMember, "withholds", False),
        needs=lambda knobs: knobs.absences or knobs.stalls,
    ),
    grouped(
        "joins without backoff",
        "A join that was refused is sent again at once, for ever; coordinators in trouble must not be stormed.",
        returns(JoinFailurePolicy, "back_off"),
        needs=lambda knobs: knobs.coordinator_load_s or knobs.group_error_rate,
    ),
    grouped(
        "coordinator never lost",
        "NOT_COORDINATOR and broken connections are ignored, so that no FindCoordinator is sent.",
        returns(Coordinator, "lost"),
        needs=lambda knobs: knobs.coordinator_moves or knobs.coordinator_kills,
    ),
)


# -- ownership and rebalance callbacks


def call_listener_with_another_name(call_listener, listener, event, tps):
    call_listener(listener, "revoked" if event == "lost" else event, tps)


def call_assigned_once(call_assigned, self):
    new = [partition for partition in self._partitions if partition.callback_pending]
    try:
        call_assigned(self)
    finally:
        for partition in new:
            partition.callback_pending = False
            if partition.state is PositionState.AWAITING_CALLBACK:
                partition.move(PositionEvent.CALLBACK_DONE)


def accept_without_rejoining(accept, self, *args, **options):
    accept(self, *args, **options)
    self.notes.rejoin_for = None
    self._wait_for_owners.clear()  # the leader would rejoin after a while, which hides the bug


def assign_anew(assign, self, tps):
    before = self._partitions.tps()
    assign(self, tps)
    for partition in self._partitions:
        if partition.tp in before:
            partition.state = PositionState.AWAITING_COMMITTED
            partition.rewind()


def call_assigned_with_all(call_assigned, self):
    def call(call_listener, listener, event, tps):
        call_listener(listener, event, sorted(self._partitions.tps()))

    with planted(Plant(revocation, "call_listener", call)):
        call_assigned(self)


def install_without_noting(install, self, *args):
    install(self, *args)
    self._works = False
    return True


OWNERSHIP = (
    grouped(
        "losing keeps partitions",
        "Partitions stay after they were lost, and are read on; they belong to others by now.",
        within(PartitionRevocation, "lose", returns(Partitions, "assign")),
        needs=errors_or_absences,
    ),
    grouped(
        "lost called revoked",
        "Lost partitions are reported as revoked, so that listeners commit what they may not.",
        Plant(revocation, "call_listener", call_listener_with_another_name),
        needs=errors_or_absences,
    ),
    grouped(
        "pending revocation delivered",
        "Records of partitions whose last offsets are being committed are returned; the next owner reads them again.",
        Plant(Partition, "may_hand_out", meanwhile(_pending_revocation=False)),
    ),
    grouped(
        "failed callback forgotten",
        "An on_partitions_assigned that has raised is not called again.",
        Plant(PartitionRevocation, "call_assigned", call_assigned_once),
        needs=raising,
    ),
    grouped(
        "eager keeps everything",
        "Eager members join with what they own, and are given it again; they must give it up first.",
        Plant(ConsumerRole, "prepare", meanwhile(is_cooperative=True)),
        needs=eager,
    ),
    grouped(
        "cooperative gives everything up",
        "Cooperative members give up what they could keep, before each join (KIP-429).",
        Plant(ConsumerRole, "prepare", meanwhile(is_cooperative=False)),
        needs=cooperative,
    ),
    grouped(
        "given up without rejoining",
        "A member that has revoked partitions does not join again, so that no member gets them (KIP-429).",
        Plant(ConsumerRole, "accept", accept_without_rejoining),
        needs=cooperative,
    ),
    grouped(
        "retained partitions start over",
        "What is kept in a cooperative rebalance goes back to what is committed, and comes again.",
        Plant(PartitionRevocation, "assign", assign_anew),
        needs=cooperative,
    ),
    grouped(
        "assigned tells of all",
        "on_partitions_assigned gets kept partitions, too; it must get only new ones.",
        Plant(PartitionRevocation, "call_assigned", call_assigned_with_all),
        needs=cooperative,
    ),
    grouped(
        "worker not told to stop",
        "A GroupMember is not called before a rebalance, so it goes on working on shards that others get.",
        Plant(MemberRole, "install", install_without_noting),
        needs=lambda knobs: knobs.shards,
    ),
)


# -- reasons to rejoin


def rejoin_with_each_version(rejoin_reason, self, now):
    seen, self.version_seen = getattr(self, "version_seen", None), self._metadata.version
    return rejoin_reason(self, now) or ("metadata" if seen not in (None, self.version_seen) else None)


REJOINING = (
    grouped(
        "rejoin with every refresh",
        "Every metadata refresh is a reason to join, so that the group never comes to rest.",
        Plant(ConsumerRole, "rejoin_reason", rejoin_with_each_version),
    ),
    grouped(
        "growth ignored",
        "The leader does not notice that a topic has new partitions, so that no member reads them.",
        returns(consumer_role, "shapes_changed"),
        needs=lambda knobs: knobs.growths,
    ),
    grouped(
        "vanished topics kept",
        "A pattern's topic that is gone stays matched, and Metadata requests name it for ever.",
        Plant(Metadata, "_take_listing", lambda take, self, names: take(self, {*names, *self._wanted})),
        needs=lambda knobs: knobs.vanishings and any(group.pattern for group in knobs.group_knobs),
    ),
)


# -- commits


def build_as_asked(build, self, flight, version):
    request = build(self, flight, version)
    calls = [pending for entry in flight.entries.values() for pending in entry.calls]
    if calls:
        identity = min(pending.identity for pending in calls)
        request.generation_id_or_member_epoch, request.member_id = identity.generation_id, identity.member_id
    return request


def poll_and_commit(poll, self, now, *args):
    result = poll(self, now, *args)
    managers = self.managers
    if result.count and managers.group is not None and managers.group.auto_commit is not None:
        managers.collector.settle(result)
        managers.group.auto_commit.commit_now(self.managers.partitions, now + 5.0)
        self.shell.run_once(now)
    return result


def settle_in_silence(settle, self, pending, error):
    if error is not None:
        pending.callback = None
    settle(self, pending, error)


def place_behind(place, self, event, offset, epoch=-1):
    place(self, event, offset + (event is PositionEvent.COMMITTED_FOUND), epoch)


COMMITS = (
    grouped(
        "no commit before giving up",
        "What was read since the last auto-commit is not committed before a revocation, and is read twice.",
        Plant(PartitionRevocation, "advance", meanwhile(auto_commits=False)),
        needs=commits("auto"),
    ),
    grouped(
        "commit stamped when asked for",
        "A commit has the member id and generation of the call; it must have those of the time when it is written.",
        Plant(Commits, "_build", build_as_asked),
    ),
    grouped(
        "auto-commit ahead of the user",
        "Auto-commit covers what this very poll returns; a crash before these records are processed loses them.",
        Plant(ConsumerCore, "_look", poll_and_commit),
        needs=commits("auto"),
    ),
    grouped(
        "commits of the lost go on",
        "What was to be committed before the membership was lost is committed after joining again.",
        returns(CommitIdentity, "objection"),
        returns(Commits, "_foreign"),
        needs=errors_or_absences,
    ),
    grouped(
        "commit callbacks dropped",
        "A commit that has failed does not call its callback.",
        Plant(CommitQueue, "_settle", settle_in_silence),
        needs=commits("async", "offsets", "sync"),
    ),
    grouped(
        "one behind what is committed",
        "Reading goes on one record behind the committed offset; that one is lost.",
        Plant(Partition, "place", place_behind),
    ),
)

GROUP_BUGS = (*IDENTITY, *OWNERSHIP, *REJOINING, *COMMITS)
