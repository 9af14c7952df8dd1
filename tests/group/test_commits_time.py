"""Commits and time: deadlines, calls that nobody waits for, starting over, and when to be called again."""

from __future__ import annotations

import pytest

from thinconsumer.errors import KafkaError, RebalanceInProgressError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B, C = (TopicPartition("t", n) for n in range(3))


def failure(call) -> KafkaError:
    """Return what the call raises."""
    assert call.done
    with pytest.raises(KafkaError) as caught:
        call.result()
    return caught.value


def test_call_fails_when_its_time_has_passed_with_the_last_reason(world):
    """Whatever kept it: a coordinator that is not found, one that is not ready, a rebalance."""
    call = world.add((A, 7), seconds=2)
    while not call.done:
        for sent in world.sent():
            world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
        world.now += 0.1
        world.coordinator.step(world.now)
    error = failure(call)
    assert error.reason in ("timeout", "coordinator")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(error)
    assert error.retriable
    assert world.commits.idle


def test_timeout_without_a_coordinator_says_so(world):
    """With what was heard last about it."""
    world.coordinator.lost(1, "gone", world.now)
    world.find(1, Code.COORDINATOR_NOT_AVAILABLE)
    call = world.add((A, 7), seconds=2)
    assert world.commits.wake_at(world.now) == world.now + 2
    world.now += 2
    world.sent()
    error = failure(call)
    assert error.reason == "coordinator"
    assert "COORDINATOR_NOT_AVAILABLE" in str(error)


def test_timeout_in_a_rebalance_says_so(world):
    """It is no fault of the coordinator's."""
    world.sent()
    world.membership.rebalancing = True
    call = world.add((A, 7), seconds=2)
    world.answer(world.one(), Code.REBALANCE_IN_PROGRESS)
    world.now += 2
    world.sent()
    assert isinstance(failure(call), RebalanceInProgressError)


def test_answer_after_the_deadline_still_counts_for_others(world):
    """And settles nothing twice."""
    heard = []
    short = world.add((A, 7), seconds=1, callback=lambda offsets, error: heard.append(error))
    sent = world.one()
    world.now += 1
    world.sent()
    assert failure(short).reason == "timeout"
    long = world.add((A, 8))
    assert world.sent() == []
    world.answer(sent)
    assert not long.done
    world.answer(world.one())
    long.result()
    while world.commits.finished:
        world.commits.finished.popleft().tell()
    assert len(heard) == 1


def test_abandoned_call_is_not_sent(world):
    """Its user was told that it failed, and may have committed something else since."""
    world.coordinator.lost(1, "gone", world.now)
    call = world.add((A, 7))
    world.sent()
    call.abandoned = True
    world.find(1)
    world.now += 1
    assert world.sent() == []
    assert world.commits.idle


def test_restart_sends_again_what_was_in_flight_under_what_came_after(world):
    """The connections are new; the calls are the same."""
    first = world.add((A, 1), (B, 1))
    lost = world.one()
    second = world.add((A, 2))
    world.commits.restart(world.now)
    sent = world.one()
    assert sent.offsets == {A: 2, B: 1}
    world.answer(lost)
    assert not first.done
    world.answer(sent)
    first.result()
    second.result()


def test_wake_at_is_now_while_something_can_be_sent_and_never_when_all_is_through(world):
    """So that a loop that waits for it neither spins nor stands still."""
    assert world.commits.wake_at(world.now) == float("inf")
    world.add((A, 1))
    assert world.commits.wake_at(world.now) == world.now
    sent = world.one()
    assert world.commits.wake_at(world.now) == world.now + 60
    world.answer(sent, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.now < world.commits.wake_at(world.now) < world.now + 1
    world.answer(world.later())
    assert world.commits.wake_at(world.now) == float("inf")
