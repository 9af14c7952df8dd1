"""Ready-made answers, asked directly."""

from __future__ import annotations

import pytest

from thinconsumer.testing import ScriptedCluster
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.fixture
def cluster():
    cluster = ScriptedCluster((1, 2), {"t": 2, "u": 1})
    cluster.partition("t").append_values([b"a"] * 5, timestamp=100)
    return cluster


@pytest.fixture
def client(cluster, make_stage, call):
    return call(make_stage(cluster.network), cluster.brokers[1])


def test_metadata_names_brokers_leaders_epochs_and_ids(client, cluster):
    response = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "kafka1", 9092), (2, "kafka2", 9092)]
    (topic,) = response.topics
    assert (topic.name, topic.topic_id) == ("t", cluster.topics.by_name["t"].topic_id)
    assert [(p.partition_index, p.leader_id, p.leader_epoch) for p in topic.partitions] == [(0, 1, 0), (1, 2, 0)]


@pytest.mark.parametrize(
    ("topics", "version", "names"), [(None, 12, ["t", "u"]), ([], 12, []), ([], 0, ["t", "u"]), (None, 1, ["t", "u"])]
)
def test_metadata_of_all_or_none(client, topics, version, names):
    assert [topic.name for topic in client.ask(MetadataRequest(topics=topics), version).topics] == names


def test_metadata_of_what_does_not_exist_or_is_in_error(client, cluster):
    cluster.topics.by_name["u"].error_code = 29
    cluster.partition("t", 1).elect(-1)
    asked = [MetadataRequestTopic(name="x"), MetadataRequestTopic(name=None, topic_id=b"i" * 16)]
    asked += [MetadataRequestTopic(name="u"), MetadataRequestTopic(name="t")]
    response = client.ask(MetadataRequest(topics=asked), 12)
    assert [topic.error_code for topic in response.topics] == [3, 100, 29, 0]
    assert [p.error_code for p in response.topics[3].partitions] == [0, 5]


def offsets(client, name="t", partition=0, timestamp=-1, epoch=-1, isolation=0):
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    topic = ListOffsetsTopic(name=name, partitions=[asked])
    response = client.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 7)
    (found,) = response.topics[0].partitions
    return found.error_code, found.offset


@pytest.mark.parametrize(
    ("how", "result"),
    [
        ({"timestamp": -1}, (0, 5)),
        ({"timestamp": -2}, (0, 0)),
        ({"timestamp": 50}, (0, 0)),
        ({"timestamp": 101}, (0, -1)),
        ({"timestamp": -1, "isolation": 1}, (0, 2)),
        ({"partition": 1}, (6, -1)),
        ({"partition": 9}, (3, -1)),
        ({"name": "x"}, (3, -1)),
        ({"epoch": 0}, (0, 5)),
        ({"epoch": 7}, (75, -1)),
    ],
)
def test_list_offsets(client, cluster, how, result):
    cluster.partition("t").last_stable_offset = 2
    assert offsets(client, **how) == result


def test_list_offsets_fences_old_epochs_and_forced_errors(client, cluster):
    cluster.partition("t").elect(1)
    assert offsets(client, epoch=0) == (74, -1)
    cluster.partition("t").error_code = 56
    assert offsets(client) == (56, -1)


@pytest.mark.parametrize(
    ("partition", "current", "asked", "result"),
    [(0, 1, 0, (0, 0, 5)), (0, -1, 1, (0, 1, 8)), (0, 0, 0, (74, -1, -1)), (1, 0, 0, (6, -1, -1))],
)
def test_offset_for_leader_epoch(client, cluster, partition, current, asked, result):
    cluster.partition("t").elect(1)
    cluster.partition("t").append_values([b"b"] * 3)
    question = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=asked)
    topic = OffsetForLeaderTopic(topic="t", partitions=[question])
    response = client.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 4)
    (found,) = response.topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == result
