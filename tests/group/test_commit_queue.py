"""The queue of commits: merging, settling, deadlines, and recovery after an interrupt at any line."""

import sys
from typing import Any

import pytest

from thinconsumer.errors import CommitFailedError, KafkaError
from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_errors import Failure
from thinconsumer.group.offsets.commit_queue import BYTES_MAX, CommitQueue
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import OffsetAndMetadata, TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))
WHO = Identity("g", 5, "me")
LATE = Failure("timeout", "late")


def explain(failures: Any, what: str) -> KafkaError:
    return CommitFailedError(what, reason="timeout", partitions=failures)


@pytest.fixture
def queue() -> CommitQueue:
    return CommitQueue(explain, Agenda().alarm())


def add(queue: CommitQueue, *pairs: tuple[TopicPartition, int], deadline: float = 60.0, callback: Any = None) -> Any:
    offsets = {tp: OffsetAndMetadata(offset) for tp, offset in pairs}
    return queue.add(offsets, WHO, deadline, callback, "commit", {}, None)


def taken(queue: CommitQueue) -> dict[TopicPartition, int]:
    return {tp: entry.latest.offsets[tp].offset for tp, entry in queue.take("g").items()}


def test_deadlines_pass_independently_of_the_call_order(queue):
    slow, quick = add(queue, (A, 1), deadline=60), add(queue, (A, 2), deadline=5)
    assert queue.expired(4.9) == [] and queue._expiry.at == 5
    assert queue.expired(5) == [quick]
    queue.fail_call(quick, LATE)
    assert quick.call.done
    assert not slow.call.done
    assert queue.expired(6) == [] and queue._expiry.at == 60
    # The later call's value wins all the same: it may have been written already, and must not be undone.
    assert taken(queue) == {A: 2}


def test_deadlines_of_settled_calls_do_not_pile_up(queue):
    """Most commits settle in milliseconds and have a deadline of a minute."""
    for number in range(1000):
        add(queue, (A, number), deadline=60.0 + number)
        entries = queue.take("g")
        queue.resolve(A, entries[A], None)
        queue.expired(1.0)
    assert len(queue._deadlines) < 100
    assert queue.expired(5000.0) == []


def test_offsets_of_settled_or_abandoned_calls_are_not_sent(queue):
    late, gone = add(queue, (A, 1), deadline=5), add(queue, (B, 1))
    queue.fail_call(late, LATE)
    gone.call.abandoned = True
    assert taken(queue) == {}
    assert queue.expired(1.0) == [gone]


def test_calls_without_offsets_wait_for_the_calls_before_them(queue):
    """Thousands of them settle, each once."""
    heard: list[int] = []
    add(queue, (A, 1), deadline=5)
    for number in range(3000):
        add(queue, deadline=5, callback=lambda offsets, error, n=number: heard.append(n))
    add(queue, (B, 1), deadline=9)
    expired = queue.expired(5)
    for pending in expired:
        queue.fail_call(pending, LATE)
    while queue.finished:
        queue.run_first_callback()
    assert heard == list(range(3000))
    assert len(queue.calls) == 1


def test_call_without_offsets_can_time_out_before_the_others(queue):
    add(queue, (A, 1), deadline=60)
    waits = add(queue, deadline=5)
    (expired,) = queue.expired(5)
    assert expired is waits
    queue.fail_call(waits, LATE)
    with pytest.raises(CommitFailedError):
        waits.call.result()
    assert len(queue.calls) == 1


def test_request_is_limited_in_bytes_but_never_empty(queue):
    """A single offset with larger metadata is sent, and the broker decides."""
    note = "x" * BYTES_MAX
    for tp in (A, B):
        queue.add({tp: OffsetAndMetadata(1, note)}, WHO, 60.0, None, "commit", {}, None)
    assert list(queue.take("g")) == [A]
    assert list(queue.take("g")) == [B]


class _Interrupt(BaseException):
    """An interrupt like KeyboardInterrupt."""


def _interrupted(after: int, run: Any) -> bool:
    """Run with an interrupt at the ``after``th trace event of the queue; return whether it was raised."""
    left = [after]

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if "commit_queue" not in frame.f_code.co_filename:
            return None
        left[0] -= 1
        if left[0] == 0:
            raise _Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except _Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_settles_every_call_once():
    """The queue is rebuilt from the calls, as after a restart of the engine."""
    after = 0
    while True:
        after += 1
        queue = CommitQueue(explain, Agenda().alarm())
        heard: list[tuple[int, str]] = []

        def add_one(number: int, *pairs: Any, queue: CommitQueue = queue, heard: Any = heard, **more: Any) -> Any:
            callback = lambda offsets, error: heard.append((number, "bad" if error else "good"))  # noqa: E731
            return add(queue, *pairs, callback=callback, **more)

        calls = [add_one(0, (A, 0), (B, 0)), add_one(1, (A, 1)), add_one(2)]
        entries = queue.take("g")
        calls += [add_one(3, (A, 3), (C, 3)), add_one(4, (C, 4))]

        def work(queue: CommitQueue = queue, entries: Any = entries, add_one: Any = add_one) -> None:
            queue.resolve(B, entries.pop(B), None)
            queue.put_back(A, entries.pop(A), delayed=True)
            queue.resolve(C, queue.take("g")[C], LATE)
            add_one(5, (B, 5))
            queue.release()

        struck = _interrupted(after, work)
        queue.rebuild(entries)
        while queue.ready:
            for tp, entry in queue.take("g").items():
                queue.resolve(tp, entry, None)
        assert not queue.calls
        while queue.finished:
            queue.run_first_callback()
        assert [number for number, _ in sorted(heard)] in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
        assert all(pending.call.done for pending in calls)
        if not struck:
            break
    assert after > 50


def test_a_call_that_is_settled_again_after_an_interrupt_has_its_callback_called_once(queue):
    """Its callback may have been called before it is settled again, as by close()."""
    for after in range(1, 100):
        heard: list[Any] = []
        late = add(queue, (A, 1), callback=lambda offsets, error, heard=heard: heard.append(error))
        struck = _interrupted(after, lambda late=late: queue.fail_call(late, LATE))
        while queue.finished:
            queue.run_first_callback()
        queue.fail_call(late, LATE)
        while queue.finished:
            queue.run_first_callback()
        assert len(heard) == 1 and late.call.done and not queue.calls
        if not struck:
            break
    assert after > 3


def test_rebuilding_keeps_the_newest_offset_even_of_a_call_that_timed_out(queue):
    """It may have been written before the interrupt."""
    add(queue, (A, 1))
    late = add(queue, (A, 2), deadline=5)
    entries = queue.take("g")
    queue.fail_call(late, LATE)
    queue.rebuild(entries)
    assert taken(queue) == {A: 2}
