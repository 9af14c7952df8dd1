"""Pausing garbage collection."""

import gc
import sys
from contextlib import suppress

import pytest

from thinconsumer.support.garbage_collection import garbage_collection_paused

GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
with_gil = pytest.mark.skipif(not GIL, reason="pauses nothing without a GIL")


def test_nothing_is_paused_without_a_gil(monkeypatch):
    """Another thread could end its pause between the two calls that begin one, which would then last for ever."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert garbage_collection_paused(gc.isenabled)()


@with_gil
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_paused_and_then_as_before(enabled):
    seen = []

    @garbage_collection_paused
    def build(error=None):
        seen.append(gc.isenabled())
        if error is not None:
            raise error
        return 5

    try:
        if not enabled:
            gc.disable()
        assert build() == 5 and gc.isenabled() is enabled
        with pytest.raises(KeyboardInterrupt):
            build(KeyboardInterrupt())
        assert gc.isenabled() is enabled and seen == [False, False]
    finally:
        gc.enable()


def call_until(build, moment, happen):
    """Call ``build``; call ``happen`` before its pause's bytecode number ``moment``. Return if there are so many."""
    seen = 0

    def trace(frame, event, arg):
        nonlocal seen
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code is build.__code__:
            seen += 1
            if seen == moment:
                happen()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(KeyboardInterrupt):
            build()
    finally:
        sys.settrace(before)
    return seen >= moment


@garbage_collection_paused
def build_nothing():
    pass


@with_gil
def test_it_is_enabled_again_if_ctrl_c_comes_at_any_moment():
    """Otherwise a program that handles KeyboardInterrupt would run without garbage collection for good."""

    def interrupt():
        raise KeyboardInterrupt

    moment = 1
    try:
        while call_until(build_nothing, moment, interrupt):
            assert gc.isenabled(), moment
            moment += 1
    finally:
        gc.enable()
    assert moment > 10, "the tracing has seen the pause's own bytecodes"


@with_gil
def test_it_stays_enabled_if_the_pause_of_another_thread_ends_at_any_moment():
    """Several threads may iterate over records, which are built in pauses."""
    moment = 1
    try:
        gc.disable()  # the other thread has begun its pause
        while call_until(build_nothing, moment, gc.enable):  # and ends it
            assert gc.isenabled(), moment
            moment += 1
            gc.disable()
    finally:
        gc.enable()
    assert moment > 10, "the tracing has seen the pause's own bytecodes"
