"""OffsetForLeaderEpoch: end offsets of epochs, and wrong leader epochs."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from thinconsumer_testing.broker.api.offset_for_leader_epoch import API

TP = TopicPartition("t", 0)


def ends(epoch, current=-1, topic="t", partition=0):
    row = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])])


def told(answer):
    (topic,) = answer.topics
    (row,) = topic.partitions
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.fixture
def cluster(new_cluster):
    """Epoch 0 has offsets 0 and 1, epoch 1 none, epoch 2 has 2 to 4."""
    made = new_cluster(2)
    made.create_topic("t", 1, 2)
    made.produce("t", [b"a", b"b"])
    made.move_leader(TP)
    made.move_leader(TP)
    made.produce("t", [b"c", b"d", b"e"])
    return made


@pytest.fixture
def client(cluster, client_of):
    return client_of(cluster, cluster.leader(TP).node.node_id)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_end_offset_in_every_version(client, version):
    assert told(client.ask(ends(0), version)) == (0, 0, 2)


@pytest.mark.parametrize(
    ("epoch", "answer"), [(2, (0, 2, 5)), (0, (0, 0, 2)), (3, (0, -1, -1)), (-1, (0, -1, -1)), (-5, (0, -5, 0))]
)
def test_end_offset_of_each_epoch(client, epoch, answer):
    assert told(client.ask(ends(epoch))) == answer


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ends(0, current=1), Code.FENCED_LEADER_EPOCH),
        (ends(0, current=3), Code.UNKNOWN_LEADER_EPOCH),
        (ends(0, topic="none"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (ends(0, partition=1), Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_requests_are_rejected(cluster, client, client_of, request_, code):
    assert told(client.ask(request_)) == (code, -1, -1)
    follower = 3 - cluster.leader(TP).node.node_id
    assert told(client_of(cluster, follower).ask(ends(0))) == (Code.NOT_LEADER_OR_FOLLOWER, -1, -1)


def test_first_entry_of_a_duplicate_topic_counts(client):
    request = ends(0)
    request.topics += ends(2).topics
    assert told(client.ask(request)) == (0, 0, 2)
