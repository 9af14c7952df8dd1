"""The methods of the public Consumer for groups: subscriptions, commits and committed offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ..errors import IllegalStateError, KafkaTimeoutError
from ..types import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from .arguments import ToCommit, offsets_to_commit, refuse_async, topic_partitions
from .open_calls import KEPT

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
    """The base class of :class:`Consumer` that has its public methods for groups."""

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
        for name in LISTENER_METHODS:
            refuse_async(getattr(listener, name, None), f"{name} of {listener!r}")
        with self._shell.change():
            subscriber = self._reader.managers.require_subscriber()
            if isinstance(pattern, SubscriptionPattern):
                subscriber.require_broker_patterns()
            subscriber.subscription.subscribe(topics, pattern, listener, exclude)
            subscriber.subscribed()

    def unsubscribe(self) -> None:
        """Give up all partitions, including those assigned by hand, and leave the group.

        First commits the offsets of processed records (``enable_auto_commit``) and calls the listener.
        Waits at most 60 % of ``default_api_timeout_ms`` for commits, including those of ``commit_async``, and then at
        most 5 s until the request to leave is written.
        """
        with self._shell.change():
            if self._reader.callbacks is not None:
                self._reader.callbacks.unsubscribe()
            elif self._reader.managers.whole_topics is not None:
                self._reader.managers.whole_topics.unsubscribed()
            self._reader.partitions.assign(())

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

    def commit(self, offsets: ToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has accepted them.

        ``offsets``: the *next* offset to read, by partition, or the last processed record; default: the positions of
        the assigned partitions, which are after every returned record. Retriable failures are retried within
        ``timeout_ms`` (default ``default_api_timeout_ms``).

        Raises:
            CommitFailedError: with the reason; after ``unknown_member`` and ``illegal_generation`` the partitions are
                lost, and the next poll calls ``on_partitions_lost``.
            RebalanceInProgressError: a rebalance is in progress, and may assign the partitions to another member.
            PartitionNotOwnedError: this member is subscribed, and neither owns the partitions that the error names nor
                is revoking them. The other offsets were written. See ``allow_foreign_commits``.
            AuthorizationError: an ACL is missing.
            IllegalArgumentError: an offset, a leader epoch or metadata cannot be encoded; nothing is committed.
            IllegalStateError: there is no ``group_id``.
        """
        reader, now = self._reader, self._shell.driver.now
        with self._shell.enter():
            commits, found, began = reader.managers.require_group().commits, self._to_commit(offsets), now()
            queue = commits.queue
            # A commit that times out is kept for a few seconds. If the application repeats the call with the same
            # offsets, that call waits for the kept commit and sends no second one.
            deadline = began + max(KEPT, reader.default_timeout(timeout_ms))
            key = "commit", frozenset(found.items())
            try:
                # The last argument accepts a kept commit only if no other was queued after it. Otherwise the repeated
                # call must queue a new commit, or the group would keep the offsets of the commit in between.
                add = partial(commits.add, found, deadline)
                reader.open_calls.wait(key, add, timeout_ms, lambda call: call is queue.newest)
            except KafkaTimeoutError as error:
                raise commits.timeout_error(found, now()) from error
            finally:
                reader.managers.metrics.record_call_time("commit_sync", now() - began, now())
                if reader.callbacks is not None:
                    reader.callbacks.run_commit_callbacks()

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
            commits.add(self._to_commit(offsets), deadline, told or log_failure, called_at=called_at)

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...
    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...
    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the offset that the group has committed for a partition, or None; for several partitions, a dict.

        With ``metadata``, return an :class:`OffsetAndMetadata` instead of an int. The offset is requested from the
        coordinator: there is no cache.
        """
        one = isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[0], str)
        tps = topic_partitions([partition] if one else partition, "committed()")
        with self._shell.enter():
            began, group = self._shell.driver.now(), self._reader.managers.require_group()
            key = "committed", group.commits.queue.newest, *tps
            found = self._reader.open_calls.wait(key, partial(group.committed.ask, tps), timeout_ms)
            now = self._shell.driver.now()
            self._reader.managers.metrics.record_call_time("committed", now - began, now)
        answers: dict[TopicPartition, Any] = {tp: found.get(tp) for tp in tps}
        if not metadata:
            answers = {tp: None if value is None else value.offset for tp, value in answers.items()}
        return answers[tps[0]] if one else answers

    def group_metadata(self) -> GroupMetadata:
        """Return group id, generation id, member id and group instance id, without I/O.

        A transactional producer needs this for ``send_offsets_to_transaction`` (KIP-447).
        """
        from ..assignors import GroupMetadata

        with self._shell.enter():
            return GroupMetadata(*self._reader.managers.require_group().member.identity[:4])

    def _to_commit(self, offsets: ToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: ``offsets``, or by default the positions of the assigned partitions.

        If the commit includes the last record that an iteration returned, that record now counts as processed; but not
        if a callback such as a listener makes the commit, since the application may still be processing the record.
        """
        group, partitions = self._reader.managers.require_group(), self._reader.partitions
        found = None if offsets is None else offsets_to_commit(offsets)
        hand = partitions.in_hand
        if hand is not None and not self._shell.in_callback:
            named = None if found is None else found.get(hand.partition.tp)
            if found is None or (named is not None and named.offset > hand.before.offset):
                partitions.in_hand = None
        return group.positions() if found is None else found
