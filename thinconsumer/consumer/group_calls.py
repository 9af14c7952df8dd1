"""The public calls for groups that never wait: subscriptions, ``commit_async``, the member's identity."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import IllegalStateError
from ..types import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from .arguments import ToCommit, refuse_async
from .queries import to_commit

if TYPE_CHECKING:
    from ..assignors import GroupMetadata
    from ..engine import Shell
    from .core import ConsumerCore

#: A user's function that is called when a ``commit_async`` has finished: with the offsets, and the error or None.
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], Any]


#: The methods of a listener, none of which may be an ``async def``.
LISTENER_METHODS = (
    "on_partitions_assigned",
    "on_partitions_revoked",
    "on_partitions_lost",
    "on_partition_keys_assigned",
    "on_partition_keys_maybe_revoked",
)


class GroupCalls:
    """The base class of :class:`.PlainCalls` that has the calls for groups."""

    _reader: ConsumerCore
    _shell: Shell

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
        *,
        exclude: str | re.Pattern[str] | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that match a pattern, as a member of the group.

        Without a ``group_id`` the consumer gets all partitions of the topics, also those that are added later; see
        docs/groups.md. No ``listener`` is called then.

        Replaces the previous subscription. ``pattern`` must match a whole topic name; topics created later are
        included. The client matches a str or compiled pattern, and the broker a :class:`SubscriptionPattern` (not with
        the classic protocol). Topics whose whole name matches ``exclude`` are left out; ``exclude`` needs a ``pattern``
        that the client matches.
        ``listener`` is a :class:`RebalanceListener`, or any object with its methods; it may have those of
        :class:`PartitionKeyRebalanceListener`, too. The member joins the group in the next ``poll``.

        Raises:
            IllegalArgumentError: neither topics nor pattern, or both; an illegal name or expression; a listener that
                lacks a method, or has an ``async def``; a ``SubscriptionPattern`` without a group, with the classic
                protocol or with ``exclude``; ``exclude`` without a pattern. To end a subscription, call
                :meth:`unsubscribe`.
            IllegalStateError: partitions were assigned by hand.
        """
        listener = self._checked(listener)
        with self._shell.change():
            subscriber = self._reader.managers.require_subscriber()
            if isinstance(pattern, SubscriptionPattern):
                subscriber.require_broker_patterns()
            subscriber.subscription.subscribe(topics, pattern, listener, exclude)
            subscriber.subscribed()

    def _checked(self, listener: Any) -> Any:
        """Return the listener to call; raise IllegalArgumentError for one whose methods cannot be called."""
        for name in LISTENER_METHODS:
            refuse_async(getattr(listener, name, None), f"{name} of {listener!r}")
        return listener

    def subscription(self) -> set[str]:
        """Return the subscribed topics; for a pattern, the known topics that match it.

        For a ``SubscriptionPattern``, return the topics of which partitions are assigned.
        """
        with self._shell.enter():
            subscriber = self._reader.managers.subscriber
            return set(subscriber.own_topics()) if subscriber is not None else set()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make this member rejoin in the next ``poll`` (KIP-568), which rebalances the group if this member leads it.

        When a member that is not the leader rejoins, the coordinator starts a rebalance only if the member's metadata
        has changed: its topics, its rack or its assignor's user data. Meant for assignors that depend on state outside
        the group. ``reason`` is for the coordinator's log (KIP-800). With ``group_protocol="consumer"`` the coordinator
        alone decides, and this call has no effect but a warning.
        """
        with self._shell.change():
            group = self._reader.managers.require_group()
            if not group.subscription.is_subscribed:
                raise IllegalStateError("there is nothing to rebalance: subscribe() first")
            group.member.request_rejoin(reason or "enforce_rebalance() was called")

    def commit_async(self, offsets: ToCommit | None = None, callback: CommitCallback | None = None) -> None:
        """Queue a commit, which later calls send; do not wait for it.

        Commits are sent one at a time in the order of the calls. Commits that wait in the queue are merged into one
        request, with each partition's latest offset. ``callback(offsets, error_or_None)`` runs inside a later
        ``poll``, ``commit``, ``unsubscribe`` or ``close``; the last two send the commits that are still queued. If a
        callback calls ``commit_async`` again and that commit fails, its callback runs ``retry_backoff_ms`` after that
        call at the earliest.
        """
        from ..group.offsets.commit_queue import log_failure

        refuse_async(callback, "the callback")
        told: Any = callback or self._reader.config.default_offset_commit_callback
        with self._shell.change():
            commits = self._reader.managers.require_group().commits
            now = self._shell.driver.now()
            deadline, called_at = now + self._reader.default_timeout(None), now if self._shell.in_callback else None
            commits.add(to_commit(self._reader, offsets), deadline, told or log_failure, called_at=called_at)

    def group_metadata(self) -> GroupMetadata:
        """Return group id, generation id, member id and group instance id, without I/O.

        A transactional producer needs this for ``send_offsets_to_transaction`` (KIP-447).
        """
        from ..assignors import GroupMetadata

        with self._shell.enter():
            return GroupMetadata(*self._reader.managers.require_group().member.identity[:4])
