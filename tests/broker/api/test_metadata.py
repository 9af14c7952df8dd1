"""Metadata: a broker's view of brokers and topics, in every version."""

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer_testing.broker.api.metadata import API

VERSIONS = range(API.lowest, API.highest + 1)


def about(*names, ids=(), create=True, **more):
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **more)


def names(answer):
    return [topic.name for topic in answer.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_is_described_in_every_version(new_cluster, client_of, version):
    cluster = new_cluster(3, {"t": 2}, racks=["a", "b", "c"])
    answer = client_of(cluster, 2).ask(about("t"), version)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    image = cluster.controller.image.topics["t"]
    told = [(p.partition_index, p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes)) for p in topic.partitions]
    assert told == [(row.partition, row.leader, row.replicas, row.isr) for row in image.partitions]
    assert topic.topic_id == (image.topic_id if version >= 10 else bytes(16))
    assert {p.leader_epoch for p in topic.partitions} == ({0} if version >= 7 else {-1})
    assert [b.rack for b in answer.brokers] == (["a", "b", "c"] if version >= 1 else [None] * 3)
    assert answer.cluster_id == (cluster.cluster_id if version >= 2 else None)
    assert answer.controller_id in ({1, 2, 3} if version >= 1 else {-1})


def test_all_topics_and_no_topics(new_cluster, client_of):
    client = client_of(new_cluster(1, {"a": 1, "b": 1}), 1)
    assert sorted(names(client.ask(MetadataRequest(topics=None)))) == ["a", "b"]
    assert names(client.ask(MetadataRequest(topics=[]))) == []
    # In version 0 an empty list requests all topics.
    assert sorted(names(client.ask(MetadataRequest(topics=[]), 0))) == ["a", "b"]
    assert API.refuse(MetadataRequest(topics=None), 13, int(Code.UNKNOWN_SERVER_ERROR)).topics == []


def test_unknown_and_invalid_names(new_cluster, client_of):
    client = client_of(new_cluster(1, {"a.b": 1}), 1)
    answer = client.ask(about("none", "a/b", "", create=False))
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("none", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", Code.INVALID_TOPIC_EXCEPTION),
        ("", Code.INVALID_TOPIC_EXCEPTION),
    ]
    for _ in range(2):
        (collides,) = client.ask(about("a_b")).topics
        assert collides.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert names(client.ask(MetadataRequest(topics=None))) == ["a.b"]


def test_auto_created_topic_is_in_the_next_response(new_cluster, client_of):
    client = client_of(new_cluster(num_partitions=3), 1)
    (first,) = client.ask(about("new")).topics
    assert (first.error_code, first.partitions) == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    (second,) = client.ask(about("new")).topics
    assert (second.error_code, second.is_internal, len(second.partitions)) == (0, False, 3)
    client.ask(about("__consumer_offsets"))
    (topic,) = client.ask(about("__consumer_offsets")).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 5)


@pytest.mark.parametrize("allowed", ["by the client", "by the broker"])
def test_auto_creation_needs_broker_and_request(new_cluster, client_of, allowed):
    client = client_of(new_cluster(auto_create_topics_enable=allowed == "by the broker"), 1)
    for _ in range(2):
        (topic,) = client.ask(about("new", create=allowed == "by the client")).topics
        assert topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_without_a_leader_and_replicas_that_are_down(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("both", 1, 2)
    cluster.create_topic("one", 2, 1)
    alone = next(row for row in cluster.controller.image.topics["one"].partitions if row.leader == 1)
    cluster.kill(1, noticed_after_s=0)
    client = client_of(cluster, 2)
    (both,) = client.ask(about("both")).topics[0].partitions
    assert (both.error_code, both.leader_id, both.leader_epoch, both.offline_replicas) == (0, 2, 1, [1])
    lost = client.ask(about("one")).topics[0].partitions[alone.partition]
    assert (lost.error_code, lost.leader_id, lost.isr_nodes) == (Code.LEADER_NOT_AVAILABLE, -1, [1])
    # Version 0 omits offline replicas and reports REPLICA_NOT_AVAILABLE.
    old = client.ask(about("both"), 0).topics[0].partitions[0]
    assert (old.error_code, old.replica_nodes) == (Code.REPLICA_NOT_AVAILABLE, [2])


def test_response_comes_from_the_brokers_own_image(new_cluster, client_of):
    cluster = new_cluster(2, {"t": 1}, metadata_lag_s=5.0)
    cluster.advance(10.0)
    cluster.create_topic("late", 1)
    assert client_of(cluster, 1).ask(about("late", create=False)).topics[0].error_code != 0
    cluster.advance(20.0)
    assert client_of(cluster, 1).ask(about("late", create=False)).topics[0].error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_counts_of_topics_with_ordered_delivery_are_tagged_fields(new_cluster, client_of, version):
    cluster = new_cluster(1, {"plain": 2})
    cluster.create_topic("t", 2, 1, {"enable.ordered.delivery": "true"})
    cluster.expand("t", 4)
    cluster.shrink("t", 3)
    described = {topic.name: topic for topic in client_of(cluster, 1).ask(about("t", "plain"), version).topics}
    counts = [
        (one.initial_partition_count, one.undeleted_partition_count) for one in map(described.get, ("t", "plain"))
    ]
    assert counts == [(2, 3) if version >= 9 else (-1, -1), (-1, -1)]
    assert len(described["t"].partitions) == 4


def test_added_partitions_have_no_leader_while_an_old_leader_may_accept_the_old_count(new_cluster, client_of):
    cluster = new_cluster(2)
    cluster.create_topic("t", 2, 1, {"enable.ordered.delivery": "true"})
    slow = cluster.controller.image.partition("t", 0).leader
    cluster.pause(slow)
    cluster.expand("t", 3)
    (topic,) = client_of(cluster, 3 - slow).ask(about("t")).topics
    assert topic.undeleted_partition_count == 3
    told = [(row.error_code, row.leader_id, row.leader_epoch) for row in topic.partitions]
    assert told[2] == (Code.LEADER_NOT_AVAILABLE, -1, -1)
