"""One call at a time: a second one raises at once."""

import signal
import sys
import threading

import pytest

from thinconsumer.engine import Guard
from thinconsumer.errors import ConcurrentAccessError, IllegalStateError


def in_this_thread(work):
    """Return the error that rejects the call which ``work`` makes, in a list."""
    try:
        work()
    except ConcurrentAccessError as error:
        return [error]
    return []


def in_another_thread(work):
    raised = []
    thread = threading.Thread(target=lambda: raised.extend(in_this_thread(work)))
    thread.start()
    thread.join()
    return raised


def enter(guard):
    with guard:
        pass


def test_a_second_thread_raises_at_once_and_the_first_goes_on():
    guard = Guard()
    with guard:
        (error,) = in_another_thread(lambda: enter(guard))
        assert isinstance(error, ConcurrentAccessError)
        assert str(threading.get_ident()) in str(error)
        # The rejected call must not have ended the first one.
        assert len(in_another_thread(lambda: enter(guard))) == 1


def test_another_thread_that_calls_at_any_moment_of_the_first_call_is_never_inside_with_it():
    """At each bytecode at which a call begins, another thread begins one and stays inside, if it is let in."""
    moment = 1
    while True:
        guard, seen, inside = Guard(), 0, []
        is_in, may_end = threading.Event(), threading.Event()

        def other(guard=guard, inside=inside, is_in=is_in, may_end=may_end):
            try:
                with guard:
                    inside.append("other")
                    is_in.set()
                    assert may_end.wait(10)
            finally:
                is_in.set()

        thread = threading.Thread(target=in_this_thread, args=(other,))

        def trace(frame, event, arg, moment=moment, thread=thread, is_in=is_in):
            nonlocal seen
            frame.f_trace_opcodes = True
            if event == "opcode" and frame.f_code is Guard.__enter__.__code__:
                seen += 1
                if seen == moment:
                    thread.start()
                    assert is_in.wait(10)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with guard:
                inside.append("first")
        except ConcurrentAccessError:
            pass
        finally:
            sys.settrace(before)
            may_end.set()
        if seen < moment:
            break
        thread.join()
        assert len(inside) == 1, (moment, inside)
        enter(guard)
        moment += 1
    assert moment > 10, "the tracing has seen the guard's own bytecodes"


def test_calls_of_threads_that_race_never_overlap():
    """Without a GIL, or with one that changes hands all the time: each call runs alone, or is rejected."""
    guard, inside, overlaps, entered, rejected = Guard(), [], [], [], []
    barrier = threading.Barrier(4)

    def run():
        barrier.wait(10)
        for _ in range(2000):
            try:
                with guard:
                    inside.append(None)
                    overlaps.extend(inside[1:])
                    inside.pop()
                    entered.append(None)
            except ConcurrentAccessError:
                rejected.append(None)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        sys.setswitchinterval(interval)
    assert entered and not overlaps
    assert len(entered) + len(rejected) == 8000
    enter(guard)


def test_another_thread_may_call_between_two_calls():
    guard = Guard()
    enter(guard)
    assert in_another_thread(lambda: enter(guard)) == []
    enter(guard)


def test_an_exception_ends_the_call():
    guard = Guard()
    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt
    assert in_another_thread(lambda: enter(guard)) == []


def nested(guard):
    """Make a call from within; a function, since a call is known by its frame."""
    with guard:
        assert isinstance(in_another_thread(lambda: enter(guard))[0], ConcurrentAccessError)
    return True


def test_a_call_during_another_is_rejected_and_the_first_continues():
    guard = Guard()
    with guard:
        with pytest.raises(ConcurrentAccessError, match="signal handler"):
            enter(guard)
        assert len(in_another_thread(lambda: enter(guard))) == 1
    enter(guard)
    assert in_another_thread(lambda: enter(guard)) == []


def test_a_call_from_a_signal_handler_is_rejected():
    """The real thing: a handler runs on the main thread, wherever that is."""
    guard, refused = Guard(), []

    def handler(number, frame):
        try:
            enter(guard)
        except ConcurrentAccessError as error:
            refused.append(error)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with guard:
            signal.raise_signal(signal.SIGINT)
        assert len(refused) == 1
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(refused) == 1


def test_calls_from_a_callback_do_not_end_the_outer_call():
    guard = Guard()
    with guard:
        with guard.running("a callback", may_call=True):
            assert nested(guard) and nested(guard)
            assert len(in_another_thread(lambda: enter(guard))) == 1
        with pytest.raises(ConcurrentAccessError):
            enter(guard)
        assert len(in_another_thread(lambda: enter(guard))) == 1
    assert in_another_thread(lambda: enter(guard)) == []


def test_a_call_from_a_callback_is_guarded_itself():
    """It may run callbacks in turn; a signal handler that interrupts it may not call."""
    guard = Guard()

    def inner():
        with guard:
            with pytest.raises(ConcurrentAccessError):
                enter(guard)
            with guard.running("another", may_call=True):
                assert nested(guard)
            with pytest.raises(ConcurrentAccessError):
                enter(guard)

    with guard, guard.running("a callback", may_call=True):
        inner()
        assert nested(guard)


def test_an_exception_ends_the_callback():
    guard = Guard()
    with guard:
        with pytest.raises(KeyboardInterrupt), guard.running("a callback", may_call=True):
            raise KeyboardInterrupt
        with pytest.raises(ConcurrentAccessError):
            enter(guard)
    enter(guard)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_call_that_ctrl_c_interrupted_does_not_block_later_calls(depth):
    """It can strike between entering and the block: nothing notes the end, and the frame that entered is gone then."""
    guard = Guard()

    def struck():
        guard.__enter__()
        raise KeyboardInterrupt

    def outer():
        with guard, guard.running("a callback", may_call=True):
            with pytest.raises(KeyboardInterrupt):
                struck()
            assert nested(guard)

    if depth:
        outer()
    else:
        with pytest.raises(KeyboardInterrupt):
            struck()
    enter(guard)
    assert in_another_thread(lambda: enter(guard)) == []


def test_a_callback_outside_of_a_call_is_an_error():
    with pytest.raises(IllegalStateError, match="a callback"), Guard().running("a callback"):
        pass


def test_a_call_from_busy_user_code_is_rejected():
    guard = Guard()
    with guard, guard.running("a callback", may_call=True):
        with guard.running("a deserializer"):
            with pytest.raises(IllegalStateError, match="inside a deserializer"):
                enter(guard)
            assert isinstance(in_another_thread(lambda: enter(guard))[0], ConcurrentAccessError)
        assert nested(guard)


@pytest.mark.parametrize("lines", range(100))
def test_the_guard_works_after_an_interruption_at_any_line(lines):
    """Ctrl-C after so many lines of the guard, nested calls included: the next call must be accepted."""
    guard, left = Guard(), [lines]

    def strike(frame, event, argument):
        if event == "line" and frame.f_code.co_filename.endswith("guard.py"):
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return strike

    def work():
        with guard:
            with guard.running("a callback", may_call=True):
                enter(guard)
            with guard.running("a deserializer"):
                pass

    before = sys.gettrace()
    sys.settrace(strike)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    enter(guard)
    assert in_another_thread(lambda: enter(guard)) == []
