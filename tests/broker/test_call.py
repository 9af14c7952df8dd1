"""An API call gets at most one response."""

import pytest

from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer_testing.broker.call import ApiCall


@pytest.fixture
def answers():
    return []


@pytest.fixture
def call(answers):
    return ApiCall(None, HeartbeatRequest(), 4, answers.append)


@pytest.mark.parametrize("first", [HeartbeatResponse(error_code=27), None])
def test_only_the_first_reply_counts(call, answers, first):
    assert call.is_open
    call.reply(first)
    call.reply(HeartbeatResponse())
    call.reply(None)
    assert answers == [first]
    assert not call.is_open


def test_cancelled_call_ignores_replies(call, answers):
    call.cancel()
    call.reply(HeartbeatResponse())
    assert answers == []
    assert not call.is_open


def test_repr(call):
    assert repr(call) == "<ApiCall HeartbeatRequest v4 at None>"
