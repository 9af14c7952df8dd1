"""The APIs of consumer groups over a connection, in every version, with and without ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest

NOT_ASKED = -(2**31)


@pytest.fixture
def cluster(new_cluster: Any) -> Any:
    return new_cluster(1, {"orders": 2}, coordinators=True)


def joining(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": "billing",
            "member_id": "m",
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
            **fields,
        }
    )


def test_an_error_has_a_message(client: Any) -> None:
    answer = client.ask(joining(member_id=""), 1)
    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, "MemberId can't be empty.")


@pytest.mark.parametrize("version", [0, 1])
def test_groups_are_described_in_every_version(version: int, client: Any) -> None:
    client.ask(joining(), 1)
    request = ConsumerGroupDescribeRequest(group_ids=["billing", "missing"], include_authorized_operations=True)
    found, missing = client.ask(request, version).groups
    assert (found.group_state, found.group_epoch, missing.error_code) == ("Stable", 2, Code.GROUP_ID_NOT_FOUND)
    assert found.members[0].member_type == (1 if version else -1)
    assert found.authorized_operations > 0
    assert missing.authorized_operations == NOT_ASKED
    assert (
        client.ask(ConsumerGroupDescribeRequest(group_ids=["billing"]), 1).groups[0].authorized_operations == NOT_ASKED
    )
