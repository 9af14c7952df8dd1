"""Fault rules: which requests they apply to, how often, their actions, and their JSON form."""

import json
from types import SimpleNamespace

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer_testing.broker.call import Api, ApiCall
from thinconsumer_testing.broker.faults import (
    Delay,
    Disconnect,
    Edit,
    EntryError,
    FaultRule,
    FaultRules,
    Pass,
    Raw,
    Reply,
    Silence,
)

ORDERS_ID = b"o" * 16


def call_of(request, node_id=1, version=4):
    node = SimpleNamespace(node_id=node_id, image=SimpleNamespace(names_by_id={ORDERS_ID: "orders"}))
    return ApiCall(node, request, version, lambda message: None)


HEARTBEAT = HeartbeatRequest(group_id="billing", generation_id=3)
FETCH = FetchRequest(
    topics=[
        FetchTopic(topic="orders", partitions=[FetchPartition(partition=0), FetchPartition(partition=1)]),
        FetchTopic(topic="clicks", partitions=[FetchPartition(partition=2)]),
    ]
)


@pytest.fixture
def rules():
    rules = FaultRules()
    rules.on = lambda *args, **limits: rules.add(FaultRule(*args, **limits))
    return rules


@pytest.mark.parametrize("api", ["Heartbeat", "HeartbeatRequest", HeartbeatRequest, None])
def test_an_api_is_given_by_its_request_class_or_kafkas_name(rules, api):
    rules.on(api, Silence())
    assert rules.action_for(call_of(HEARTBEAT)) == Silence()
    assert rules.action_for(call_of(FETCH)) == (Silence() if api is None else Pass())


@pytest.mark.parametrize(
    ("api", "action", "words"),
    [
        ("Fetsch", Silence(), "did you mean 'Fetch'"),
        (HeartbeatResponse, Silence(), "is not the request class"),
        *(("Fetch", action, "needs an action") for action in (Silence, 27, None)),
    ],
)
def test_invalid_rules_are_rejected(rules, api, action, words):
    with pytest.raises(IllegalArgumentError, match=words):
        rules.on(api, action)


def test_rule_is_removed_after_it_has_applied_times_times(rules):
    rule = rules.on("Heartbeat", Delay(1.5), times=2)
    met = [rules.action_for(call_of(request)) for request in (HEARTBEAT, FETCH, HEARTBEAT, HEARTBEAT)]
    assert met == [Delay(1.5), Pass(), Delay(1.5), Pass()]
    assert repr(rule) == "<FaultRule Heartbeat, Delay(seconds=1.5, then=Pass()), times=2; applied 2 times>"
    assert list(rules) == []


def test_oldest_rule_that_applies_decides_and_pass_hides_later_rules(rules):
    rules.on("Heartbeat", Disconnect(), node=2)
    assert rules.action_for(call_of(HEARTBEAT, node_id=2)) == Disconnect()
    rules.on("Heartbeat", Pass(), times=1)
    rules.on(None, Silence())
    rules.on("Heartbeat", Delay(1))
    assert [rules.action_for(call_of(HEARTBEAT)) for _ in range(2)] == [Pass(), Silence()]


def test_rules_are_removed_one_by_one_or_together(rules):
    first, second = rules.on("Fetch", Silence()), rules.on("Fetch", Disconnect())
    rules.remove(first)
    rules.remove(first)
    assert rules.action_for(call_of(FETCH)) == second.action
    rules.clear()
    assert rules.action_for(call_of(FETCH)) == Pass()


@pytest.mark.parametrize(
    ("request_", "where", "applies"),
    [
        (HEARTBEAT, {"group_id": "billing"}, True),
        (HEARTBEAT, {"group_id": "billing", "generation_id": 4}, False),
        (HEARTBEAT, {"groupid": "billing"}, False),
        (HEARTBEAT, {}, True),
        (HEARTBEAT, lambda call: call.request.generation_id == 3, True),
        (HEARTBEAT, lambda call: call.version == 5, False),
        (FETCH, {"topic": "orders", "partition": 1}, True),
        (FETCH, {"topic": "orders", "partition": 2}, False),  # the request has partition 2 of another topic
        (FETCH, {"topic": "clicks", "partition": 2, "max_bytes": 2**31 - 1}, True),
    ],
)
def test_where_compares_the_fields_of_one_struct_or_calls_a_function(rules, request_, where, applies):
    rules.on(None, Silence(), where=where)
    assert rules.action_for(call_of(request_)) == (Silence() if applies else Pass())


def test_topic_names_match_requests_with_topic_ids(rules):
    rules.on("Fetch", Silence(), where={"topic": "orders"})
    rules.on("OffsetCommit", Delay(1), where={"name": "orders", "partition_index": 7})
    fetch = FetchRequest(topics=[FetchTopic(topic_id=ORDERS_ID, partitions=[FetchPartition(partition=0)])])
    unknown = FetchRequest(topics=[FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(partition=0)])])
    partitions = [OffsetCommitRequestPartition(partition_index=7)]
    commit = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(topic_id=ORDERS_ID, partitions=partitions)])
    assert rules.action_for(call_of(fetch, version=13)) == Silence()
    assert rules.action_for(call_of(unknown, version=13)) == Pass()
    assert rules.action_for(call_of(commit, version=10)) == Delay(1)


