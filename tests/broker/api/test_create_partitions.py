"""CreatePartitions increases partition counts and rejects everything else."""

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.topics import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from thinconsumer_testing.broker.api.create_partitions import API


def grow(*topics, validate_only=False):
    rows = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if ids is None else [CreatePartitionsAssignment(broker_ids=one) for one in ids],
        )
        for name, count, ids in topics
    ]
    return CreatePartitionsRequest(topics=rows, timeout_ms=1000, validate_only=validate_only)


def test_assignments_apply_to_new_partitions(new_cluster, client_of):
    cluster = new_cluster(3)
    cluster.create_topic("t", 1, 2)
    wanted = ("t", 3, [[3, 1], [2, 3]])
    assert client_of(cluster, 1).ask(grow(wanted, validate_only=True)).results[0].error_code == 0
    assert len(cluster.controller.image.topics["t"].partitions) == 1
    client_of(cluster, 1).ask(grow(wanted))
    rows = cluster.controller.image.topics["t"].partitions
    assert [row.replicas for row in rows[1:]] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("t", 1, None), Code.INVALID_PARTITIONS),
        (("t", 2**31 - 1, None), Code.UNKNOWN_SERVER_ERROR),
        (("t", 3, [[1, 2]]), Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_requests_are_rejected(new_cluster, client_of, wanted, code):
    cluster = new_cluster(2)
    cluster.create_topic("t", 2, 1)
    (told,) = client_of(cluster, 1).ask(grow(wanted)).results
    assert told.error_code == code
    assert len(cluster.controller.image.topics["t"].partitions) == 2


def test_duplicate_topics_are_rejected(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1, "u": 1})
    answer = client_of(cluster, 1).ask(grow(("t", 2, None), ("t", 3, None), ("u", 2, None)))
    assert [(one.name, one.error_code) for one in answer.results] == [("t", Code.INVALID_REQUEST), ("u", 0)]
    assert len(cluster.controller.image.topics["t"].partitions) == 1


# -- ordered delivery (KIP-253)


@pytest.fixture
def ordered(new_cluster):
    cluster = new_cluster(2)
    cluster.create_topic("t", 2, 1, {"enable.ordered.delivery": "true"})
    cluster.expand("t", 4)
    cluster.produce("t", [b"x"], 3)
    return cluster


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_a_lower_count_marks_partitions_for_deletion(ordered, client_of, version):
    (told,) = client_of(ordered, 2).ask(grow(("t", 3, None)), version).results
    assert (told.error_code, told.error_message) == (0, None)
    topic = ordered.controller.image.topics["t"]
    assert topic.ordered.undeleted_partition_count == 3
    assert len(topic.partitions) == 4


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("t", 1, None), Code.INVALID_PARTITIONS),
        (("t", 3, None), Code.INVALID_PARTITIONS),
        (("t", 2, [[1]]), Code.INVALID_REPLICA_ASSIGNMENT),
        (("t", 4, None), Code.REASSIGNMENT_IN_PROGRESS),
        (("t", 4, [[1]]), Code.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_invalid_counts_of_ordered_topics_are_rejected(ordered, client_of, wanted, code):
    ordered.shrink("t", 3)
    (told,) = client_of(ordered, 1).ask(grow(wanted)).results
    assert told.error_code == code
    assert ordered.controller.image.topics["t"].ordered.undeleted_partition_count == 3
