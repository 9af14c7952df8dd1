"""The interface between a consumer's group and its member, the same for both group protocols.

``Group``, commits, committed offsets, health and metrics know only this interface. ``classic/member.py`` implements the
protocol of JoinGroup and SyncGroup, in which a leader computes the assignment.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from ..client import Manager
from ..connection.request import Target
from ..errors import KafkaError
from .identity import Identity
from .stats import MemberStats


class Membership(Manager, Protocol):
    """A member of a group, which is also a manager of the engine. No method of it blocks.

    Steps call no user code. A member that waits for its listener reports so by :meth:`has_work`, and goes on when
    :meth:`work` is called: ``poll`` calls it, ``drive`` does not.
    """

    identity: Identity
    #: The reason for polls to return no records: the membership may have ended, so other members may own the
    #: partitions by now. None if polls may return records.
    held: str | None
    stats: MemberStats
    #: Closes a connection on which the coordinator holds back a response that the member no longer needs.
    drop_connection: Callable[[Target], None]

    @property
    def state(self) -> enum.Enum:
        """The state in the protocol's state machine; its ``value`` is for log lines, health and errors."""

    @property
    def error(self) -> KafkaError | None:
        """The last response's error, which polls raise once, if it lasts until the application acts; else None."""

    @property
    def is_outside(self) -> bool:
        """Whether the member is in no group, or about to leave it."""

    @property
    def is_settled(self) -> bool:
        """Whether the member has its assignment, and no rebalance is in progress."""

    @property
    def rebalancing(self) -> bool:
        """Whether the member is joining, so that the coordinator may reject its commits."""

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether the response to a request in flight tells more about the membership than an error of a commit."""

    @property
    def has_left(self) -> bool:
        """Whether the member is in no group and has no request to leave to send."""

    @property
    def has_sent_leave(self) -> bool:
        """Whether no request to leave remains to be written. It may have no response yet."""

    @property
    def callback(self) -> str | None:
        """The listener's callback that :meth:`work` calls next: revoked, assigned or lost; None if it calls none."""

    @property
    def delays_group(self) -> bool:
        """Whether the other members wait for :meth:`work`, so that blocking calls run it as well as polls."""

    @property
    def heartbeat_interval(self) -> float:
        """Seconds between two heartbeats."""

    def subscribe(self, reason: str) -> None:
        """Join the group. After a final error this has no effect until :meth:`leave`."""

    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, if the protocol lets a member do so (KIP-568)."""

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group without callbacks: the caller revokes the owned partitions first.

        ``leave_group`` says whether to tell the coordinator that the member does not return; by default a dynamic
        member does not, a static one does (KIP-345, KIP-1092).
        """

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return the connection that the request of :meth:`leave` would use now; None if there would be no request.

        The caller of :meth:`leave` may have it opened while commits still wait for their responses.
        """

    def polled(self, now: float) -> bool:
        """Note a ``poll``. Return whether the member waited for this poll to join again after a poll timeout."""

    def called(self, now: float) -> bool:
        """Note a call of the application. Return whether the gap since the previous call makes a step due."""

    def withholds(self, *, may_wait: bool) -> bool:
        """Return whether polls return no records now, see :attr:`held`.

        ``may_wait`` tells whether the poll can wait for a response. The last step of a poll cannot, so that a member
        may conclude from less there.
        """

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on a membership error that a commit under ``identity`` returned, unless the identity has changed."""

    def has_work(self, now: float, *, every: bool = True) -> bool:
        """Return whether :meth:`work` has something to do; without ``every``, only what the rest of the group needs."""

    def work(self, now: float, *, every: bool = True) -> bool:
        """Do what is due. That may call the listener or an assignor; their exceptions propagate.

        Return True unless nothing was due, or it is not done and has to be repeated a little later.
        """
