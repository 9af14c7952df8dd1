"""An API call gets at most one response."""

import pytest

from thinconsumer.broker.call import ApiCall
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.fixture
def answers():
    return []


@pytest.fixture
def call(answers):
    return ApiCall(None, HeartbeatRequest(), 4, answers.append)


def test_first_reply_counts(call, answers):
    assert call.is_open
    first = HeartbeatResponse(error_code=27)
    call.reply(first)
    call.reply(HeartbeatResponse())
    call.finish_without_reply()
    assert answers == [first]
    assert not call.is_open


def test_finish_without_reply_completes_the_call(call, answers):
    call.finish_without_reply()
    call.reply(HeartbeatResponse())
    assert answers == [None]


def test_cancelled_call_ignores_replies(call, answers):
    call.cancel()
    call.reply(HeartbeatResponse())
    assert answers == []
    assert not call.is_open


def test_repr(call):
    assert repr(call) == "<ApiCall HeartbeatRequest v4 at None>"
