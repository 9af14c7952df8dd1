"""Routing and retries of the admin's requests: error codes, lost responses, moving controllers and coordinators."""

import pytest

from thinconsumer import TopicPartition
from thinconsumer.admin import NewTopic
from thinconsumer.broker import Delay, Disconnect, Edit, Raw, Reply, Silence
from thinconsumer.errors import (
    BrokerResponseError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
)
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_delete import OffsetDeleteRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer.wire.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
)

#: The API of each call, and the call.
CALLS = {
    "create_topics": (CreateTopicsRequest, lambda a: a.create_topics({"new": NewTopic(1)})["new"]),
    "delete_topics": (DeleteTopicsRequest, lambda a: a.delete_topics(["t"])["t"]),
    "create_partitions": (CreatePartitionsRequest, lambda a: a.create_partitions({"t": 9})["t"]),
    "describe_groups": (ConsumerGroupDescribeRequest, lambda a: a.describe_groups(["g"])["g"]),
    "describe_classic_groups": (DescribeGroupsRequest, lambda a: a.describe_groups(["g"])["g"]),
    "delete_groups": (DeleteGroupsRequest, lambda a: a.delete_groups(["g"])["g"]),
    "delete_group_offsets": (OffsetDeleteRequest, lambda a: a.delete_group_offsets("g", [TopicPartition("t", 0)])),
    "list_group_offsets": (OffsetFetchRequest, lambda a: a.list_group_offsets(["g"])["g"]),
    "list_groups": (ListGroupsRequest, lambda a: a.list_groups().errors.get(1)),
    "describe_topics": (MetadataRequest, lambda a: a.describe_topics(["t"])["t"]),
    "find_coordinator": (FindCoordinatorRequest, lambda a: a.delete_groups(["g"])["g"]),
}

