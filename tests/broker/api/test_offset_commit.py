"""OffsetCommit over a connection: topics by name and by id, and unknown topics."""

from typing import Any

import pytest

from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer_testing.broker.api.offset_commit import API

VERSIONS = range(API.lowest, API.highest + 1)
UNKNOWN_PARTITION, UNKNOWN_ID = 3, 100


def topic(name: str, topic_id: bytes, *partitions: int) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetCommitRequestPartition(partition_index=number, committed_offset=number + 5) for number in partitions
        ],
    )


@pytest.fixture
def cluster(new_cluster: Any) -> Any:
    return new_cluster(1, {"orders": 2}, coordinators=True)


def orders_id(client: Any) -> bytes:
    return bytes(client.cluster.nodes[1].image.topics["orders"].topic_id)


def committed(client: Any) -> dict[tuple[str, int], int]:
    shards = client.cluster.nodes[1].group_coordinator.shards.values()
    found = [shard.committed.offsets.of_group("billing") for shard in shards]
    return {place: offset.value.offset for offsets in found for place, offset in offsets.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_id_is_stored_in_every_version(version: int, client: Any) -> None:
    client.ask(OffsetCommitRequest(group_id="billing", topics=[topic("orders", orders_id(client), 0)]), version)
    (offset,) = [
        o
        for s in client.cluster.nodes[1].group_coordinator.shards.values()
        for o in s.latest.offsets.of_group("billing").values()
    ]
    assert offset.value.topic_id == orders_id(client)


@pytest.mark.parametrize("version", VERSIONS)
def test_group_error_is_returned_for_each_partition(version: int, client: Any) -> None:
    topics = [topic("orders", orders_id(client), 0, 1)]
    request = OffsetCommitRequest(group_id="billing", generation_id_or_member_epoch=4, member_id="m", topics=topics)
    answer = client.ask(request, version)
    assert [p.error_code for t in answer.topics for p in t.partitions] == [69 if version >= 9 else 22] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partitions_need_no_coordinator(version: int, client: Any) -> None:
    """Brokers that do not coordinate the group give the same response."""
    answer = client.ask(OffsetCommitRequest(group_id="other", topics=[topic("strange", bytes(15) + b"x", 0)]), version)
    assert answer.topics[0].partitions[0].error_code in (UNKNOWN_PARTITION, UNKNOWN_ID)
    assert client.cluster.nodes[1].group_coordinator.describe(["other"], 6)[0].error_code == 69


def test_duplicate_topic_has_one_response_entry(client: Any) -> None:
    topics = [topic("orders", bytes(16), 0, 7), topic("orders", bytes(16), 1)]
    answer = client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics] == [("orders", [7, 0, 1])]
    assert client.ask(OffsetCommitRequest(group_id="billing"), 9).topics == []
