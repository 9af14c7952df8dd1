"""ListGroups over a connection, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.list_groups import API
from thinconsumer.wire.list_groups import ListGroupsRequest
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.fixture
def client(new_cluster: Any, client_of: Any) -> Any:
    cluster = new_cluster(1, {"orders": 1})
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = client_of(cluster, 1)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])]
    client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)
    return client


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_are_listed_in_every_version(version: int, client: Any) -> None:
    answer = client.ask(ListGroupsRequest(), version)
    assert answer.error_code == 0
    (group,) = answer.groups
    assert (group.group_id, group.protocol_type) == ("billing", "")
    assert group.group_state == ("Empty" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


def test_groups_are_filtered_by_state_and_type(client: Any) -> None:
    assert client.ask(ListGroupsRequest(states_filter=["Stable"]), 4).groups == []
    assert len(client.ask(ListGroupsRequest(states_filter=["empty"]), 4).groups) == 1
    assert client.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []


@pytest.mark.parametrize("version", VERSIONS)
def test_error_responses_encode_in_every_version(version: int) -> None:
    answer: Any = API.refuse(ListGroupsRequest(), version, 15)
    assert type(answer).decode(answer.encode(version), version).error_code == 15
