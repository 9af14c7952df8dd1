"""DeleteTopics by name and by id; topics named twice are not deleted."""

import pytest

from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.topics import DeleteTopicsRequest, DeleteTopicState
from thinconsumer_testing.broker.api.delete_topics import API


def by_name(*names, version=6):
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    return by_state(*((name, ZERO_UUID) for name in names))


def by_state(*states):
    topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1000)


def told(answer):
    return sorted((one.name or "", one.error_code) for one in answer.responses)


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_topic_is_deleted_in_every_version(new_cluster, client_of, version):
    cluster = new_cluster(2, {"t": 2, "u": 1})
    topic_id = cluster.controller.image.topics["t"].topic_id
    (row,) = client_of(cluster, 2).ask(by_name("t", version=version), version).responses
    assert (row.name, row.error_code, row.error_message) == ("t", 0, None)
    assert row.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert list(cluster.controller.image.topics) == ["u"]
    again = cluster.create_topic("t")
    assert again.topic_id != topic_id
    assert cluster.produce("t", [b"y"]) == 0
    if version >= 6:
        assert told(client_of(cluster, 1).ask(by_state((None, again.topic_id)))) == [("t", 0)]
    else:
        cluster.delete_topic("t")
    assert not [tp for node in cluster.nodes.values() for tp in node.partitions if tp.topic == "t"]


def test_unknown_topics_are_rejected(new_cluster, client_of):
    client = client_of(new_cluster(), 1)
    assert told(client.ask(by_name("none", "a/b", ""))) == [
        ("", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (row,) = client.ask(by_state((None, b"?" * 16))).responses
    assert (row.name, row.topic_id, row.error_code) == (None, b"?" * 16, Code.UNKNOWN_TOPIC_ID)


def test_topics_named_twice_are_not_deleted(new_cluster, client_of):
    cluster = new_cluster(1, {"t": 1, "u": 1})
    client = client_of(cluster, 1)
    topic_id = cluster.controller.image.topics["t"].topic_id
    for request in (
        by_name("t", "t", "t"),
        by_state((None, topic_id), (None, topic_id)),
        by_state((None, topic_id), ("t", ZERO_UUID)),
        by_state(("t", topic_id)),
    ):
        assert [row.error_code for row in client.ask(request).responses] == [Code.INVALID_REQUEST]
    assert sorted(cluster.controller.image.topics) == ["t", "u"]


def test_entries_without_name_or_id_are_rejected(new_cluster, client_of):
    client = client_of(new_cluster(), 1)
    assert [row.error_code for row in client.ask(by_state((None, ZERO_UUID))).responses] == [Code.INVALID_REQUEST]
    assert client.ask(by_state()).responses == []
