"""``groups reset`` beside Kafka's own tool: each moves the offsets of a group of its own, from the same commits."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from proving.tools import KafkaTools, kafka_tools
from realkafka.admin import Administration
from realkafka.jars import NoJars
from realkafka.produce import New, with_confluent

from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.cli import main
from thinconsumer.sockets.secured import open_driver

NUMBERS = itertools.count(1)
TOOL = "consumer.group.ConsumerGroupCommand"
HOUR_MS = 3_600_000
NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z
NEITHER_FIRST_NOR_END = "2023-11-15T17:30:00.000"


class World(NamedTuple):
    """A cluster with two topics, and Kafka's tools.

    Of "a", partition 0 has offsets 3 to 10, one record an hour from noon on; partition 1 has 0 to 5, whose records are
    five hours to one hour old; partition 2 has none. "b" has two records of today in its only partition.
    """

    servers: str
    tools: KafkaTools
    a: str
    b: str

    def new_group(self, *, is_known: bool = True) -> str:
        """Return a group of no members that has committed 5 and 2 in "a", nothing in its empty partition, 1 in "b"."""
        name = f"reset-{os.getpid()}-{next(NUMBERS)}"
        if is_known:
            with Consumer(bootstrap_servers=self.servers, group_id=name, enable_auto_commit=False) as consumer:
                commits = {TopicPartition(self.a, 0): OffsetAndMetadata(5, "kept?", 0), TopicPartition(self.a, 1): 2}
                consumer.commit({**commits, TopicPartition(self.b, 0): 1})
        return name

    def words(self, words: str, **files: object) -> list[str]:
        return [word.format(a=self.a, b=self.b, **files) for word in words.split()]

    def theirs(self, group: str, words: list[str], *, fails: bool = False) -> str:
        return self.tools(TOOL, "--reset-offsets", "--group", group, *words, fails=fails)

    def ours(self, group: str, words: list[str]) -> int:
        return main(["groups", "reset", group, *words, "--bootstrap-server", self.servers])

    def committed(self, group: str) -> dict[TopicPartition, Any]:
        options = ClientOptions.from_options(bootstrap_servers=self.servers)
        with Admin(options, driver=open_driver(options)) as admin:
            found = admin.list_group_offsets([group])[group]
        assert isinstance(found, dict)
        return found

    def offsets(self, group: str) -> tuple[int | None, ...]:
        found = self.committed(group)
        tps = [*(TopicPartition(self.a, number) for number in range(3)), TopicPartition(self.b, 0)]
        return tuple(found[tp].offset if tp in found else None for tp in tps)


@pytest.fixture(scope="module")
def world(kafka: Administration) -> Iterator[World]:
    a, b = (f"reset-{name}-{os.getpid()}" for name in "ab")
    kafka.create_topic(a, 3, config={"retention.ms": -1})
    kafka.create_topic(b, 1)
    now = int(time.time() * 1000)
    old = [New(b"old", timestamp=NOON + number * HOUR_MS) for number in range(10)]
    recent = [New(b"recent", timestamp=now - hours * HOUR_MS, partition=1) for hours in (5, 4, 3, 2, 1)]
    with_confluent(kafka.bootstrap, a, [*old, *recent])
    with_confluent(kafka.bootstrap, b, [New(b"today")] * 2)
    kafka.delete_records(a, 0, 3)
    try:
        with kafka_tools(kafka.bootstrap) as tools:
            yield World(kafka.bootstrap, tools, a, b)
    except NoJars as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("--to-earliest --topic {a}", (3, 0, 0, 1)),
        ("--to-latest --topic {a}", (10, 5, 0, 1)),
        ("--to-latest --all-topics", (10, 5, None, 2)),
        ("--to-latest --topic {a}:1,2 --topic {b}", (5, 5, 0, 2)),
        ("--to-current --topic {a}", (5, 2, 0, 1)),
        ("--to-offset 4 --topic {a}:0,1", (4, 4, None, 1)),
        ("--to-offset 100 --topic {a}", (10, 5, 0, 1)),
        ("--to-offset 1 --topic {a}:0,1", (3, 1, None, 1)),
        ("--shift-by 1 --all-topics", (6, 3, None, 2)),
        ("--shift-by -1 --topic {a}:0,1", (4, 1, None, 1)),
        ("--shift-by 100 --topic {a}:0", (10, 2, None, 1)),
        ("--shift-by -100 --topic {a}:0 --topic {b}", (3, 2, None, 0)),
        ("--to-datetime {time}Z --topic {a}", (6, 0, 0, 1)),
        ("--to-datetime {time}+02:00 --topic {a}:0", (4, 2, None, 1)),
        ("--to-datetime 2023-11-15T15:00:00.000Z --topic {a}:0", (3, 2, None, 1)),
        ("--to-datetime 2001-01-01T00:00:00.000Z --topic {a}", (3, 0, 0, 1)),
        ("--to-datetime 2100-01-01T00:00:00.000Z --topic {a}", (10, 5, 0, 1)),
        ("--by-duration PT2H30M --topic {a}", (10, 3, 0, 1)),
        ("--by-duration P2000D --topic {a}:0,1", (3, 0, None, 1)),
        ("--by-duration PT0S --topic {a}:1", (5, 5, None, 1)),
    ],
)
def test_both_tools_commit_the_same_offsets(world: World, words: str, new: tuple[int | None, ...]) -> None:
    ours, theirs, chosen = world.new_group(), world.new_group(), world.words(words, time=NEITHER_FIRST_NOR_END)
    assert world.ours(ours, chosen) == 0
    assert world.committed(ours) == world.committed(theirs)  # a dry run
    world.theirs(theirs, [*chosen, "--execute"])
    assert world.ours(ours, [*chosen, "--execute"]) == 0
    assert world.offsets(theirs) == new
    assert world.committed(ours) == world.committed(theirs)  # with the same metadata and leader epochs, too


def test_a_time_without_a_zone_is_utc_there_and_local_time_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = world.new_group(), world.new_group()
    words = world.words("--to-datetime {time} --topic {a}:0 --execute", time=NEITHER_FIRST_NOR_END)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert world.ours(ours, words) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    world.theirs(theirs, words)
    assert (world.offsets(ours)[0], world.offsets(theirs)[0]) == (5, 6)


def test_files_with_offsets_are_exchanged(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both tools print the same lines, and each reads those of the other. Lines may name the group."""
    ours, theirs = world.new_group(), world.new_group()
    words = world.words("--shift-by 2 --all-topics --export")
    capsys.readouterr()
    assert world.ours(ours, words) == 0
    mine, his = capsys.readouterr().out, world.theirs(theirs, [*words, "--dry-run"])
    assert sorted(mine.split()) == sorted(line.replace('"', "") for line in his.split())
    (tmp_path / "mine").write_text(mine)
    (tmp_path / "his").write_text(his.strip())
    world.theirs(theirs, ["--from-file", str(tmp_path / "mine"), "--execute"])
    assert world.ours(ours, ["--from-file", str(tmp_path / "his"), "--execute"]) == 0
    assert world.offsets(ours) == world.offsets(theirs) == (7, 4, None, 2)
    (tmp_path / "other").write_text(f"other,{world.a},0,5\n")
    assert "No reset plan" in world.theirs(theirs, ["--from-file", str(tmp_path / "other"), "--execute"])
    assert world.ours(ours, ["--from-file", str(tmp_path / "other"), "--execute"]) == 1
    for group, run in ((ours, world.ours), (theirs, world.theirs)):
        (tmp_path / "both").write_text(f"{group},{world.a},0,99\n{group},{world.b},0,0\nother,{world.a},1,0\n")
        run(group, ["--from-file", str(tmp_path / "both"), "--execute"])
    assert world.offsets(ours) == world.offsets(theirs) == (10, 4, None, 0)


