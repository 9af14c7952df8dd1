"""PartitionLeaderEpochsForPartitions: what was recorded at changes of the partition count, from a broker's metadata."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import TopicPartitions
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from thinconsumer_testing.broker.api import partition_leader_epochs

CONFIGS = {"enable.ordered.delivery": "true"}


@pytest.fixture
def cluster(new_cluster):
    cluster = new_cluster(1, {"plain": 2})
    cluster.create_topic("t", 2, 1, CONFIGS)
    return cluster


def asking(*topics):
    rows = [TopicPartitions(topic_id=topic_id, partitions=list(numbers)) for topic_id, numbers in topics]
    return PartitionLeaderEpochsForPartitionsRequest(topics=rows)


def id_of(cluster, name="t"):
    return cluster.controller.image.topics[name].topic_id


def ask(cluster, client, *numbers, name="t"):
    (topic,) = client.ask(asking((id_of(cluster, name), numbers))).topics
    assert topic.error_code == 0
    return topic


def lists(topic):
    return {
        row.partition_index: (list(row.leader_epochs_after_creation), list(row.leader_epochs_before_deletion))
        for row in topic.partitions
    }


def test_lists_of_added_and_marked_partitions_are_returned_with_the_counts(cluster, client):
    cluster.expand("t", 4)
    cluster.shrink("t", 3)
    topic = ask(cluster, client, 0, 2, 3)
    assert (topic.initial_partition_count, topic.undeleted_partition_count) == (2, 3)
    assert lists(topic) == {0: ([], []), 2: ([0, 0], []), 3: ([0, 0], [2, 2, 1])}
    assert all(row.error_code == 0 for row in topic.partitions)


def test_thresholds_are_the_ends_of_the_recorded_epochs(cluster, client):
    """Once the leader has a later epoch. A leader of the recorded epoch would return an end that still moves."""
    cluster.produce("t", [b"a", b"b"], 1)
    cluster.expand("t", 4)
    cluster.produce("t", [b"c"], 1)
    epoch = lists(ask(cluster, client, 3))[3][0][1]

    def end(current):
        row = OffsetForLeaderPartition(partition=1, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[row])])
        (told,) = client.ask(request).topics[0].partitions
        return told.error_code, told.leader_epoch, told.end_offset

    assert end(epoch + 1) == (0, epoch, 2)
    assert end(epoch)[0] == Code.FENCED_LEADER_EPOCH
    assert cluster.leader(TopicPartition("t", 1)).leader_epoch == epoch + 1


def test_topics_without_ordered_delivery_have_nothing(cluster, client):
    cluster.expand("plain", 3)
    topic = ask(cluster, client, 2, name="plain")
    assert (topic.initial_partition_count, topic.undeleted_partition_count) == (-1, -1)
    assert lists(topic) == {2: ([], [])}


def test_unknown_partitions_and_topics_have_errors(cluster, client):
    topic = ask(cluster, client, 1, 2, -1)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [(1, 0), (2, unknown), (-1, unknown)]
    (topic,) = client.ask(asking((b"?" * 16, [0]))).topics
    assert (topic.topic_id, topic.error_code, topic.partitions) == (b"?" * 16, Code.UNKNOWN_TOPIC_ID, [])
    assert (topic.initial_partition_count, topic.undeleted_partition_count) == (-1, -1)


def test_each_topic_and_partition_is_answered_once(cluster, client):
    answer = client.ask(asking((id_of(cluster), [1, 0, 1]), (id_of(cluster), [0])))
    assert [[row.partition_index for row in topic.partitions] for topic in answer.topics] == [[1, 0]]


def test_a_response_ends_at_its_limit(cluster, client, monkeypatch):
    """The client asks again for what it lacks."""
    cluster.expand("t", 8)
    monkeypatch.setattr(partition_leader_epochs, "EPOCHS_MAX", 5)
    request = asking((id_of(cluster), range(8)), (id_of(cluster, "plain"), [0]))
    (topic,) = client.ask(request).topics
    assert [row.partition_index for row in topic.partitions] == [0, 1, 2, 3, 4]


def test_a_broker_answers_from_its_own_metadata(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("t", 1, 1, CONFIGS)
    cluster.cut(2)
    cluster.expand("t", 2)
    assert ask(cluster, client_of(cluster, 1), 1).undeleted_partition_count == 2
    old = ask(cluster, client_of(cluster, 2), 0, 1)
    assert old.undeleted_partition_count == 1
    assert [row.error_code for row in old.partitions] == [0, Code.UNKNOWN_TOPIC_OR_PARTITION]
