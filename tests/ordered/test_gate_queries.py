"""The gates of whole topics as offsets: what is asked, and which answers count."""

import pytest

from thinconsumer import BrokerResponseError, TopicAuthorizationFailedError, TopicPartition
from thinconsumer.broker import Edit, EntryError
from thinconsumer.consumer.bulk_queries import ask, look_up, partitions_of
from thinconsumer.ordered.gates import START
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest

KEYS = range(8)


def planner(w):
    """Return a consumer as Spark's driver uses it: nothing is assigned to it."""
    consumer = w.consumer(0, group_id=None, ordered_delivery="off")
    consumer.unsubscribe()
    return consumer


def gates_of(consumer):
    """Look up the gates of "t" as Spark's driver does: after the partitions and the log ends."""
    tps = [TopicPartition("t", number) for number in partitions_of(consumer, ["t"])["t"]]
    look_up(consumer, [dict.fromkeys(tps, -1)])
    return ask(consumer, lambda managers: managers.gate_queries().ask(["t", "no-such"]))


def test_a_topic_that_has_not_changed_has_no_gates_and_costs_no_request(world):
    w = world(2)
    assert gates_of(planner(w)) == {}
    assert w.extra_requests == [] and w.requests(OffsetForLeaderEpochRequest) == []


def test_a_child_waits_for_its_parent_and_an_heir_for_the_marked_partition(world):
    w = world(1)
    w.write(*KEYS)
    w.resize(2)
    w.write(*KEYS)
    consumer = planner(w)
    assert gates_of(consumer) == {"t": {1: [(START, {0: 8})]}}
    w.resize(1)
    w.write(*KEYS)
    assert gates_of(consumer) == {"t": {0: [(12, {0: 8, 1: 4})], 1: [(START, {0: 8})]}}
    w.cluster.delete_records(TopicPartition("t", 1), 4)
    w.remove_emptied()
    assert gates_of(consumer) == {}


def test_a_grandchild_waits_for_all_partitions_that_had_its_keys(world):
    w = world(1)
    w.write(*KEYS)
    w.resize(2)
    w.write(*KEYS)
    w.resize(4)
    assert gates_of(planner(w))["t"] == {1: [(START, {0: 8})], 2: [(START, {0: 12})], 3: [(START, {0: 8, 1: 4})]}


def test_a_query_costs_one_request_for_epochs_and_one_per_leader(world):
    w = world(1, nodes=3)
    w.resize(8)
    consumer = planner(w)
    gates_of(consumer)
    assert len(w.requests(PartitionLeaderEpochsForPartitionsRequest)) == 1
    assert len(w.requests(OffsetForLeaderEpochRequest)) <= 3
    assert len(w.requests(MetadataRequest)) <= 6
    gates_of(consumer)
    assert len(w.requests(PartitionLeaderEpochsForPartitionsRequest)) == 2, "no answer is used for a later query"


def test_epochs_of_a_broker_with_other_counts_are_asked_for_again(world):
    w = world(1)
    w.write(*KEYS)
    w.resize(2)

    def as_before(call, response):
        for topic in response.topics:
            topic.undeleted_partition_count, topic.partition_count_epoch = 1, 0

    rule = w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, Edit(as_before), times=3)
    before = w.clock.now()
    assert gates_of(planner(w)) == {"t": {1: [(START, {0: 8})]}}
    assert rule.hits == 3
    assert 0.3 < w.clock.now() - before < 5, "each request waits for the backoff"


def test_a_leader_that_has_failed_is_waited_for(world):
    w = world(1, nodes=3)
    w.write(*KEYS)
    w.resize(2)
    consumer = planner(w)
    rule = w.cluster.on("OffsetForLeaderEpoch", EntryError(Code.NOT_LEADER_OR_FOLLOWER), times=2)
    assert gates_of(consumer) == {"t": {1: [(START, {0: 8})]}}
    assert rule.hits == 2


def test_an_error_that_the_user_must_act_on_is_raised(world):
    w = world(1)
    w.resize(2)

    def denied(call, response):
        for topic in response.topics:
            topic.error_code = Code.TOPIC_AUTHORIZATION_FAILED
            topic.partitions = []

    w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, Edit(denied))
    with pytest.raises(TopicAuthorizationFailedError):
        gates_of(planner(w))


def test_a_query_after_a_failed_or_interrupted_one_succeeds(world):
    w = world(1)
    w.write(*KEYS)
    w.resize(2)
    consumer = planner(w)
    w.cluster.on(PartitionLeaderEpochsForPartitionsRequest, EntryError(Code.UNKNOWN_SERVER_ERROR), times=1)
    with pytest.raises(BrokerResponseError):
        gates_of(consumer)
    consumer._reader.managers.gate_queries().ask(["t"])
    consumer._reader.managers.engine.restart(w.clock.now())
    assert gates_of(consumer) == {"t": {1: [(START, {0: 8})]}}
