"""When topics and partitions count as new or deleted: that decides on first positions and on a pattern's matches."""

import random
from typing import Any

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import Answer
from thinconsumer.metadata import Metadata
from thinconsumer.types import TopicPartition
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A, ID_B = b"A" * 16, b"B" * 16
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topic(name: str = "t", partitions: int = 1, **more: Any) -> MetadataResponseTopic:
    """Return a topic of an answer; one with an error has no partitions."""
    more.setdefault("topic_id", ID_A)
    found = [
        MetadataResponsePartition(partition_index=n, leader_id=1, leader_epoch=5)
        for n in range(0 if more.get("error_code") else partitions)
    ]
    return MetadataResponseTopic(name=name, partitions=found, **more)


class World:
    """Metadata with responses made by the test."""

    def __init__(self) -> None:
        self.metadata = Metadata(ConsumerConfig.from_options(), random.Random(1))
        self.now = 100.0

    def answer(self, *topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2, 3)) -> None:
        self.metadata.request_update("test")
        self.now = max(self.now, self.metadata.wake_at(self.now))
        (request,) = self.metadata.step(self.now)
        request.build(12)
        brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092) for n in nodes]
        self.metadata.handle(Answer(request, 1, 12, MetadataResponse(brokers=brokers, topics=list(topics))), self.now)

    def know(self, *topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2, 3)) -> None:
        self.metadata.want([t.name for t in topics if t.name])
        self.answer(*topics, nodes=nodes)


@pytest.fixture
def world():
    """Return a world with default options."""
    return World()


def test_a_partition_new_since_its_topic_was_first_seen_is_told_as_new(world):
    world.know(topic())
    assert not world.metadata.is_new_partition(T0)
    world.know(topic(partitions=2))
    assert world.metadata.is_new_partition(T1) and not world.metadata.is_new_partition(T0)
    world.know(topic(partitions=2, topic_id=ID_B))
    assert world.metadata.is_new_partition(T0), "a topic that is created again is younger than our last look"


def test_a_topic_that_was_not_there_before_is_new_altogether(world):
    """Else auto_offset_reset=latest would skip what was written between its creation and our noticing it."""
    world.know(topic(error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID))
    world.know(topic())
    assert world.metadata.is_new_partition(T0)


@pytest.mark.parametrize("hiccup", ["unknown", "creating"])
def test_a_hiccup_does_not_make_old_partitions_new(world, hiccup):
    """Otherwise auto_offset_reset=latest would read a whole old partition from its beginning."""
    code = Code.UNKNOWN_TOPIC_OR_PARTITION if hiccup == "unknown" else Code.LEADER_NOT_AVAILABLE
    nodes = () if hiccup == "unknown" else (1, 2, 3)  # a broker that has just started has no metadata at all
    world.know(topic(error_code=code, topic_id=ZERO_UUID), nodes=nodes)
    world.know(topic())
    assert not world.metadata.is_new_partition(T0)
    world.know(topic(error_code=code))
    world.know(topic())
    assert not world.metadata.is_new_partition(T0)


def test_a_list_of_everything_tells_that_a_topic_is_gone_although_it_is_wanted(world):
    """A pattern wants the known topics: if it kept wanted topics known, a deleted one would never be forgotten."""
    world.metadata.want([], everything=True)
    world.answer(topic("a"), topic("b", topic_id=ID_B))
    world.metadata.want(["a", "b"], everything=True)
    world.answer(topic("b", topic_id=ID_B))
    assert {name for name, known in world.metadata.topics.items() if known.partitions} == {"b"}
