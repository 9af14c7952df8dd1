"""Revoking and assigning partitions: the order of callbacks, and the commits before and after them."""

from types import SimpleNamespace

import pytest

from thinconsumer.group.revocation import COMMIT_TIMEOUT, PartitionRevocation, RevocationStep
from thinconsumer.positions.partitions import Partitions
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))


class Commits:
    """Commits without unsettled calls, unless ``done`` is False."""

    done = True

    @property
    def queue(self):
        return self

    last_number = 0

    def has_settled(self, number):
        return self.done

    def release(self, tps):
        """Take note of revoked partitions."""


class AutoCommit:
    """Record what is to be committed, and the deadline."""

    def __init__(self, story):
        self.story = story

    def commit_now(self, partitions, deadline):
        self.story.append(("commit", {p.tp for p in partitions}, deadline))


class Listener:
    """Record the callbacks; raise the given exceptions."""

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
def agenda():
    return Agenda()


@pytest.fixture
def make(story, partitions, commits, agenda):
    def make(failing=(), auto_commit=True):
        listener = Listener(story, failing)
        committer = AutoCommit(story) if auto_commit else None
        return PartitionRevocation(partitions, commits, committer, SimpleNamespace(listener=listener), agenda)

    return make


@pytest.fixture
def revocation(make):
    return make()


def revoke(revocation, tps, now=0.0, **more):
    for calls in range(1, 10):
        if revocation.advance(tps, now, **more):
            return calls
    raise AssertionError("the revocation never ends")


def test_revocation_holds_records_back_then_commits_then_calls_the_listener_then_drops(
    revocation, story, partitions, commits, agenda
):
    commits.done = False
    assert not revocation.advance({A, B}, 1.0)
    assert story == [("commit", {A, B}, 1.0 + COMMIT_TIMEOUT)]
    assert [p.tp for p in partitions if p.may_hand_out] == [C], (
        "polls return no record while its last commit is in flight"
    )
    assert revocation.is_waiting(1.0) and agenda.next() == 1.0 + COMMIT_TIMEOUT
    commits.done = True
    assert not revocation.is_waiting(1.0)
    assert not revocation.advance({A, B}, 1.5)
    assert story[1:] == [("revoked", {A, B})]
    assert A in partitions, "the callback may still use the partition"
    assert revocation.advance({A, B}, 1.6)
    assert partitions.tps() == {C} and revocation.state is RevocationStep.IDLE


def test_partitions_count_as_revoked_once_the_callback_has_returned(partitions, commits):
    seen = []

    class NotingListener:
        def on_partitions_revoked(self, revoked):
            seen.append(revocation.revoked)

    revocation = PartitionRevocation(partitions, commits, None, SimpleNamespace(listener=NotingListener()), Agenda())
    assert not revocation.advance({A, B}, 1.0)
    assert seen == [frozenset()], "the callback commits the positions of these partitions"
    assert revocation.revoked == {A, B} and A in partitions
    assert revocation.advance({A, B}, 1.1) and revocation.revoked == frozenset()
    assert not revocation.advance({C}, 1.2) and revocation.revoked == {C}
    revocation.cancel()
    assert revocation.revoked == frozenset()


def test_an_earlier_deadline_shortens_a_wait_in_progress(revocation, partitions, commits, agenda):
    """close() may find a revocation in progress, and must not exceed its own timeout."""
    commits.done = False
    assert not revocation.advance({A}, 1.0)
    assert not revocation.advance({A}, 1.1, by=1.2), "still waiting"
    assert revocation.is_waiting(1.1) and agenda.next() == 1.2
    assert not revocation.advance({A}, 1.2, by=1.2), "the listener is called now"
    assert revocation.advance({A}, 1.2, by=1.2)
    assert A not in partitions


def test_a_wait_that_is_over_is_no_wake_up(revocation, partitions, commits):
    """A commit() within a callback would otherwise wake up in a loop."""
    commits.done = False
    assert not revocation.advance({A}, 1.0)
    assert not revocation.is_waiting(1.0 + COMMIT_TIMEOUT)
    assert not revocation.advance({A}, 1.0 + COMMIT_TIMEOUT), "told now"
    assert not revocation.is_waiting(100.0), "also while the callback runs"


def test_the_wait_for_commits_of_a_callback_starts_after_it(make, partitions, commits, agenda):
    revocation = make(auto_commit=False)
    assert not revocation.advance({A}, 1.0)
    commits.done = False
    assert not revocation.advance({A}, 1.0 + 3 * COMMIT_TIMEOUT) and A in partitions
    assert revocation.is_waiting(1.0 + 3 * COMMIT_TIMEOUT) and agenda.next() == 1.0 + 4 * COMMIT_TIMEOUT
    assert revocation.advance({A}, 1.0 + 4 * COMMIT_TIMEOUT)


