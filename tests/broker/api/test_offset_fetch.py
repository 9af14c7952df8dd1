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

SINGLE, MANY = range(1, 8), range(8, 11)


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
def test_one_group_and_some_partitions(version: int, client: Any) -> None:
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])]
    answer = client.ask(OffsetFetchRequest(group_id="billing", topics=topics), version)
    assert answer.error_code == 0
    none, some = answer.topics[0].partitions
    assert (none.committed_offset, none.metadata, none.error_code) == (-1, "", 0)
    assert (some.committed_offset, some.metadata, some.error_code) == (6, "note", 0)
    assert some.committed_leader_epoch == (2 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(2, 8))
def test_one_group_and_all_partitions(version: int, client: Any) -> None:
    answer = client.ask(OffsetFetchRequest(group_id="billing", topics=None), version)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics] == [("orders", [1])]


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


@pytest.mark.parametrize("version", MANY)
def test_several_groups(version: int, client: Any) -> None:
    topic = OffsetFetchRequestTopics(name="orders", topic_id=orders_id(client), partition_indexes=[1])
    groups = [
        OffsetFetchRequestGroup(group_id="billing", topics=[topic]),
        OffsetFetchRequestGroup(group_id="other", topics=[topic]),
        OffsetFetchRequestGroup(group_id="billing", topics=None),
    ]
    answer = client.ask(OffsetFetchRequest(groups=groups), version)
    assert [
        (g.group_id, g.error_code, [(p.committed_offset, p.metadata) for t in g.topics for p in t.partitions])
        for g in answer.groups
    ] == [("billing", 0, [(6, "note")]), ("other", 0, [(-1, "")]), ("billing", 0, [(6, "note")])]
    assert client.ask(OffsetFetchRequest(groups=[]), version).groups == []
    named = answer.groups[2].topics[0]
    assert (named.topic_id if version >= 10 else named.name) == (orders_id(client) if version >= 10 else "orders")


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
