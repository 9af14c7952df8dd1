"""The command ``topics``."""

import json

import pytest


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


def test_topics_are_created_expanded_and_deleted(say, topic):
    name = f"{topic}-own"
    assert say("topics", "create", f"{name}:2", "--config", "cleanup.policy=compact") == (
        0,
        "",
        f"created {name}: 2 partitions, 3 replicas\n",
    )
    assert {"topic": name, "partitions": 2, "replicas": 3} in rows(say("topics", "list", "--json")[1])
    assert say("topics", "expand", f"{name}:3") == (0, "", f"{name} now has 3 partitions\n")
    assert len(rows(say("topics", "describe", name, "--json")[1])) == 3
    assert say("topics", "delete", name) == (0, "", f"deleted {name}\n")
    assert name not in [row["topic"] for row in rows(say("topics", "list", "--json")[1])]


def test_internal_topics_are_listed_with_internal(say, cluster, topic):
    cluster.move_coordinator("any")
    hidden = {row["topic"] for row in rows(say("topics", "list", "--json")[1])}
    shown = {row["topic"] for row in rows(say("topics", "list", "--json", "--internal")[1])}
    assert shown - hidden == {"__consumer_offsets"}


def test_each_partition_is_described(say, cluster, topic):
    cluster.produce(topic, [b"a", b"b", b"c"], 1)
    cluster.delete_records((topic, 1), 1)
    code, out, err = say("topics", "describe", topic, "--json", "--offsets")
    assert (code, err) == (0, "")
    found = rows(out)
    assert [row["partition"] for row in found] == [0, 1, 2]
    assert found[1]["leader"] == cluster.leader((topic, 1))
    assert sorted(found[1]["replicas"]) == sorted(found[1]["isr"]) == [1, 2, 3]
    assert [(row["first"], row["end"]) for row in found] == [(0, 0), (1, 3), (0, 0)]


def test_without_json_rows_are_a_table(say, topic):
    code, out, _ = say("topics", "describe", topic)
    head, *body = out.splitlines()
    assert head.split() == ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR"]
    assert len(body) == 3
    assert all(line.startswith(topic) for line in body)
    assert code == 0


def test_one_failure_does_not_stop_the_other_topics(say, topic):
    code, out, err = say("topics", "create", topic, f"{topic}-more")
    assert (code, out) == (1, "")
    assert f"error: {topic}: " in err
    assert "exists already" in err
    assert f"created {topic}-more: 1 partition, 3 replicas\n" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["describe", "{topic}x"], "did you mean '{topic}'?"),
        (["delete", "{topic}x"], "did you mean '{topic}'?"),
        (["expand", "{topic}x:5"], "did you mean '{topic}'?"),
        (["expand", "{topic}:2"], "would not be an increase"),
        (["create", "{topic}y", "--config", "cleanup.polcy=compact"], "INVALID_CONFIG"),
    ],
)
def test_errors_are_one_line(fail_on_cluster, topic, words, said):
    code, err = fail_on_cluster("topics", *(word.format(topic=topic) for word in words))
    assert code == 1 and said.format(topic=topic) in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crate", "a"], "no action 'crate'; did you mean 'create'?"),
        (["create"], "TOPIC[:PARTITIONS]"),
        (["create", "a:0"], "write TOPIC or TOPIC:PARTITIONS"),
        (["create", "a:1", "a:2"], "a is named more than once"),
        (["create", "a", "--replica", "1"], "did you mean '--replicas'?"),
    ],
)
def test_wrong_usage_exits_with_2(fail, words, said):
    code, err = fail("topics", *words)
    assert code == 2 and said in err