def test_commits_that_never_settle_do_not_block_the_rebalance(revocation, partitions, commits):
    commits.done = False
    assert not revocation.advance({A}, 1.0)
    assert not revocation.advance({A}, 1.0 + COMMIT_TIMEOUT), "told now"
    assert not revocation.advance({A}, 1.0 + COMMIT_TIMEOUT)
    assert revocation.advance({A}, 1.0 + 2 * COMMIT_TIMEOUT)
    assert A not in partitions


def test_an_interrupted_revoked_callback_runs_once(make, story, partitions):
    revocation = make({"revoked": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        revoke(revocation, {A})
    revoke(revocation, {A})
    assert [what for what, *_ in story].count("revoked") == 1
    assert A not in partitions and revocation.error is None


class Interrupted(Partitions):
    """Raise KeyboardInterrupt once, before or after an assignment."""

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
def test_an_interrupt_while_dropping_partitions_revokes_nothing_twice(interrupted, story, commits, when):
    revocation = PartitionRevocation(interrupted, commits, None, SimpleNamespace(listener=Listener(story)), Agenda())
    interrupted.assign([A, B])
    interrupted.strikes = when
    with pytest.raises(KeyboardInterrupt):
        revoke(revocation, {A})
    revoke(revocation, {A})
    assert story == [("revoked", {A})] and interrupted.tps() == {B}


def test_an_interrupt_while_assigning_does_not_skip_the_assigned_callback(interrupted, story, commits):
    """Otherwise the partition would be owned and never read."""
    revocation = PartitionRevocation(interrupted, commits, None, SimpleNamespace(listener=Listener(story)), Agenda())
    interrupted.strikes = "after"
    with pytest.raises(KeyboardInterrupt):
        revocation.assign([A, B])
    revocation.assign([A, B])
    revocation.call_assigned()
    assert story == [("assigned", {A, B})]
    assert all(p.state is PositionState.AWAITING_COMMITTED for p in interrupted)


def test_without_auto_commit_a_revocation_commits_nothing(make, story):
    for revocation in (make(auto_commit=False), make()):
        revocation.auto_commits = False
        revoke(revocation, {A})
    assert "commit" not in [what for what, *_ in story]


def test_partitions_already_revoked_are_not_reported_lost(make, story, partitions):
    revocation = make(auto_commit=False)
    assert not revocation.advance({A}, 1.0)
    assert revocation.lose(1.1)
    assert story == [("revoked", {A}), ("lost", {B, C})] and not partitions


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()])
def test_lost_partitions_are_dropped_even_if_the_callback_raises(make, partitions, error):
    revocation = make({"lost": error})
    if isinstance(error, Exception):
        revocation.lose(1.0)
        assert revocation.error is error
    else:
        with pytest.raises(KeyboardInterrupt):
            revocation.lose(1.0)
    assert not partitions


def test_new_partitions_wait_for_the_assigned_callback_and_kept_ones_do_not(revocation, story, partitions):
    partitions.assign([A])
    revocation.assign([A, B])
    assert [(p.tp, p.callback_pending) for p in partitions] == [(A, False), (B, True)]
    assert partitions.require(A).may_hand_out
    revocation.call_assigned()
    assert story == [("assigned", {B})]
    assert partitions.require(B).state is PositionState.AWAITING_COMMITTED
    assert not partitions.require(B).callback_pending


def test_a_seek_before_the_assigned_callback_is_kept(revocation, partitions):
    revocation.assign([A, B, C, TopicPartition("t", 3)])
    new = partitions.require(TopicPartition("t", 3))
    new.place(PositionEvent.SEEK, 77)
    revocation.call_assigned()
    assert (new.state, new.cursor.offset) == (PositionState.FETCHING, 77)


def test_a_partition_of_an_interrupted_assign_gets_its_callback():
    story, partitions = [], Partitions()
    revocation = PartitionRevocation(partitions, Commits(), None, SimpleNamespace(listener=Listener(story)), Agenda())
    partitions.assign([A], start=PositionState.AWAITING_CALLBACK)  # Ctrl-C has come before the next line of assign()
    revocation.call_assigned()
    assert story == [("assigned", {A})] and partitions.require(A).state is PositionState.AWAITING_COMMITTED
