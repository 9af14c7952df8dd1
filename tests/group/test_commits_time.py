"""Commits and time: deadlines, calls that nobody waits for, starting over, and when to be called again."""

from __future__ import annotations

import sys

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


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID])
def test_what_is_said_of_the_search_for_the_coordinator_is_not_said_of_us(world, code):
    """The same code would mean that we are no members any more, if the coordinator said it to a commit."""
    world.coordinator.lost(1, "gone", world.now)
    call = world.add((A, 7))
    world.sent()
    world.now += 1
    world.find(-1, code)
    world.sent()
    error = failure(call)
    assert error.reason == "coordinator" and error.retriable and "FindCoordinator" in str(error)


def test_a_mark_waits_for_what_was_there_before_it_and_for_nothing_else(world):
    """Who gives partitions up while others go on being committed would else wait for as long as that goes on."""
    assert world.commits.mark().done
    world.add((A, 1))
    first = world.one()
    world.add((B, 1))
    mark = world.commits.mark()
    world.add((C, 1))
    world.answer(first)
    assert not mark.done
    second = world.one()
    assert second.offsets == {B: 1, C: 1}
    world.add((C, 2))
    world.answer(second)
    assert mark.done and not world.commits.idle
    mark.result()


def test_a_commit_that_the_rebalance_has_refused_to_the_end_says_so(world):
    call = world.add((A, 7), seconds=0.1)
    world.answer(world.one(), Code.REBALANCE_IN_PROGRESS)
    world.now += 0.1
    world.sent()
    error = failure(call)
    assert isinstance(error, RebalanceInProgressError) and error.retriable


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
        world.commits.run_first_callback()
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


def lines_run(work) -> int:
    """Return how many lines of the room a piece of work runs: what a clock would tell, on any machine."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if "thinconsumer/group" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_work_grows_with_the_partitions_and_not_with_their_square(new_world):
    """A thousand of them every few seconds, or at every record, must not be felt."""

    def commit(partitions: int) -> int:
        world = new_world()
        tps = [TopicPartition("t", n) for n in range(partitions)]

        def work() -> None:
            for number in range(3):
                world.add(*((tp, number) for tp in tps))
            for code in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.UNKNOWN_TOPIC_OR_PARTITION, 0):
                world.answer(world.later(), code)

        return lines_run(work)

    assert commit(1000) < 12 * commit(100)


def test_work_grows_with_the_calls_that_wait_and_not_with_their_square(new_world):
    """commit_async() after every record, while the coordinator is away."""

    def commit(calls: int) -> int:
        world = new_world()
        world.coordinator.lost(1, "gone", world.now)

        def work() -> None:
            for number in range(calls):
                world.add((A, number), callback=print)
                world.commits.step(world.now)
                world.commits.wake_at(world.now)
            world.answer(world.later(), Code.COORDINATOR_LOAD_IN_PROGRESS)
            world.answer(world.later())
            assert world.commits.idle

        return lines_run(work)

    assert commit(2000) < 12 * commit(200)


def pause(world, code: int) -> float:
    """Answer a commit with this, and return how long it takes until it is sent again."""
    world.answer(world.later(), code)
    before = world.now
    sent = world.later()
    world.commits._flight = None  # it is answered by the next one, as if it had not been sent
    for tp, entry in sent.request.context.entries.items():
        world.commits._queue.put_back(tp, entry)
    return world.now - before


@pytest.mark.parametrize("code", [Code.NETWORK_EXCEPTION, Code.UNKNOWN_TOPIC_OR_PARTITION])
def test_pauses_grow_while_it_goes_wrong_and_begin_anew_once_it_went_well(world, code):
    """A partition that took a while to be known must not make every later passing failure cost a second."""
    world.add((A, 1))
    pauses = [pause(world, code) for _ in range(5)]
    assert pauses[0] < 0.3
    assert pauses[-1] > 0.7
    world.answer(world.later())
    assert world.commits.idle
    world.add((A, 2))
    assert pause(world, code) < 0.3


def test_what_comes_back_from_an_older_generation_is_judged_again(world):
    """Nothing else was waiting when the rebalance ended; the answer comes after it."""
    call = world.add((A, 1), (B, 1))
    sent = world.one()
    world.membership.identity = world.membership.identity.joined(6, "me")
    world.membership.owned = {B}
    world.sent()
    world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
    sent = world.later()
    assert sent.offsets == {B: 1}
    world.answer(sent)
    assert isinstance(failure(call), RebalanceInProgressError)


def test_nothing_is_kept_and_nobody_is_looked_for_when_all_is_over(world):
    """Of calls that timed out nothing is left to be sent, by themselves or with the next one."""
    world.coordinator.unwant("test")
    world.coordinator.lost(1, "gone", world.now)
    world.add((A, 1), seconds=5)
    world.sent()
    world.now += 5
    world.sent()
    assert world.commits.idle
    assert not world.commits._queue.ready
    assert world.coordinator.step(world.now) == []
