"""Commits and time: deadlines, abandoned calls, restarts, and wake-ups."""

import sys

import pytest

from thinconsumer.errors import RebalanceInProgressError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B, C = (TopicPartition("t", n) for n in range(3))


def test_a_timed_out_call_fails_with_the_last_error(world):
    call = world.add((A, 7), seconds=2)
    while not call.done:
        for sent in world.sent():
            world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
        world.now += 0.1
        world.coordinator.step(world.now)
    error = world.failure(call)
    assert error.reason in ("timeout", "coordinator")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(error)
    assert error.retriable
    assert not world.commits.queue.calls


def test_a_timeout_without_a_coordinator_names_the_last_error(world):
    world.coordinator.lost(1, "gone", world.now)
    world.find(1, Code.COORDINATOR_NOT_AVAILABLE)
    call = world.add((A, 7), seconds=2)
    world.sent()
    world.agenda.take(world.now + 1.9)
    assert world.agenda.next() == world.now + 2
    world.now += 2
    world.sent()
    error = world.failure(call)
    assert error.reason == "coordinator"
    assert "COORDINATOR_NOT_AVAILABLE" in str(error)


@pytest.mark.parametrize("rebalancing", [False, True])
def test_a_timeout_in_a_rebalance_is_a_rebalance_error(world, rebalancing):
    world.sent()
    world.membership.rebalancing = rebalancing
    call = world.add((A, 7), seconds=0.1)
    world.answer(world.one(), Code.REBALANCE_IN_PROGRESS)
    world.now += 0.1
    world.sent()
    error = world.failure(call)
    assert isinstance(error, RebalanceInProgressError) and error.retriable


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID])
def test_membership_errors_of_find_coordinator_do_not_concern_the_membership(world, code):
    """In response to OffsetCommit, the same code would end the membership."""
    world.coordinator.lost(1, "gone", world.now)
    call = world.add((A, 7))
    world.sent()
    world.now += 1
    world.find(-1, code)
    world.sent()
    error = world.failure(call)
    assert error.reason == "coordinator" and error.retriable and "FindCoordinator" in str(error)


def test_a_mark_waits_only_for_earlier_calls(world):
    """Otherwise a revocation would wait for commits of other partitions, too."""
    queue = world.commits.queue
    assert queue.has_settled(queue.last_number)
    world.add((A, 1))
    first = world.one()
    world.add((B, 1))
    mark = queue.last_number
    world.add((C, 1))
    world.answer(first)
    assert not queue.has_settled(mark)
    second = world.one()
    assert second.offsets == {B: 1, C: 1}
    world.add((C, 2))
    world.answer(second)
    assert queue.has_settled(mark) and queue.calls


def test_a_response_after_one_calls_deadline_settles_the_others(world):
    heard = []
    short = world.add((A, 7), seconds=1, callback=lambda offsets, error: heard.append(error))
    sent = world.one()
    world.now += 1
    world.sent()
    assert world.failure(short).reason == "timeout"
    long = world.add((A, 8))
    assert world.sent() == []
    world.answer(sent)
    assert not long.done
    world.answer(world.one())
    long.result()
    while world.commits.queue.finished:
        world.commits.queue.run_first_callback()
    assert len(heard) == 1


def test_abandoned_call_is_not_sent(world):
    """The user got an error for it, and may have committed another offset since."""
    world.coordinator.lost(1, "gone", world.now)
    call = world.add((A, 7))
    world.sent()
    call.abandoned = True
    world.find(1)
    world.now += 1
    assert world.sent() == []
    assert not world.commits.queue.calls


def test_a_restart_repeats_offsets_in_flight_merged_with_newer_ones(world):
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


def test_the_agenda_has_a_commit_that_can_be_sent_its_retry_and_its_deadline(world):
    """So a loop that waits for the agenda neither spins nor stops."""

    def due():
        found = world.sent()
        world.agenda.take(world.now)
        found += world.sent()
        assert not world.agenda.is_due(world.now)
        return found

    assert due() == []
    world.add((A, 1))
    assert world.agenda.is_due(world.now)
    [sent] = due()
    world.agenda.take(world.now + 59)
    assert world.agenda.next() == world.now + 60
    world.answer(sent, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert due() == [] and world.now < world.agenda.next() < world.now + 1
    world.answer(world.later())
    assert due() == []


def lines_run(work) -> int:
    """Return how many lines of ``thinconsumer/group`` the work runs: a measure of time independent of the machine."""
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


def test_work_grows_linearly_with_partitions(new_world):
    """Commits of a thousand partitions must stay cheap."""

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


def test_work_grows_linearly_with_waiting_calls(new_world):
    """commit_async() after every record, without a coordinator."""

    def commit(calls: int) -> int:
        world = new_world()
        world.coordinator.lost(1, "gone", world.now)

        def work() -> None:
            for number in range(calls):
                world.add((A, number), callback=print)
                world.commits.step(world.now)
            world.answer(world.later(), Code.COORDINATOR_LOAD_IN_PROGRESS)
            world.answer(world.later())
            assert not world.commits.queue.calls

        return lines_run(work)

    assert commit(2000) < 12 * commit(200)


def pause(world, code: int) -> float:
    """Respond with this code; return the seconds until the commit is sent again."""
    world.answer(world.later(), code)
    before = world.now
    sent = world.later()
    world.commits._requests.in_flight = None  # as if it had not been sent
    for tp, entry in sent.request.context.entries.items():
        world.commits.queue.put_back(tp, entry)
    return world.now - before


@pytest.mark.parametrize("code", [Code.NETWORK_EXCEPTION, Code.UNKNOWN_TOPIC_OR_PARTITION])
def test_the_backoff_grows_and_restarts_after_a_success(world, code):
    """Otherwise every later retriable error would cost the maximum backoff."""
    world.add((A, 1))
    pauses = [pause(world, code) for _ in range(5)]
    assert pauses[0] < 0.3
    assert pauses[-1] > 0.7
    world.answer(world.later())
    assert not world.commits.queue.calls
    world.add((A, 2))
    assert pause(world, code) < 0.3


def test_offsets_in_flight_across_a_rebalance_are_checked_again(world):
    """The response arrives after the rebalance."""
    call = world.add((A, 1), (B, 1))
    sent = world.one()
    world.membership.identity = world.membership.identity.joined(6, "me")
    world.membership.owned = {B}
    world.sent()
    world.answer(sent, Code.COORDINATOR_LOAD_IN_PROGRESS)
    sent = world.later()
    assert sent.offsets == {B: 1}
    world.answer(sent)
    assert isinstance(world.failure(call), RebalanceInProgressError)
