"""The command ``consume --group``: exactly the printed records are committed, however the command ends."""

import json
import os
import signal
import time
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.broker import Reply
from thinconsumer.cli.consume import Reader
from thinconsumer.sockets import SelectorDriver
from thinconsumer.wire.error_codes import Code

pytestmark = pytest.mark.once


@pytest.fixture
def full(cluster, topic):
    for partition in range(3):
        cluster.produce(topic, [f"{partition}/{number}".encode() for number in range(10)], partition)
    return topic


@pytest.fixture
def committed(cluster):
    """Return a group's committed offsets by partition."""

    def look(group, topic):
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
            found = consumer.committed([TopicPartition(topic, number) for number in range(3)])
        return {tp.partition: offset for tp, offset in found.items() if offset is not None}

    return look


@pytest.fixture
def members(cluster):
    settings = ClientOptions.from_options(bootstrap_servers=cluster.bootstrap_servers)
    with Admin(settings, driver=SelectorDriver()) as admin:

        def look(name):
            group = admin.describe_groups([name])[name]
            return [member.member_id for member in group.members] if group.state == "Stable" else []

        yield look


class Printed(NamedTuple):
    """The only field of a record that the test needs."""

    offset: int


def lags(say, group):
    _, out, _ = say("groups", "describe", group, "--lag", "--json")
    return {row["partition"]: row["lag"] for row in map(json.loads, out.splitlines())}


def test_everything_is_read_once_and_groups_shows_no_lag(say, full):
    """A second run starts at the offsets that the first one committed."""
    code, out, err = say("consume", full, "--group", full, "--until-end")
    assert (code, err) == (0, "")
    assert sorted(out.split()) == [f"{p}/{n}" for p in range(3) for n in range(10)]
    assert lags(say, full) == {0: 0, 1: 0, 2: 0}
    _, out, _ = say("groups", "describe", full, "--json")
    assert [(row["state"], row["member"]) for row in map(json.loads, out.splitlines())] == [("Empty", None)]
    assert say("consume", full, "--group", full, "--until-end") == (0, "", "")


def test_max_limits_the_records_read_and_committed(say, full, committed):
    code, out, _ = say("consume", full, "--group", full, "--max", 17)
    first = out.split()
    assert (code, len(first)) == (0, 17)
    assert sum(committed(full, full).values()) == 17
    _, out, _ = say("consume", full, "--group", full, "--max", 13)
    assert sorted(first + out.split()) == [f"{p}/{n}" for p in range(3) for n in range(10)]


def test_from_latest_applies_without_committed_offsets(say, cluster, full):
    """The group has no committed offset at first, then one for each partition."""
    assert say("consume", full, "--group", full, "--from", "latest", "--until-end")[1] == ""
    for partition in range(3):
        cluster.produce(full, [b"first"], partition)
    say("consume", full, "--group", f"{full}-b", "--max", 1)
    _, out, _ = say("consume", full, "--group", f"{full}-b", "--until-end", "--from", "earliest")
    assert len(out.split()) == 32


def test_several_topics_and_patterns(say, cluster, full):
    cluster.create_topic(f"{full}-more", 1)
    cluster.produce(f"{full}-more", [b"more"])
    _, out, _ = say("consume", full, f"{full}-more", "--group", f"{full}-a", "--until-end")
    assert len(out.split()) == 31
    _, out, _ = say("consume", "--pattern", f"{full}-.*", "--group", f"{full}-b", "--until-end")
    assert out == "more\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{topic}", "--pattern", "a", "--group", "g"], "give either topics or --pattern"),
        (["--group", "g"], "give either topics or --pattern"),
        (["--group", "g", "--pattern", "("], "'(' is not a regular expression"),
        (["--pattern", "a"], "--pattern needs --group: add it"),
        ([], "name a topic to read"),
        (["{topic}:1", "--group", "g"], "the group assigns partitions: write {topic}"),
        (["{topic}", "--group", "g", "--from", "17"], "a group starts at its committed offsets"),
        (["{topic}", "--property", "group.id=g"], "--property group.id does not join a group"),
    ],
)
def test_contradictory_options_are_refused(fail_on_cluster, topic, words, said):
    code, err = fail_on_cluster("consume", *(word.format(topic=topic) for word in words))
    assert code == 2 and said.format(topic=topic) in err


