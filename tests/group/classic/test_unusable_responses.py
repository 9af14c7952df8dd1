"""Inconsistent JoinGroup and SyncGroup responses."""

import pytest

from thinconsumer.connection.request import Answer, Request, Target
from thinconsumer.errors import InconsistentGroupProtocolError, KafkaProtocolError
from thinconsumer.group.classic.rebalance_requests import unusable_join, unusable_sync
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse


def answer(api, response):
    request = Request("x", api, Target(1), lambda version: api(), 0.0)
    return Answer(request, 1, 0, response)


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
