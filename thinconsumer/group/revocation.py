"""Revoke and assign partitions in a rebalance, each with its listener callback.

A revocation stops returning records, auto-commits, calls the listener, waits for the listener's commits, and drops the
partitions. The group protocol decides which partitions are revoked and assigned.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..positions.partitions import Partition, Partitions
from ..positions.states import PositionEvent, PositionState
from ..support.agenda import Agenda
from ..support.timers import NEVER
from ..types import TopicPartition
from .listener import call_listener

if TYPE_CHECKING:
    from .offsets.auto_commit import AutoCommit
    from .offsets.commits import Commits
    from .subscription import UserSubscription

#: Maximum seconds that a revocation waits for commits, before and again after the callback. A coordinator that does not
#: respond must not keep the member from joining: the group waits for the member, and a missed commit only causes
#: duplicates.
COMMIT_TIMEOUT = 5.0


class RevocationStep(enum.Enum):
    """What a revocation waits for."""

    IDLE = "idle"
    COMMITTING = "committing"  #: Waits for commits queued so far; polls return no more of these partitions' records.
    DRAINING = "draining"  #: ``on_partitions_revoked`` was called; waits for commits made in that callback.


class PartitionRevocation:
    def __init__(
        self,
        partitions: Partitions,
        commits: Commits,
        auto_commit: AutoCommit | None,
        subscription: UserSubscription,
        agenda: Agenda,
    ) -> None:
        self._partitions = partitions
        self._commits = commits
        self._auto_commit = auto_commit
        self._subscription = subscription
        self.state = RevocationStep.IDLE
        self._revoking: list[Partition] = []
        self._revoked: frozenset[TopicPartition] = frozenset()
        #: When the wait for commits ends at the latest; not set while the callback runs.
        self._timeout = agenda.alarm()
        #: The number of the last commit that was queued before the wait; later commits do not prolong the wait.
        self._awaited = 0
        #: The first exception of ``on_partitions_revoked`` or ``on_partitions_lost``: the rebalance goes on, and the
        #: poll raises the exception afterwards.
        self.error: Exception | None = None
        #: Whether auto-commit, if enabled, also commits in a revocation. False in close(autocommit=False): the
        #: application may not have processed all returned records.
        self.auto_commits = auto_commit is not None
        #: Whether a coroutine of the listener runs, before whose end no further callback is due.
        self.awaits_listener = False
        #: Whether ``on_partitions_assigned`` was called since the consumer subscribed: it has had an assignment.
        self.has_assigned = False

    def advance(
        self, tps: Collection[TopicPartition], now: float, *, always_call: bool = False, by: float = NEVER
    ) -> bool:
        """Advance the revocation of ``tps``; call it again, with steps in between, until it returns True.

        With ``always_call`` the listener is called for an empty set, too: an eager rebalance always revokes, then
        assigns. ``by`` is the latest time until which the revocation waits for commits.
        """
        if self.awaits_listener:
            return False
        if self._timeout.is_set:
            # A poll may have begun this revocation, and a close() with an earlier limit may go on with it.
            self._timeout.set_earlier(by)
        if self.state is RevocationStep.IDLE:
            self._revoking = [p for p in self._partitions if p.tp in tps]
            if not self._revoking and not always_call:
                return True
            for partition in self._revoking:
                partition.pending_revocation = True
            if self._auto_commit is not None and self.auto_commits:
                self._auto_commit.commit_now(self._revoking, now + COMMIT_TIMEOUT)
            self._timeout.set(min(now + COMMIT_TIMEOUT, by))
            self.state, self._awaited = RevocationStep.COMMITTING, self._commits.queue.last_number
        if self.state is RevocationStep.COMMITTING:
            if self.is_waiting(now):
                return False
            # The state changes before the call of the listener, so that Ctrl-C inside the listener does not repeat it.
            # Ctrl-C between the next two lines changes nothing: without a timeout, the next advance() does not wait.
            self._timeout.clear()
            self.state, self._awaited = RevocationStep.DRAINING, self._commits.queue.last_number
            self._call_listener("revoked", [p.tp for p in self._revoking])
            self._revoked = frozenset([p.tp for p in self._revoking])
            return False  # let the engine send the commits that the listener has queued
        if not self._timeout.is_set:
            # The wait starts after the callback, which may have taken longer than COMMIT_TIMEOUT before it committed.
            self._timeout.set(min(now + COMMIT_TIMEOUT, by))
            self._awaited = self._commits.queue.last_number
        if self.is_waiting(now):
            return False
        revoked = {p.tp for p in self._revoking}
        self._commits.release(revoked)
        # assign() comes before cancel(): if Ctrl-C strikes between the two, the next call repeats only the end of this
        # method. In the reverse order, it would repeat the whole revocation.
        self._partitions.assign([p.tp for p in self._partitions if p.tp not in revoked])
        self.cancel()
        return True

    def lose(self, now: float) -> bool:
        """Drop all partitions. Return True.

        ``on_partitions_lost`` is called with the partitions that ``on_partitions_revoked`` did not get, if any.
        """
        revoked = set(self._revoking) if self.state is RevocationStep.DRAINING else set()
        going = [p for p in self._partitions if p not in revoked]
        self.cancel()
        # A callback that raises must not leave partitions assigned that other members may own by now.
        try:
            if going:
                self._call_listener("lost", [p.tp for p in going])
        finally:
            self._partitions.assign(())
        return True

    def cancel(self) -> None:
        """End the revocation: it is complete, the membership was lost, or the user has unsubscribed."""
        self.state = RevocationStep.IDLE
        self._revoking, self._revoked = [], frozenset()

    @property
    def revoked(self) -> frozenset[TopicPartition]:
        """The partitions for which ``on_partitions_revoked`` has run, which stay assigned until its commits are done.

        A commit of all positions leaves them out: if the member epoch changed before that commit arrived, the commit
        would fail.
        """
        return frozenset() if self.awaits_listener else self._revoked

    def covers(self, tp: TopicPartition) -> bool:
        """Return whether a revocation of the partition is in progress."""
        return any(partition.tp == tp for partition in self._revoking)

    def is_waiting(self, now: float) -> bool:
        """Return whether the revocation waits for commits, or for a coroutine of the listener."""
        if self.awaits_listener:
            return True
        is_waiting = self.state is not RevocationStep.IDLE and self._timeout.is_ahead(now)
        return is_waiting and not self._commits.queue.has_settled(self._awaited)

    def assign(self, tps: Collection[TopicPartition]) -> None:
        """Make ``tps`` the assignment; new partitions wait for ``on_partitions_assigned``."""
        before = self._partitions.tps()
        self._partitions.assign(tps, start=PositionState.AWAITING_CALLBACK)
        for partition in self._partitions:
            # Partitions in AWAITING_CALLBACK count as new, too: if Ctrl-C interrupted an earlier call between assign()
            # and this loop, they are already in ``before``.
            if partition.tp not in before or partition.state is PositionState.AWAITING_CALLBACK:
                partition.callback_pending = True

    def call_assigned(self) -> None:
        """Call ``on_partitions_assigned`` with the new partitions. If it raises, the next call repeats it."""
        self.has_assigned = True
        # AWAITING_CALLBACK counts, too: Ctrl-C may have kept :meth:`assign` from setting ``callback_pending``.
        new = [p for p in self._partitions if p.callback_pending or p.state is PositionState.AWAITING_CALLBACK]
        call_listener(self._subscription.listener, "assigned", [p.tp for p in new])
        for partition in new:
            if partition.state is PositionState.AWAITING_CALLBACK:
                partition.move(PositionEvent.CALLBACK_DONE)
            partition.callback_pending = False

    def _call_listener(self, event: str, tps: list[TopicPartition]) -> None:
        try:
            call_listener(self._subscription.listener, event, tps)
        except Exception as error:  # noqa: BLE001 - the poll raises it after the rebalance went on
            self.error = self.error or error
