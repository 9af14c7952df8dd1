"""Faults that last: what a poll returns and raises, what health() and lag() say, and what is logged meanwhile."""

import logging
from collections import Counter
from itertools import pairwise

import pytest

from thinconsumer import Consumer, HealthState, TopicPartition
from thinconsumer.broker import Edit, EntryError, Reply, Silence
from thinconsumer.errors import (
    CorruptRecordError,
    DeserializationError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest

#: An incremental answer has no entry that could carry an error.
OPTIONS = {"auto_offset_reset": "earliest", "enable_incremental_fetch_sessions": False}
GROUP = {"group_id": "g", "session_timeout_ms": 10_000, "max_poll_interval_ms": 10_000, "heartbeat_interval_ms": 1000}


class World:
    def __init__(self, nodes=1, **topics):
        self.cluster = MemoryCluster(nodes, topics or {"t": 1}, group_initial_rebalance_delay_ms=0)
        self.consumers = []

    def consumer(self, *topics, assign=(), **options):
        """Return a consumer; in group ``g`` if it subscribes to topics or a pattern."""
        if topics or "pattern" in options:
            options = {**GROUP, **options}
        pattern = options.pop("pattern", None)
        found = Consumer(
            driver=self.cluster.driver(len(self.consumers)),
            bootstrap_servers=self.cluster.bootstrap_servers,
            **{**OPTIONS, **options},
        )
        self.consumers.append(found)
        if assign:
            found.assign([TopicPartition(*tp) for tp in assign])
        else:
            found.subscribe(topics, pattern=pattern)
        return found

    def run(self, consumer, seconds, *, each=lambda: None):
        """Poll for so many seconds; return how many records came of each topic, and what was raised."""
        counts, errors = Counter(), []
        due = self.cluster.clock.now()
        end = due + seconds
        while (now := self.cluster.clock.now()) < end:
            if now >= due:
                due += 1
                each()
            try:
                for tp, records in consumer.poll(500).items():
                    counts[tp.topic] += len(records)
            except KafkaError as error:
                errors.append(error)
        return counts, errors


@pytest.fixture
def world():
    made = []

    def make(*args, **topics):
        made.append(World(*args, **topics))
        return made[-1]

    yield make
    for one in made:
        for consumer in one.consumers:
            consumer.close(timeout_ms=0)


@pytest.fixture
def lines(caplog):
    """Return a function: levels and messages of the package's log lines so far, at INFO and above."""
    caplog.set_level(logging.INFO, "thinconsumer")
    return lambda level=logging.WARNING: [r.getMessage() for r in caplog.records if r.levelno >= level]


# -- errors and records


def test_records_of_an_allowed_topic_flow_while_another_is_forbidden(world):
    w = world(allowed=1, forbidden=1)
    w.cluster.on(MetadataRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "forbidden"}))
    consumer = w.consumer("allowed", "forbidden")
    written = []

    def write():
        written.append(w.cluster.produce("allowed", [b"x"]))

    counts, errors = w.run(consumer, 120, each=write)
    assert len(written) - 2 <= counts["allowed"] <= len(written)
    assert {type(error) for error in errors} == {TopicAuthorizationFailedError}
    assert len(errors) == len(set(map(id, errors))), "each answer is raised once"
    assert 10 < len(errors) <= len(w.cluster.received(MetadataRequest))


def test_a_poll_after_a_raise_returns_records_in_hand(world):
    w = world(good=1, bad=1)
    w.cluster.on(FetchRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 0, "high_watermark": 0}))
    for _ in range(50):
        w.cluster.produce("good", [b"x"])
    consumer = w.consumer(assign=[("good", 0), ("bad", 0)], max_poll_records=1)
    outcomes = []
    while sum(outcomes) < 50:
        w.cluster.clock.advance(1.0)  # the error is asked about again
        try:
            outcomes.append(len(consumer.poll(0).get(("good", 0), ())))
        except TopicAuthorizationFailedError:
            outcomes.append(0)
    began = outcomes.index(1)
    assert (0, 0) not in set(pairwise(outcomes[began:])) and outcomes[began:].count(0) > 1


def test_records_come_between_the_errors_of_two_topics(world):
    w = world(a=1, b=2, t=1)
    w.cluster.produce("t", [b"x"] * 10)
    w.cluster.on(MetadataRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "a"}))
    w.cluster.on(FetchRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"partition_index": 1}))
    consumer = w.consumer(assign=[("a", 0), ("b", 1), ("t", 0)], max_poll_records=1, auto_offset_reset="earliest")
    seen = []
    while seen.count("t") < 10:
        try:
            seen += [tp.topic for tp in consumer.poll(2000)]
        except TopicAuthorizationFailedError as error:
            seen.append(error.topics[0])
    errors = [index for index, topic in enumerate(seen) if topic != "t"]
    assert {seen[index] for index in errors} == {"a", "b"}
    assert all("t" in seen[before:after] for before, after in pairwise(errors)), seen


