"""A member of a group of your own kind: Kafka's group protocol for something that is not a consumer (``seeds/002``).

The coordinator keeps track of who is alive and elects a leader; what members say of themselves, and what the leader
hands out, are bytes that only they understand. The consumer is built on the same machinery, with more to do around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from .assignors import GroupMetadata
from .client import ClientOptions, Engine, Shell, UserCallback, shared, to_seconds
from .config.typed import GroupMemberKeywords
from .driver import Driver
from .errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError
from .group.classic.member import ClassicMember
from .group.classic.states import MemberState
from .group.coordinator import Coordinator
from .group.identity import Identity
from .group.role import JoinedMember
from .metadata import Metadata
from .net import SelectorDriver

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["GroupMember"]

#: Reserved: members that say something else under this type can wedge a real group of consumers.
RESERVED = "consumer"
#: How long close() may take to tell the coordinator, in milliseconds.
CLOSING_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberOptions(ClientOptions):
    """What a member has to know besides; the consumer's options of the same names."""

    group_id: str | None = shared("group_id")
    group_instance_id: str | None = shared("group_instance_id")
    session_timeout_ms: int = shared("session_timeout_ms")
    heartbeat_interval_ms: int = shared("heartbeat_interval_ms")
    max_poll_interval_ms: int = shared("max_poll_interval_ms")

    if TYPE_CHECKING:

        @classmethod
        def from_options(cls, /, **options: Unpack[GroupMemberKeywords]) -> GroupMemberOptions: ...


class GroupMember(ABC):
    """Subclass it, construct it, and call :meth:`poll` often: heartbeats are sent only inside its calls.

    Args:
        protocol_type: what kind of group it is; only members of one kind share a group. Not ``"consumer"``.
        protocols: names of the ways of planning this member knows, the preferred one first; the coordinator elects one
            that all members know.
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
            raise IllegalArgumentError(f"protocol_type={protocol_type!r}: name your own; {RESERVED!r} is Consumer's")
        if isinstance(protocols, str) or not protocols or len(set(protocols)) < len(protocols):
            raise IllegalArgumentError(f"protocols is a list of different names, not {protocols!r}")
        settings = GroupMemberOptions.from_options(**options)
        if settings.group_id is None:
            raise KafkaConfigurationError("group_id is missing: a member needs a group")
        driver = driver if driver is not None else SelectorDriver()
        metadata = Metadata(settings, driver.random)
        self.settings = settings
        self.protocols = tuple(protocols)
        self._coordinator = Coordinator(settings, settings.group_id, metadata, driver.random)
        identity = Identity(settings.group_id, group_instance_id=settings.group_instance_id)
        self._role = _Role(self, protocol_type)
        self._member = ClassicMember(settings, identity, self._role, self._coordinator, driver.random)
        engine = Engine(settings, driver.random, metadata, (self._coordinator, self._member))
        self._member.drop_connection = engine.drop
        self._shell = Shell("member", engine, driver, attend=self._member.attended, next_callback=self._next_callback)
        self._member.subscribe("the member starts")

    # -- yours

    def metadata(self, protocol: str) -> bytes:
        """Return what the leader should know of this member, under this protocol. Asked before each join."""
        return b""

    @abstractmethod
    def perform_assignment(self, leader_id: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return each member's share, by member id, from each member's metadata: this member leads."""

    def on_join_prepare(self) -> None:  # noqa: B027 - most members have nothing to stop
        """Stop working on your share, since others may get it: a rebalance begins. Not called before the first one."""

    @abstractmethod
    def on_join_complete(self, protocol: str, share: bytes) -> None:
        """Begin: this member's share has come. Called again by the next poll if it raises."""

    def on_lost(self) -> None:
        """Stop: the group has gone on without this member, and its share is somebody else's already.

        Unless overridden, it calls :meth:`on_join_prepare`.
        """
        self.on_join_prepare()

    def rejoin_reason(self) -> str | None:
        """Return why the group should plan anew, if it should: the leader has new work, say. Asked in every poll."""
        return None

    # -- calls

    def poll(self, timeout_ms: float = 0) -> None:
        """Take part for so long; 0 is one non-blocking step. Callbacks run in here, and what they raise comes out.

        Raises:
            GroupError: the coordinator refuses this member.
            AuthorizationError: from every poll, until the ACL is there.
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
                member.polled(now)  # a poll that waits counts as polling all that time, longer than the limit or not
                now = shell.run_callbacks(now)
                error = member.error or self._coordinator.error
                if error is not None:
                    raise error
                if now >= deadline:
                    return
                now = shell.run_once(deadline)

    def drive(self) -> None:
        """Keep alive, cheaply: heartbeats and answers, no callbacks. Call it while work takes long."""
        with self._shell.enter():
            self._shell.run_once(self._shell.driver.now())

    def wakeup(self) -> None:
        """Make the poll that waits, or else the next one, raise ``WakeupError``. Safe from signals and threads."""
        self._shell.driver.wakeup()

    def wake_at(self) -> float:
        """Return when to poll next at the latest, in ``time.monotonic()`` seconds."""
        return self._shell.wake_at()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is I/O to do; ``io.UnsupportedOperation`` if none."""
        return self._shell.driver.fileno()

    @property
    def is_stable(self) -> bool:
        """Whether this member has its share, as far as it knows."""
        return self._member.state is MemberState.STABLE

    def group_metadata(self) -> GroupMetadata:
        """Return who this member is in which generation."""
        return GroupMetadata(*self._member.identity)

    def request_rejoin(self, reason: str) -> None:
        """Have the group plan anew; ``reason`` is for the coordinator's log (KIP-800)."""
        with self._shell.enter():
            self._member.request_rejoin(reason)

    def close(self, timeout_ms: float = CLOSING_MS, *, leave_group: bool | None = None) -> None:
        """Stop working (:meth:`on_join_prepare`), leave the group, hang up. Closed twice, it does nothing.

        ``leave_group`` (KIP-1092): whether the coordinator is told; by default unless this is a static member.
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

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._member!r}>"

    # -- inside

    def _next_callback(self, now: float, every: bool) -> UserCallback | None:
        member = self._member
        return UserCallback(lambda: member.work(now, every=every)) if member.has_work(now, every=every) else None


class _Role:
    """A :class:`~thinconsumer.group.role.Role` that asks a :class:`GroupMember`."""

    def __init__(self, user: GroupMember, protocol_type: str) -> None:
        self.protocol_type = protocol_type
        self._user = user
        self._works = False  #: Has a share, as far as the user knows.
        self._share = ("", b"")
        self.reason: str | None = None  #: Why to join again, as the user said in the last poll.

    def stop(self) -> None:
        """Tell the user to stop, once."""
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
                f"perform_assignment() gave shares to {sorted(strangers)}, who are not in the group"
            )
        return {member_id: shares.get(member_id, b"") for member_id in wanted}

    def take(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool) -> None:
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
