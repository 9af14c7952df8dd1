"""One thread at a time: whoever comes second learns it at once. USERS.md J3."""

import threading

import pytest

from thinconsumer.errors import ConcurrentAccessError, IllegalStateError
from thinconsumer.net import Guard


def in_another_thread(work):
    """Run work in a thread; return what it raised."""
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


def test_pain_J3_a_second_thread_raises_at_once_and_the_first_goes_on():
    guard = Guard()
    with guard:
        (error,) = in_another_thread(lambda: enter(guard))
        assert isinstance(error, ConcurrentAccessError)
        assert str(threading.get_ident()) in str(error)
        # The refused one must not have let go of what the first holds.
        assert len(in_another_thread(lambda: enter(guard))) == 1


def test_handing_over_between_calls_is_fine():
    guard = Guard()
    enter(guard)
    assert in_another_thread(lambda: enter(guard)) == []
    enter(guard)


def test_an_exception_inside_lets_go():
    guard = Guard()
    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt
    assert in_another_thread(lambda: enter(guard)) == []


def test_the_same_thread_may_enter_again():
    guard = Guard()
    with guard, guard:
        pass
    assert in_another_thread(lambda: enter(guard)) == []


def test_busy_with_what_must_not_be_interrupted_it_lets_nobody_in_and_still_holds():
    guard = Guard()
    with guard:
        guard.busy = "a deserializer"
        with pytest.raises(IllegalStateError, match="inside a deserializer"), guard:
            pass
        assert isinstance(in_another_thread(lambda: enter(guard))[0], ConcurrentAccessError)
        guard.busy = ""
        enter(guard)
