"""A call is settled once, and can be abandoned."""

import pytest

from thinconsumer.errors import KafkaError
from thinconsumer.support.calls import Call


def test_a_new_call_is_open():
    call: Call[int] = Call("position of t-0")
    assert not call.done and not call.over
    assert call.what == "position of t-0"


def test_none_is_a_valid_result():
    call: Call[None] = Call("x")
    call.succeed(None)
    assert call.done and call.result() is None


def test_result_raises_the_error_every_time():
    call: Call[int] = Call("x")
    call.fail(KafkaError("no"))
    for _ in range(2):
        with pytest.raises(KafkaError, match="no"):
            call.result()


@pytest.mark.parametrize("first", ["succeed", "fail"])
@pytest.mark.parametrize("second", ["succeed", "fail"])
def test_later_settlements_are_ignored(first, second):
    call: Call[int] = Call("x")
    moves = {"succeed": lambda n: call.succeed(n), "fail": lambda n: call.fail(KafkaError(str(n)))}
    moves[first](1)
    moves[second](2)
    if first == "succeed":
        assert call.result() == 1
    else:
        with pytest.raises(KafkaError, match="1"):
            call.result()


def test_an_abandoned_call_is_over_but_not_done():
    call: Call[int] = Call("x")
    call.abandoned = True
    assert call.over and not call.done
