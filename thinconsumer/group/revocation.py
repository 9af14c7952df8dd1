"""Partitions come and go: the part of a rebalance in which users are told and last offsets are committed.

Owns the order within giving up (hold back, commit, tell, commit what was said meanwhile, let go) and taking over. It
does not know why: the role says what goes and what comes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ..calls import Call
from ..partitions import Partition, Partitions, PositionEvent, PositionState
from ..timers import NEVER
from ..types import TopicPartition
from .listener import hear_assigned, hear_lost, hear_revoked

if TYPE_CHECKING:
    from .auto_commit import AutoCommit
    from .commits import Commits

#: How long giving up waits for commits, in seconds, before and after the callback. A coordinator that does not answer
#: must not keep us from joining: the group waits for us, and a commit that never comes costs duplicates, not records.
PATIENCE = 5.0


class GivingUp(enum.Enum):
    """Where giving up partitions stands."""

    IDLE = "idle"
    COMMITTING = "committing"  #: What was delivered is being committed; nothing more of it is handed out.
    TELLING = "telling"  #: The listener is to be told.
    DRAINING = "draining"  #: What the listener left to be committed is on its way.


class PartitionRevocation:
    """Gives partitions up and takes them over, with what users have to hear of it."""

    def __init__(
        self, partitions: Partitions, commits: Commits, auto_commit: AutoCommit | None, listener: Callable[[], Any]
    ) -> None:
        self._partitions = partitions
        self._commits = commits
        self._auto_commit = auto_commit
        self._listener = listener
        self.state = GivingUp.IDLE
        self._going: list[Partition] = []
        self._until = -NEVER
        #: What was to be committed when the waiting began. Those who keep partitions go on committing, all the time.
        self._awaited: Call[None] = Call("committing")
        #: What a revoked or lost callback raised: the rejoin goes on, then the poll raises it.
        self.error: Exception | None = None
        #: Whether what was delivered is committed; not after an exception, when it may not have been processed.
        self.commits_by_itself = auto_commit is not None

    # -- giving up

    def give_up(
        self, tps: Collection[TopicPartition], now: float, *, always_tell: bool = False, by: float = NEVER
    ) -> bool:
        """Go on giving these up; call it, with steps in between, until it returns True.

        With ``always_tell`` the listener hears of an empty set, too: an eager rebalance always revokes, then assigns.
        After ``by`` nothing is waited for.
        """
        if self.state is GivingUp.IDLE:
            self._going = [p for p in self._partitions if p.tp in tps]
            if not self._going and not always_tell:
                return True
            for partition in self._going:
                partition.pending_revocation = True
            if self._auto_commit is not None and self.commits_by_itself:
                self._auto_commit.commit_now(self._going, min(now + PATIENCE, by), now)
            self._wait(GivingUp.COMMITTING, now + PATIENCE)
        if self.state is GivingUp.COMMITTING:
            if not self._through(now, by):
                return False
            self.state = GivingUp.TELLING
        if self.state is GivingUp.TELLING:
            # Noted first: told once, whatever the callback raises, Ctrl-C included.
            self._wait(GivingUp.DRAINING, NEVER)
            self._tell(hear_revoked)
            return False  # time has passed in there, and what was committed has not been sent yet
        if self._until == NEVER:
            # From here on: the callback may have taken as long itself, and has left what is to be committed.
            self._wait(GivingUp.DRAINING, now + PATIENCE)
        if not self._through(now, by):
            return False
        self._let_go()
        return True

    def lose(self, now: float) -> bool:
        """Let go of everything at once, and say so if there was anything. True: there is nothing to wait for."""
        told = self._going if self.state is GivingUp.DRAINING else []  # has been revoked already, as far as users know
        going = [p for p in self._partitions if p not in told]
        self.start_over()
        # Let go first: a callback that raises must not leave partitions behind that belong to others by now.
        try:
            if going:
                self._hear(hear_lost, [p.tp for p in going])
        finally:
            self._partitions.assign(())
        return True

    def start_over(self) -> None:
        """Forget what is half done: membership was lost, or nothing is wanted any more."""
        self.state = GivingUp.IDLE
        self._going = []

    def waiting_until(self, now: float) -> float:
        """Return when waiting for commits ends by itself; never while nothing waits, or once that has passed.

        To go on then is work for who called: whoever waits inside a callback cannot, and must not be woken for it.
        """
        waits = self.state in (GivingUp.COMMITTING, GivingUp.DRAINING) and not self._awaited.done
        return self._until if waits and now < self._until else NEVER

    # -- taking over

    def take_over(self, tps: Collection[TopicPartition]) -> None:
        """Make ``tps`` the assignment; what is new waits for its callback."""
        before = self._partitions.tps()
        self._partitions.assign(tps, start=PositionState.AWAITING_CALLBACK)
        for partition in self._partitions:
            # By its state, too: an interrupt may have struck an earlier attempt between the two.
            if partition.tp not in before or partition.state is PositionState.AWAITING_CALLBACK:
                partition.callback_pending = True

    def tell_assigned(self) -> None:
        """Tell the listener what is new. What it raises comes out, and all of this is done again by the next call."""
        new = [p for p in self._partitions if p.callback_pending]
        hear_assigned(self._listener(), [p.tp for p in new])
        for partition in new:
            if partition.state is PositionState.AWAITING_CALLBACK:
                partition.move(PositionEvent.CALLBACK_DONE)
            partition.callback_pending = False

    # -- inside

    def _wait(self, state: GivingUp, until: float) -> None:
        self.state = state
        self._until = until
        self._awaited = self._commits.mark()

    def _through(self, now: float, by: float) -> bool:
        self._until = min(self._until, by)  # it may have been begun by a poll, and close() has less time
        return self._awaited.done or now >= self._until

    def _tell(self, hear: Callable[[Any, Collection[TopicPartition]], None]) -> None:
        self._hear(hear, [p.tp for p in self._going])

    def _hear(self, hear: Callable[[Any, Collection[TopicPartition]], None], tps: list[TopicPartition]) -> None:
        try:
            hear(self._listener(), tps)
        except Exception as error:  # noqa: BLE001 - raised by the poll that runs it, once the rejoin is on its way
            self.error = self.error or error

    def _let_go(self) -> None:
        going = {p.tp for p in self._going}
        # In this order: interrupted in between this is done again, and not all that led to it as well.
        self._partitions.assign([p.tp for p in self._partitions if p.tp not in going])
        self.start_over()
