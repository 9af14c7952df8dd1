"""Run the group's user code (listeners, assignors, commit callbacks) between steps, and leave the group.

This module decides when and in which order user code runs; the ``group`` package joins, revokes and commits.
"""

from __future__ import annotations

from functools import partial

from ..engine import Shell, UserCallback, Waiting
from ..group.group import Group
from .managers import ConsumerManagers

#: The share of the time of close() and unsubscribe() that may pass until the partitions are given up and the last
#: commits have their responses. The rest is for the request to leave: if a coordinator that answers no commit used up
#: the time, no member would read the partitions until the session times out.
COMMIT_SHARE = 0.6


class GroupCallbacks:
    """Runs a consumer's group callbacks, and implements unsubscribe and close for its group."""

    def __init__(self, shell: Shell, managers: ConsumerManagers, group: Group) -> None:
        self._shell = shell
        self._managers = managers
        self._group = group
        #: The number of the last commit whose callback :meth:`run` may call; None outside ``run``: without a limit.
        self._last_commit: int | None = None

    def next(self, now: float, every: bool) -> UserCallback | None:
        """Return the next user code that is due, or None; without ``every``, only code that the rebalance waits for."""
        queue = self._group.commits.queue
        last = queue.last_number if self._last_commit is None else self._last_commit
        if every and queue.finished and queue.has_callback(last, now):
            return UserCallback(queue.run_first_callback, then_step=False)
        if self._group.has_work(now):
            return UserCallback(partial(self._run_member_work, now, every))
        if every:
            for gatekeeper in self._managers.gatekeepers:
                if (call := gatekeeper.next_callback(now)) is not None:
                    return UserCallback(call)
        return None

    def note_poll(self, now: float) -> bool:
        """Note that a poll is in progress; return whether :meth:`run` has something to do."""
        # ``polled`` restarts the timer of max_poll_interval_ms in each round of a poll: otherwise a poll that waits for
        # longer on an idle topic would make the member leave the group. ``polled`` also queues an automatic commit.
        self._group.polled(now)
        return self._group.revocation.error is not None or self.next(now, True) is not None

    def run(self, now: float) -> Waiting[float]:
        """Run all callbacks that are due in a poll; return the time, or raise the exception of one of them."""
        self._last_commit = self._group.commits.queue.last_number
        try:
            now = yield from self._shell.run_callbacks(now)
        finally:
            self._last_commit = None
        self._raise_error()
        return now

    def run_commit_callbacks(self) -> None:
        """Run the due callbacks of finished commits in order, except those of commits that the callbacks make."""
        queue, now = self._group.commits.queue, self._shell.driver.now()
        last = queue.last_number
        while queue.has_callback(last, now) and not self._shell.in_callback:
            with self._shell.callback():
                queue.run_first_callback()

    def _run_member_work(self, now: float, every: bool) -> bool:
        """Run the member's next due callback, if any; return whether another callback may be due now."""
        driver, kind = self._shell.driver, self._group.member.callback
        began = driver.now()
        goes_on = self._group.member.work(now, every=every)
        if kind is not None:
            self._managers.metrics.record_callback(kind, driver.now() - began, began)
        return goes_on

    def _raise_error(self) -> None:
        error, self._group.revocation.error = self._group.revocation.error, None
        if error is not None:
            raise error

    def give_up_all(self, deadline: float, *, commit: bool, leave_group: bool | None = None) -> Waiting[None]:
        """Commit if ``commit`` is set, call the listener and unassign all partitions; wait up to ``deadline``.

        Meanwhile the connection for the request to leave is opened, if ``leave_group`` lets one be sent, see
        :meth:`Consumer.close`.
        """
        group, now = self._group, self._shell.driver.now()
        self._connect(leave_group)
        group.revocation.auto_commits = commit
        gave_up = yield from self._gave_up(now, deadline)
        while not gave_up or (group.commits.queue.calls and now < deadline):
            # Wait for I/O only while a commit is pending: otherwise the step would last until the next heartbeat.
            now = yield from self._step(now, deadline if group.commits.queue.calls else now)
            deadline = now if self._shell.lacks_credentials else deadline
            self._connect(leave_group)
            gave_up = gave_up or (yield from self._gave_up(now, deadline))
        group.revocation.auto_commits = True
        self.end_commits()

    def _connect(self, leave_group: bool | None) -> None:
        """Begin to open the connection for the request to leave, if one will be sent.

        While a JoinGroup or SyncGroup is in flight, this is not the heartbeats' connection, which that request blocks.
        """
        target = self._group.member.leave_target(leave_group)
        if target is not None:
            self._shell.connect(target)

    def end_commits(self) -> None:
        """Fail the pending commits and run all their callbacks, even if some of them raise."""
        group = self._group
        group.commits.give_up_all(self._shell.driver.now())
        last = group.commits.queue.last_number
        while group.commits.queue.has_callback(last):
            try:
                with self._shell.callback():
                    group.commits.queue.run_first_callback()
            except Exception as error:  # noqa: BLE001 - raised after leaving the group, like a listener's
                group.revocation.error = group.revocation.error or error

    def _gave_up(self, now: float, deadline: float) -> Waiting[bool]:
        group, partitions = self._group, self._managers.partitions
        with self._shell.callback():
            if not group.commits.may_commit:
                gave_up = group.revocation.lose(now)
            else:
                # ``advance`` may have completed an earlier revocation, of some partitions only: the caller repeats the
                # call until no partition is left.
                gave_up = group.revocation.advance(partitions.tps(), now, by=deadline) and not partitions
        if self._shell.coroutines:
            yield from self._shell.run_coroutines()
        return gave_up

    def _step(self, now: float, deadline: float) -> Waiting[float]:
        """Step once while giving up the partitions; if this member leads the group, first run its assignor when due.

        During a rebalance the coordinator rejects commits, and the other members wait, until the leader has sent the
        new assignment in SyncGroup.
        """
        shell, group = self._shell, self._group
        if group.member.delays_group:
            try:
                with shell.callback():
                    group.member.work(now, every=False)
            except Exception as error:  # noqa: BLE001 - from an assignor; raised at the end, like a listener's
                group.revocation.error = group.revocation.error or error
        shell.engine.touch()  # ``advance`` or the assignor may have changed what managers act on
        until = deadline if shell.blocks or deadline <= now else (yield deadline)
        return shell.run_once(until, may_wake=False)

    def unsubscribe(self) -> Waiting[None]:
        """Give up all partitions and send the request to leave the group, without waiting for its response."""
        shell, group = self._shell, self._group
        shell.refuse_in_callback("unsubscribe()")
        seconds = self._managers.config.default_api_timeout_ms / 1000
        try:
            yield from self.give_up_all(shell.driver.now() + COMMIT_SHARE * seconds, commit=True)
        finally:
            # Also after Ctrl-C: otherwise a member that has called on_partitions_revoked would go on to own partitions
            # that it does not read.
            group.revocation.cancel()
            self._managers.partitions.assign(())
            group.member.leave("the consumer unsubscribed", shell.driver.now())
            group.subscription.clear()
        # Send the request now: until the application's next call sends it, no other member would get the partitions.
        yield from shell.wait_to_leave(lambda: group.member.has_sent_leave, (1 - COMMIT_SHARE) * seconds)
        self._raise_error()

    def close(self, deadline: float, *, commit: bool, leave_group: bool | None) -> Waiting[None]:
        """Give up all partitions, leave the group, and wait for the coordinator's response until ``deadline``.

        If the listener's callbacks use up the time, the request to leave still has its share (:data:`COMMIT_SHARE`).
        """
        shell, group = self._shell, self._group
        began = shell.driver.now()
        seconds = deadline - began  # may be infinite: then ``deadline`` less a share of it would be NaN
        try:
            yield from self.give_up_all(began + COMMIT_SHARE * seconds, commit=commit, leave_group=leave_group)
        finally:
            if shell.step_interrupted:
                # Interrupted by Ctrl-C: a connection may be neither open nor closed, and steps for it would never end.
                shell.recover()
            self.end_commits()
            group.member.leave("the consumer is closing", shell.driver.now(), leave_group=leave_group)
            rest = max(deadline - shell.driver.now(), (1 - COMMIT_SHARE) * seconds)
            if not group.member.has_left:
                # Even if no time is left, one step is made, which writes the request if its connection is ready.
                yield from shell.wait_to_leave(lambda: group.member.has_left, rest)
        self._raise_error()
