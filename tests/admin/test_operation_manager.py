"""Whom the admin asks, when again, and what is final: every error code at every call, lost answers, moving targets."""

from __future__ import annotations

import pytest

from thinconsumer import TopicPartition
from thinconsumer.admin import NewTopic
from thinconsumer.admin.operations import DELETE_TOPICS
from thinconsumer.broker import Delay, Disconnect, Edit, EntryError, Raw, Reply, Silence
from thinconsumer.errors import (
    BrokerResponseError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from thinconsumer.wire.create_partitions import CreatePartitionsRequest
from thinconsumer.wire.create_topics import CreateTopicsRequest, CreateTopicsResponse
from thinconsumer.wire.delete_groups import DeleteGroupsRequest
from thinconsumer.wire.delete_records import DeleteRecordsRequest
from thinconsumer.wire.delete_topics import DeleteTopicsRequest
from thinconsumer.wire.describe_groups import DescribeGroupsRequest
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.list_groups import ListGroupsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest

T0 = TopicPartition("t", 0)

#: Name: the API whose answer is spoilt, and the call.
CALLS = {
    "create_topics": (CreateTopicsRequest, lambda a: a.create_topics({"new": NewTopic(1)})["new"]),
    "delete_topics": (DeleteTopicsRequest, lambda a: a.delete_topics(["t"])["t"]),
    "create_partitions": (CreatePartitionsRequest, lambda a: a.create_partitions({"t": 9})["t"]),
    "delete_records": (DeleteRecordsRequest, lambda a: a.delete_records({T0: 0})[T0]),
    "describe_groups": (DescribeGroupsRequest, lambda a: a.describe_groups(["g"])["g"]),
    "delete_groups": (DeleteGroupsRequest, lambda a: a.delete_groups(["g"])["g"]),
    "list_group_offsets": (OffsetFetchRequest, lambda a: a.list_group_offsets(["g"])["g"]),
    "list_groups": (ListGroupsRequest, lambda a: a.list_groups().errors.get(1)),
    "describe_topics": (MetadataRequest, lambda a: a.describe_topics(["t"])["t"]),
    "find_coordinator": (FindCoordinatorRequest, lambda a: a.delete_groups(["g"])["g"]),
}

#: What is an answer to one call although another would ask again.
FINAL = {
    "create_topics": {Code.REQUEST_TIMED_OUT},
    "delete_topics": {Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
    "create_partitions": {Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
    "describe_topics": {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
}


#: Codes that pass although the general table calls them final.
PASSING = {"find_coordinator": {Code.UNKNOWN_SERVER_ERROR, Code.REBOOTSTRAP_REQUIRED}}


def spoil(w, api, code, times=1):
    """Let the brokers refuse the next ``times`` requests of an API with an error code."""
    about_topics = (lambda call: bool(call.request.topics)) if api is MetadataRequest else None
    w.cluster.on(api, Reply(code), times=times, where=about_topics)


def known_world(world, **options):
    w = world(nodes=1, topics={"t": 1}, **options)
    w.add_group("g")
    return w


@pytest.mark.parametrize("code", [code for code in Code if code != Code.NONE], ids=lambda code: code.name)
@pytest.mark.parametrize("name", CALLS)
def test_every_error_code_at_every_call_is_waited_out_or_is_the_answer(world, name, code):
    """Once spoilt and then good: a passing error is never seen, a final one is the value, and typed."""
    api, call = CALLS[name]
    w = known_world(world)
    spoil(w, api, code)
    before = w.clock.now()
    found = call(w.admin)
    final = code in FINAL.get(name, ()) or not (BY_CODE[code].retriable or code in PASSING.get(name, ()))
    if final:
        assert isinstance(found, BrokerResponseError)
        assert type(found) is BY_CODE[code].error
        assert found.code == code
    else:
        assert not isinstance(found, KafkaError)
        assert w.clock.now() - before < 1.0


@pytest.mark.parametrize("reply", [Disconnect(), Disconnect(reset=True), Raw(b"\0\0\0\4bad!")], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_a_lost_answer_at_every_call_is_asked_for_again(world, name, reply):
    api, call = CALLS[name]
    w = known_world(world)
    w.cluster.on(api, reply, times=1)
    found = call(w.admin)
    assert not isinstance(found, KafkaError)


@pytest.mark.parametrize("name", CALLS)
def test_silence_at_every_call_ends_in_time_with_a_typed_error(world, name):
    api, call = CALLS[name]
    w = known_world(world, default_api_timeout_ms=3000, request_timeout_ms=1000)
    w.cluster.on(api, Silence())
    before = w.clock.now()
    assert isinstance(call(w.admin), KafkaTimeoutError)
    assert w.clock.now() - before == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize("name", CALLS)
def test_an_error_that_never_passes_is_asked_about_ever_more_slowly(world, name):
    """And the timeout says which one it was."""
    api, call = CALLS[name]
    code = Code.THROTTLING_QUOTA_EXCEEDED
    w = known_world(world, default_api_timeout_ms=20_000)
    spoil(w, api, code, times=10_000)
    found = call(w.admin)
    assert isinstance(found, KafkaTimeoutError)
    assert "THROTTLING_QUOTA_EXCEEDED" in str(found)
    assert 10 < len(w.requests(api)) < 40


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("backoff", [0, 100])
def test_no_call_is_a_busy_loop_whatever_the_backoff(world, name, backoff):
    """A broker that answers each question at once with a passing error must not set our pace."""
    api, call = CALLS[name]
    w = known_world(world, default_api_timeout_ms=1000, retry_backoff_ms=backoff, retry_backoff_max_ms=backoff)
    spoil(w, api, Code.THROTTLING_QUOTA_EXCEEDED, times=100_000)
    call(w.admin)
    assert len(w.requests(api)) <= 126
    assert len(w.requests(MetadataRequest)) <= 127


def test_orders_follow_the_controller(world):
    w = world(topics={"t": 1})
    w.elect_controller(1)
    w.admin.create_topics({"a": 1})
    w.elect_controller(3)
    assert not isinstance(w.admin.create_topics({"b": 1})["b"], KafkaError)
    assert [got.node_id for got in w.requests(CreateTopicsRequest)] == [1, 1, 3]


def test_a_cluster_without_a_controller_is_waited_for_without_haste(world):
    w = world()
    w.elect_controller(-1)
    found = w.admin.create_topics({"a": 1}, timeout_ms=5000)["a"]
    assert isinstance(found, KafkaTimeoutError)
    assert "no controller is known" in str(found)
    assert len(w.requests(MetadataRequest)) < 60


def test_groups_follow_their_coordinator(world):
    w = world()
    w.add_group("g", 2)
    w.admin.describe_groups(["g"])
    w.add_group("g", 3)
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"
    assert [got.node_id for got in w.requests(DescribeGroupsRequest)] == [2, 2, 3]
    assert len(w.requests(FindCoordinatorRequest)) == 2


def test_a_coordinator_is_looked_up_once(world):
    w = world()
    w.add_group("g", 2)
    for _ in range(3):
        w.admin.describe_groups(["g"])
    assert len(w.requests(FindCoordinatorRequest)) == 1


def test_a_coordinator_that_died_is_looked_up_again(world):
    w = world()
    w.add_group("g", 2)
    w.admin.describe_groups(["g"])
    w.cluster.kill(2, noticed_after_s=0)
    w.add_group("g", 3)
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"


def test_a_coordinator_that_metadata_does_not_name_yet_is_waited_for(world):
    w = world(nodes=2)
    w.add_group("g", 2)

    def hide(call, response):
        response.brokers = [broker for broker in response.brokers if broker.node_id == 1]

    rule = w.cluster.on("Metadata", Edit(hide))
    w.network.call_at(w.clock.now() + 1.5, lambda: w.cluster.rules.remove(rule))
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"
    assert len(w.requests(MetadataRequest)) < 20


def test_records_follow_the_leader(world):
    w = world(topics={"t": 1})
    w.admin.delete_records({T0: 0})
    w.cluster.move_leader(T0, 2)
    assert w.admin.delete_records({T0: 0}) == {T0: 0}
    asked = [got.node_id for got in w.requests(DeleteRecordsRequest)]
    assert asked[-1] == 2
    assert len(asked) <= 4


def test_a_partition_without_a_leader_gets_one(world):
    w = world(topics={"t": 1})
    w.cluster.remove_leader(T0)
    w.network.call_at(w.clock.now() + 2, lambda: w.cluster.move_leader(T0, 3))
    assert w.admin.delete_records({T0: 0}) == {T0: 0}
    assert len(w.requests(MetadataRequest)) < 20


def test_a_topic_that_may_not_be_seen_is_an_answer(world):
    w = world(topics={"t": 1, "u": 1})
    w.cluster.on("Metadata", EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"}))
    answers = w.admin.delete_records({T0: 0, TopicPartition("u", 0): 0})
    assert isinstance(answers[T0], TopicAuthorizationFailedError)
    assert answers[T0].topics == ("t",)
    assert answers[TopicPartition("u", 0)] == 0


def test_errors_say_which_topic_and_which_group(world):
    w = known_world(world)
    api, call = CALLS["delete_topics"]
    spoil(w, api, Code.TOPIC_AUTHORIZATION_FAILED)
    assert call(w.admin).topics == ("t",)
    api, call = CALLS["describe_groups"]
    spoil(w, api, Code.GROUP_AUTHORIZATION_FAILED)
    found = call(w.admin)
    assert isinstance(found, GroupAuthorizationFailedError)
    assert found.group_id == "g"


def test_a_broker_that_leaves_the_cluster_is_not_waited_for(world):
    w = world()
    w.add_group("g1")
    w.admin.list_topics()
    w.cluster.on("ListGroups", lambda call: w.cluster.kill(3, noticed_after_s=0) or Disconnect(), node=3)
    before = w.clock.now()
    found = w.admin.list_groups()
    assert list(found.groups) == ["g1"]
    assert isinstance(found.errors[3], KafkaConnectionError)
    assert w.clock.now() - before < 5


def test_what_a_broker_leaves_out_is_asked_again(world):
    w = world(nodes=1)
    w.cluster.on("CreateTopics", Reply(CreateTopicsResponse()), times=1)
    assert not isinstance(w.admin.create_topics({"a": 1})["a"], KafkaError)
    assert len(w.requests(CreateTopicsRequest)) == 2


def test_an_answer_about_something_else_is_no_answer(world):
    w = known_world(world)
    w.cluster.on("DeleteTopics", Edit(lambda call, response: setattr(response.responses[0], "name", "other")), times=1)
    found = w.admin.delete_topics(["t"])["t"]
    assert found.code == Code.UNKNOWN_TOPIC_OR_PARTITION  # the second attempt finds what the first has done


def test_an_answer_that_comes_too_late_changes_nothing(world):
    w = world(nodes=1, topics={"t": 1})
    w.cluster.on("DeleteTopics", Delay(3), times=1)
    call = w.admin.begin(DELETE_TOPICS, {"t": None}, timeout_ms=1000)
    w.admin.poll(2000)
    assert isinstance(call.result()["t"], KafkaTimeoutError)
    w.admin.poll(5000)
    assert isinstance(call.result()["t"], KafkaTimeoutError)


def test_an_interrupted_call_is_forgotten_and_the_next_one_works(world):
    w = world(nodes=1, topics={"t": 1})

    def interrupt(call):
        raise KeyboardInterrupt

    w.cluster.on("DeleteTopics", interrupt, times=1)
    with pytest.raises(KeyboardInterrupt):
        w.admin.delete_topics(["t"])
    assert w.admin.list_topics().keys() == {"t"}
    assert len(w.requests(DeleteTopicsRequest)) == 1


@pytest.mark.parametrize("name", CALLS)
def test_whom_to_ask_is_found_out_without_waiting(world, name):
    """Brokers, controller, leaders and coordinators are asked for one after the other, with no backoff in between."""
    w = known_world(world)
    before = w.clock.now()
    assert not isinstance(CALLS[name][1](w.admin), KafkaError)
    assert w.clock.now() - before < 0.05