#: Codes that are final for a call although they are retriable in general.
FINAL = {
    "create_topics": {Code.REQUEST_TIMED_OUT},
    "delete_topics": {Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
    "create_partitions": {Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
    "describe_topics": {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID},
}


#: Codes that are retried although they are final in general.
RETRIED = {
    "find_coordinator": {Code.UNKNOWN_SERVER_ERROR, Code.REBOOTSTRAP_REQUIRED},
    "describe_groups": {Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION},
    "list_group_offsets": {Code.UNKNOWN_MEMBER_ID, Code.STALE_MEMBER_EPOCH},
}


def refuse(w, api, code, times=1):
    about_topics = (lambda call: bool(call.request.topics)) if api is MetadataRequest else None
    w.cluster.on(api, Reply(code), times=times, where=about_topics)


def world_with_group(world, **options):
    w = world(nodes=1, topics={"t": 1}, **options)
    w.add_group("g")
    return w


@pytest.mark.once
@pytest.mark.parametrize("code", [code for code in Code if code != Code.NONE], ids=lambda code: code.name)
@pytest.mark.parametrize("name", CALLS)
def test_every_error_code_is_retried_or_returned(world, name, code):
    """One error and then success: a retriable error is not visible, a final one is the typed result."""
    api, call = CALLS[name]
    w = world_with_group(world)
    refuse(w, api, code)
    before = w.clock.now()
    found = call(w.admin)
    final = code in FINAL.get(name, ()) or not (BY_CODE[code].retriable or code in RETRIED.get(name, ()))
    if final:
        assert isinstance(found, BrokerResponseError)
        assert type(found) is BY_CODE[code].error
        assert found.code == code
    else:
        assert not isinstance(found, KafkaError)
        assert w.clock.now() - before < 1.0


@pytest.mark.parametrize("reply", [Disconnect(), Disconnect(reset=True), Raw(b"\0\0\0\4bad!")], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_a_request_without_a_response_is_sent_again(world, name, reply):
    api, call = CALLS[name]
    w = world_with_group(world)
    w.cluster.on(api, reply, times=1)
    found = call(w.admin)
    assert not isinstance(found, KafkaError)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_times_out_if_the_broker_is_silent(world, name):
    api, call = CALLS[name]
    w = world_with_group(world, default_api_timeout_ms=3000, request_timeout_ms=1000)
    w.cluster.on(api, Silence())
    before = w.clock.now()
    assert isinstance(call(w.admin), KafkaTimeoutError)
    assert w.clock.now() - before == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize("name", CALLS)
def test_retries_back_off_and_the_timeout_names_the_error(world, name):
    api, call = CALLS[name]
    code = Code.THROTTLING_QUOTA_EXCEEDED
    w = world_with_group(world, default_api_timeout_ms=20_000)
    refuse(w, api, code, times=10_000)
    found = call(w.admin)
    assert isinstance(found, KafkaTimeoutError)
    assert "THROTTLING_QUOTA_EXCEEDED" in str(found)
    assert 10 < len(w.requests(api)) < 40


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("backoff", [0, 100])
def test_retries_are_bounded_even_without_a_backoff(world, name, backoff):
    """A broker that answers at once with a retriable error would otherwise cause a busy loop."""
    api, call = CALLS[name]
    w = world_with_group(world, default_api_timeout_ms=1000, retry_backoff_ms=backoff, retry_backoff_max_ms=backoff)
    refuse(w, api, Code.THROTTLING_QUOTA_EXCEEDED, times=100_000)
    call(w.admin)
    assert len(w.requests(api)) <= 126
    assert len(w.requests(MetadataRequest)) <= 127


def test_requests_follow_the_controller(world):
    w = world(topics={"t": 1})
    w.elect_controller(1)
    w.admin.create_topics({"a": NewTopic(1)})
    w.elect_controller(3)
    assert not isinstance(w.admin.create_topics({"b": NewTopic(1)})["b"], KafkaError)
    assert [got.node_id for got in w.requests(CreateTopicsRequest)] == [1, 1, 3]


def test_a_missing_controller_is_looked_up_with_a_backoff(world):
    w = world(default_api_timeout_ms=5000)
    w.elect_controller(-1)
    found = w.admin.create_topics({"a": NewTopic(1)})["a"]
    assert isinstance(found, KafkaTimeoutError)
    assert "no controller is known" in str(found)
    assert len(w.requests(MetadataRequest)) < 60


def test_requests_follow_the_coordinator(world):
    w = world()
    w.add_group("g", 2)
    w.cluster.on("DescribeGroups", lambda call: w.add_group("g", 3) or Reply(Code.NOT_COORDINATOR), times=1)
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"
    assert [got.node_id for got in w.requests(DescribeGroupsRequest)] == [2, 3]
    assert len(w.requests(FindCoordinatorRequest)) == 2


def test_a_coordinator_that_died_is_looked_up_again(world):
    w = world()
    w.add_group("g", 2)

    def die(call):
        w.cluster.kill(2, noticed_after_s=0)
        w.add_group("g", 3)
        return Disconnect()

    w.cluster.on("DescribeGroups", die, node=2)
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"
    assert len(w.requests(FindCoordinatorRequest)) == 2


def test_a_coordinator_missing_from_metadata_is_reached_at_its_address(world):
    w = world(nodes=2)
    w.add_group("g", 2)

    def hide(call, response):
        response.brokers = [broker for broker in response.brokers if broker.node_id == 1]

    w.cluster.on("Metadata", Edit(hide))
    assert w.admin.describe_groups(["g"])["g"].group_id == "g"
    assert len(w.requests(MetadataRequest)) < 20


def test_authorization_errors_name_the_topic_or_group(world):
    w = world_with_group(world)
    api, call = CALLS["delete_topics"]
    refuse(w, api, Code.TOPIC_AUTHORIZATION_FAILED)
    assert call(w.admin).topics == ("t",)
    api, call = CALLS["describe_groups"]
    refuse(w, api, Code.GROUP_AUTHORIZATION_FAILED)
    found = call(w.admin)
    assert isinstance(found, GroupAuthorizationFailedError)
    assert found.group_id == "g"


def test_a_topic_does_not_get_the_error_of_a_group_with_its_name(world):
    w = world(topics={"t": 1})
    w.cluster.on("FindCoordinator", Reply(Code.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(w.admin.describe_groups(["orders"])["orders"], GroupAuthorizationFailedError)
    w.elect_controller(2)
    w.cluster.on("CreateTopics", Reply(Code.NOT_CONTROLLER), times=3)
    assert w.admin.create_topics({"orders": NewTopic(1)})["orders"].partitions == 1


def test_list_groups_does_not_wait_for_a_removed_broker(world):
    w = world()
    w.add_group("g1")
    w.admin.list_topics()
    w.cluster.on("ListGroups", lambda call: w.cluster.kill(3, noticed_after_s=0) or Disconnect(), node=3)
    before = w.clock.now()
    found = w.admin.list_groups()
    assert list(found.groups) == ["g1"]
    assert isinstance(found.errors[3], KafkaConnectionError)
    assert w.clock.now() - before < 5


def test_a_key_missing_from_the_response_is_retried(world):
    w = world(nodes=1)
    w.cluster.on("CreateTopics", Reply(CreateTopicsResponse()), times=1)
    assert not isinstance(w.admin.create_topics({"a": NewTopic(1)})["a"], KafkaError)
    assert len(w.requests(CreateTopicsRequest)) == 2


def test_a_response_about_another_key_is_ignored(world):
    w = world_with_group(world)
    w.cluster.on("DeleteTopics", Edit(lambda call, response: setattr(response.responses[0], "name", "other")), times=1)
    found = w.admin.delete_topics(["t"])["t"]
    assert found.code == Code.UNKNOWN_TOPIC_OR_PARTITION  # the second attempt finds what the first has done


def test_a_late_response_changes_nothing(world):
    w = world(nodes=1, topics={"t": 1}, default_api_timeout_ms=2500)
    w.cluster.on("DeleteTopics", Delay(3), times=1)
    assert isinstance(w.admin.delete_topics(["t"])["t"], KafkaTimeoutError)
    assert w.admin.delete_topics(["t"]) == {"t": None}


def test_a_call_after_an_interrupted_one_works(world):
    w = world(nodes=1, topics={"t": 1})

    def interrupt(call):
        raise KeyboardInterrupt

    w.cluster.on("DeleteTopics", interrupt, times=1)
    with pytest.raises(KeyboardInterrupt):
        w.admin.delete_topics(["t"])
    assert w.admin.list_topics().keys() == {"t"}
    assert len(w.requests(DeleteTopicsRequest)) == 1


@pytest.mark.parametrize("name", CALLS)
def test_routes_are_looked_up_without_a_backoff(world, name):
    """Brokers, controller and coordinators are looked up one after the other at once."""
    w = world_with_group(world)
    before = w.clock.now()
    assert not isinstance(CALLS[name][1](w.admin), KafkaError)
    assert w.clock.now() - before < 0.05


def test_the_deadlines_of_calls_that_are_over_do_not_pile_up(world):
    w = world_with_group(world)
    for _ in range(30):
        w.admin.describe_topics(["t"])
    assert len(w.admin._shell.engine.agenda.entries) < 15
