"""User code that the group makes due, as work that the shell runs between steps; and how a consumer leaves its group.

Owns the order of listeners, assignors and commit callbacks. Decides nothing about groups: that is the ``group`` room's.
"""

from __future__ import annotations

from ..client import Shell, UserCallback
from ..group.classic.states import MemberState
from ..group.group import Group
from .managers import ConsumerManagers
from .metrics_recorder import CALLBACKS

#: How long close() may take for a group's sake when no timeout is given, in seconds; Java's default.
CLOSING = 30.0


class GroupCallbacks:
    """The group's side of a consumer's calls."""

    def __init__(self, shell: Shell, managers: ConsumerManagers, group: Group) -> None:
        self._shell = shell
        self._managers = managers
        self._group = group

    # -- the queue of user code

    def next(self, now: float, every: bool) -> UserCallback | None:
        """Return the next user code that is due. Without ``every`` only what the rest of the group waits for."""
        if every and self._group.commits.finished:
            return UserCallback(self._run_commit_callback, then_step=False)
        if self._group.has_work(now):
            return UserCallback(lambda: self._run_member_work(now, every))
        return None

    def run(self, now: float) -> float:
        """Run everything that is due in a poll; return the time.

        Raises:
            Exception: what a listener, an assignor or a commit callback raised.
        """
        # A poll that waits counts as polling all that time: an idle topic may keep it longer than max_poll_interval_ms,
        # and what earlier polls returned has to be committed in time.
        self._group.polled(now)
        now = self._shell.run_callbacks(now)
        self._raise_error()
        return now

    def run_commit_callbacks(self) -> None:
        """Run the callbacks of all commits that are settled, in their order."""
        while self._group.commits.finished and not self._shell.in_callback:
            with self._shell.callback():
                self._run_commit_callback()

    def _run_commit_callback(self) -> bool:
        self._group.commits.tell_first()
        return True

    def _run_member_work(self, now: float, every: bool) -> bool:
        """Run one piece of the member's user code; return whether that got the member any further."""
        driver, kind = self._shell.driver, CALLBACKS.get(self._group.member.state)
        began = driver.now()
        goes_on = self._group.work(now, every=every)
        if kind is not None:
            self._managers.metrics.record_callback(kind, driver.now() - began, began)
        return goes_on

    def _raise_error(self) -> None:
        error = self._group.take_error()
        if error is not None:
            raise error

    # -- leaving

    def give_up_all(self, deadline: float, *, commit: bool) -> None:
        """Commit, call the listener, unassign everything. Waits no longer than until ``deadline``."""
        group, now = self._group, self._shell.driver.now()
        group.revocation.commits_by_itself = commit and group.auto_commit is not None
        while not self._gave_up(now, deadline):
            # Wait only for commits: without any, the next event may be a heartbeat that is seconds away.
            now = self._step(now, now if group.commits.idle else deadline)
        group.revocation.commits_by_itself = group.auto_commit is not None
        while not group.commits.idle and now < deadline:
            now = self._step(now, deadline)
        self.end_commits()

    def end_commits(self) -> None:
        """Fail the commits that are still waiting, and call every callback that is due, whatever the others raise."""
        group = self._group
        group.commits.give_up_all(self._shell.driver.now())
        while group.commits.finished:
            try:
                self.run_commit_callbacks()
            except Exception as error:  # noqa: BLE001 - raised when the group is left, as a listener's
                group.revocation.error = group.revocation.error or error

    def _gave_up(self, now: float, deadline: float) -> bool:
        group, partitions = self._group, self._managers.partitions
        with self._shell.callback():
            if group.is_member and not group.identity.is_member:
                return group.revocation.lose(now)
            # A revocation of some partitions may have been under way already; then the rest follows.
            return group.revocation.give_up(partitions.tps(), now, by=deadline) and not partitions

    def _step(self, now: float, deadline: float) -> float:
        """Step while all is given up. A leader still plans: until the sync no commit is taken and members wait."""
        shell, group = self._shell, self._group
        if group.member.state is MemberState.COMPLETING_REBALANCE:
            try:
                with shell.callback():
                    group.work(now, every=False)
            except Exception as error:  # noqa: BLE001 - an assignor's; raised when all is given up, as a listener's
                group.revocation.error = group.revocation.error or error
        return shell.run_once(deadline, may_wake=False)

    def unsubscribe(self) -> None:
        """Give up everything and send LeaveGroup; its answer is not waited for."""
        shell, group = self._shell, self._group
        shell.refuse_in_callback("unsubscribe()")
        now = shell.driver.now()
        self.give_up_all(now + self._managers.config.default_api_timeout_ms / 1000, commit=True)
        group.leave("the consumer unsubscribed", shell.driver.now())
        group.subscription.clear()
        # The group waits for LeaveGroup, and the next call of this consumer may be far away.
        shell.run_once(shell.driver.now(), may_wake=False)
        self._raise_error()

    def close(self, deadline: float, *, commit: bool, leave_group: bool | None) -> None:
        """Give up everything, leave, and wait for the coordinator's answer."""
        shell, group = self._shell, self._group
        try:
            self.give_up_all(deadline, commit=commit)
        finally:
            self.end_commits()
            group.leave("the consumer is closing", shell.driver.now(), leave_group=leave_group)
            now = shell.driver.now()
            while not group.member.has_left and now < deadline:
                now = shell.run_once(deadline, may_wake=False)
        self._raise_error()