@pytest.mark.once
@pytest.mark.parametrize(
    "code",
    [
        Code.CORRUPT_MESSAGE,
        Code.UNKNOWN_SERVER_ERROR,
        Code.KAFKA_STORAGE_ERROR,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
    ],
    ids=lambda code: code.name,
)
def test_a_partition_that_answers_the_same_error_for_ever_is_stuck_and_logged(world, lines, code):
    w = world()
    w.cluster.produce("t", [b"x"] * 3)
    w.cluster.on(FetchRequest, EntryError(code, {"partition_index": 0}))
    consumer = w.consumer(assign=[("t", 0)])
    counts, errors = w.run(consumer, 300)
    assert not counts
    if code is Code.CORRUPT_MESSAGE:
        assert isinstance(errors[0], CorruptRecordError)
        assert (errors[0].partition, errors[0].offset) == (("t", 0), 0)
    else:
        assert errors == []
    warnings = [line for line in lines() if code.name in line]
    assert "t-0" in warnings[0] and len(warnings) == 3
    health = consumer.health()
    assert health.state is HealthState.STUCK and "t-0" in health.reason and code.name in health.reason


def test_a_leader_raises_no_error_of_topics_that_only_other_members_subscribe_to(world):
    w = world(a=1, forbidden=1)
    leader = w.consumer("a")
    w.run(leader, 3)
    w.cluster.on(MetadataRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "forbidden"}))
    follower = w.consumer("a", "forbidden")
    raised = []

    def poll_follower():
        try:
            follower.poll(0)
        except TopicAuthorizationFailedError as error:
            raised.append(error)

    _, errors = w.run(leader, 30, each=poll_follower)
    assert errors == [] and raised


# -- health


def test_a_broker_that_never_answers_a_fetch_makes_the_consumer_stuck(world):
    w = world()
    w.cluster.on(FetchRequest, Silence())
    consumer = w.consumer(assign=[("t", 0)], request_timeout_ms=10_000)
    w.run(consumer, 30)
    health = consumer.health()
    assert health.state is HealthState.STUCK
    assert "t-0: broker 1 (kafka1:9092) answers no Fetch" in health.reason


@pytest.mark.once
@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"topics": ["nope"]}, "nope"),
        ({"pattern": "no.*"}, "no.*"),
        ({"assign": [("nope", 0)]}, "nope"),
        ({"assign": [("t", 7)]}, "t-7"),
    ],
)
def test_what_does_not_exist_is_named_by_a_warning_health_and_read_to_end(world, lines, choice, named):
    w = world()
    choice = dict(choice)
    consumer = w.consumer(*choice.pop("topics", ()), **choice)
    counts, errors = w.run(consumer, 3)
    health = consumer.health()
    assert (counts, errors, health.state) == ({}, [], HealthState.WORKING)
    assert named in health.reason and "check" in health.reason
    with pytest.raises(UnknownTopicOrPartitionError, match="check"):
        list(consumer.read_to_end())
    w.run(consumer, 300)
    health = consumer.health()
    assert health.state is HealthState.STUCK and named in health.reason
    assert len([line for line in lines() if named in line]) == 3


def test_a_record_that_cannot_be_deserialized_again_and_again_is_named_by_health(world):
    w = world()
    w.cluster.produce("t", [b"1", b"2", b"x", b"4"])
    consumer = w.consumer(assign=[("t", 0)], value_deserializer=int)
    errors = []
    while len(errors) < 35:
        try:
            consumer.poll(100)
        except DeserializationError as error:
            errors.append(error)
    health = consumer.health()
    assert health.state is HealthState.STUCK
    assert "t-0 stays at offset 2" in health.reason and health.last_error is errors[-1]
    consumer.skip(errors[-1])
    w.run(consumer, 3)
    assert consumer.health().state is HealthState.OK


@pytest.mark.once
def test_one_unreachable_leader_of_three_is_named_and_the_lag_behind_it_is_unknown(world):
    w = world(3, t=3)
    by_leader = {w.cluster.leader(("t", number)).node.node_id: ("t", number) for number in range(3)}
    consumer = w.consumer(assign=by_leader.values())
    for tp in by_leader.values():
        w.cluster.produce("t", [b"x"], tp[1])
    w.run(consumer, 5)
    assert consumer.health().state is HealthState.OK
    assert set(consumer.lag().values()) == {0}
    (dead, lost), *alive = by_leader.items()
    w.cluster.network.kill(f"kafka{dead}", 9092)

    def write():
        for _, tp in alive:
            w.cluster.produce("t", [b"y"], tp[1])

    w.run(consumer, 600, each=write)
    health = consumer.health()
    assert health.state is HealthState.STUCK
    assert f"t-{lost[1]}: broker {dead} (kafka{dead}:9092)" in health.reason
    lag = consumer.lag()
    assert lag[lost] is None and all(lag[tp] is not None for _, tp in alive)


# -- where new partitions start


