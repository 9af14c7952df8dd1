"""CreateTopics: created topics, rejected requests, and their results."""

import pytest

from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from thinconsumer_testing.broker.api.create_topics import API
from thinconsumer_testing.broker.controller import CONTROLLER

INVALID_NAMES = ("", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "\0")


def topic(name="t", partitions=1, replicas=1, assignment=(), configs=()):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in assignment],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(*topics, **more):
    return CreateTopicsRequest(topics=list(topics), **more)


def codes(answer):
    return [one.error_code for one in answer.topics]


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_topic_is_created_in_every_version(new_cluster, client_of, version):
    cluster = new_cluster(3)
    (told,) = client_of(cluster, 2).ask(create(topic("t", 4, 2, configs=[("retention.ms", "5")])), version).topics
    made = cluster.controller.image.topics["t"]
    assert (len(made.partitions), len(made.partitions[0].replicas), made.configs) == (4, 2, {"retention.ms": "5"})
    assert (told.name, told.error_code, told.error_message) == ("t", 0, None)
    assert (told.num_partitions, told.replication_factor) == ((4, 2) if version >= 5 else (-1, -1))
    own = {c.name: c.value for c in told.configs if c.config_source == 1}
    assert own == ({"retention.ms": "5"} if version >= 5 else {})
    assert told.topic_id == (made.topic_id if version >= 7 else bytes(16))


def test_defaults(new_cluster, client_of):
    client = client_of(new_cluster(3, num_partitions=6, default_replication_factor=2), 1)
    (told,) = client.ask(create(topic("t", -1, -1))).topics
    assert (told.num_partitions, told.replication_factor) == (6, 2)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("there"), Code.TOPIC_ALREADY_EXISTS),
        (topic("there", 0, 0), Code.TOPIC_ALREADY_EXISTS),
        (topic("a_b"), Code.INVALID_TOPIC_EXCEPTION),
        *[(topic(name), Code.INVALID_TOPIC_EXCEPTION) for name in INVALID_NAMES],
        (topic("t", 0), Code.INVALID_PARTITIONS),
        (topic("t", -2), Code.INVALID_PARTITIONS),
        (topic("t", 0, 0), Code.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, -2), Code.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 3), Code.INVALID_REPLICATION_FACTOR),
        (topic("t", 20_000), Code.POLICY_VIOLATION),
        (topic("t", configs=[("nonsense", "1")]), Code.INVALID_CONFIG),
        (topic("t", 0, 0, configs=[("retention.ms", "x")]), Code.INVALID_CONFIG),
        (topic("t", configs=[("retention.ms", None)]), Code.INVALID_CONFIG),
        (topic("t", configs=[("segment.bytes", "100")]), Code.INVALID_CONFIG),
        (topic("__cluster_metadata"), Code.INVALID_REQUEST),
        (topic("t", 1, -1, [(0, [1])]), Code.INVALID_REQUEST),
        (topic("t", -1, 1, [(0, [1])]), Code.INVALID_REQUEST),
        (topic("t", -1, -1, [(1, [1])]), Code.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1]), (0, [1])]), Code.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1, 1])]), Code.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [9])]), Code.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [])]), Code.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1]), (1, [1, 2])]), Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_rejections_have_code_and_message(new_cluster, client_of, wanted, code):
    cluster = new_cluster(2, {"there": 1, "a.b": 1})
    (told,) = client_of(cluster, 1).ask(create(wanted)).topics
    assert told.error_code == code
    assert told.error_message
    assert told.error_message != BY_CODE[code].text  # it names the cause in this request
    assert (told.num_partitions, told.configs, told.topic_id) == (-1, [], bytes(16))
    assert sorted(cluster.controller.image.topics) == ["a.b", "there"]


def test_manual_assignments_are_used(new_cluster, client_of):
    cluster = new_cluster(3)
    client_of(cluster, 1).ask(create(topic("t", -1, -1, [(1, [3, 1]), (0, [2, 3])])))
    rows = cluster.controller.image.topics["t"].partitions
    assert [(row.replicas, row.leader) for row in rows] == [((2, 3), 2), ((3, 1), 3)]


@pytest.mark.parametrize("name", ["A-1_b.c", "...", "x" * 249])
def test_names_of_every_allowed_form(new_cluster, client_of, name):
    assert codes(client_of(new_cluster(), 1).ask(create(topic(name)))) == [0]


def test_request_is_retried_until_the_controller_is_reachable(new_cluster, client_of):
    cluster = new_cluster(2)
    client, gone = client_of(cluster, 1), client_of(cluster, 1)
    cluster.cut(1, CONTROLLER)
    client.send(create(topic("t")))
    gone.send(create(topic("of a client that has disconnected")))
    gone.connection.connection_lost()
    cluster.advance(5.0)
    assert client.answers() == []
    cluster.heal()
    cluster.advance(6.0)
    assert [codes(answer) for answer in client.answers()] == [[0]]
    assert set(cluster.controller.image.topics) == {"t"}
    cluster.cut(1, CONTROLLER)
    client.send(create(topic("u")))
    cluster.advance(35.9)
    assert client.answers() == []
    cluster.advance(36.1)
    assert [codes(answer) for answer in client.answers()] == [[Code.REQUEST_TIMED_OUT]]
    cluster.heal()
    cluster.advance(200.0)
    assert set(cluster.controller.image.topics) == {"t"}