def test_function_chooses_the_action_or_leaves_the_call_to_the_next_rule(rules):
    picky = rules.on(
        "Heartbeat", lambda call: Disconnect(after=True) if call.request.generation_id == 4 else None, times=1
    )
    rules.on("Heartbeat", Delay(1))
    assert rules.action_for(call_of(HEARTBEAT)) == Delay(1)
    assert picky.hits == 0
    assert rules.action_for(call_of(HeartbeatRequest(generation_id=4))) == Disconnect(after=True)
    assert picky.is_spent


def refuse(request, version, code):
    return HeartbeatResponse(error_code=code, throttle_time_ms=version)


@pytest.mark.parametrize(
    ("with_", "code"),
    [
        (Code.REBALANCE_IN_PROGRESS, 27),
        (16, 16),
        (HeartbeatResponse(error_code=25), 25),
        (lambda call: HeartbeatResponse(error_code=call.request.generation_id), 3),
    ],
)
def test_replies_are_codes_messages_or_functions(with_, code):
    api = Api(HeartbeatRequest, 0, 4, lambda call: None, refuse)
    assert Reply(with_).answer(call_of(HEARTBEAT), api).error_code == code


def test_an_edit_changes_the_response_in_place_or_replaces_it():
    response, other = HeartbeatResponse(), HeartbeatResponse(error_code=25)
    change = Edit(lambda call, response: setattr(response, "error_code", call.request.generation_id))
    assert change.edited(call_of(HEARTBEAT), response) is response
    assert response.error_code == 3
    assert Edit(lambda call, response: other).edited(call_of(HEARTBEAT), response) is other


@pytest.mark.parametrize(
    ("where", "codes"),
    [
        ({"name": "orders"}, [(29, []), (0, [0])]),
        ({"name": "orders", "partition_index": 1}, [(0, [0, 29]), (0, [0])]),
        ({"partition_index": 0}, [(0, [29, 0]), (0, [29])]),
        ({"name": "nowhere"}, [(0, [0, 0]), (0, [0])]),
    ],
)
def test_an_entry_error_empties_the_entries_that_match(where, codes):
    def topic(count, **name):
        partitions = [MetadataResponsePartition(partition_index=number, leader_id=7) for number in range(count)]
        return MetadataResponseTopic(partitions=partitions, is_internal=True, **name)

    response = MetadataResponse(topics=[topic(2, name=None, topic_id=ORDERS_ID), topic(1, name="clicks")])
    assert EntryError(29, where).edited(call_of(HEARTBEAT), response) is response
    assert [(t.error_code, [p.error_code for p in t.partitions]) for t in response.topics] == codes
    assert [t.topic_id for t in response.topics] == [ORDERS_ID, bytes(16)]
    for entry in (p for t in response.topics for p in t.partitions):
        assert entry.leader_id == (0 if entry.error_code else 7)


@pytest.mark.parametrize(
    "rule",
    [
        FaultRule("Fetch", Pass()),
        FaultRule("Fetch", Reply(Code.NOT_LEADER_OR_FOLLOWER), node=1, times=3, where={"topic": "orders"}),
        FaultRule(None, Delay(0.25)),
        FaultRule("Fetch", Delay(0.25, Silence(after=True))),
        FaultRule("Metadata", EntryError(29, {"name": "orders"})),
        FaultRule("JoinGroup", Disconnect(after=True, reset=True)),
        FaultRule("Heartbeat", Silence(after=True), times=1),
    ],
)
def test_rule_without_functions_round_trips_through_json(rule):
    told = json.dumps(rule.as_dict())
    again = FaultRule.from_dict(json.loads(told))
    assert repr(again) == repr(rule).replace(repr(Code.NOT_LEADER_OR_FOLLOWER), "6")
    assert json.dumps(again.as_dict()) == told


@pytest.mark.parametrize(
    "rule",
    [
        FaultRule("Fetch", lambda call: Pass()),
        FaultRule("Fetch", Silence(), where=lambda call: True),
        FaultRule("Heartbeat", Reply(HeartbeatResponse())),
        FaultRule("Heartbeat", Reply(lambda call: HeartbeatResponse())),
        FaultRule("Heartbeat", Delay(1, Reply(HeartbeatResponse()))),
        FaultRule("Heartbeat", Edit(lambda call, response: None)),
        FaultRule("Heartbeat", Raw(b"HTTP/1.1")),
    ],
)
def test_rule_with_functions_or_messages_cannot_be_sent(rule):
    with pytest.raises(IllegalArgumentError, match="cannot be sent to another process"):
        rule.as_dict()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"api": "Fetch"},
        {"api": "Fetch", "action": {"kind": "Explode"}},
        {"api": "Fetch", "action": {"kind": "Delay"}},
        {"api": "Fetch", "action": {"kind": "Delay", "seconds": 1, "minutes": 2}},
    ],
)
def test_invalid_rule_descriptions_are_rejected(told):
    with pytest.raises(IllegalArgumentError, match="does not describe a fault rule"):
        FaultRule.from_dict(told)
