"""DeleteGroups over a connection, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.delete_groups import API
from thinconsumer.wire.delete_groups import DeleteGroupsRequest
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_existing_groups_are_deleted(version: int, new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(1, {"orders": 1})
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = client_of(cluster, 1)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])]
    client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)
    answer = client.ask(DeleteGroupsRequest(groups_names=["billing", "nobody"]), version)
    assert {result.group_id: result.error_code for result in answer.results} == {"billing": 0, "nobody": 69}
    again = client.ask(DeleteGroupsRequest(groups_names=["billing"]), version)
    assert [result.error_code for result in again.results] == [69]


@pytest.mark.parametrize("version", VERSIONS)
def test_error_responses_encode_in_every_version(version: int) -> None:
    answer: Any = API.refuse(DeleteGroupsRequest(groups_names=["a"]), version, 15)
    answer = type(answer).decode(answer.encode(version), version)
    assert [(result.group_id, result.error_code) for result in answer.results] == [("a", 15)]
