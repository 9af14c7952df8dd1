"""A group member with a protocol type of its own: Kafka's classic group protocol for applications besides consumers.

The coordinator tracks the members' sessions and elects a leader. Each member's metadata, and the assignments that the
leader computes, are opaque bytes to the coordinator. A ``Consumer`` under the classic protocol has the same
:class:`.ClassicMember`, with another role (:mod:`.group.role`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from .assignors import GroupMetadata
from .config.client_options import ClientOptions
from .config.options import shared
from .consumer.health import (
    LOOK_EVERY,
    MemberHealth,
    Obstacle,
    ObstacleLog,
    coordinator_obstacles,
    engine_obstacles,
    member_obstacles,
)
from .consumer.metrics_recorder import read_off
from .driver import Driver
from .engine import BaseClient, Engine, Shell, UserCallback, to_seconds
from .errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError
from .group.classic.member import ClassicMember
from .group.classic.states import ClassicMemberState
from .group.coordinator import Coordinator
from .group.identity import NO_GENERATION, Identity
from .group.role import JoinedMember
from .metrics import CONSUMER, COORDINATOR, METRICS, ConsumerMetrics, MetricValues
from .network.metadata import Metadata
from .sockets.secured import open_driver
from .support.agenda import Agenda
from .support.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .config.typed import GroupMemberKeywords

__all__ = ["GroupMember"]

#: Protocol type of consumers. In their group, a member with metadata of another format could make rebalances fail.
RESERVED = "consumer"
#: Why a member joins again after it has given up work that it kept during the rebalance.
REVOKED = "work that was given up can now be assigned"
#: A unit of work, such as the name of a shard.
_Unit = TypeVar("_Unit", bound=Hashable)
#: Default timeout of close() for LeaveGroup, in milliseconds.
CLOSING_MS = 5000
#: By a consumer's metric group: the group that a member uses in its place for metrics of the same names.
GROUPS = {COORDINATOR: "member-coordinator-metrics", CONSUMER: "member-metrics"}
#: The consumer's sensors that a member feeds, too. A member has their metrics and ``connection-count``, no others.
SENSORS = frozenset(
    {"heartbeat", "heartbeat_sent", "join", "sync", "rebalance", "failed_rebalance", "connection_opened",
     "connection_closed"}
)  # fmt: skip
CONNECTION_COUNT = "connection-count"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class GroupMemberOptions(ClientOptions):
    """The options of a group member beside those of all clients. Each is the consumer's option of the same name."""

    group_id: str | None = shared("group_id")
    group_instance_id: str | None = shared("group_instance_id")
    session_timeout_ms: int = shared("session_timeout_ms")
    heartbeat_interval_ms: int = shared("heartbeat_interval_ms")
    max_poll_interval_ms: int = shared("max_poll_interval_ms")

    if TYPE_CHECKING:

        @classmethod
        def from_options(cls, /, **options: Unpack[GroupMemberKeywords]) -> GroupMemberOptions: ...


