"""Every check of a ConsumerGroupHeartbeat that needs no group."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.heartbeat import check_heartbeat

JOIN = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 5,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def code_of(fields: dict[str, Any], version: int = 1) -> int:
    try:
        check_heartbeat(ConsumerGroupHeartbeatRequest(**fields), version, ("uniform",))
    except GroupRequestError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_names": []},
        {"member_epoch": 3, "topic_partitions": None, "rebalance_timeout_ms": -1, "subscribed_topic_names": None},
        {"member_epoch": -1},
        {"member_epoch": -2, "instance_id": "i"},
        {"server_assignor": "uniform"},
        {"instance_id": "i", "rack_id": "r"},
    ],
)
def test_valid_requests(fields: dict[str, Any]) -> None:
    assert code_of({**JOIN, **fields}) == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, Code.INVALID_REQUEST),
        ({"member_id": " "}, Code.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": 3}, Code.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": -1}, Code.INVALID_REQUEST),
        ({"group_id": ""}, Code.INVALID_REQUEST),
        ({"group_id": " "}, Code.INVALID_REQUEST),
        ({"instance_id": ""}, Code.INVALID_REQUEST),
        ({"rack_id": ""}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"topic_partitions": None}, Code.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions()]}, Code.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Code.INVALID_REQUEST),
        ({"member_epoch": -2}, Code.INVALID_REQUEST),
        ({"member_epoch": -3}, Code.INVALID_REQUEST),
        ({"server_assignor": "range"}, Code.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_invalid_requests(fields: dict[str, Any], code: int) -> None:
    assert code_of({**JOIN, **fields}) == code


def test_version_0_needs_no_member_id_to_join() -> None:
    assert code_of({**JOIN, "member_id": ""}, version=0) == 0
    assert code_of({**JOIN, "member_id": "", "member_epoch": -2, "instance_id": "i"}, version=0) == 0
    assert code_of({**JOIN, "member_id": "", "member_epoch": 1}, version=0) == Code.INVALID_REQUEST
