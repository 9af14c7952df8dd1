"""DeleteTopics by name and by id; topics named twice are not deleted."""

import pytest

from thinconsumer.wire import ZERO_UUID
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
