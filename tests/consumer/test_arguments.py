"""Wrong arguments are refused by the call that is given them, with what to write instead."""

import functools

import pytest
from kafka import TopicPartition as TheirTopicPartition
from kafka.consumer.fetcher import ConsumerRecord as TheirRecord

from thinconsumer import (
    Consumer,
    ConsumerRecord,
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
    OffsetAndMetadata,
    TopicPartition,
)
from thinconsumer.consumer.arguments import is_whole, offsets_to_commit, topic_partition
from thinconsumer.testing import Simulation

TP = TopicPartition("t", 0)
RECORD = ConsumerRecord("t", 0, 3, 7, -1, -1, None, None)


async def never_awaited(*given):
    raise AssertionError("awaited")


class AsyncListener:
    def on_partitions_assigned(self, assigned):
        pass

    async def on_partitions_revoked(self, revoked):
        pass


class AsyncDeserializer:
    async def deserialize(self, topic, data):
        return data


@pytest.fixture
def member():
    sim = Simulation(seed=1, brokers=1, topics={"t": 1})
    with Consumer(driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers, group_id="g") as consumer:
        yield consumer


def test_anything_of_the_shape_is_a_topic_partition():
    ours = TopicPartition("t", 1)
    assert topic_partition(ours) is ours
    assert topic_partition(("t", 1)) == topic_partition(TheirTopicPartition("t", 1)) == ours
    assert type(topic_partition(("t", 1))) is TopicPartition


@pytest.mark.parametrize(
    "wrong",
    ["t-1", ("t",), ("t", "1"), (1, "t"), None, ["t", 1], ("t", -1), ("t", 2**31), ("t", True), ("", 0), ("\ud800", 0)],
)
def test_anything_else_is_refused(wrong):
    with pytest.raises(IllegalArgumentError, match="TopicPartition"):
        topic_partition(wrong)


@pytest.mark.parametrize(
    ("value", "whole"), [(0, True), (2**63 - 1, True), (-1, False), (2**63, False), (True, False), (1.0, False)]
)
def test_offsets_are_whole_numbers_of_64_bits_and_no_bools(value, whole):
    assert is_whole(value, 0) is whole


REFUSED = {
    "subscribe(5)": (lambda c: c.subscribe(5), r"\['orders'\]"),
    "assign(5)": (lambda c: c.assign(5), "a collection of TopicPartition"),
    "assign(TopicPartition)": (lambda c: c.assign(TP), r"write \[TopicPartition"),
    "negative partition": (lambda c: c.assign([("t", -1)]), "an int from 0 on"),
    "text as partition": (lambda c: c.committed(TopicPartition("t", "0")), r"write TopicPartition\('t', 0\)"),
    "text as partition to assign": (lambda c: c.assign([TopicPartition("t", "0")]), r"write TopicPartition\('t', 0\)"),
    "bytes as topic": (lambda c: c.partitions_for_topic(b"t"), "write 't'"),
    "record as offset": (lambda c: c.commit({TP: RECORD}), r"write commit\(record\)"),
    "kafka-python's record": (lambda c: c.commit({TP: TheirRecord(*range(13))}), r"write commit\(record\)"),
    "async listener": (lambda c: c.subscribe(["t"], listener=AsyncListener()), "write a plain def"),
    "async callback": (lambda c: c.commit_async({TP: 1}, never_awaited), "write a plain def"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_says_what_to_write_instead(member, name):
    call, instead = REFUSED[name]
    with pytest.raises(IllegalArgumentError, match=instead):
        call(member)
    assert (member.assignment(), member.subscription()) == (set(), set())


@pytest.mark.parametrize("call", ["seek_to_beginning", "seek_to_end"])
def test_seeking_before_there_is_an_assignment_is_refused(member, call):
    member.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="on_partitions_assigned"):
        getattr(member, call)()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"value_deserializer": never_awaited}, "value_deserializer.* an async def"),
        ({"key_deserializer": AsyncDeserializer()}, "deserialize method is an async def"),
        ({"key_deserializer": functools.partial(never_awaited, 1)}, "an async def"),
        ({"default_offset_commit_callback": never_awaited}, "an async def"),
        ({"bootstrap_servers": ["a:1,b:2"]}, "write one list entry for each server"),
    ],
)
def test_options_of_the_wrong_shape_say_what_to_write_instead(options, says):
    with pytest.raises(KafkaConfigurationError, match=says):
        Consumer(**options)


def test_a_mapping_of_options_is_for_from_config():
    with pytest.raises(KafkaConfigurationError, match="from_config"):
        Consumer({"bootstrap.servers": "a:1"})


def test_committing_a_record_commits_the_offset_after_it():
    assert offsets_to_commit(RECORD) == {TP: OffsetAndMetadata(8, "", 3)}


@pytest.mark.parametrize("call", ["commit", "commit_async"])
@pytest.mark.parametrize(
    "value",
    [
        OffsetAndMetadata(1, "x" * 40_000),
        OffsetAndMetadata(1, "\u00e9" * 20_000),
        OffsetAndMetadata(1, "\ud800"),
        OffsetAndMetadata(1, "", 2**31),
        OffsetAndMetadata(1, "", -2),
        OffsetAndMetadata(1, "", "3"),
        OffsetAndMetadata(2**63),
        2**63,
    ],
    ids=repr,
)
def test_a_commit_that_no_request_can_carry_is_refused_and_nothing_is_queued(member, call, value):
    """Encoding failed on the connection: commits of other partitions failed with it, and no callback was called."""
    with pytest.raises(IllegalArgumentError):
        getattr(member, call)({TopicPartition("t", 1): 5, TP: value})
    assert not member._reader.managers.group.commits.queue.calls


def test_a_poll_timeout_that_looks_like_seconds_warns_once(member):
    member.subscribe(["t"])
    for harmless in (0.0, 50.0, 1, 1.23456):
        member.poll(harmless)
    with pytest.warns(UserWarning, match=r"for seconds write 1000") as caught:
        member.poll(1.0)
    assert caught[0].filename == __file__
    member.poll(0.5)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "call",
    [
        lambda consumer, huge: consumer.assign([TopicPartition("t", huge)]),
        lambda consumer, huge: consumer.seek(TP, huge),
        lambda _, huge: offsets_to_commit({TP: huge}),
        lambda _, huge: offsets_to_commit({TP: OffsetAndMetadata(1, "", huge)}),
        lambda consumer, huge: consumer.offsets_for_times({TP: huge}),
        lambda consumer, huge: consumer.offsets_for_times({TopicPartition("t", huge): -1}),
        lambda consumer, huge: consumer.poll(0, max_records=huge),
        lambda consumer, huge: consumer.poll(min(huge, -1)),
        lambda consumer, huge: consumer.close(huge),
        lambda consumer, huge: consumer.subscribe([huge]),
        lambda consumer, huge: consumer.partitions_for_topic(huge),
    ],
)
def test_numbers_that_python_does_not_write_are_refused_in_words(world, call, sign):
    """Python refuses to write more than 4,300 digits, with a ValueError of its own."""
    consumer = world().consumer()
    with pytest.raises(IllegalArgumentError):
        call(consumer, sign * 10**5000)


def test_a_timeout_may_be_longer_than_any_float(world):
    w = world()
    w.append(1)
    assert len(w.consumer().poll(10**5000)) == 1