def test_a_misspelt_topic_is_an_error_at_once(fail_on_cluster, topic):
    code, err = fail_on_cluster("consume", f"{topic}x", "--group", topic)
    assert code == 1 and f"did you mean {topic!r}?" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_member_commits_and_leaves(commands, say, cluster, full, committed, number, code):
    """All printed records are committed, and the group does not wait for a session timeout."""
    words = ("--progress", "--property", "auto.commit.interval.ms=60000")
    child = commands.start("consume", full, "--group", full, *words, "--bootstrap-server", cluster.bootstrap_servers)
    while not child.stderr.readline().startswith("30 records, "):
        pass  # printed only after the records were flushed
    child.send_signal(number)
    began = time.monotonic()
    out, err = child.communicate(timeout=50)
    assert time.monotonic() - began < 5
    assert (child.returncode, len(out.split())) == (code, 30)
    assert err.splitlines()[-1].startswith("30 records in ")
    assert committed(full, full) == {0: 10, 1: 10, 2: 10}
    assert '"state":"Empty"' in say("groups", "describe", full, "--json")[1]


@pytest.fixture
def half_read(commands, cluster, topic):
    """Return a member that has printed a part of a batch, and the pipe from which to read the rest.

    A poll returns one or two thousand records, and the pipe holds 64 kB: only a part of the third thousand can be
    printed, so that the batch with it is incomplete.
    """
    for _ in range(6):
        cluster.produce(topic, [b"x" * 1000] * 1000)
    reading, writing = os.pipe()
    words = ("consume", topic, "--group", topic, "--bootstrap-server", cluster.bootstrap_servers)
    child = commands.start(*words, stdout=writing)
    os.close(writing)
    seen = 0
    while seen < 2_500_000:  # lines have 1,001 bytes
        seen += len(os.read(reading, 100_000))
    return child, reading


def test_a_closed_pipe_commits_only_printed_batches(half_read, topic, committed):
    """The pipe closes in the middle of a batch: nothing of that batch is committed."""
    child, reading = half_read
    os.close(reading)
    _, err = child.communicate(timeout=50)
    assert (child.returncode, err) == (141, "")
    assert committed(topic, topic)[0] in (1000, 2000)


def test_ctrl_c_while_printing_commits_the_batches_before(half_read, topic, committed):
    """The pipe is full, and the positions are past records that were not printed."""
    child, reading = half_read
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=50)
    os.close(reading)
    assert (child.returncode, err) == (130, "")
    assert committed(topic, topic)[0] in (1000, 2000)


def test_two_members_share_and_the_second_continues_after_the_first(commands, cluster, full, committed, members):
    """Records arrive meanwhile; none is printed twice, since both members leave the group properly."""
    words = ("consume", full, "--group", full, "--bootstrap-server", cluster.bootstrap_servers)
    first = commands.start(*words)
    lines = [first.stdout.readline() for _ in range(30)]
    second = commands.start(*words)
    deadline = time.monotonic() + 20
    while len(members(full)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for partition in range(3):
        cluster.produce(full, [f"{partition}/10".encode()], partition)
    while sum(committed(full, full).values()) < 33:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    rest = []
    for child in (first, second):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=50)
        assert err == ""
        rest.append(out.split())
    assert all(rest)
    assert sorted([line.strip() for line in lines] + rest[0] + rest[1]) == sorted(
        f"{p}/{n}" for p in range(3) for n in range(11)
    )


def test_a_failed_last_commit_is_reported(say, cluster, full):
    """The records were printed, and the exit code is 1: they will be read again."""
    rule = cluster.on("OffsetCommit", Reply(Code.GROUP_AUTHORIZATION_FAILED))
    try:
        code, out, err = say("consume", full, "--group", full, "--until-end")
    finally:
        rule.remove()
    assert (code, len(out.split())) == (1, 30)
    assert err.startswith("error: the last printed records are not committed and will be read again: ")
    assert err.count("\n") == 1


def test_a_property_may_forbid_commits(say, full, committed):
    say("consume", full, "--group", full, "--until-end", "--property", "enable.auto.commit=false")
    assert committed(full, full) == {}


def test_lost_partitions_with_printed_records_are_named(capsys):
    """Only partitions with printed records are named."""
    one, two = TopicPartition("orders", 1), TopicPartition("orders", 2)
    polls = iter([{one: [Printed(7)]}, {}])
    member = Reader(SimpleNamespace(poll=lambda *_, **__: next(polls)))
    batches = member.batches(None, 0)
    next(batches)
    member.on_partitions_lost([one, two])
    assert capsys.readouterr().err == ""
    member.printed()
    next(batches)
    member.on_partitions_lost([one, two])
    assert "other members may read the last records of orders-1 again" in capsys.readouterr().err
    member.on_partitions_lost([one, two])
    assert capsys.readouterr().err == ""
