"""A call is settled once, whatever comes later, and knows when nobody waits any more."""

from __future__ import annotations

import pytest

from thinconsumer.calls import Call
from thinconsumer.errors import KafkaError


def test_a_new_call_is_open():
    call: Call[int] = Call("position of t-0")
    assert not call.done and not call.over
    assert call.what == "position of t-0"


def test_a_result_can_be_none_and_still_be_one():
    call: Call[None] = Call("x")
    call.succeed(None)
    assert call.done and call.result() is None


def test_an_error_is_raised_every_time_it_is_asked_for():
    call: Call[int] = Call("x")
    call.fail(KafkaError("no"))
    for _ in range(2):
        with pytest.raises(KafkaError, match="no"):
            call.result()


@pytest.mark.parametrize("first", ["succeed", "fail"])
@pytest.mark.parametrize("second", ["succeed", "fail"])
def test_the_first_settlement_stands(first, second):
    """An answer that comes after the error must not turn it into a success, and the other way round."""
    call: Call[int] = Call("x")
    moves = {"succeed": lambda n: call.succeed(n), "fail": lambda n: call.fail(KafkaError(str(n)))}
    moves[first](1)
    moves[second](2)
    if first == "succeed":
        assert call.result() == 1
    else:
        with pytest.raises(KafkaError, match="1"):
            call.result()


def test_abandoning_ends_the_work_but_settles_nothing():
    call: Call[int] = Call("x")
    call.abandoned = True
    assert call.over and not call.done
