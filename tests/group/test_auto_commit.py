"""Auto-commit: when it is due, and that it covers what was handed out by earlier polls and nothing else."""

from __future__ import annotations

import logging

import pytest

from thinconsumer.group.auto_commit import REFRESH, AutoCommit
from thinconsumer.partitions import PositionEvent, PositionState
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
    found = AutoCommit(world.config, world.partitions, world.commits)
    found.poll(world.now)
    return found


def test_commits_when_the_interval_is_over_and_not_before(world, auto):
    """With the epoch of what was handed out last."""
    world.now += 4.9
    auto.poll(world.now)
    assert world.sent() == []
    world.now += 0.1
    auto.poll(world.now)
    sent = world.one()
    assert sent.offsets == {A: 10, B: 20}
    assert {row.committed_leader_epoch for _, _, row in sent.rows()} == {3}


def test_only_what_has_moved_is_committed_again(world, auto):
    """An idle consumer commits nothing."""
    world.now += 5
    auto.poll(world.now)
    world.answer(world.one())
    world.partitions.get(A).cursor.offset = 11
    world.now += 5
    auto.poll(world.now)
    sent = world.one()
    assert sent.offsets == {A: 11}
    world.answer(sent)
    world.now += 5
    auto.poll(world.now)
    assert world.sent() == []


def test_what_users_commit_themselves_is_not_committed_again(world, auto):
    """Nor is what the partition started from; the user's note beside the offset stays."""
    world.commits.add({A: OffsetAndMetadata(10, "note")}, world.now + 60)
    world.answer(world.one())
    world.partitions.get(B).committed = OffsetAndMetadata(20)
    world.now += 5
    auto.poll(world.now)
    assert world.sent() == []


def test_going_back_is_committed_too(world, auto):
    """A seek to an earlier offset is where a restart has to begin."""
    world.partitions.get(A).committed = OffsetAndMetadata(99)
    world.now += 5
    auto.poll(world.now)
    assert world.one().offsets[A] == 10


def test_everything_is_committed_now_and_then_so_that_brokers_do_not_forget_it(world, auto):
    """offsets.retention.minutes counts from the last commit in groups without members."""
    world.now += 5
    auto.poll(world.now)
    world.answer(world.one())
    world.now += REFRESH
    auto.poll(world.now)
    assert world.one().offsets == {A: 10, B: 20}


def test_one_commit_at_a_time_however_short_the_interval(world, auto):
    """While a coordinator is away commits would pile up by the thousand; the next one covers what has come since."""
    world.now += 5
    auto.poll(world.now)
    sent = world.one()
    for _ in range(100):
        world.now += 5
        world.partitions.get(A).cursor.offset += 1
        auto.poll(world.now)
    assert len(world.commits._queue) == 1
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
def test_partition_without_a_position_of_its_own_is_left_out(world, auto, spoil):
    """Nothing of it was handed out."""
    spoil(world.partitions.get(A))
    assert auto.positions(world.partitions, everything=True) == {B: OffsetAndMetadata(20, "", 3)}


def test_position_that_is_being_validated_counts(world, auto):
    """What is before it was handed out; the epoch tells the next owner which log it was."""
    world.partitions.get(A).move(PositionEvent.LEADER_CHANGED)
    assert auto.positions(world.partitions, everything=False)[A] == OffsetAndMetadata(10, "", 3)


def test_nothing_is_committed_once_the_membership_is_lost(world, auto, caplog):
    """Whoever has the partitions now has gone on from the last commit."""
    world.membership.identity = world.membership.identity.lost()
    world.now += 5
    auto.poll(world.now)
    assert auto.commit_now(world.partitions, world.now + 5, world.now) is None
    assert world.sent() == []
    assert world.commits.idle
    assert caplog.records == []


def test_last_commit_before_partitions_are_given_up_covers_these_and_does_not_wait_for_the_interval(world, auto):
    """D4: so that the next owner reads nothing twice."""
    going = [world.partitions.get(B)]
    call = auto.commit_now(going, world.now + 5, world.now)
    sent = world.one()
    assert sent.offsets == {B: 20}
    world.answer(sent)
    call.result()
    assert auto.commit_now(going, world.now + 5, world.now) is None


def test_failure_is_said_once_until_it_is_over(world, auto, caplog):
    """Every five seconds the same line is how logs fill up."""
    caplog.set_level(logging.WARNING, "thinconsumer")
    for expected in (1, 1, 1):
        world.now += 5
        auto.poll(world.now)
        world.answer(world.one(), Code.OFFSET_METADATA_TOO_LARGE)
        world.now += 0.1
        auto.poll(world.now)
        assert len(caplog.records) == expected
    assert "auto-commit" in caplog.text
    world.now += 5
    auto.poll(world.now)
    world.answer(world.one())
    world.partitions.get(A).cursor.offset += 1
    world.now += 5
    auto.poll(world.now)
    world.answer(world.one(), Code.UNKNOWN_SERVER_ERROR)
    auto.poll(world.now)
    assert len(caplog.records) == 2


def test_what_a_rebalance_took_is_no_news(world, auto, caplog):
    """It was committed once more when it went."""
    world.now += 5
    auto.poll(world.now)
    sent = world.one()
    world.membership.identity = world.membership.identity.joined(6, "me")
    world.membership.owned = set()
    world.answer(sent, Code.ILLEGAL_GENERATION)
    world.sent()
    auto.poll(world.now)
    assert [r for r in caplog.records if r.levelname != "DEBUG"] == []


def test_wake_at_names_the_next_moment_once(world, auto):
    """A loop that only drives never commits: told a moment that has passed, it would spin."""
    assert auto.wake_at(world.now) == world.now + 5
    world.now += 5
    assert auto.wake_at(world.now) == NEVER
    auto.poll(world.now)
    assert auto.wake_at(world.now) == NEVER  # its answer comes by itself
    world.answer(world.one())
    auto.poll(world.now)
    assert auto.wake_at(world.now) == world.now + 5
    world.partitions.assign([])
    assert auto.wake_at(world.now) == NEVER
    assert AutoCommit(world.config, world.partitions, world.commits).wake_at(world.now) == NEVER
