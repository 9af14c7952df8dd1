"""DeleteRecords advances the log start offset on every replica."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

TP = TopicPartition("t", 0)


def cut(offset, topic="t", partition=0, timeout_ms=1000):
    rows = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=timeout_ms)


def told(answer):
    (topic,) = answer.topics
    (row,) = topic.partitions
    return row.error_code, row.low_watermark


@pytest.fixture
def cluster(new_cluster):
    made = new_cluster(1, {"t": 1})
    for _ in range(3):
        made.produce("t", [b"a", b"b"])
    return made


def test_compacted_and_internal_topics_are_rejected(new_cluster, client_of):
    cluster = new_cluster(2)
    client = client_of(cluster, 1)
    cluster.create_topic("kept", 1, 2, {"cleanup.policy": "compact"})
    cluster.create_topic("both", 1, 2, {"cleanup.policy": "compact,delete"})
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    elsewhere = client_of(cluster, 2)

    def ask(topic, partition=0):
        codes = {told(one.ask(cut(0, topic, partition)))[0] for one in (client, elsewhere)}
        return codes - {Code.NOT_LEADER_OR_FOLLOWER}

    assert ask("kept") == {Code.POLICY_VIOLATION}
    assert ask("both") == {0}
    assert ask("__consumer_offsets") == {Code.INVALID_TOPIC_EXCEPTION}
    assert ask("__consumer_offsets", 99) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert ask("none") == ask("both", 1) == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def replicated(new_cluster, **config):
    cluster = new_cluster(2, **config)
    cluster.create_topic("t", 1, 2)
    cluster.advance(5.0)
    cluster.produce("t", [b"a", b"b"])
    cluster.advance(10.0)
    leader = cluster.leader(TP).node.node_id
    return cluster, leader, 3 - leader


def test_response_waits_for_followers(new_cluster, client_of):
    cluster, leader, follower = replicated(new_cluster, replication_s=0.5)
    client = client_of(cluster, leader)
    client.send(cut(1, timeout_ms=5000))
    assert client.answers() == []
    cluster.advance(12.0)
    assert [told(answer) for answer in client.answers()] == [(0, 1)]
    assert cluster.nodes[follower].partitions[TP].log.start_offset == 1
    cluster.kill(follower, noticed_after_s=0)
    assert told(client.ask(cut(2))) == (0, 2), "fenced brokers are not awaited"


def test_response_waits_at_most_for_the_timeout(new_cluster, client_of):
    cluster, leader, follower = replicated(new_cluster)
    client = client_of(cluster, leader)
    cluster.pause(follower)
    client.send(cut(1, timeout_ms=500))
    assert client.answers() == []
    cluster.advance(10.6)
    assert [told(answer) for answer in client.answers()] == [(Code.REQUEST_TIMED_OUT, 0)]


def test_leadership_change_is_reported_while_waiting(new_cluster, client_of):
    cluster, leader, follower = replicated(new_cluster, replication_s=0.5)
    client = client_of(cluster, leader)
    client.send(cut(1, timeout_ms=5000))
    cluster.move_leader(TP, follower)
    cluster.advance(11.0)
    assert [told(answer) for answer in client.answers()] == [(Code.NOT_LEADER_OR_FOLLOWER, -1)]
