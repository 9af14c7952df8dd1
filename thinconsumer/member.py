"""A group member with a protocol type of its own: Kafka's classic group protocol for applications besides consumers.

The coordinator tracks the members' sessions and elects a leader. Each member's metadata, and the assignments that the
leader computes, are opaque bytes to the coordinator. ``Consumer`` uses the same classes for its group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .assignors import GroupMetadata
from .client import BaseClient, Engine, Shell, UserCallback, to_seconds
from .config.client_options import ClientOptions, shared
from .driver import Driver
from .errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError
from .group.classic.member import ClassicMember
from .group.classic.states import MemberState
from .group.coordinator import Coordinator
from .group.identity import Identity
from .group.role import JoinedMember
from .lazy_dataclass import dataclass
from .metadata import Metadata
from .net.secured import open_driver

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .config.typed import GroupMemberKeywords

__all__ = ["GroupMember"]

#: Protocol type of consumers. In their group, a member with metadata of another format could make rebalances fail.
RESERVED = "consumer"
#: Default timeout of close() for LeaveGroup, in milliseconds.
CLOSING_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class GroupMemberOptions(ClientOptions):
    """The options of a group member in addition to those of all clients; they are the consumer's of the same names."""

    group_id: str | None = shared("group_id")
    group_instance_id: str | None = shared("group_instance_id")
    session_timeout_ms: int = shared("session_timeout_ms")
    heartbeat_interval_ms: int = shared("heartbeat_interval_ms")
    max_poll_interval_ms: int = shared("max_poll_interval_ms")

    if TYPE_CHECKING:

        @classmethod
        def from_options(cls, /, **options: Unpack[GroupMemberKeywords]) -> GroupMemberOptions: ...


