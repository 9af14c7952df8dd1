"""The command ``groups``, on groups of kafka-python's consumer."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as TheirPartition
from kafka.structs import OffsetAndMetadata as TheirOffset

from thinconsumer import Consumer, OffsetAndMetadata, TopicPartition
from thinconsumer.admin import CLASSIC, CONSUMER, Admin, GroupDescription, MemberDescription
from thinconsumer.cli.groups import _holds
from thinconsumer.cli.parsing import CommandError
from thinconsumer.errors import KafkaTimeoutError
from thinconsumer.workers.offset_map import OffsetMap, encode

#: kafka-python does not always close its sockets.
pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def group(cluster, topic):
    """A group without members that has committed 2 of 5 in one partition, and 3 of 3 in another."""
    cluster.produce(topic, [b"x"] * 5, 0)
    cluster.produce(topic, [b"x"] * 3, 2)
    name = f"group-of-{topic}"
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=name, enable_auto_commit=False)
    consumer.assign([TheirPartition(topic, 0), TheirPartition(topic, 2)])
    consumer.commit(
        {TheirPartition(topic, 0): TheirOffset(2, "", -1), TheirPartition(topic, 2): TheirOffset(3, "", -1)}
    )
    consumer.close()
    return name


def test_groups_are_listed_described_and_deleted(say, topic, group):
    assert {"group": group, "state": "Empty"}.items() <= next(
        row for row in rows(say("groups", "list", "--json")[1]) if row["group"] == group
    ).items()
    assert rows(say("groups", "describe", group, "--lag", "--json")[1]) == [
        {"group": group, "topic": topic, "partition": 0, "committed": 2, "end": 5, "lag": 3},
        {"group": group, "topic": topic, "partition": 2, "committed": 3, "end": 3, "lag": 0},
    ]
    assert say("groups", "delete", group) == (0, "", f"deleted {group}\n")
    assert group not in say("groups", "list")[1]


def test_what_is_finished_behind_the_committed_offset_is_shown(say, cluster, topic, group):
    progress = OffsetMap(2, 9, [4, 5], [(2, 0)], bytes(16))
    theirs = "bAAHagA="  # 7 offsets, of which the first, third and fifth are unfinished
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        topic_id = consumer._reader.managers.metadata.topic_id
        consumer.partitions_for_topic(topic)
        ours = encode(dataclasses.replace(progress, topic_id=topic_id(topic)))
        commits = {0: (2, ours), 1: (40, theirs), 2: (2, encode(progress))}
        consumer.commit({TopicPartition(topic, n): OffsetAndMetadata(*each) for n, each in commits.items()})
    common = {"group": group, "topic": topic}
    error = "the metadata is not used, as it belongs to a topic of the same name with another id"
    assert rows(say("groups", "describe", group, "--finished", "--json")[1]) == [
        {**common, "partition": 0, "committed": 2, "finished": 4, "unfinished": 3, "until": 9, "error": None},
        {**common, "partition": 1, "committed": 40, "finished": 4, "unfinished": 3, "until": 47, "error": None},
        {**common, "partition": 2, "committed": 2, "finished": None, "unfinished": None, "until": None, "error": error},
    ]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        consumer.commit({TopicPartition(topic, 0): 3, TopicPartition(topic, 1): OffsetAndMetadata(5, "bAABAQA=")})
    found = rows(say("groups", "describe", group, "--finished", "--json")[1])
    assert [(row["finished"], row["unfinished"], row["until"]) for row in found[:2]] == [(0, 0, 3), (0, 0, 5)]


def test_members_are_described(say, cluster, topic, group):
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group, client_id="till", session_timeout_ms=5000
    )
    try:
        while not consumer.assignment():
            consumer.poll(timeout_ms=500)
        (row,) = rows(say("groups", "describe", group, "--json")[1])
        assert (row["group"], row["type"], row["state"], row["client"]) == (group, "classic", "Stable", "till")
        assert row["host"] == "/127.0.0.1"
        assert (row["assignor"], row["topics"], row["assignment"]) == ("range", [topic], {topic: [0, 1, 2]})
        assert row["epoch"] is row["member_epoch"] is row["target"] is None
        code, _, err = say("groups", "delete", group)
        assert code == 1
        assert "NON_EMPTY_GROUP" in err
    finally:
        consumer.close()
    (row,) = rows(say("groups", "describe", group, "--json")[1])
    assert (row["state"], row["member"]) == ("Empty", None)


def test_a_consumer_group_is_listed_described_and_deleted(say, cluster, topic):
    name = f"consumers-of-{topic}"
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": name, "client_id": "tim"}
    with Consumer(**options, group_protocol="consumer") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout_ms=500)
        consumer.poll(0)
        (row,) = rows(say("groups", "describe", name, "--json")[1])
        assert (row["type"], row["client"], row["topics"], row["regex"]) == ("consumer", "tim", [topic], None)
        assert row["assignor"] == "uniform"
        assert row["assignment"] == row["target"] == {topic: [0, 1, 2]}
        assert row["epoch"] == row["assignment_epoch"] == row["member_epoch"]
        listed = rows(say("groups", "list", "--type", "consumer", "--json")[1])
        assert {"group": name, "state": "Stable", "type": "consumer", "protocol": "consumer"} in listed
        assert name not in say("groups", "list", "--type", "classic")[1]
        consumer.commit({TopicPartition(topic, 1): 0})
        (lag,) = rows(say("groups", "describe", name, "--lag", "--json")[1])
        assert (lag["partition"], lag["committed"], lag["lag"]) == (1, 0, 0)
        code, _, err = say("groups", "delete", name)
        assert code == 1 and "NON_EMPTY_GROUP" in err
    (row,) = rows(say("groups", "describe", name, "--json")[1])
    assert (row["type"], row["state"], row["member"]) == ("consumer", "Empty", None)
    assert say("groups", "delete", name) == (0, "", f"deleted {name}\n")


def test_groups_are_listed_by_type(say, group):
    assert group in say("groups", "list", "--type", "classic")[1]
    assert group in say("groups", "list", "--type", "classic", "--type", "consumer")[1]
    assert group not in say("groups", "list", "--type", "consumer")[1]


def test_epochs_and_targets_of_a_consumer_group_are_shown(say, monkeypatch):
    owned = tuple(TopicPartition("t", number) for number in (0, 1, 2, 5))
    moving = MemberDescription(
        "m1", None, "c1", "/h1", CLASSIC, 4, ("t", "u"), None, (*owned, TopicPartition("u", 0)), owned
    )
    waiting = MemberDescription("m2", "i2", "c2", "/h2", CONSUMER, 5, (), "u.*", (), (TopicPartition("u", 0),))
    group = GroupDescription("g", CONSUMER, "Reconciling", "consumer", "uniform", (waiting, moving), 6, 5)
    monkeypatch.setattr(Admin, "describe_groups", lambda self, names: {"g": group})
    first, second = rows(say("groups", "describe", "g", "--json")[1])
    assert first == {
        "group": "g",
        "type": "consumer",
        "state": "Reconciling",
        "assignor": "uniform",
        "epoch": 6,
        "assignment_epoch": 5,
        "member": "m1",
        "instance": None,
        "client": "c1",
        "host": "/h1",
        "member_type": "classic",
        "member_epoch": 4,
        "topics": ["t", "u"],
        "regex": None,
        "assignment": {"t": [0, 1, 2, 5], "u": [0]},
        "target": {"t": [0, 1, 2, 5]},
    }
    assert (second["member"], second["regex"], second["assignment"], second["target"]) == ("m2", "u.*", {}, {"u": [0]})
    _, _, table = say("groups", "describe", "g")[1].partition("TARGET\n")
    assert [line.split()[10:] for line in table.splitlines()] == [
        ["classic", "4", "t,u", "-", "t:0-2,5", "u:0", "t:0-2,5"],
        ["consumer", "5", "-", "u.*", "-", "u:0"],
    ]


def test_an_unknown_lag_is_null(say, cluster, topic, group):
    """An unknown lag is null and not 0: the topic was deleted, or the partition has no leader."""
    nodes = list(cluster.addresses)
    cluster.create_topic(f"{topic}-lone", 1, 1)
    before = rows(say("groups", "describe", group, "--lag", "--json")[1])
    assert [row["lag"] for row in before] == [3, 0]
    cluster.delete_topic(topic)
    assert all(row["lag"] is None for row in rows(say("groups", "describe", group, "--lag", "--json")[1]))
    assert nodes == [1, 2, 3]


@pytest.mark.parametrize("action", ["describe", "delete"])
def test_a_missing_group_is_reported(fail_on_cluster, action):
    code, err = fail_on_cluster("groups", action, "nobody")
    assert code == 1 and err.startswith("error: nobody: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "an action is missing: list, describe, reset, delete"),
        (["lst"], "did you mean 'list'?"),
        (["describe"], "GROUP"),
        (["describe", "g", "--lags"], "did you mean '--lag'?"),
        (["describe", "g", "--lag", "--held"], "not allowed with"),
        (["list", "--type", "consumers"], "did you mean 'consumer'?"),
    ],
)
def test_wrong_usage_exits_with_2(fail, words, said):
    code, err = fail("groups", *words)
    assert code == 2 and said in err


def test_an_error_of_one_group_does_not_hide_what_another_one_holds(say, cluster, topic, monkeypatch):
    def holds(consumer):
        if consumer.config.group_id == bad:
            raise KafkaTimeoutError("no response")
        return [(TopicPartition(topic, 0), "a reason")]

    bad, good = f"bad-of-{topic}", f"good-of-{topic}"
    for name in (bad, good):
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=name) as consumer:
            consumer.commit({TopicPartition(topic, 0): 0})
    monkeypatch.setattr("thinconsumer.cli.groups._holds", holds)
    code, out, err = say("groups", "describe", bad, good, "--held", "--json")
    assert (code, err) == (1, f"error: {bad}: no response\n")
    assert [row["group"] for row in rows(out)] == [good]


def test_a_reason_that_is_not_a_wait_for_other_partitions_is_an_error_at_the_deadline(monkeypatch):
    held = SimpleNamespace(
        is_wait=False, reason="no broker knows", partition=SimpleNamespace(tp=TopicPartition("t", 1))
    )
    keepers = [SimpleNamespace(held=lambda: [held])]
    reader = SimpleNamespace(managers=SimpleNamespace(gatekeepers=keepers))
    consumer = SimpleNamespace(assignment=set, poll=lambda timeout_ms: {}, _reader=reader)
    monkeypatch.setattr("thinconsumer.cli.groups.API_TIMEOUT_MS", -1)
    with pytest.raises(CommandError, match="whether t-1 is held: no broker knows"):
        _holds(consumer)


def test_partitions_that_the_group_has_to_hold_are_shown(say, cluster, topic, monkeypatch):
    """A partition that was added waits until its parent is read up to the offset at which it was added."""

    def poll(self, timeout_ms):
        assert self.paused() == self.assignment()  # a record that is read here may open the gate
        return real_poll(self, timeout_ms)

    real_poll = Consumer.poll
    monkeypatch.setattr(Consumer, "poll", poll)
    monkeypatch.setattr("thinconsumer.cli.groups.HOLD_POLL_MS", 1)  # several polls until the reason is known
    name, group = f"{topic}-grows", f"holders-of-{topic}"
    cluster.create_topic(name, 1, 1, {"enable.ordered.delivery": "true"})
    cluster.produce(name, [b"x"] * 5)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        consumer.commit({TopicPartition(name, 0): 2})
        assert say("groups", "describe", group, "--held") == (0, "", "")
        say("topics", "expand", f"{name}:2")
        (row,) = rows(say("groups", "describe", group, "--held", "--json")[1])
        reason = f"held until {name}-0 is read up to 5 (the position is 2)"
        assert row == {"group": group, "topic": name, "partition": 1, "committed": None, "reason": reason}
        consumer.commit({TopicPartition(name, 0): 5})
        assert say("groups", "describe", group, "--held") == (0, "", "")
        assert [row["committed"] for row in rows(say("groups", "describe", group, "--lag", "--json")[1])] == [5]
