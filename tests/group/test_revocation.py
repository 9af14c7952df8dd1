"""Giving partitions up and taking them over: in which order users are told, and what is committed before and after."""

from __future__ import annotations

import pytest

from thinconsumer.group.revocation import PATIENCE, PartitionRevocation, RevocationStep
from thinconsumer.partitions import Partitions, PositionEvent, PositionState
from thinconsumer.timers import NEVER
from thinconsumer.types import TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))


class Commits:
    """Idle unless told otherwise."""

    idle = True

    def mark(self):
        """Return what settles when everything is idle."""
        return Mark(self)


class Mark:
    """What waits for that."""

    def __init__(self, commits):
        self._commits = commits

    @property
    def done(self):
        return self._commits.idle


class AutoCommit:
    """Notes what it is told to commit, and until when."""

    def __init__(self, story):
        self.story = story

    def commit_now(self, partitions, deadline, now):
        self.story.append(("commit", {p.tp for p in partitions}, deadline))


class Listener:
    """Notes what it hears; raises what it is told to."""

    def __init__(self, story, failing=()):
        self.story, self.failing = story, dict(failing)

    def hear(self, what, tps):
        self.story.append((what, tps))
        if what in self.failing:
            raise self.failing.pop(what)

    def on_partitions_assigned(self, assigned):
        self.hear("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self.hear("revoked", revoked)

    def on_partitions_lost(self, lost):
        self.hear("lost", lost)


@pytest.fixture
def story():
    return []


@pytest.fixture
def partitions():
    found = Partitions()
    found.assign([A, B, C])
    for partition in found:
        partition.place(PositionEvent.SEEK, 5)
    return found


@pytest.fixture
def commits():
    return Commits()


@pytest.fixture
def make(story, partitions, commits):
    def make(failing=(), auto_commit=True):
        listener = Listener(story, failing)
        return PartitionRevocation(partitions, commits, AutoCommit(story) if auto_commit else None, lambda: listener)

    return make


def revoke(revocation, tps, now=0.0, **more):
    """Call until it is done; return how often that took."""
    for calls in range(1, 10):
        if revocation.revoke(tps, now, **more):
            return calls
    raise AssertionError("it never ends")


def test_what_goes_is_held_back_then_committed_then_told_then_let_go(make, story, partitions, commits):
    revocation = make()
    commits.idle = False
    assert not revocation.revoke({A, B}, 1.0)
    assert story == [("commit", {A, B}, 1.0 + PATIENCE)]
    assert [p.tp for p in partitions if p.may_hand_out] == [C], "pain D4: nothing comes while its last commit is out"
    assert revocation.waiting_until(1.0) == 1.0 + PATIENCE
    commits.idle = True
    assert revocation.waiting_until(1.0) == NEVER
    assert not revocation.revoke({A, B}, 1.5)
    assert story[1:] == [("revoked", {A, B})]
    assert A in partitions, "the callback may still ask and commit"
    assert revocation.revoke({A, B}, 1.6)
    assert partitions.tps() == {C} and revocation.state is RevocationStep.IDLE


def test_who_has_less_time_shortens_a_wait_that_somebody_else_began(make, partitions, commits):
    """close() finds a rebalance's giving up half done: it must not wait for longer than it was allowed to."""
    revocation = make()
    commits.idle = False
    assert not revocation.revoke({A}, 1.0)
    assert not revocation.revoke({A}, 1.1, by=1.2), "not yet"
    assert revocation.waiting_until(1.1) == 1.2
    assert not revocation.revoke({A}, 1.2, by=1.2), "told now"
    assert revocation.revoke({A}, 1.2, by=1.2)
    assert A not in partitions


def test_nobody_is_woken_for_a_wait_that_is_over(make, partitions, commits):
    """A callback that commits for longer than that would go round and round: nobody else can go on meanwhile."""
    revocation = make()
    commits.idle = False
    assert not revocation.revoke({A}, 1.0)
    assert revocation.waiting_until(1.0 + PATIENCE) == NEVER
    assert not revocation.revoke({A}, 1.0 + PATIENCE), "told now"
    assert revocation.waiting_until(100.0) == NEVER, "while the callback runs, too"


def test_the_wait_for_what_a_callback_committed_begins_when_it_is_over(make, partitions, commits):
    revocation = make(auto_commit=False)
    assert not revocation.revoke({A}, 1.0)
    commits.idle = False
    assert not revocation.revoke({A}, 1.0 + 3 * PATIENCE) and A in partitions
    assert revocation.waiting_until(1.0 + 3 * PATIENCE) == 1.0 + 4 * PATIENCE
    assert revocation.revoke({A}, 1.0 + 4 * PATIENCE)


def test_what_the_callback_commits_is_waited_for(make, story, partitions, commits):
    revocation = make(auto_commit=False)
    assert not revocation.revoke({A}, 1.0)
    commits.idle = False
    assert not revocation.revoke({A}, 1.1)
    assert A in partitions
    commits.idle = True
    assert revocation.revoke({A}, 1.2)
    assert story == [("revoked", {A})]


def test_pain_B4_commits_that_never_come_through_do_not_keep_us_from_joining(make, partitions, commits):
    revocation = make()
    commits.idle = False
    assert not revocation.revoke({A}, 1.0)
    assert not revocation.revoke({A}, 1.0 + PATIENCE), "told now"
    assert not revocation.revoke({A}, 1.0 + PATIENCE)
    assert revocation.revoke({A}, 1.0 + 2 * PATIENCE)
    assert A not in partitions


def test_nothing_is_waited_for_after_a_deadline(make, story, partitions, commits):
    revocation = make()
    commits.idle = False
    assert revoke(revocation, {A, B, C}, 1.0, by=0.5) == 2
    assert story == [("commit", {A, B, C}, 0.5), ("revoked", {A, B, C})]
    assert not partitions


def test_nothing_to_give_up_is_done_at_once_and_told_only_where_it_always_is(make, story):
    revocation = make()
    assert revocation.revoke((), 1.0)
    assert story == []
    assert revoke(revocation, (), 1.0, always_call=True) == 2
    assert ("revoked", set()) in story


def test_a_revoked_callback_that_raises_runs_once_and_is_kept_for_the_poll(make, story, partitions):
    error = RuntimeError("in the listener")
    revocation = make({"revoked": error})
    revoke(revocation, {A})
    assert [what for what, *_ in story].count("revoked") == 1
    assert A not in partitions and revocation.error is error


def test_ctrl_c_in_a_revoked_callback_comes_out_and_it_runs_once(make, story, partitions):
    revocation = make({"revoked": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        revoke(revocation, {A})
    revoke(revocation, {A})
    assert [what for what, *_ in story].count("revoked") == 1
    assert A not in partitions and revocation.error is None


class Interrupted(Partitions):
    """Is struck by Ctrl-C once, right before or after it assigns, as told."""

    strikes = None

    def assign(self, *args, **more):
        strikes, self.strikes = self.strikes, None
        if strikes == "before":
            raise KeyboardInterrupt
        super().assign(*args, **more)
        if strikes == "after":
            raise KeyboardInterrupt


@pytest.fixture
def interrupted():
    return Interrupted()


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupted_as_it_lets_go_nothing_is_revoked_twice(interrupted, story, commits, when):
    revocation = PartitionRevocation(interrupted, commits, None, lambda: Listener(story))
    interrupted.assign([A, B])
    interrupted.strikes = when
    with pytest.raises(KeyboardInterrupt):
        revoke(revocation, {A})
    revoke(revocation, {A})
    assert story == [("revoked", {A})] and interrupted.tps() == {B}


def test_interrupted_as_it_takes_over_what_is_new_is_told_all_the_same(interrupted, story, commits):
    """Else nobody would ever end the wait for its callback: it would be owned and never read."""
    revocation = PartitionRevocation(interrupted, commits, None, lambda: Listener(story))
    interrupted.strikes = "after"
    with pytest.raises(KeyboardInterrupt):
        revocation.assign([A, B])
    revocation.assign([A, B])
    revocation.call_assigned()
    assert story == [("assigned", {A, B})]
    assert all(p.state is PositionState.AWAITING_COMMITTED for p in interrupted)


def test_without_auto_commit_and_after_exceptions_nothing_is_committed(make, story):
    for revocation in (make(auto_commit=False), make()):
        revocation.auto_commits = False
        revoke(revocation, {A})
    assert "commit" not in [what for what, *_ in story]


def test_lost_is_told_at_once_with_everything_and_nothing_is_committed(make, story, partitions):
    revocation = make()
    assert revocation.lose(1.0)
    assert story == [("lost", {A, B, C})] and not partitions
    assert revocation.lose(2.0) and len(story) == 1, "who has nothing loses nothing"


def test_what_was_revoked_already_is_not_lost_as_well(make, story, partitions):
    revocation = make(auto_commit=False)
    assert not revocation.revoke({A}, 1.0)
    assert revocation.lose(1.1)
    assert story == [("revoked", {A}), ("lost", {B, C})] and not partitions


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()])
def test_what_is_lost_is_gone_whatever_the_callback_raises(make, partitions, error):
    revocation = make({"lost": error})
    if isinstance(error, Exception):
        revocation.lose(1.0)
        assert revocation.error is error
    else:
        with pytest.raises(KeyboardInterrupt):
            revocation.lose(1.0)
    assert not partitions


def test_what_is_new_waits_for_its_callback_and_what_is_kept_does_not(make, story, partitions):
    revocation = make()
    partitions.assign([A])
    revocation.assign([A, B])
    assert [(p.tp, p.callback_pending) for p in partitions] == [(A, False), (B, True)]
    assert partitions.require(A).may_hand_out
    revocation.call_assigned()
    assert story == [("assigned", {B})]
    assert partitions.require(B).state is PositionState.AWAITING_COMMITTED
    assert not partitions.require(B).callback_pending


def test_an_assigned_callback_that_raises_is_called_again_and_holds_records_back_until_then(make, story, partitions):
    revocation = make({"assigned": RuntimeError()})
    partitions.assign([A])
    revocation.assign([A, B])
    with pytest.raises(RuntimeError):
        revocation.call_assigned()
    assert partitions.require(B).callback_pending
    revocation.call_assigned()
    assert story == [("assigned", {B}), ("assigned", {B})]
    assert not partitions.require(B).callback_pending


def test_seeking_in_the_callback_stands(make, partitions):
    revocation = make()
    revocation.assign([A, B, C, TopicPartition("t", 3)])
    new = partitions.require(TopicPartition("t", 3))
    new.place(PositionEvent.SEEK, 77)
    revocation.call_assigned()
    assert (new.state, new.cursor.offset) == (PositionState.FETCHING, 77)


def test_nothing_new_is_told_all_the_same(make, story):
    """KIP-429: assigned is called with every rebalance, if only with nothing."""
    make().call_assigned()
    assert story == [("assigned", set())]