def test_a_partition_without_an_offset_in_a_topic_with_offsets_is_new_after_a_restart(world):
    w = world()
    options = {"auto_offset_reset": "latest", "new_partition_offset_reset": "earliest"}
    first = w.consumer("t", **options)
    w.run(first, 3)
    w.cluster.produce("t", [b"x"])
    assert w.run(first, 3)[0] == {"t": 1}
    first.commit()
    first.close()
    w.cluster.expand("t", 2)
    w.cluster.produce("t", [b"y"] * 100, 1)
    counts, _ = w.run(w.consumer("t", **options), 5)
    assert counts == {"t": 100}


def test_a_group_without_any_offsets_starts_at_the_end(world):
    w = world(t=2)
    w.cluster.produce("t", [b"y"] * 100, 1)
    consumer = w.consumer("t", auto_offset_reset="latest", new_partition_offset_reset="earliest")
    assert w.run(consumer, 5)[0] == {}


# -- log lines


OUTAGES = {
    "no coordinator": (FindCoordinatorRequest, Reply(Code.COORDINATOR_NOT_AVAILABLE)),
    "joins refused": (JoinGroupRequest, Reply(Code.GROUP_AUTHORIZATION_FAILED)),
    "heartbeats refused": (HeartbeatRequest, Reply(Code.GROUP_AUTHORIZATION_FAILED)),
    "fetches fail": (FetchRequest, EntryError(Code.UNKNOWN_SERVER_ERROR, {"partition_index": 0})),
    "whole fetches fail": (FetchRequest, Reply(Code.UNKNOWN_SERVER_ERROR)),
    "offsets out of range": (FetchRequest, EntryError(Code.OFFSET_OUT_OF_RANGE, {"partition_index": 0})),
    "offsets not found": (ListOffsetsRequest, EntryError(Code.OFFSET_NOT_AVAILABLE, {"partition_index": 0})),
    "metadata refused": (MetadataRequest, EntryError(Code.TOPIC_AUTHORIZATION_FAILED, {"name": "t"})),
    "no leader": (MetadataRequest, EntryError(Code.LEADER_NOT_AVAILABLE, {"name": "t"})),
    "committed offsets refused": (OffsetFetchRequest, Reply(Code.GROUP_AUTHORIZATION_FAILED)),
    "commits refused": (OffsetCommitRequest, EntryError(Code.GROUP_AUTHORIZATION_FAILED, {"partition_index": 0})),
    "commits not replicated": (OffsetCommitRequest, EntryError(Code.NETWORK_EXCEPTION, {"partition_index": 0})),
}


@pytest.mark.once
@pytest.mark.parametrize("kind", OUTAGES)
def test_ten_minutes_of_an_outage_are_few_warnings_and_one_line_at_its_end(world, caplog, kind):
    w = world()
    api, action = OUTAGES[kind]
    consumer = w.consumer("t", metadata_max_age_ms=10_000)

    def write():
        w.cluster.produce("t", [b"x"])

    if kind in ("heartbeats refused", "fetches fail", "whole fetches fail", "offsets out of range", "commits refused"):
        w.run(consumer, 5, each=write)
    caplog.clear()
    caplog.set_level(logging.INFO, "thinconsumer")
    rule = w.cluster.on(api, action)
    w.run(consumer, 600, each=write)
    assert consumer.health().state is HealthState.STUCK, consumer.health()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert 4 <= len(warnings) <= 6, warnings
    assert all(" failed attempts in " in line for line in warnings[1:-1])
    caplog.clear()
    w.cluster.rules.remove(rule)
    w.run(consumer, 30, each=write)
    assert consumer.health().state is HealthState.OK
    assert [r for r in caplog.records if r.levelno > logging.INFO] == []
    ends = [record.getMessage() for record in caplog.records if " failed attempts" in record.getMessage()]
    assert len(ends) == 1, caplog.messages


def test_a_broker_that_returns_only_batches_below_the_position_is_reported(world):
    """Its index leads to the wrong place: the same Fetch was sent ten times a second, and health was OK."""
    w = world(t=1)
    w.cluster.produce("t", [b"x"] * 5)
    stored = []

    def answer_from_the_wrong_place(call, response):
        for topic in response.responses:
            for data in topic.partitions:
                stored.append(data.records)
                data.records = stored[0]

    w.cluster.on("Fetch", Edit(answer_from_the_wrong_place))
    consumer = w.consumer(assign=[("t", 0)])
    counts, errors = w.run(consumer, 2)
    assert counts == {"t": 5} and errors == []
    w.cluster.produce("t", [b"y"] * 65)
    before = len(w.cluster.received(FetchRequest))
    counts, errors = w.run(consumer, 20)
    assert counts == {} and 10 <= len(errors) <= 25
    assert all(isinstance(error, CorruptRecordError) and error.offset == 5 for error in errors)
    assert len(w.cluster.received(FetchRequest)) - before <= 30
    health = consumer.health()
    assert health.state is HealthState.STUCK and "below this offset" in health.reason
    consumer.skip(errors[-1])
    assert consumer.position(TopicPartition("t", 0)) == 6
