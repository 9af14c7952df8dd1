"""What calls of a consumer do for its group: run listeners and assignors when they are due, wait for commits, leave.

Owns the order: users' code runs between steps, never inside one, and before records are handed out. Decides nothing
about groups; that is the ``group`` room's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..assignors import PartitionAssignor
from ..assignors.registry import create
from ..calls import run_all
from ..config import ConsumerConfig
from ..errors import IllegalStateError, KafkaError, KafkaTimeoutError
from ..group.classic.states import MemberState
from ..types import OffsetAndMetadata, TopicPartition
from .metrics_recorder import CALLBACKS
from .open_calls import KEPT

if TYPE_CHECKING:
    from ..group.group import Group
    from .shell import Shell

log = logging.getLogger(__name__)

#: How long close() may take for a group's sake when no timeout is given, in seconds; Java's default.
CLOSING = 30.0


def make_assignors(config: ConsumerConfig) -> tuple[PartitionAssignor, ...]:
    """Return one assignor for each entry of ``partition_assignment_strategy``."""
    return () if config.group_id is None else create(config.partition_assignment_strategy)


class Membership:
    """The group's side of a consumer's calls. Without a group there is none of these."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._raised: Exception | None = None

    @property
    def group(self) -> Group:
        """The group, as the engine of now has it."""
        group = self._shell.engine.group
        if group is None:
            raise IllegalStateError("this consumer is in no group: pass group_id to Consumer()")
        return group

    # -- poll

    def begin_poll(self, now: float) -> None:
        """Note that the user polls, before anything else happens."""
        self.group.poll_begins(now)

    def run_callbacks(self, now: float) -> float:
        """Run what is due of users' code, with a step after each piece; return the time.

        Raises:
            Exception: what a listener, an assignor or a commit's callback raised.
        """
        # Whoever waits in a poll polls all that time: an idle topic may keep them longer than max_poll_interval_ms,
        # and what earlier polls returned has to be committed in time all the same.
        self.group.polled(now)
        self.tell_committed()
        now = self._work(now, every=True)
        error = self.group.take_error()
        if error is not None:
            raise error
        return now

    def run_leader_assignment(self, now: float) -> float:
        """Run only what the rest of the group waits for, in calls that wait for something else."""
        return self._work(now, every=False)

    def _work(self, now: float, *, every: bool) -> float:
        shell = self._shell
        while not shell.in_callback and self.group.has_work(now):
            kind, began = CALLBACKS.get(self.group.member.state), shell.driver.now()
            with shell.callback():
                progress = self.group.work(now, every=every)
            if kind is not None:
                shell.engine.metrics.record_callback(kind, shell.driver.now() - began, began)
            if not progress:
                return now
            now = shell.turn(shell.driver.now())
        return now

    # -- commits

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float | None) -> None:
        """Commit and wait; what was committed in the background before is through first."""
        shell, group = self._shell, self.group
        now = shell.driver.now()
        # A commit that runs out of time is kept: made again with the same offsets, it is not sent again.
        deadline = now + max(KEPT, shell.default_timeout(timeout_ms))
        key = "commit", frozenset(offsets.items())
        try:
            # Not valid once another commit was made: this one could be behind it.
            commits = group.commits
            shell.ask(key, lambda: group.commit(offsets, deadline), timeout_ms, lambda call: call is commits.newest)
        except KafkaTimeoutError as error:
            raise group.commits.timeout_error(offsets, shell.driver.now()) from error
        finally:
            done = shell.driver.now()
            shell.engine.metrics.record_call_time("commit_sync", done - now, done)
            self.tell_committed()

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Any) -> None:
        """Have offsets committed by later calls, and the callback called by one of them."""
        shell, group = self._shell, self.group
        deadline = shell.driver.now() + shell.default_timeout(None)
        group.commit(offsets, deadline, callback)

    def tell_committed(self) -> None:
        """Call the callbacks of commits that are through, in their order."""
        shell, finished = self._shell, self.group.commits.finished
        while finished and not shell.in_callback:
            with shell.callback():
                self.group.commits.tell_first()

    # -- ends

    def give_up_all(self, deadline: float, *, commit: bool) -> None:
        """Commit, tell the listener, let go of everything. Waits no longer than until ``deadline``."""
        shell, group = self._shell, self.group
        now = shell.driver.now()
        group.revocation.commits_by_itself = commit and group.auto_commit is not None
        while not self._gave_up(now, deadline):
            # Only commits are worth waiting for. Else this would last until anything happens: the next heartbeat, say.
            now = self._step(now, now if group.commits.idle else deadline)
        group.revocation.commits_by_itself = group.auto_commit is not None
        self._drain(deadline)

    def _gave_up(self, now: float, deadline: float) -> bool:
        group, partitions = self.group, self._shell.partitions
        with self._shell.callback():
            if group.is_member and not group.identity.is_member:
                return group.revocation.lose(now)
            # Something may have been on its way out already, without the rest.
            return group.revocation.give_up(partitions.tps(), now, by=deadline) and not partitions

    def _drain(self, deadline: float) -> None:
        shell, group = self._shell, self.group
        now = shell.driver.now()
        while not group.commits.idle and now < deadline:
            now = self._step(now, deadline)
        self.end_commits()

    def end_commits(self) -> None:
        """Fail the commits that are still waiting, and call every callback that is due, whatever the others raise."""
        group = self.group
        group.commits.give_up_all(self._shell.driver.now())
        run_all(self.tell_committed for _ in list(group.commits.finished))

    def _step(self, now: float, deadline: float) -> float:
        """Step while all is given up. A leader plans even then: until the sync no commit is taken, and others wait."""
        shell, group = self._shell, self.group
        if group.member.state is MemberState.COMPLETING_REBALANCE:
            try:
                with shell.callback():
                    group.work(now, every=False)
            except Exception as error:  # noqa: BLE001 - an assignor's; raised when all is given up, as a listener's
                group.revocation.error = group.revocation.error or error
        return shell.step_once(deadline)

    def unsubscribe(self) -> None:
        """Give up everything and leave; what the coordinator says to that is not waited for."""
        shell, group = self._shell, self.group
        shell.refuse_in_callback("unsubscribe()")
        now = shell.driver.now()
        self.give_up_all(now + shell.default_timeout(None), commit=True)
        group.leave("the consumer unsubscribed", shell.driver.now())
        group.subscription.clear()
        shell.step_once(shell.driver.now())  # the others wait for that word, and who knows when the next call comes
        self._raise_error()

    def close(self, deadline: float, *, commit: bool, leave_group: bool | None) -> None:
        """Give up everything, leave, and wait for the coordinator to have heard."""
        shell, group = self._shell, self.group
        try:
            self.give_up_all(deadline, commit=commit)
        finally:
            self.end_commits()
            group.leave("the consumer is closing", shell.driver.now(), leave_group=leave_group)
            now = shell.driver.now()
            while not group.member.has_left and now < deadline:
                now = shell.step_once(deadline)
        self._raise_error()

    def _raise_error(self) -> None:
        error = self.group.take_error()
        if error is not None:
            raise error

    def errors(self) -> list[KafkaError]:
        """Return what every poll has to raise."""
        return list(self.group.errors())
