"""OffsetFetch over a connection: one group or several, all topics or some, by name and by id."""

from typing import Any

import pytest

from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

SINGLE = range(1, 8)


@pytest.fixture
def client(new_cluster: Any, client_of: Any) -> Any:
    client = client_of(new_cluster(1, {"orders": 2, "clicks": 1}, coordinators=True), 1)
    partition = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=6, committed_leader_epoch=2, committed_metadata="note"
    )
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)
    return client


def orders_id(client: Any) -> bytes:
    return bytes(client.cluster.nodes[1].image.topics["orders"].topic_id)


@pytest.mark.parametrize("version", SINGLE)
def test_group_error_in_every_version(version: int, client: Any) -> None:
    """A group error has its own field from version 2 on; before, it is in each partition."""
    for index in range(5):
        client.cluster.nodes[1].group_coordinator.resigned(index)
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
    answer = client.ask(OffsetFetchRequest(group_id="billing", topics=topics), version)
    if version >= 2:
        assert (answer.error_code, answer.topics) == (16, [])
    else:
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.committed_offset) == (16, -1)


def test_unknown_topic_ids(client: Any) -> None:
    strange = OffsetFetchRequestTopics(topic_id=bytes(15) + b"x", partition_indexes=[0, 1])
    known = OffsetFetchRequestTopics(topic_id=orders_id(client), partition_indexes=[1])
    groups = [OffsetFetchRequestGroup(group_id="billing", topics=[strange, known])]
    (group,) = client.ask(OffsetFetchRequest(groups=groups), 10).groups
    assert [(t.topic_id, [(p.committed_offset, p.error_code) for p in t.partitions]) for t in group.topics] == [
        (orders_id(client), [(6, 0)]),
        (bytes(15) + b"x", [(-1, 100), (-1, 100)]),
    ]


def test_topics_without_id_are_omitted_in_version_10(client: Any) -> None:
    client.cluster.nodes[1].image.remove_topic("orders")
    groups = [OffsetFetchRequestGroup(group_id="billing", topics=None)]
    assert client.ask(OffsetFetchRequest(groups=groups), 10).groups[0].topics == []
    assert [t.name for t in client.ask(OffsetFetchRequest(groups=groups), 9).groups[0].topics] == ["orders"]


@pytest.mark.parametrize("version", range(7, 11))
def test_stable_offsets(version: int, client: Any) -> None:
    groups = [OffsetFetchRequestGroup(group_id="billing", topics=None)]
    request = OffsetFetchRequest(group_id="billing", topics=None, groups=groups, require_stable=True)
    if version < 8:
        request.groups = []
        assert client.ask(request, version).topics[0].partitions[0].committed_offset == 6
    else:
        request.group_id, request.topics = "", []
        assert client.ask(request, version).groups[0].topics[0].partitions[0].committed_offset == 6
