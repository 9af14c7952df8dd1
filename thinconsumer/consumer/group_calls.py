"""The part of the public Consumer that is about groups: subscribing, committing, and asking about both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

from ..assignors import GroupMetadata
from ..errors import IllegalStateError, KafkaTimeoutError
from ..group.commit_queue import log_failure
from ..types import OffsetAndMetadata, TopicPartition
from .arguments import ToCommit, offsets_to_commit, refuse_async, topic_partitions
from .open_calls import KEPT

if TYPE_CHECKING:
    from ..client import Shell
    from .reader import Reader

#: Called with the offsets and None, or the error, when a commit in the background is through.
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], Any]


class GroupCalls:
    """A base class of :class:`Consumer`."""

    _reader: Reader
    _shell: Shell

    # -- choose

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Read these topics together with the group's other members; replaces the subscription before.

        ``pattern`` is matched against whole names of topics, those that appear later, too. ``listener`` is a
        :class:`RebalanceListener`, or any object with its methods. Nothing happens before the next ``poll``.

        Raises:
            IllegalArgumentError: neither topics nor pattern, or both, or an illegal name. To end a subscription, call
                :meth:`unsubscribe`.
            IllegalStateError: there is no ``group_id``, or partitions were assigned by hand.
        """
        for name in ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost"):
            refuse_async(getattr(listener, name, None), f"{name} of {listener!r}")
        with self._shell.change():
            group = self._reader.managers.require_group()
            group.subscription.subscribe(topics, pattern, listener)
            group.subscribed()

    def unsubscribe(self) -> None:
        """Give up all partitions, those assigned by hand as well, and leave the group.

        Commits what was processed (``enable_auto_commit``) and calls ``on_partitions_revoked`` first. Waits no longer
        than ``default_api_timeout_ms`` for commits, those of ``commit_async`` included.
        """
        with self._shell.change():
            if self._reader.callbacks is not None:
                self._reader.callbacks.unsubscribe()
            self._reader.partitions.assign(())

    def subscription(self) -> set[str]:
        """Return the topics subscribed to; under a pattern those that match it as far as is known."""
        with self._shell.enter():
            group = self._reader.managers.group
            return set(group.role.own_topics()) if group is not None and group.subscription.is_subscribed else set()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have this member join again with the next ``poll`` (KIP-568), and the group plan anew if it leads.

        Of a member that does not lead the coordinator heeds it only if it says something new: other topics, another
        rack, other bytes of its assignor. For assignors that heed something the group cannot see. ``reason`` is for
        the coordinator's log (KIP-800).
        """
        with self._shell.change():
            group = self._reader.managers.require_group()
            if not group.subscription.is_subscribed:
                raise IllegalStateError("there is nothing to rebalance: subscribe() first")
            group.member.request_rejoin(reason or "enforce_rebalance() was called")

    # -- commit

    def commit(self, offsets: ToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Write down how far this group has read, and wait until that is done.

        ``offsets``: the *next* offset to read, by partition, or the last record that is processed; default: the
        positions of all assigned partitions, behind every record that was returned. Within ``timeout_ms`` (default
        ``default_api_timeout_ms``) passing failures are tried again.

        Raises:
            CommitFailedError: with the reason; after ``unknown_member`` and ``illegal_generation`` the partitions are
                lost, and the next poll says so.
            RebalanceInProgressError: what was to be committed may not be ours after the rebalance under way.
            AuthorizationError: an ACL is missing.
            IllegalArgumentError: an offset, a leader epoch or metadata that no request can carry; nothing is queued.
            IllegalStateError: there is no ``group_id``.
        """
        reader, now = self._reader, self._shell.driver.now
        with self._shell.enter():
            group, found, began = reader.managers.require_group(), self._to_commit(offsets), now()
            commits = group.commits
            # A commit that runs out of time is kept: made again with the same offsets, it is not sent again.
            deadline = began + max(KEPT, reader.default_timeout(timeout_ms))
            key = "commit", frozenset(found.items())
            try:
                # Not valid once another commit was made: this one could be behind it.
                reader.ask(key, lambda: group.commit(found, deadline), timeout_ms, lambda call: call is commits.newest)
            except KafkaTimeoutError as error:
                raise commits.timeout_error(found, now()) from error
            finally:
                reader.managers.metrics.record_call_time("commit_sync", now() - began, now())
                reader.run_commit_callbacks()

    def commit_async(
        self,
        offsets: ToCommit | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Have offsets written down by the calls that follow, without waiting.

        Commits happen in the order of the calls, one at a time; those that wait are merged, so that an offset never
        goes back behind a later call's. ``callback(offsets, error_or_None)`` runs inside a later ``poll``, ``commit``
        or ``close``. ``close`` commits what is still waiting then.
        """
        refuse_async(callback, "the callback")
        told: Any = callback or self._reader.config.default_offset_commit_callback or log_failure
        with self._shell.change():
            deadline = self._shell.driver.now() + self._reader.default_timeout(None)
            self._reader.managers.require_group().commit(self._to_commit(offsets), deadline, told)

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
        """Return the offset the group has committed for a partition, or None; for several, a dict.

        With ``metadata`` an :class:`OffsetAndMetadata`. Always asks the coordinator.
        """
        one = isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[0], str)
        tps = topic_partitions([partition] if one else partition, "committed()")
        with self._shell.enter():
            began, group = self._shell.driver.now(), self._reader.managers.require_group()
            found = self._reader.ask(
                ("committed", group.commits.newest, *tps), lambda: group.ask_committed(tps), timeout_ms
            )
            now = self._shell.driver.now()
            self._reader.managers.metrics.record_call_time("committed", now - began, now)
        answers = {tp: _as_asked(found.get(tp), metadata) for tp in tps}
        return answers[tps[0]] if one else answers

    def group_metadata(self) -> GroupMetadata:
        """Return who this member is, for ``send_offsets_to_transaction`` of a producer (KIP-447). No I/O."""
        with self._shell.enter():
            return self._reader.managers.require_group().metadata()

    # -- inside

    def _to_commit(self, offsets: ToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit. The record in hand counts as processed, unless a callback commits."""
        group, partitions = self._reader.managers.require_group(), self._reader.partitions
        found = None if offsets is None else offsets_to_commit(offsets)
        hand = partitions.in_hand
        if hand is not None and not self._shell.in_callback:
            named = None if found is None else found.get(hand.partition.tp)
            if found is None or (named is not None and named.offset > hand.before.offset):
                partitions.in_hand = None
        return group.positions() if found is None else found


def _as_asked(found: OffsetAndMetadata | None, metadata: bool) -> OffsetAndMetadata | int | None:
    return found if metadata or found is None else found.offset