class GroupMember(BaseClient):
    """A member of a Kafka group. Subclass it, and call :meth:`poll` often: heartbeats are sent only inside calls.

    Args:
        protocol_type: the group's protocol type; all members of a group must have the same. Not ``"consumer"``.
        protocols: names of the assignment protocols that this member supports, the preferred one first; the coordinator
            selects one that all members support.
        cooperative_protocols: those of ``protocols`` under which a member goes on working during a rebalance, and then
            gives up only what moves (KIP-415). They need :meth:`on_revoke`.
        options: ``group_id``, ``bootstrap_servers``, ``session_timeout_ms`` and others, as for ``Consumer``.

    Raises:
        KafkaConfigurationError: an option is unknown, missing or wrong.
        IllegalArgumentError: ``protocol_type`` or the protocols are not allowed, or :meth:`on_revoke` is missing.
    """

    def __init__(
        self,
        protocol_type: str,
        protocols: Sequence[str] = ("default",),
        *,
        cooperative_protocols: Collection[str] = (),
        driver: Driver | None = None,
        **options: Unpack[GroupMemberKeywords],
    ) -> None:
        if not protocol_type or protocol_type == RESERVED:
            raise IllegalArgumentError(
                f"protocol_type={protocol_type!r} is not allowed: choose another name; Consumer uses {RESERVED!r}"
            )
        if isinstance(protocols, str) or not protocols or len(set(protocols)) < len(protocols):
            raise IllegalArgumentError(f"protocols must be a list of different names, not {protocols!r}")
        if isinstance(cooperative_protocols, str) or not set(cooperative_protocols) <= set(protocols):
            raise IllegalArgumentError(f"cooperative_protocols={cooperative_protocols!r} must be some of {protocols!r}")
        if cooperative_protocols and type(self).on_revoke is GroupMember.on_revoke:
            raise IllegalArgumentError(f"cooperative_protocols needs a method on_revoke, which {type(self)} lacks")
        settings = GroupMemberOptions.from_options(**options)
        if settings.group_id is None:
            raise KafkaConfigurationError("group_id is missing: a member needs a group")
        driver = driver if driver is not None else open_driver(settings)
        agenda = Agenda()
        metadata = Metadata(settings, driver.random, agenda)
        self.settings = settings
        self.protocols: tuple[str, ...] = tuple(protocols)
        self._coordinator = Coordinator(
            settings,
            settings.group_id,
            metadata,
            driver.random,
            agenda,
            ask_another_after=settings.heartbeat_interval_ms / 1000,
        )
        identity = Identity(settings.group_id, group_instance_id=settings.group_instance_id)
        cooperative = frozenset(cooperative_protocols)
        self._role = _Role(self, protocol_type, cooperative, settings.session_timeout_ms / 1000, agenda)
        self._member = ClassicMember(settings, identity, self._role, self._coordinator, driver.random)
        engine = Engine(settings, driver.random, metadata, (self._coordinator, self._member), driver.wall_time, agenda)
        self._member.drop_connection = engine.drop
        self._shell = Shell("member", engine, driver, attend=self._member.called, next_callback=self._next_callback)
        self._member.subscribe("the member starts")
        self._status = MemberStatus(engine, self._coordinator, self._member, settings.session_timeout_ms / 2000)

    def metadata(self, protocol: str) -> bytes:
        """Return this member's metadata for the leader, under this protocol. Called for each attempt to join."""
        return b""

    @abstractmethod
    def perform_assignment(self, leader_id: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return assignments by member id; a member without one gets ``b""``. Called on the leader.

        ``members`` has each member's metadata by member id; ``leader_id`` is the id of this member.
        """

    def on_join_prepare(self) -> None:
        """Stop working on the assignment: a rebalance begins and may give it to another member, or the member closes.

        Not called before the first join, when there is no assignment. Under a cooperative protocol it is called only by
        :meth:`close`, by the default :meth:`on_lost`, and if the group changes to an eager protocol.
        """

    def on_revoke(self, protocol: str, share: bytes) -> bool:
        """Stop working on what the new assignment ``share`` lacks, under a cooperative protocol; the rest goes on.

        Return whether anything was given up: if so, the group rebalances again, and the leader can assign that to
        another member. Called before :meth:`on_join_complete` with the same ``share``, and only if this member works on
        an earlier assignment. Not called with eager protocols.
        """
        raise NotImplementedError

    @abstractmethod
    def on_join_complete(self, protocol: str, share: bytes) -> None:
        """Start working on the assignment ``share``. If this method raises, the next poll calls it again."""

    def on_lost(self) -> None:
        """Stop working: the membership has ended (no poll for too long, say), or this member missed a generation.

        The assignment may belong to another member already. By default this calls :meth:`on_join_prepare`.
        """
        self.on_join_prepare()

    def rejoin_reason(self) -> str | None:
        """Return a reason to rebalance the group (the leader has new work, say), or None. Each poll calls this."""
        return None

    @property
    def held_generation(self) -> int:
        """The last generation that confirmed what this member works on; -1 if it works on nothing.

        With cooperative protocols :meth:`metadata` has to contain it, beside what this member works on: of two members
        that claim the same work, the one with the older generation has lost it (:meth:`withhold`).
        """
        return self._role.held_generation

    def withhold(
        self, plan: Mapping[str, Iterable[_Unit]], claims: Mapping[str, tuple[int, Collection[_Unit]]]
    ) -> dict[str, list[_Unit]]:
        """Return the ``plan`` without the work that another member still does; for :meth:`perform_assignment`.

        ``claims`` are, by member id, the :attr:`held_generation` and the units of work that the member does, both from
        its metadata. The member that still does a withheld unit gives it up in :meth:`on_revoke`, and the rebalance
        that follows assigns the unit. If no rebalance follows within the session timeout, this leader begins one. Call
        ``withhold`` under every protocol: after a change back to an eager one, members work until the first assignment.
        """
        claimed: dict[_Unit, dict[int, set[str]]] = {}  # by unit and generation: the members that claim it
        for member_id, (generation, units) in claims.items():
            for unit in units:
                claimed.setdefault(unit, {}).setdefault(generation, set()).add(member_id)
        holders = {unit: by_generation[max(by_generation)] for unit, by_generation in claimed.items()}
        wanted = {member_id: list(units) for member_id, units in plan.items()}
        found = {
            member_id: [unit for unit in units if holders.get(unit, {member_id}) == {member_id}]
            for member_id, units in wanted.items()
        }
        self._role.awaits_revocations |= found != wanted
        return found

    def poll(self, timeout_ms: float = 0) -> None:
        """Take part in the group for ``timeout_ms``; with 0, without waiting.

        The overridden methods are called in here, and their exceptions propagate.

        Raises:
            GroupError: the coordinator rejects this member.
            AuthorizationError: an ACL or a token is missing, or a login was rejected: every poll raises it again.
            WakeupError: :meth:`wakeup` was called.
        """
        shell, member = self._shell, self._member
        with shell.enter():
            now = shell.driver.now()
            deadline = now + to_seconds(timeout_ms, 0)
            self._status.polled_at = now
            member.called(now, polls=True)
            now = shell.run_once(now)
            while True:
                with shell.callback():
                    self._role.reason = self.rejoin_reason()
                # Each pass of this loop counts as a poll: otherwise a member would leave the group if one poll() waits
                # for longer than max_poll_interval_ms.
                member.called(now, polls=True)
                now = shell.complete(shell.run_callbacks(now))
                self._status.look(now)
                error = member.error or self._coordinator.error or shell.engine.login_error()
                if error is not None:
                    raise error
                if now >= deadline:
                    return
                if self._role.reason is not None:
                    shell.engine.agenda.touch()  # the member joins again now, not with the next heartbeat
                now = shell.run_once(deadline)

    def drive(self) -> None:
        """Send heartbeats and handle responses without calling callbacks. Call it while processing takes long."""
        with self._shell.enter():
            self._status.look(self._shell.run_once(self._shell.driver.now()))

    def health(self) -> MemberHealth:
        """Return the state of this member and what prevents progress, without I/O; for liveness probes and dashboards.

        The state is STUCK once an obstacle has lasted for half of the session timeout, or will not end by itself.
        """
        with self._shell.guard:
            return self._status.health(self._shell.driver.now())

    def metrics(self) -> MetricValues:
        """Return the metrics of the group protocol and of connections, by metric group and name, without I/O.

        The names are those of the consumer's metrics (docs/metrics.md); the metric groups are
        ``member-coordinator-metrics`` and ``member-metrics``.
        """
        with self._shell.guard:
            return self._status.metrics(self._shell.driver.now())

    def wakeup(self) -> None:
        """Make the ``poll`` or ``drive`` in progress, or else the next one, raise ``WakeupError``.

        Safe to call from signal handlers and other threads.
        """
        self._shell.driver.wakeup()

    @property
    def is_stable(self) -> bool:
        """Whether this member is in state *stable*: it has an assignment, and no rebalance is known."""
        return self._member.state is ClassicMemberState.STABLE

    def group_metadata(self) -> GroupMetadata:
        """Return the group id, generation id, member id and group instance id."""
        return GroupMetadata(*self._member.identity[:4])

    def request_rejoin(self, reason: str) -> None:
        """Make this member rejoin the group; ``reason`` is for the coordinator's log (KIP-800)."""
        with self._shell.enter():
            self._member.request_rejoin(reason)

    def close(self, timeout_ms: float = CLOSING_MS, *, leave_group: bool | None = None) -> None:
        """Call :meth:`on_join_prepare` if there is work to stop, leave the group and close the connections.

        A second call does nothing.

        ``leave_group`` (KIP-1092): whether to send LeaveGroup; by default, all but static members do. With
        ``timeout_ms=0`` the request is written if the connection is ready, and no response is awaited.
        """
        shell, member = self._shell, self._member
        if shell.closed:
            return
        shell.refuse_in_callback("close()")
        with shell.guard:
            try:
                shell.begin()
                with shell.callback():
                    self._role.stop()
            finally:
                try:
                    if not shell.step_interrupted:
                        member.leave("the member is closing", shell.driver.now(), leave_group=leave_group)
                        seconds = to_seconds(timeout_ms, CLOSING_MS)
                        shell.complete(shell.wait_to_leave(lambda: member.has_left, seconds))
                finally:
                    shell.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._member!r}>"

    def _next_callback(self, now: float, every: bool) -> UserCallback | None:
        member = self._member
        return UserCallback(lambda: member.work(now, every=every)) if member.has_work(now, every=every) else None


