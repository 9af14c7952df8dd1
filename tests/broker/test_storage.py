"""A cluster restarted on its directory: everything acknowledged is restored."""

import random

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.directory import ClusterDirectory

TP = TopicPartition("t", 0)


@pytest.fixture
def started(tmp_path):
    """``started(nodes)`` starts the cluster of one directory again, after closing the previous one."""
    stores = []

    def start(nodes=2, seed=1):
        if stores:
            stores.pop().close()
        stores.append(ClusterDirectory(tmp_path, nodes))
        return Cluster(
            nodes, {"t": 1}, random=random.Random(seed), config=BrokerConfig(), storage=stores[-1], wall_time=1.7e9
        )

    yield start
    for store in stores:
        store.close()


def values(cluster, tp=TP):
    log = cluster.leader(tp).log
    return [r.value for batch in log.read_batches(log.start_offset, log.end_offset) for r in batch.decode("t", 0)]


def test_records_topics_and_ids_are_restored(started):
    before = started()
    before.create_topic("u", 3, 2, {"cleanup.policy": "compact"})
    before.produce("t", [b"a", b"b"])
    before.produce("t", [b"c"])
    producer = before.new_producer_id()
    after = started(seed=2)
    assert after.cluster_id == before.cluster_id
    assert after.controller.image.topics == before.controller.image.topics
    assert values(after) == [b"a", b"b", b"c"]
    assert after.leader(TP).high_watermark == 3
    assert after.new_producer_id() > producer
    assert after.produce("t", [b"d"]) == 3


def test_acls_are_restored(started):
    before = started()
    before.create_acls("User:alice", ["READ", "WRITE"], topic="t", prefixed=True)
    before.create_acls("User:*", "ALL", cluster=True, deny=True, host="10.0.0.1")
    before.delete_acls("User:alice", "WRITE", topic="t", prefixed=True)
    after = started(seed=2)
    assert len(after.controller.image.acls) == 2
    assert after.controller.image.acls == before.controller.image.acls == after.nodes[2].image.acls


def test_moved_leaders_are_restored(started):
    before = started()
    before.produce("t", [b"a"])
    before.move_leader(TP, 2)
    before.produce("t", [b"b"])
    after = started()
    assert after.leader(TP).node.node_id == 2
    assert after.leader(TP).log.end_of_epoch(0) == (0, 1)
    assert values(after) == [b"a", b"b"]


def test_deleted_records_and_topics_stay_deleted(started):
    before = started()
    before.create_topic("u", 1)
    before.produce("u", [b"old"])
    for n in range(4):
        before.produce("t", [b"%d" % n])
    before.delete_records(TP, 2)
    before.delete_topic("u")
    after = started()
    assert "u" not in after.controller.image.topics
    assert after.leader(TP).log.start_offset == 2
    assert values(after) == [b"2", b"3"]
    after.create_topic("u", 1)
    assert after.leader(TopicPartition("u", 0)).log.end_offset == 0


def test_committed_offsets_are_restored(started, client_of):
    before = started()
    group = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    )

    def coordinator(cluster):
        found = client_of(cluster, 1).ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        return client_of(cluster, found.coordinators[0].node_id)

    before.produce("t", [b"x"])
    commit = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[group])
    answer = coordinator(before).ask(commit, 9)
    assert answer.topics[0].partitions[0].error_code == 0
    after = started()
    asked = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
    found = coordinator(after).ask(OffsetFetchRequest(groups=[asked]), 9)
    assert found.groups[0].topics[0].partitions[0].committed_offset == 7


def test_consumer_groups_are_restored(started, client_of):
    """A member goes on in its epoch after all brokers have restarted (KIP-848)."""

    def ask(cluster, api, **fields):
        found = client_of(cluster, 1).ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        return client_of(cluster, found.coordinators[0].node_id).ask(api(**fields), 1)

    before = started()
    member = {"group_id": "g", "member_id": "m"}
    join = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    joined = ask(before, ConsumerGroupHeartbeatRequest, **member, **join)
    assert (joined.error_code, joined.assignment.topic_partitions[0].partitions) == (0, [0])
    (described,) = ask(before, ConsumerGroupDescribeRequest, group_ids=["g"]).groups
    after = started()
    (restored,) = ask(after, ConsumerGroupDescribeRequest, group_ids=["g"]).groups
    assert (described.group_state, restored) == ("Stable", described)
    beat = ask(after, ConsumerGroupHeartbeatRequest, **member, member_epoch=joined.member_epoch)
    assert (beat.error_code, beat.member_epoch) == (0, joined.member_epoch)


def test_fewer_brokers_than_stored_are_rejected(started, tmp_path):
    started(3)
    with pytest.raises(IllegalStateError, match="3 or more brokers"):
        started(2)
