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
        (["expand", "{topic}:2"], "it has 3 partitions, which 2 would not increase"),
        (["expand", "{topic}:3"], "it has 3 partitions, which 3 would not increase"),
        (["shrink", "{topic}x:2", "--yes"], "did you mean '{topic}'?"),
        (["shrink", "{topic}:3", "--yes"], "it has 3 partitions, which 3 would not decrease"),
        (["shrink", "{topic}:2", "--yes"], "INVALID_PARTITIONS"),
        (["create", "{topic}y", "--config", "cleanup.polcy=compact"], "INVALID_CONFIG"),
    ],
)
def test_errors_are_one_line(fail_on_cluster, topic, words, said):
    code, err = fail_on_cluster("topics", *(word.format(topic=topic) for word in words))
    assert code == 1 and said.format(topic=topic) in err


@pytest.fixture
def ordered(cluster, topic):
    """Return a new topic with ordered delivery that began with one partition and has four."""
    name = f"{topic}-ordered"
    cluster.create_topic(name, 1, 1, {"enable.ordered.delivery": "true"})
    cluster.expand(name, 4)
    while cluster.leader((name, 3)) < 0:  # new partitions have a leader once the change is completed
        pass
    return name


def counts(say, name):
    """Return the topic's initial and present partition count, and the partitions that are marked for deletion."""
    found = rows(say("topics", "describe", name, "--json")[1])
    return found[0]["initial"], found[0]["count"], [row["partition"] for row in found if row["marked"]]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_expand_to_fewer_or_equal_partitions_is_refused_and_changes_nothing(fail_on_cluster, say, ordered, count):
    code, err = fail_on_cluster("topics", "expand", f"{ordered}:{count}")
    assert code == 1 and f"{ordered}: it has 4 partitions, which {count} would not increase" in err
    assert counts(say, ordered) == (1, 4, [])


def test_shrink_marks_partitions_and_describe_shows_what_is_left_in_them(say, cluster, ordered):
    cluster.produce(ordered, [b"a", b"b", b"c"], 3)
    cluster.delete_records((ordered, 3), 1)
    marked = f"{ordered} now has 2 partitions; partitions 2 and 3 are deleted once retention has emptied them\n"
    assert say("topics", "shrink", f"{ordered}:2", "--yes") == (0, "", marked)
    found = rows(say("topics", "describe", ordered, "--json")[1])
    of_topic = [(row["initial"], row["count"]) for row in found]
    each = [(row["partition"], row["parent"], row["marked"], row["left"]) for row in found]
    assert of_topic == [(1, 2)] * 4
    assert each == [(0, None, False, None), (1, 0, False, None), (2, 0, True, 0), (3, 1, True, 2)]


def test_the_table_shows_ordered_delivery_only_for_topics_that_have_it(say, topic, ordered):
    both = say("topics", "describe", topic, ordered, "--offsets")[1].splitlines()
    ordered_heads = ["INITIAL", "COUNT", "PARENT", "MARKED", "LEFT"]
    assert both[0].split() == [
        "TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", *ordered_heads, "FIRST", "END"
    ]  # fmt: skip
    assert both[1].split()[6:] == ["-", "-", "-", "-", "-", "0", "0"]
    assert both[-1].split()[6:] == ["1", "4", "1", "no", "-", "0", "0"]


@pytest.mark.parametrize(
    ("given", "is_done"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_shrink_asks_first(say, ordered, given, is_done):
    code, out, err = say("topics", "shrink", f"{ordered}:3", given=given)
    assert out == "" and f"{ordered}: delete 1 of 4 partitions, once retention has emptied it? [y/N] " in err
    assert (code, "nothing was changed" in err) == ((0, False) if is_done else (1, True))
    assert counts(say, ordered) == (1, 3, [3]) if is_done else (1, 4, [])


def test_an_expansion_after_a_shrinking_counts_from_the_partitions_that_are_not_marked(say, cluster, ordered):
    cluster.produce(ordered, [b"a"], 3)
    say("topics", "shrink", f"{ordered}:2", "--yes")
    code, _, err = say("topics", "expand", f"{ordered}:3")
    assert code == 1 and "REASSIGNMENT_IN_PROGRESS" in err
    assert counts(say, ordered) == (1, 2, [2, 3])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crate", "a"], "no action 'crate'; did you mean 'create'?"),
        (["create"], "TOPIC[:PARTITIONS]"),
        (["create", "a:0"], "write TOPIC or TOPIC:PARTITIONS"),
        (["create", "a:1", "a:2"], "a is named more than once"),
        (["expand", "a"], "write TOPIC:PARTITIONS, such as a:6"),
        (["shrink", "a"], "write TOPIC:PARTITIONS, such as a:6"),
        (["shrink", "a:1", "a:1"], "a is named more than once"),
        (["create", "a", "--replica", "1"], "did you mean '--replicas'?"),
    ],
)
def test_wrong_usage_exits_with_2(fail, words, said):
    code, err = fail("topics", *words)
    assert code == 2 and said in err