class _Role:
    """A :class:`~thinconsumer.group.role.Role` that calls the methods of a :class:`GroupMember`."""

    def __init__(
        self, user: GroupMember, protocol_type: str, cooperative: frozenset[str], patience: float, agenda: Agenda
    ) -> None:
        self.protocol_type = protocol_type
        self._user = user
        self._cooperative = cooperative
        self._patience = patience  #: Seconds that a leader waits for members to give up what it has withheld.
        #: Whether the subclass works on an assignment: ``on_join_complete`` has succeeded, and neither
        #: ``on_join_prepare`` nor ``on_lost`` was called since.
        self._works = False
        self._share = ("", b"")
        self.held_generation = NO_GENERATION
        self.reason: str | None = None  #: What the user's ``rejoin_reason()`` returned last; None once used.
        #: Whether the assignment that this leader computes lacks work that other members have to give up first.
        self.awaits_revocations = False
        self._rejoin_for: str | None = None
        self._wait_for_owners = agenda.alarm()  #: When this leader joins again even if work is still not given up.

    def stop(self) -> None:
        """Call ``on_join_prepare`` if the subclass works on an assignment."""
        if self._works:
            self._works, self.held_generation = False, NO_GENERATION
            self._user.on_join_prepare()

    def protocols(self) -> list[tuple[str, bytes]]:
        self._rejoin_for, self.awaits_revocations = None, False
        self._wait_for_owners.clear()
        return [(name, self._user.metadata(name)) for name in self._user.protocols]

    def prepare(self, identity: Identity, now: float) -> bool:
        if self._share[0] not in self._cooperative:
            self.stop()
        return True

    def ready_to_assign(self, protocol: str, members: Sequence[JoinedMember], now: float) -> bool:
        return True

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[JoinedMember], *, skip: bool
    ) -> Mapping[str, bytes]:
        if skip:
            return {}
        wanted = {member.member_id: bytes(member.metadata) for member in members}
        shares = self._user.perform_assignment(leader_id, protocol, wanted)
        strangers = set(shares) - set(wanted)
        if strangers:
            raise IllegalStateError(
                f"perform_assignment() returned assignments for {sorted(strangers)}, which are no members of the group"
            )
        return {member_id: shares.get(member_id, b"") for member_id in wanted}

    def accept(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool) -> None:
        self._share = protocol, bytes(assignment)
        if self.awaits_revocations:
            self._wait_for_owners.set(now + self._patience)
        if missed:  # the group had a generation without this member, and may have assigned its work to others
            self.lose("missed a generation", now)

    def revoke_unassigned(self, identity: Identity, now: float) -> bool:
        """Let the subclass give up what the new assignment lacks; under an eager protocol, everything."""
        if self._works:
            self._rejoin_for = REVOKED  # also if on_revoke raises: it may have given up something before
            if self._share[0] not in self._cooperative:  # the group has changed back to an eager protocol
                self.stop()
                return True
            if not self._user.on_revoke(*self._share):
                self._rejoin_for = None
            self.held_generation = identity.generation_id
        return True

    def install(self, identity: Identity, now: float) -> bool:
        self._user.on_join_complete(*self._share)
        self._works, self.held_generation = True, identity.generation_id
        return True

    def lose(self, why: str, now: float) -> bool:
        self._rejoin_for = None
        self._wait_for_owners.clear()
        if self._works:
            self._works, self.held_generation = False, NO_GENERATION
            self._user.on_lost()
        return True

    @property
    def summary(self) -> str:
        return f"a share of {len(self._share[1])} bytes"

    def rejoin_reason(self, now: float) -> str | None:
        if self._rejoin_for is not None:
            return self._rejoin_for
        if self._wait_for_owners.is_over(now):
            # A member that has to give up work may never join again: a static one that restarts gets its old assignment
            # without a rebalance (KIP-345).
            return "members that had to give up work did not join again"
        reason, self.reason = self.reason, None
        return reason


