"""A call is answered once, or not at all when nobody is left."""

from __future__ import annotations

import pytest

from thinconsumer.broker.call import ApiCall
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.fixture
def answers():
    return []


@pytest.fixture
def call(answers):
    return ApiCall(None, HeartbeatRequest(), 4, answers.append)


def test_the_first_reply_counts(call, answers):
    assert call.is_open
    first = HeartbeatResponse(error_code=27)
    call.reply(first)
    call.reply(HeartbeatResponse())
    call.finish_without_reply()
    assert answers == [first]
    assert not call.is_open


def test_no_reply_is_an_answer_too(call, answers):
    call.finish_without_reply()
    call.reply(HeartbeatResponse())
    assert answers == [None]


def test_a_dropped_call_is_answered_into_nothing(call, answers):
    call.cancel()
    call.reply(HeartbeatResponse())
    assert answers == []
    assert not call.is_open


def test_it_says_what_it_is(call):
    assert repr(call) == "<ApiCall HeartbeatRequest v4 at None>"
