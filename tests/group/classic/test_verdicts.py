"""The action for each response to a member, and inconsistent JoinGroup and SyncGroup responses."""

import pytest

from thinconsumer.connection.request import Answer, Request, Target
from thinconsumer.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from thinconsumer.failures import Action
from thinconsumer.group.classic.verdicts import judge, unusable_join, unusable_sync
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse


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


def test_the_error_names_the_group_and_the_api():
    action, error = judge(answer(HeartbeatRequest, HeartbeatResponse(error_code=30)), "my group")
    assert action is Action.RAISE and isinstance(error, GroupAuthorizationFailedError)
    assert error.group_id == "my group" and "Heartbeat" in str(error) and "my group" in str(error)
    assert judge(answer(HeartbeatRequest, HeartbeatResponse()), "g") == (Action.ACCEPT, None)


JOINED = {"generation_id": 1, "member_id": "m", "leader": "m", "protocol_name": "a", "protocol_type": "pool"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"protocol_type": None}, None),
        ({"protocol_type": "consumer"}, InconsistentGroupProtocolError),
        ({"protocol_name": "c"}, InconsistentGroupProtocolError),
        ({"protocol_name": None}, InconsistentGroupProtocolError),
        ({"generation_id": -1}, KafkaProtocolError),
        ({"member_id": ""}, KafkaProtocolError),
    ],
)
def test_inconsistent_join_responses_are_detected(change, error):
    found = unusable_join(answer(JoinGroupRequest, JoinGroupResponse(**(JOINED | change))), "pool", {"a", "b"})
    assert found is None if error is None else isinstance(found, error)


@pytest.mark.parametrize(
    ("change", "usable"),
    [
        ({}, True),
        ({"protocol_type": "pool", "protocol_name": "a"}, True),
        ({"protocol_type": "consumer"}, False),
        ({"protocol_name": "b"}, False),
    ],
)
def test_inconsistent_sync_responses_are_detected(change, usable):
    found = unusable_sync(answer(SyncGroupRequest, SyncGroupResponse(**({"assignment": b""} | change))), "pool", "a")
    assert (found is None) is usable