class MemberStatus(ObstacleLog):
    """Notes what prevents a member's progress and since when, and keeps the member's metrics."""

    def __init__(self, engine: Engine, coordinator: Coordinator, member: ClassicMember, patience: float) -> None:
        super().__init__(patience)
        self._engine = engine
        self._coordinator = coordinator
        self._member = member
        self._metrics = ConsumerMetrics()
        self._looked_at = -LOOK_EVERY

    def look(self, now: float) -> None:
        """Copy counters into the metrics, and look for obstacles if the last look is long enough ago."""
        read_off(self._metrics, self._engine.network, self._member.stats, now)
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            self._note(self._obstacles(now), now)

    def health(self, now: float) -> MemberHealth:
        obstacles = self._note(self._obstacles(now), now)
        return MemberHealth(*self._describe(obstacles, self._coordinator, self._member, now))

    def _obstacles(self, now: float) -> Iterator[Obstacle]:
        for error in (self._member.error, self._coordinator.error, self._engine.login_error()):
            if error is not None:
                yield Obstacle(str(error), error, final=True)
        yield from engine_obstacles(self._engine, now)
        yield from coordinator_obstacles(self._coordinator)
        yield from member_obstacles(self._member, "the membership is not confirmed", "unsettled", now)

    def metrics(self, now: float) -> MetricValues:
        read_off(self._metrics, self._engine.network, self._member.stats, now)
        every = self._metrics.values(now, {CONNECTION_COUNT: float(self._engine.network.connection_counts()[1])})
        found: MetricValues = {group: {} for group in GROUPS.values()}
        for metric in METRICS:
            if metric.sensor in SENSORS or metric.name == CONNECTION_COUNT:
                found[GROUPS[metric.group]][metric.name] = every[metric.group][metric.name]
        return found
