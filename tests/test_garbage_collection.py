"""Pausing garbage collection."""

import gc
import sys
from contextlib import suppress

import pytest

from thinconsumer.garbage_collection import garbage_collection_paused


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


def test_it_is_enabled_again_if_ctrl_c_comes_at_any_moment():
    """Otherwise a program that handles KeyboardInterrupt would run without garbage collection for good."""

    @garbage_collection_paused
    def build():
        pass

    def trace(frame, event, arg):
        nonlocal steps
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code is build.__code__:
            steps += 1
            if steps == moment:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    steps, moment = 1, 0
    try:
        while steps >= moment:
            moment, steps = moment + 1, 0
            sys.settrace(trace)
            with suppress(KeyboardInterrupt):
                build()
            sys.settrace(before)
            assert gc.isenabled(), moment
    finally:
        sys.settrace(before)
        gc.enable()
    assert moment > 10


def test_it_stays_enabled_if_the_pause_of_another_thread_ends_at_any_moment():
    """Several threads may iterate over records, which are built in pauses."""

    @garbage_collection_paused
    def build():
        pass

    def trace(frame, event, arg):
        nonlocal steps
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code is build.__code__:
            steps += 1
            if steps == moment:
                gc.enable()  # the end of the other pause
        return trace

    before = sys.gettrace()
    steps = moment = 0
    try:
        while steps >= moment:
            moment, steps = moment + 1, 0
            gc.disable()  # the other thread has begun its pause
            sys.settrace(trace)
            build()
            sys.settrace(before)
            assert gc.isenabled() or steps < moment, moment
    finally:
        sys.settrace(before)
        gc.enable()
    assert moment > 10
