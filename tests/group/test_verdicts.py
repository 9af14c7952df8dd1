"""The action for each response to a member."""

import pytest

from thinconsumer.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from thinconsumer.failures import Action
from thinconsumer.group.coordinator import judge
from thinconsumer.group.group import lacks_consumer_protocol
from thinconsumer.network.request import Answer, Request, Target
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest


def answer(api, response, error=None):
    request = Request("x", api, Target(1), lambda version: api(), 0.0)
    return Answer(request, 1, 0, response, error)


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (KafkaConnectionError("x"), Action.FIND_COORDINATOR),
        (KafkaTimeoutError("x"), Action.FIND_COORDINATOR),
        (KafkaProtocolError("x"), Action.FIND_COORDINATOR),
        (KafkaError("building it failed"), Action.FIND_COORDINATOR),
        (UnsupportedVersionError("x", code=35, name="x"), Action.RAISE),
        (to_error(Code.FENCED_INSTANCE_ID), Action.GIVE_UP),
    ],
)
def test_a_missing_response_leads_to_find_coordinator(error, action):
    assert judge(answer(HeartbeatRequest, None, error), "g") == (action, error)


@pytest.mark.parametrize("code", Code)
def test_two_codes_show_that_a_group_cannot_use_the_consumer_protocol(code):
    response = ConsumerGroupHeartbeatResponse(error_code=code)
    error = lacks_consumer_protocol(answer(ConsumerGroupHeartbeatRequest, response), "g")
    assert (error is not None) == (code in (Code.UNSUPPORTED_VERSION, Code.GROUP_ID_NOT_FOUND))


def test_a_broker_without_the_api_or_a_lost_connection_shows_as_much_or_nothing():
    missing = UnsupportedVersionError("x", code=35, name="x")
    assert lacks_consumer_protocol(answer(ConsumerGroupHeartbeatRequest, None, missing), "g") is missing
    assert lacks_consumer_protocol(answer(ConsumerGroupHeartbeatRequest, None, KafkaConnectionError("x")), "g") is None