def test_a_group_that_does_not_exist_is_created(world: World) -> None:
    ours, theirs = world.new_group(is_known=False), world.new_group(is_known=False)
    words = world.words("--to-latest --topic {a}:1 --execute")
    world.theirs(theirs, words)
    assert world.ours(ours, words) == 0
    assert world.committed(ours) == world.committed(theirs)
    assert world.offsets(ours) == (None, 5, None, None)


def test_both_refuse_to_shift_what_is_not_committed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs, words = world.new_group(), world.new_group(), world.words("--shift-by 1 --topic {a} --execute")
    before = world.offsets(ours)
    world.theirs(theirs, words, fails=True)
    assert world.ours(ours, words) == 1
    assert f"{world.a}-2 has no committed offset" in capsys.readouterr().err
    assert world.offsets(ours) == world.offsets(theirs) == before


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_refuse_a_group_with_members(world: World, protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    group, words = world.new_group(), world.words("--to-earliest --all-topics --execute")
    before = world.offsets(group)
    options: dict[str, Any] = {"group_protocol": protocol, "client_id": "till", "enable_auto_commit": False}
    with Consumer(world.b, bootstrap_servers=world.servers, group_id=group, **options) as consumer:
        while not consumer.assignment():
            consumer.poll(500)
        assert "can only be reset if the group" in world.theirs(group, words)
        assert world.ours(group, words) == 1
        assert "with members (till at /127.0.0.1)" in capsys.readouterr().err
        assert world.offsets(group) == before
    assert world.ours(group, words) == 0
    assert world.offsets(group) == (3, 0, None, 0)
