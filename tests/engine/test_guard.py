"""One call at a time: a second one raises at once."""

import signal
import sys
import threading

import pytest

from thinconsumer.engine import Guard
from thinconsumer.errors import ConcurrentAccessError, IllegalStateError


def in_another_thread(work):
    raised = []

    def run():
        try:
            work()
        except ConcurrentAccessError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
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