class GroupMember(BaseClient):
    """A member of a Kafka group. Subclass it, and call :meth:`poll` often: heartbeats are sent only inside its calls.

    Args:
        protocol_type: the group's protocol type; all members of a group must have the same. Not ``"consumer"``.
        protocols: names of the assignment protocols that this member supports, the preferred one first; the coordinator
            selects one that all members support.
        options: ``group_id``, ``bootstrap_servers``, ``session_timeout_ms`` and others, as for ``Consumer``.

    Raises:
        KafkaConfigurationError: an option is unknown, missing or wrong.
    """

    def __init__(
        self,
        protocol_type: str,
        protocols: Sequence[str] = ("default",),
        *,
        driver: Driver | None = None,
        **options: Unpack[GroupMemberKeywords],
    ) -> None:
        if not protocol_type or protocol_type == RESERVED:
            raise IllegalArgumentError(
                f"protocol_type={protocol_type!r} is not allowed: choose another name; Consumer uses {RESERVED!r}"
            )
        if isinstance(protocols, str) or not protocols or len(set(protocols)) < len(protocols):
            raise IllegalArgumentError(f"protocols must be a list of different names, not {protocols!r}")
        settings = GroupMemberOptions.from_options(**options)
        if settings.group_id is None:
            raise KafkaConfigurationError("group_id is missing: a member needs a group")
        driver = driver if driver is not None else open_driver(settings)
        metadata = Metadata(settings, driver.random)
        self.settings = settings
        self.protocols = tuple(protocols)
        self._coordinator = Coordinator(
            settings,
            settings.group_id,
            metadata,
            driver.random,
            ask_another_after=settings.heartbeat_interval_ms / 1000,
        )
        identity = Identity(settings.group_id, group_instance_id=settings.group_instance_id)
        self._role = _Role(self, protocol_type)
        self._member = ClassicMember(settings, identity, self._role, self._coordinator, driver.random)
        engine = Engine(settings, driver.random, metadata, (self._coordinator, self._member), driver.wall_time)
        self._member.drop_connection = engine.drop
        self._shell = Shell("member", engine, driver, attend=self._member.called, next_callback=self._next_callback)
        self._member.subscribe("the member starts")

    def metadata(self, protocol: str) -> bytes:
        """Return this member's metadata for the leader, under this protocol. Called before each JoinGroup."""
        return b""

    @abstractmethod
    def perform_assignment(self, leader_id: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return each member's assignment by member id. Called on the leader with each member's metadata."""

    def on_join_prepare(self) -> None:
        """Stop working on the assignment: a rebalance begins and may give it to another member.

        Not called before the first join, when there is no assignment.
        """

    @abstractmethod
    def on_join_complete(self, protocol: str, share: bytes) -> None:
        """Start working on the assignment ``share``. If this method raises, the next poll calls it again."""

    def on_lost(self) -> None:
        """Stop working: the coordinator removed this member, and its assignment may belong to another member already.

        By default it calls :meth:`on_join_prepare`.
        """
        self.on_join_prepare()

    def rejoin_reason(self) -> str | None:
        """Return a reason to rebalance the group (the leader has new work, say), or None. Called in every poll."""
        return None

    def poll(self, timeout_ms: float = 0) -> None:
        """Take part in the group for ``timeout_ms``; 0 is one non-blocking step.

        The overridden methods are called in here, and their exceptions propagate.

        Raises:
            GroupError: the coordinator rejects this member.
            AuthorizationError: an ACL is missing; raised by every poll until it is granted.
            WakeupError: :meth:`wakeup` was called.
        """
        shell, member = self._shell, self._member
        with shell.enter():
            now = shell.driver.now()
            deadline = now + to_seconds(timeout_ms)
            member.polled(now)
            now = shell.run_once(now)
            while True:
                with shell.callback():
                    self._role.reason = self.rejoin_reason()
                # Each pass of this loop counts as a poll. Otherwise a member that waits in one poll() for longer than
                # max_poll_interval_ms would leave the group.
                member.polled(now)
                now = shell.run_callbacks(now)
                error = member.error or self._coordinator.error
                if error is not None:
                    raise error
                if now >= deadline:
                    return
                now = shell.run_once(deadline)

    def drive(self) -> None:
        """Send heartbeats and handle responses without calling callbacks. Call it while processing takes long."""
        with self._shell.enter():
            self._shell.run_once(self._shell.driver.now())

    def wakeup(self) -> None:
        """Make the waiting poll, or else the next one, raise ``WakeupError``.

        Safe to call from signal handlers and other threads.
        """
        self._shell.driver.wakeup()

    @property
    def is_stable(self) -> bool:
        """Whether this member is in state *stable*: it has an assignment, and no rebalance is known."""
        return self._member.state is MemberState.STABLE

    def group_metadata(self) -> GroupMetadata:
        """Return the group id, generation id, member id and group instance id."""
        return GroupMetadata(*self._member.identity.public)

    def request_rejoin(self, reason: str) -> None:
        """Make this member rejoin the group; ``reason`` is for the coordinator's log (KIP-800)."""
        with self._shell.enter():
            self._member.request_rejoin(reason)

    def close(self, timeout_ms: float = CLOSING_MS, *, leave_group: bool | None = None) -> None:
        """Call :meth:`on_join_prepare`, leave the group and close the connections. A second call does nothing.

        ``leave_group`` (KIP-1092): whether to send LeaveGroup; by default, only a static member does not. With
        ``timeout_ms=0`` it is written if the connection is ready, and its response is not awaited.
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
                        shell.wait_until(lambda: member.has_left, to_seconds(timeout_ms, CLOSING_MS), may_wake=False)
                finally:
                    shell.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._member!r}>"

    def _next_callback(self, now: float, every: bool) -> UserCallback | None:
        member = self._member
        return UserCallback(lambda: member.work(now, every=every)) if member.has_work(now, every=every) else None


class _Role:
    """A :class:`~thinconsumer.group.role.Role` that calls the methods of a :class:`GroupMember`."""

    def __init__(self, user: GroupMember, protocol_type: str) -> None:
        self.protocol_type = protocol_type
        self._user = user
        #: Whether the subclass works on an assignment: ``on_join_complete`` has succeeded, and neither
        #: ``on_join_prepare`` nor ``on_lost`` was called since.
        self._works = False
        self._share = ("", b"")
        self.reason: str | None = None  #: The result of ``rejoin_reason()`` in the last poll.

    def stop(self) -> None:
        """Call ``on_join_prepare``, unless it was called already for the current assignment."""
        if self._works:
            self._works = False
            self._user.on_join_prepare()

    def protocols(self) -> list[tuple[str, bytes]]:
        return [(name, self._user.metadata(name)) for name in self._user.protocols]

    def prepare(self, identity: Identity, now: float) -> bool:
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

    def revoke(self, identity: Identity, now: float) -> bool:
        return True

    def install(self, identity: Identity, now: float) -> bool:
        self._user.on_join_complete(*self._share)
        self._works = True
        return True

    def lose(self, why: str, now: float) -> bool:
        if self._works:
            self._works = False
            self._user.on_lost()
        return True

    def describe(self) -> str:
        return f"a share of {len(self._share[1])} bytes"

    def rejoin_reason(self, now: float) -> str | None:
        reason, self.reason = self.reason, None
        return reason
