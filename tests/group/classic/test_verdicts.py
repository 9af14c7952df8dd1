"""What each answer means: a table, which must have a word for every code there is or may be."""

from __future__ import annotations

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
from thinconsumer.group.classic.verdicts import (
    EXPULSIONS,
    Verdict,
    judge,
    of_code,
    of_error,
    unusable_join,
    unusable_sync,
)
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

V = Verdict


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Code.NONE, V.FINE),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, V.LOADING),
        (Code.COORDINATOR_NOT_AVAILABLE, V.NOT_THERE),
        (Code.NOT_COORDINATOR, V.NOT_THERE),
        (Code.ILLEGAL_GENERATION, V.BEHIND),
        (Code.UNKNOWN_MEMBER_ID, V.FORGOTTEN),
        (Code.REBALANCE_IN_PROGRESS, V.REBALANCING),
        (Code.MEMBER_ID_REQUIRED, V.NAMED),
        (Code.FENCED_INSTANCE_ID, V.FATAL),
        (Code.INVALID_SESSION_TIMEOUT, V.FATAL),
        (Code.INVALID_GROUP_ID, V.FATAL),
        (Code.INCONSISTENT_GROUP_PROTOCOL, V.REFUSED),
        (Code.GROUP_MAX_SIZE_REACHED, V.REFUSED),
        (Code.GROUP_AUTHORIZATION_FAILED, V.REFUSED),
        (Code.UNKNOWN_SERVER_ERROR, V.REFUSED),
        (Code.REQUEST_TIMED_OUT, V.AGAIN),
        (31_000, V.REFUSED),
    ],
)
def test_the_table(code, verdict):
    assert of_code(code) is verdict


@pytest.mark.parametrize("code", Code)
def test_what_kafka_calls_retriable_is_never_shown_to_users_as_final(code):
    assert not BY_CODE[code].retriable or of_code(code) in (V.AGAIN, V.LOADING, V.NOT_THERE)


def test_an_expulsion_is_what_costs_the_identity():
    assert {V.FORGOTTEN, V.BEHIND, V.FATAL} == EXPULSIONS


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (KafkaConnectionError("x"), V.NOT_THERE),
        (KafkaTimeoutError("x"), V.NOT_THERE),
        (KafkaProtocolError("x"), V.NOT_THERE),
        (KafkaError("building it failed"), V.NOT_THERE),
        (UnsupportedVersionError("x", code=35, name="x"), V.REFUSED),
        (to_error(Code.FENCED_INSTANCE_ID), V.FATAL),
    ],
)
def test_what_no_answer_means(error, verdict):
    assert of_error(error) is verdict


def answer(api, response, error=None):
    request = Request("x", api, Target(1), lambda version: api(), 0.0)
    return Answer(request, 1, 0, response, error)


def test_judging_names_the_group_and_the_api():
    verdict, error = judge(answer(HeartbeatRequest, HeartbeatResponse(error_code=30)), "my group")
    assert verdict is V.REFUSED and isinstance(error, GroupAuthorizationFailedError)
    assert error.group_id == "my group" and "Heartbeat" in str(error) and "my group" in str(error)
    assert judge(answer(HeartbeatRequest, HeartbeatResponse()), "g") == (V.FINE, None)
    lost = KafkaConnectionError("x")
    assert judge(answer(HeartbeatRequest, None, lost), "g") == (V.NOT_THERE, lost)


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
def test_which_joins_can_be_used(change, error):
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
def test_which_syncs_can_be_used(change, usable):
    found = unusable_sync(answer(SyncGroupRequest, SyncGroupResponse(**({"assignment": b""} | change))), "pool", "a")
    assert (found is None) is usable
