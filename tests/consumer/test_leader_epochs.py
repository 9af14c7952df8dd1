"""Leader epochs that brokers do not have: reading goes on within seconds, and the position is validated."""

import logging

import pytest

from thinconsumer import HealthState, TopicPartition
from thinconsumer.broker import Edit
from thinconsumer.errors import LogTruncationError
from thinconsumer.wire.metadata import MetadataRequest

T0 = TopicPartition("t", 0)
SOON_MS = 5000


def five_too_high(call, response):
    for topic in response.topics:
        for partition in topic.partitions:
            partition.leader_epoch += 5


@pytest.mark.parametrize("begun", [False, True])
def test_one_metadata_response_with_a_leader_epoch_that_is_too_high(world, read, offsets, begun, lines):
    w = world(2, {"t": 1})
    w.append(5)
    consumer = w.consumer(metadata_max_age_ms=1000)
    if begun:
        assert read(consumer, 5) == {0: [0, 1, 2, 3, 4]}
        seen = len(w.requests(MetadataRequest))
        w.cluster.on("Metadata", Edit(five_too_high), times=1)
        while len(w.requests(MetadataRequest)) == seen:
            assert consumer.poll(100) == {}
        w.append(5)
    else:
        w.cluster.on("Metadata", Edit(five_too_high), times=1)
    found, reasons = {}, []
    while not found and len(reasons) < SOON_MS / 100:
        found = offsets(consumer.poll(100))
        reasons.append(consumer.health().reason)
    assert found == {0: [5, 6, 7, 8, 9] if begun else [0, 1, 2, 3, 4]}
    assert begun or "UNKNOWN_LEADER_EPOCH" in reasons[10]
    assert consumer.poll(2000) == {} and consumer.health().state is HealthState.OK
    assert len([line for line in lines(logging.WARNING) if "leader epoch 5 was seen" in line]) == 1


def test_a_metadata_response_that_names_a_node_without_a_replica_with_a_leader_epoch_that_is_too_high(world, read):
    w = world(2, {})
    w.cluster.create_topic("t", 1, 1)
    w.append(5)
    consumer = w.consumer(metadata_max_age_ms=1000)
    assert read(consumer, 5) == {0: [0, 1, 2, 3, 4]}

    def name_another(call, response):
        five_too_high(call, response)
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id = 3 - partition.leader_id

    seen = len(w.requests(MetadataRequest))
    w.cluster.on("Metadata", Edit(name_another), times=1)
    while len(w.requests(MetadataRequest)) == seen:
        assert consumer.poll(100) == {}
    w.append(5)
    assert read(consumer, 5, timeout_ms=3 * SOON_MS) == {0: [5, 6, 7, 8, 9]}
    assert consumer.poll(2000) == {} and consumer.health().state is HealthState.OK


@pytest.fixture
def set_back(world, read):
    """Return a function: read ten records of epochs 0 and 6, then set the cluster back to six records and epoch 0."""

    def make(policy):
        w = world(1, {"t": 1})
        w.append(6)
        for _ in range(3):
            w.cluster.kill(1)
            w.clock.advance(20)
            w.cluster.start(1)
            w.clock.advance(20)
            w.cluster.network.run_due()
        w.append(4)
        consumer = w.consumer(auto_offset_reset=policy)
        consumer.seek(T0, 0)
        assert len(read(consumer, 10)[0]) == 10
        w.cluster.network.kill("kafka1", 9092)
        topic = w.cluster.controller.image.topics["t"]
        w.cluster.nodes[1].partitions[T0].truncate_to(6)
        rows = tuple(row._replace(leader_epoch=0) for row in topic.partitions)
        w.cluster.controller.put_topic(topic._replace(partitions=rows))
        w.cluster.listen(1)
        return w, consumer

    return make


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [0, 1, 2, 3, 4, 5, 6]), ("latest", [6])])
def test_a_position_beyond_the_end_of_a_log_that_was_set_back_is_reset(set_back, read, policy, expected):
    w, consumer = set_back(policy)
    assert consumer.poll(SOON_MS if policy == "latest" else 0) == {}
    w.append(1)
    assert read(consumer, len(expected), timeout_ms=SOON_MS) == {0: expected}


def test_a_position_inside_a_log_that_was_set_back_is_kept(set_back, read):
    w, consumer = set_back("earliest")
    w.append(6)
    assert read(consumer, 2, timeout_ms=SOON_MS) == {0: [10, 11]}


def test_without_a_policy_a_log_that_was_set_back_is_a_truncation(set_back):
    w, consumer = set_back("none")
    w.append(6)
    with pytest.raises(LogTruncationError):
        consumer.poll(SOON_MS)
    assert len(w.fetches()) < 40
