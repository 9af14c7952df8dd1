"""DescribeGroups over a connection, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.describe_groups import API
from thinconsumer.wire.describe_groups import DescribeGroupsRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol

VERSIONS = range(API.lowest, API.highest + 1)
NOT_ASKED = -(2**31)


@pytest.fixture
def client(new_cluster: Any, client_of: Any) -> Any:
    """A client with a static member, the only one of its group."""
    cluster = new_cluster()
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = client_of(cluster, 1)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    client.send(
        JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=protocols,
        )
    )
    cluster.advance(0.0)
    client.answers()
    return client


@pytest.mark.parametrize("version", VERSIONS)
def test_group_is_described_in_every_version(version: int, client: Any) -> None:
    (group,) = client.ask(DescribeGroupsRequest(groups=["billing"]), version).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "billing", "CompletingRebalance")
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("tester", "/127.0.0.1")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert group.authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", range(3, 7))
def test_authorized_operations_are_returned_on_request(version: int, client: Any) -> None:
    """KIP-430: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
    request = DescribeGroupsRequest(groups=["billing", "nobody"], include_authorized_operations=True)
    there, missing = sorted(client.ask(request, version).groups, key=lambda group: group.group_id)
    assert there.authorized_operations == 3400
    assert missing.authorized_operations == (NOT_ASKED if version >= 6 else 3400)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_group(version: int, client: Any) -> None:
    (group,) = client.ask(DescribeGroupsRequest(groups=["nobody"]), version).groups
    assert (group.error_code, group.group_state) == (69 if version >= 6 else 0, "Dead")
    assert group.error_message == ("Group nobody not found." if version >= 6 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_error_responses_encode_in_every_version(version: int) -> None:
    answer: Any = API.refuse(DescribeGroupsRequest(groups=["a", "b"]), version, 15)
    answer = type(answer).decode(answer.encode(version), version)
    assert [(group.group_id, group.error_code) for group in answer.groups] == [("a", 15), ("b", 15)]
