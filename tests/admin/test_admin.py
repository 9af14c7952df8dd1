"""The admin's public calls on a cluster in memory."""

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.admin import (
    CLASSIC,
    CONSUMER,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    MemberDescription,
    NewTopic,
)
from thinconsumer.broker import Disconnect, EntryError, Silence
from thinconsumer.errors import (
    BrokerResponseError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from thinconsumer.types import OffsetAndMetadata
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest, DescribeGroupsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.topics import CreateTopicsRequest, DeleteTopicsRequest


def test_create_topics_returns_a_result_for_each(world):
    w = world(topics={"old": 1})
    w.elect_controller(2)
    answers = w.admin.create_topics({"new": NewTopic(3), "old": NewTopic(1), "left": NewTopic()})
    assert list(answers) == ["new", "old", "left"]
    topic = w.cluster.controller.image.topics["new"]
    assert answers["new"] == CreatedTopic(topic.topic_id, 3, 3)
    assert len(topic.partitions) == 3
    assert isinstance(answers["old"], BrokerResponseError)
    assert answers["old"].code == Code.TOPIC_ALREADY_EXISTS
    assert "already exists" in str(answers["old"])
    assert answers["left"].partitions == 1
    assert [got.node_id for got in w.requests(CreateTopicsRequest)] == [2]


def test_create_topics_sends_configs_and_timeout(world):
    w = world(default_api_timeout_ms=5000)
    w.admin.create_topics({"t": NewTopic(configs={"retention.ms": "1", "x": None})})
    (request,) = [got.message for got in w.requests(CreateTopicsRequest)]
    (asked,) = request.topics
    assert (asked.num_partitions, asked.replication_factor) == (-1, -1)
    assert [(c.name, c.value) for c in asked.configs] == [("retention.ms", "1"), ("x", None)]
    assert 4000 < request.timeout_ms <= 5000


def test_delete_topics_returns_a_result_for_each(world):
    w = world(topics={"a": 1, "b": 1})
    answers = w.admin.delete_topics(["a", "nowhere"])
    assert answers["a"] is None
    assert isinstance(answers["nowhere"], UnknownTopicOrPartitionError)
    assert w.topic_names() == ["b"]
    assert len(w.requests(DeleteTopicsRequest)) == 1


@pytest.mark.parametrize("version", [1, 3, 5, 6])
def test_delete_topics_in_old_and_new_versions(world, version):
    w = world(topics={"a": 1})
    w.cluster.set_versions("DeleteTopics", (1, version))
    assert w.admin.delete_topics(["a"]) == {"a": None}


def test_create_partitions_returns_a_result_for_each(world):
    w = world(topics={"a": 1, "b": 2})
    answers = w.admin.create_partitions({"a": 4, "b": 1, "nowhere": 2})
    assert answers["a"] is None
    assert answers["b"].code == Code.INVALID_PARTITIONS
    assert isinstance(answers["nowhere"], UnknownTopicOrPartitionError)


def test_list_and_describe_topics(world):
    w = world(topics={"a": 2, "b": 1})
    w.cluster.remove_leader(("a", 1))
    listed = w.admin.list_topics()
    assert set(listed) == {"a", "b"}
    described = w.admin.describe_topics(["a", "nowhere"])
    assert described["a"] == listed["a"]
    assert described["a"].topic_id == w.cluster.controller.image.topics["a"].topic_id
    assert described["a"].partitions[0].leader == 1
    assert described["a"].partitions[1].leader == -1
    assert described["a"].partitions[0].replicas == (1, 2, 3)
    assert isinstance(described["nowhere"], UnknownTopicOrPartitionError)


def test_describe_topics_does_not_create_a_topic(world):
    w = world()
    w.admin.describe_topics(["t"])
    assert not any(got.message.allow_auto_topic_creation for got in w.requests(MetadataRequest))


def test_list_groups_asks_all_brokers(world):
    w = world()
    w.add_group("g1")
    w.add_group("g2", 2)
    w.add_group("g3", 3)
    w.add_group("g4", 3)
    found = w.admin.list_groups()
    assert sorted(found.groups) == ["g1", "g2", "g3", "g4"]
    assert found.groups["g1"] == GroupListing("g1", "", "Empty", "classic")
    assert found.errors == {}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_list_groups_of_some_types(world, version):
    w = world()
    w.cluster.set_versions("ListGroups", (0, version))
    w.add_group("g1")
    w.add_group("g2", 2)
    assert sorted(w.admin.list_groups(types=[CLASSIC]).groups) == ["g1", "g2"]
    assert sorted(w.admin.list_groups(types=[CONSUMER, "Classic"]).groups) == ["g1", "g2"]
    assert w.admin.list_groups(types=[CONSUMER]) == ({}, {})


def test_describe_groups_asks_each_coordinator(world):
    w = world(topics={"t": 1})
    w.add_group("g1")
    w.add_group("g2", 2)
    w.cluster.move_coordinator("g3", 2)
    options = {"group_id": "g3", "client_id": "c", "partition_assignment_strategy": ["range"]}
    consumer = Consumer(bootstrap_servers=w.cluster.bootstrap_servers, driver=w.cluster.driver(), **options)
    consumer.subscribe(["t"])
    consumer.poll(3000)
    answers = w.admin.describe_groups(["g1", "g2", "g3", "nowhere"])
    for group in ("g1", "g2"):
        assert answers[group] == GroupDescription(group, CLASSIC, "Empty", "", "", ())
    (member,) = answers["g3"].members
    assert answers["g3"] == GroupDescription("g3", CLASSIC, "Stable", "consumer", "range", (member,))
    assigned = (TopicPartition("t", 0),)
    assert member == MemberDescription(
        member.member_id, None, "c", "/127.0.0.1", CLASSIC, subscribed_topics=("t",), assignment=assigned
    )
    assert answers["nowhere"].code == Code.GROUP_ID_NOT_FOUND
    assert "nowhere not found" in str(answers["nowhere"])
    consumer.close()


def test_a_consumer_group_is_described_listed_and_deleted(world):
    w = world(topics={"t": 2})
    options = {"group_id": "g", "group_protocol": "consumer", "group_instance_id": "i"}
    options["bootstrap_servers"] = w.cluster.bootstrap_servers
    with Consumer(driver=w.cluster.driver(), client_id="c", **options) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(3000)
        found = w.admin.describe_groups(["g"])["g"]
        (member,) = found.members
        assert found == GroupDescription(
            "g", CONSUMER, "Stable", "consumer", "uniform", (member,), found.epoch, found.epoch
        )
        assigned = (TopicPartition("t", 0), TopicPartition("t", 1))
        assert member == MemberDescription(
            member.member_id, "i", "c", "/127.0.0.1", CONSUMER, found.epoch, ("t",), None, assigned, assigned
        )
        assert w.admin.list_groups(types=[CONSUMER]).groups == {"g": GroupListing("g", "consumer", "Stable", CONSUMER)}
        assert w.admin.list_groups(types=[CLASSIC]).groups == {}
        consumer.commit({assigned[1]: 5})
        assert w.admin.list_group_offsets(["g"])["g"][assigned[1]].offset == 5
        assert w.admin.delete_groups(["g"])["g"].code == Code.NON_EMPTY_GROUP
    assert len(w.requests(ConsumerGroupDescribeRequest)) == 1
    assert not w.requests(DescribeGroupsRequest)


def test_groups_of_both_types_are_described_together(world):
    """One request for each API, and no backoff between the two."""
    w = world(nodes=1, topics={"t": 1})
    w.add_group("classic")
    options = {"group_id": "consumers", "group_protocol": "consumer", "bootstrap_servers": w.cluster.bootstrap_servers}
    with Consumer(driver=w.cluster.driver(), **options) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(3000)
        before = w.clock.now()
        answers = w.admin.describe_groups(["classic", "consumers", "none"])
        assert w.clock.now() - before < 0.1
    assert [answers[name].type for name in ("classic", "consumers")] == [CLASSIC, CONSUMER]
    assert answers["none"].code == Code.GROUP_ID_NOT_FOUND
    (first,), (second,) = w.requests(ConsumerGroupDescribeRequest), w.requests(DescribeGroupsRequest)
    assert first.message.group_ids == ["classic", "consumers", "none"]
    assert second.message.groups == ["classic", "none"]


def test_describe_groups_of_brokers_without_consumer_groups(world):
    w = world()
    w.cluster.set_versions("ConsumerGroupDescribe", None)
    w.add_group("g1")
    assert w.admin.describe_groups(["g1"])["g1"].type == CLASSIC


@pytest.mark.parametrize(("find", "fetch"), [((0, 6), (1, 10)), ((0, 3), (1, 7)), ((0, 0), (1, 2)), ((4, 4), (8, 8))])
def test_list_group_offsets_in_old_and_new_versions(world, find, fetch):
    w = world()
    w.cluster.set_versions("FindCoordinator", find)
    w.cluster.set_versions("OffsetFetch", fetch)
    w.add_group("g1", offsets={("a", 0): (5, "note"), ("b", 0): (6, None), ("b", 1): (7, "")})
    w.cluster.on("OffsetFetch", EntryError(Code.UNSTABLE_OFFSET_COMMIT, {"name": "b", "partition_index": 1}))
    w.cluster.move_coordinator("g2", 2)
    answers = w.admin.list_group_offsets(["g1", "g2"])
    epoch = 7 if fetch[1] >= 5 else -1
    unstable = answers["g1"].pop(TopicPartition("b", 1))
    assert unstable.code == Code.UNSTABLE_OFFSET_COMMIT
    assert answers == {
        "g1": {
            TopicPartition("a", 0): OffsetAndMetadata(5, "note", epoch),
            TopicPartition("b", 0): OffsetAndMetadata(6, "", epoch),
        },
        "g2": {},
    }


def test_delete_groups_returns_a_result_for_each(world):
    w = world()
    w.add_group("g1")
    w.add_group("g2", 2)
    answers = w.admin.delete_groups(["g1", "nowhere"])
    assert answers["g1"] is None
    assert answers["nowhere"].code == Code.GROUP_ID_NOT_FOUND
    assert list(w.admin.list_groups().groups) == ["g2"]


def test_calls_without_keys_send_no_request(world):
    w = world()
    assert w.admin.describe_groups([]) == {}
    assert w.admin.create_topics({}) == {}
    assert w.network.dials == []


def test_a_str_instead_of_a_list_of_names_raises(world):
    with pytest.raises(IllegalArgumentError, match="put it into a list"):
        world().admin.delete_topics("abc")


def test_a_call_returns_partial_results_at_its_timeout(world):
    w = world(default_api_timeout_ms=2500)
    w.add_group("g1")
    w.add_group("g2", 2)
    w.admin.list_topics()
    w.network.pause("kafka2", 9092)
    before = w.clock.now()
    answers = w.admin.describe_groups(["g1", "g2"])
    assert w.clock.now() - before == pytest.approx(2.5, abs=0.01)
    assert answers["g1"].group_id == "g1"
    assert isinstance(answers["g2"], KafkaTimeoutError)
    found = w.admin.list_groups()
    assert list(found.groups) == ["g1"]
    assert list(found.errors) == [2]
    assert isinstance(found.errors[2], KafkaTimeoutError)


def test_a_timeout_names_why_each_server_is_unreachable(world):
    w = world(nodes=2, default_api_timeout_ms=1000)
    for name in ("kafka1", "kafka2"):
        w.network.kill(name, 9092)
    with pytest.raises(KafkaTimeoutError, match=r"no broker reachable: kafka1:9092: .*refused.*kafka2:9092: .*refused"):
        w.admin.list_topics()
    with pytest.raises(KafkaTimeoutError, match="no broker reachable"):
        w.admin.list_groups()
    answers = w.admin.create_topics({"t": NewTopic(1)})
    assert "no broker reachable" in str(answers["t"])


def test_calls_succeed_after_an_outage(world):
    w = world(nodes=1)
    w.network.kill("kafka1", 9092)
    with pytest.raises(KafkaTimeoutError):
        w.admin.list_topics(timeout_ms=1000)
    w.cluster.listen(1)
    assert w.admin.list_topics() == {}


def test_timeout_0_returns_at_once(world):
    w = world()
    before = w.clock.now()
    with pytest.raises(KafkaTimeoutError):
        w.admin.list_topics(timeout_ms=0)
    assert w.clock.now() == before


def test_calls_on_a_closed_admin_raise(world):
    w = world()
    with w.admin as admin:
        assert admin.list_topics() == {}
    with pytest.raises(IllegalStateError, match="this admin is closed"):
        w.admin.list_topics()
    w.admin.close()


def test_an_error_after_a_lost_response_mentions_the_earlier_attempt(world):
    w = world()
    w.cluster.on("CreateTopics", Disconnect(after=True, reset=True), times=1)
    (error,) = w.admin.create_topics({"t": NewTopic(1)}).values()
    assert error.code == Code.TOPIC_ALREADY_EXISTS
    assert "an earlier attempt, whose response was lost, may have been executed" in str(error)


def test_a_request_is_sent_again_after_request_timeout_ms(world):
    w = world(request_timeout_ms=2000)
    w.cluster.on("CreateTopics", Silence(), times=1)
    before = w.clock.now()
    assert isinstance(w.admin.create_topics({"t": NewTopic(1)})["t"], CreatedTopic)
    assert 2.0 < w.clock.now() - before < 2.5
