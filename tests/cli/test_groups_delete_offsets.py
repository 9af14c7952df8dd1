"""The action ``groups delete-offsets``; tests/real/test_groups_delete_offsets.py compares it with Kafka's own tool."""

import json
import os
import sys

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.admin import Admin
from thinconsumer.wire.error_codes import Code, to_error

pytestmark = pytest.mark.once


@pytest.fixture
def group(cluster, topic):
    """A group without members that has committed in two partitions."""
    name = f"deletion-of-{topic}"
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=name) as consumer:
        consumer.commit({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1})
    return name


@pytest.fixture
def committed(cluster, topic, group):
    def read():
        tps = [TopicPartition(topic, number) for number in range(2)]
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
            return [consumer.committed(tp) for tp in tps]

    return read


def test_a_dry_run_shows_the_offsets_and_changes_nothing(say, topic, group, committed):
    code, out, err = say("groups", "delete-offsets", group, f"{topic}:1,2", "--dry-run")
    assert (code, err) == (0, "nothing was changed: --execute deletes these offsets\n")
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "TOPIC", "PARTITION", "COMMITTED"],
        [group, topic, "1", "1"],
        [group, topic, "2", "-"],
    ]
    assert committed() == [2, 1]


@pytest.mark.parametrize(
    ("words", "deleted", "after"),
    [("{topic}:1", "1 offset", [2, None]), ("{topic}", "2 offsets", [None, None]), ("{topic}:2", "0 offsets", [2, 1])],
)
def test_execute_deletes_them(say, topic, group, committed, words, deleted, after):
    words = words.format(topic=topic)
    code, out, err = say("groups", "delete-offsets", group, words, f"{topic}:2", "--execute", "--json")
    assert (code, err) == (0, f"deleted {deleted} of {group}\n")
    assert all(json.loads(line)["group"] == group for line in out.splitlines())
    assert committed() == after


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_a_member_reads_is_refused(say, cluster, topic, group, committed, protocol):
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group, "client_id": "till"}
    cluster.create_topic(f"{topic}-read", 1)
    with Consumer(f"{topic}-read", **options, group_protocol=protocol, enable_auto_commit=False) as consumer:
        while not consumer.assignment():
            consumer.poll(500)
        code, _, err = say("groups", "delete-offsets", group, f"{topic}:1", f"{topic}-read", "--execute")
        assert code == 1 and f"{group} reads {topic}-read (member till at /127.0.0.1)" in err
        assert committed() == [2, 1]
        assert say("groups", "delete-offsets", group, f"{topic}:1", "--execute")[0] == 0
    assert committed() == [2, None]


def test_a_member_that_subscribes_meanwhile_keeps_its_offsets(say, monkeypatch, topic, group):
    refused = to_error(Code.GROUP_SUBSCRIBED_TO_TOPIC, api="OffsetDelete")
    monkeypatch.setattr(Admin, "delete_group_offsets", lambda self, *_: {TopicPartition(topic, 0): refused})
    code, _, err = say("groups", "delete-offsets", group, topic, "--execute")
    assert code == 1
    first, last = err.splitlines()
    assert first.startswith(f"error: {topic}-0: ") and "GROUP_SUBSCRIBED_TO_TOPIC" in first
    assert last == f"deleted 1 offset of {group}"


@pytest.mark.parametrize(
    ("group_name", "words", "said"),
    [
        ("{group}x", "{topic}", "{group}x not found"),
        ("{group}", "{topic}x", "there is no topic '{topic}x'; did you mean"),
        ("{group}", "{topic}:3", "{topic} has no partition 3"),
        ("{group}", "{topic}:", "write partitions as TOPIC:0,3-5"),
        ("{group}", "--execute", "the following arguments are required: TOPIC"),
    ],
)
def test_mistakes_are_named(fail_on_cluster, topic, group, committed, group_name, words, said):
    names = {"topic": topic, "group": group}
    code, err = fail_on_cluster("groups", "delete-offsets", group_name.format(**names), words.format(**names))
    assert code != 0 and said.format(**names) in err, err
    assert committed() == [2, 1]


def test_nothing_is_deleted_if_the_offsets_cannot_be_printed(say, monkeypatch, topic, group, committed):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as disk, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", disk)
        code, _, err = say("groups", "delete-offsets", group, topic, "--execute")
    assert code == 1 and "space" in err
    assert committed() == [2, 1]


def test_the_help_fits_narrow_terminals(say, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit) as ended:
        say("groups", "delete-offsets", "--help")
    assert ended.value.code == 0
