"""``groups delete-offsets`` beside Kafka's own tool: each deletes offsets of a group of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from proving.tools import KafkaTools, kafka_tools
from realkafka.admin import Administration
from realkafka.jars import NoJars

from thinconsumer import Consumer, TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.cli import main
from thinconsumer.sockets.secured import open_driver

NUMBERS = itertools.count(1)
TOOL = "consumer.group.ConsumerGroupCommand"


class World(NamedTuple):
    """A cluster with a topic "a" of two partitions, "b" of one, and Kafka's tools."""

    servers: str
    tools: KafkaTools
    a: str
    b: str

    @property
    def tps(self) -> list[TopicPartition]:
        return [TopicPartition(self.a, 0), TopicPartition(self.a, 1), TopicPartition(self.b, 0)]

    def new_group(self) -> str:
        """Return a group without members that has committed an offset in each partition."""
        name = f"delete-offsets-{os.getpid()}-{next(NUMBERS)}"
        with Consumer(bootstrap_servers=self.servers, group_id=name, enable_auto_commit=False) as consumer:
            consumer.commit(dict.fromkeys(self.tps, 0))
        return name

    def theirs(self, group: str, *topics: str) -> str:
        names = [word for topic in topics for word in ("--topic", topic.format(a=self.a, b=self.b))]
        return self.tools(TOOL, "--delete-offsets", "--group", group, *names)

    def ours(self, group: str, *words: str) -> int:
        formatted = (word.format(a=self.a, b=self.b) for word in words)
        return main(["groups", "delete-offsets", group, *formatted, "--bootstrap-server", self.servers])

    def left(self, group: str) -> list[bool]:
        """Return for each partition whether the group has a committed offset."""
        options = ClientOptions.from_options(bootstrap_servers=self.servers)
        with Admin(options, driver=open_driver(options)) as admin:
            found = admin.list_group_offsets([group])[group]
        assert isinstance(found, dict)
        return [tp in found for tp in self.tps]


@pytest.fixture(scope="module")
def world(kafka: Administration) -> Iterator[World]:
    a, b = (f"delete-offsets-{name}-{os.getpid()}" for name in "ab")
    kafka.create_topic(a, 2)
    kafka.create_topic(b, 1)
    try:
        with kafka_tools(kafka.bootstrap) as tools:
            yield World(kafka.bootstrap, tools, a, b)
    except NoJars as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("topics", "left"),
    [(["{a}"], [False, False, True]), (["{a}:1"], [True, False, True]), (["{a}:0,1", "{b}"], [False, False, False])],
)
def test_both_tools_delete_the_same_offsets(world: World, topics: list[str], left: list[bool]) -> None:
    ours, theirs = world.new_group(), world.new_group()
    assert world.ours(ours, *topics) == 0
    assert world.left(ours) == [True, True, True]  # a dry run
    for _ in range(2):  # a partition without a committed offset is no error
        assert world.ours(ours, *topics, "--execute") == 0
        assert "Request succeed" in world.theirs(theirs, *topics)
        assert world.left(ours) == world.left(theirs) == left


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_keep_the_offsets_of_a_topic_with_a_reader(
    world: World, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = world.new_group(), world.new_group()
    for group in (ours, theirs):
        options = {"bootstrap_servers": world.servers, "group_id": group, "enable_auto_commit": False}
        with Consumer(world.b, **options, group_protocol=protocol) as consumer:
            while not consumer.assignment():
                consumer.poll(500)
            if group is ours:
                assert world.ours(ours, "{b}", "--execute") == 1
                assert f"{ours} reads {world.b}" in capsys.readouterr().err
                assert world.ours(ours, "{a}:0", "{b}", "--execute") == 1
                assert world.left(ours) == [True, True, True]  # all or nothing
                assert world.ours(ours, "{a}:0", "--execute") == 0
            else:
                assert "partition-level error" in world.theirs(theirs, "{a}:0", "{b}")
            assert world.left(group) == [False, True, True]


def test_both_name_a_missing_group_or_partition(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in world.theirs("missing", "{a}")
    assert world.ours("missing", "{a}", "--execute") == 1
    assert "missing not found" in capsys.readouterr().err
    ours, theirs = world.new_group(), world.new_group()
    assert "partition-level error" in world.theirs(theirs, "{a}:0,7")
    assert world.ours(ours, "{a}:0,7", "--execute") == 1
    assert (world.left(ours), world.left(theirs)) == ([True, True, True], [False, True, True])
