"""Auto-commit: when it is due, and that it covers the records of earlier polls only."""

import logging

import pytest

from thinconsumer.group.offsets.auto_commit import REFRESH, AutoCommit
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire.error_codes import Code

A, B, C = (TopicPartition("t", n) for n in range(3))
NEVER = float("inf")


@pytest.fixture
def auto(world) -> AutoCommit:
    """Auto-commit every five seconds of two partitions at 10 and 20; polled once."""
    world.partitions.assign([A, B], start=PositionState.FETCHING)
    for partition, offset in zip(world.partitions, (10, 20)):
        partition.place(PositionEvent.SEEK, offset, 3)
    found = AutoCommit(world.config, world.partitions, world.commits, world.agenda)
    found.poll(world.now)
    return found


def poll_after(world, auto, seconds=5.0):
    world.now += seconds
    auto.poll(world.now)


def test_positions_are_committed_once_the_interval_has_passed(world, auto):
    """With the leader epoch of the last returned record."""
    poll_after(world, auto, 4.9)
    assert world.sent() == []
    poll_after(world, auto, 0.1)
    sent = world.one()
    assert sent.offsets == {A: 10, B: 20}
    assert {row.committed_leader_epoch for _, _, row in sent.rows()} == {3}


def test_only_moved_positions_are_committed_again(world, auto):
    """An idle consumer commits nothing."""
    poll_after(world, auto)
    world.answer(world.one())
    world.partitions.get(A).cursor.offset = 11
    poll_after(world, auto)
    sent = world.one()
    assert sent.offsets == {A: 11}
    world.answer(sent)
    poll_after(world, auto)
    assert world.sent() == []


def test_offsets_committed_by_the_user_are_not_committed_again(world, auto):
    """Nor is the start offset; the user's metadata stays."""
    world.commits.add({A: OffsetAndMetadata(10, "note")}, world.now + 60)
    world.answer(world.one())
    world.partitions.get(B).committed = OffsetAndMetadata(20)
    poll_after(world, auto)
    assert world.sent() == []


def test_an_earlier_position_is_committed(world, auto):
    """After a seek to an earlier offset, a restart begins there."""
    world.partitions.get(A).committed = OffsetAndMetadata(99)
    poll_after(world, auto)
    assert world.one().offsets[A] == 10


def test_all_positions_are_committed_again_after_an_hour(world, auto):
    """offsets.retention.minutes counts from the last commit in groups without members."""
    poll_after(world, auto)
    world.answer(world.one())
    poll_after(world, auto, REFRESH)
    assert world.one().offsets == {A: 10, B: 20}


def test_one_auto_commit_is_in_flight_at_a_time(world, auto):
    """Without a coordinator, commits would pile up; the next one covers all positions since."""
    poll_after(world, auto)
    sent = world.one()
    for _ in range(100):
        world.now += 5
        world.partitions.get(A).cursor.offset += 1
        auto.poll(world.now)
    assert len(world.commits.queue.calls) == 1
    world.answer(sent)
    auto.poll(world.now)
    assert world.one().offsets == {A: 110}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.ask_reset(None),
        lambda p: setattr(p, "callback_pending", True),
        lambda p: setattr(p, "state", PositionState.AWAITING_CALLBACK),
        lambda p: setattr(p, "state", PositionState.AWAITING_COMMITTED),
    ],
)
def test_partitions_without_returned_records_are_left_out(world, auto, spoil):
    spoil(world.partitions.get(A))
    auto.commit_now(world.partitions, world.now + 5, everything=True)
    assert world.one().offsets == {B: 20}


def test_positions_under_validation_are_committed(world, auto):
    """Records before it were returned; the epoch lets the next owner detect a diverged log."""
    world.partitions.get(A).move(PositionEvent.LEADER_CHANGED)
    auto.commit_now(world.partitions, world.now + 5)
    assert world.one().offsets[A] == 10


def test_without_membership_nothing_is_committed(world, auto, caplog):
    """The new owner has gone on from the last commit."""
    world.membership.identity = world.membership.identity.lost()
    poll_after(world, auto)
    assert auto.commit_now(world.partitions, world.now + 5) is None
    assert world.sent() == []
    assert not world.commits.queue.calls
    assert caplog.records == []


def test_revoked_partitions_are_committed_at_once(world, auto):
    """So the next owner reads no record twice."""
    going = [world.partitions.get(B)]
    call = auto.commit_now(going, world.now + 5)
    sent = world.one()
    assert sent.offsets == {B: 20}
    world.answer(sent)
    call.result()
    assert auto.commit_now(going, world.now + 5) is None


def test_a_lasting_failure_is_logged_once(world, auto, caplog):
    """A line for each auto-commit would fill the log."""
    caplog.set_level(logging.WARNING, "thinconsumer")
    for expected in (1, 1, 1):
        poll_after(world, auto)
        world.answer(world.one(), Code.OFFSET_METADATA_TOO_LARGE)
        poll_after(world, auto, 0.1)
        assert len(caplog.records) == expected
    assert "auto-commit" in caplog.text
    poll_after(world, auto)
    world.answer(world.one())
    world.partitions.get(A).cursor.offset += 1
    poll_after(world, auto)
    world.answer(world.one(), Code.UNKNOWN_SERVER_ERROR)
    auto.poll(world.now)
    assert len(caplog.records) == 2


def test_commits_that_time_out_are_logged_once_however_long_that_lasts(world, auto, caplog):
    """The lines about the coordinator, or about all brokers, repeat the cause."""
    caplog.set_level(logging.WARNING, "thinconsumer")
    for _ in range(30):
        poll_after(world, auto)
        world.sent()
        world.now += 61.0
        world.sent()
    assert len(caplog.records) == 1


def test_a_commit_rejected_by_a_rebalance_is_not_logged(world, auto, caplog):
    """The revocation commits the positions again."""
    poll_after(world, auto)
    sent = world.one()
    world.membership.identity = world.membership.identity.joined(6, "me")
    world.membership.owned = set()
    world.answer(sent, Code.ILLEGAL_GENERATION)
    world.sent()
    auto.poll(world.now)
    assert [r for r in caplog.records if r.levelname != "DEBUG"] == []


def test_an_auto_commit_is_due_once_and_then_waits_for_a_poll(world, auto):
    """Only a poll auto-commits: if it stayed due, a loop of drive() would spin."""
    for _ in range(2):
        world.agenda.take(world.now + 4.9)
        assert world.agenda.next() == world.now + 5
        world.now += 5
        world.agenda.take(world.now)
        assert world.sent() == [] and not world.agenda.is_due(world.now)
        world.partitions.get(A).cursor.offset += 1
        auto.poll(world.now)
        world.answer(world.one())
