"""ListOffsets: lookups by timestamp, both ends of a log, and the limits of a new leader."""

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer_testing.broker.api.list_offsets import API

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
TP = TopicPartition("t", 0)
VERSIONS = range(API.lowest, API.highest + 1)


def look(timestamp, topic="t", partition=0, epoch=-1, replica=-1, isolation=0):
    row = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=replica, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )


def told(answer):
    (topic,) = answer.topics
    (row,) = topic.partitions
    return row.error_code, row.offset, row.timestamp, row.leader_epoch


def dated(*times):
    return [NewRecord(b"x", timestamp=time) for time in times]


@pytest.fixture
def cluster(new_cluster):
    made = new_cluster(1)
    made.create_topic("t", 2, configs={"retention.ms": "-1"})
    made.produce("t", dated(1000, 3000, 2000))
    made.produce("t", dated(2500, 3000))
    return made


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "answer"),
    [
        (MAX_TIMESTAMP, 7, (0, 1, 3000, 0)),
        (EARLIEST_LOCAL, 8, (0, 0, -1, 0)),
        (LATEST_TIERED, 9, (0, -1, -1, -1)),
        (PENDING, 11, (0, -1, -1, -1)),
        (-7, 99, None),
        (-(2**63), 99, None),
    ],
)
def test_special_timestamps_have_minimum_versions(client, version, timestamp, since, answer):
    expected = answer if version >= since else (Code.UNSUPPORTED_VERSION, -1, -1, -1)
    assert told(client.ask(look(timestamp), version)) == expected


def test_read_committed_ends_at_the_last_stable_offset(cluster, client):
    cluster.produce("t", dated(5000), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert told(client.ask(look(LATEST)))[1] == 6
    assert told(client.ask(look(LATEST, isolation=1)))[1] == 5
    # Lookups by timestamp do not return uncommitted records either.
    assert told(client.ask(look(5000)))[1] == 5
    assert told(client.ask(look(5000, isolation=1)))[1] == -1
    assert told(client.ask(look(MAX_TIMESTAMP, isolation=1)))[1] == -1


def behind(new_cluster):
    """A cluster with a new leader that has a lower high watermark than its predecessor had."""
    cluster = new_cluster(2, replication_s=0.1)
    cluster.create_topic("t", 1, 2, {"retention.ms": "-1"})
    cluster.advance(1.0)
    old = cluster.leader(TP).node.node_id
    cluster.produce("t", dated(1000))
    cluster.advance(1.15)  # the follower has the batch, but not the new high watermark
    cluster.kill(old, noticed_after_s=0)
    new = cluster.leader(TP)
    new.high_watermark = new.log.high_watermark = 0
    new.epoch_start = 1
    return cluster, new.node.node_id


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, Code.LEADER_NOT_AVAILABLE), (5, Code.OFFSET_NOT_AVAILABLE), (11, Code.OFFSET_NOT_AVAILABLE)],
)
def test_new_leader_never_returns_an_earlier_end_offset(new_cluster, client_of, version, code):
    cluster, leader = behind(new_cluster)
    client = client_of(cluster, leader)
    assert told(client.ask(look(LATEST), version))[0] == code
    assert told(client.ask(look(1000), version))[0] == code
    assert told(client.ask(look(EARLIEST), version))[:2] == (0, 0)
    # Followers see all records; their fetches advance the high watermark.
    assert told(client.ask(look(LATEST, replica=2), version))[:2] == (0, 1)


def test_only_the_leader_answers_unless_any_replica_is_requested(new_cluster, client_of):
    cluster = new_cluster(3)
    cluster.create_topic("t", 1, 2)
    cluster.produce("t", [b"x"])
    row = cluster.controller.image.topics["t"].partitions[0]
    follower = next(n for n in row.replicas if n != row.leader)
    stranger = next(n for n in (1, 2, 3) if n not in row.replicas)
    for node, anybody in ((follower, 0), (stranger, Code.NOT_LEADER_OR_FOLLOWER)):
        client = client_of(cluster, node)
        assert told(client.ask(look(LATEST)))[0] == Code.NOT_LEADER_OR_FOLLOWER
        assert told(client.ask(look(LATEST, replica=-2)))[0] == anybody
