"""Common to the admin commands: an unreachable cluster, similar names, one failure among several results."""

import argparse

import pytest

from thinconsumer import IllegalStateError, PartitionInfo, UnknownTopicOrPartitionError
from thinconsumer.admin import TopicDescription
from thinconsumer.cli import cluster, parsing
from thinconsumer.cli.parsing import CommandError

TOPICS = {
    "orders": TopicDescription(
        "orders", bytes(16), False, {n: PartitionInfo("orders", n, 1, 0, (1,), (1,), ()) for n in range(3)}
    )
}


def unknown():
    return UnknownTopicOrPartitionError("no such topic", code=3, name="UNKNOWN_TOPIC_OR_PARTITION")


def test_an_unreachable_cluster_is_reported_soon(monkeypatch):
    monkeypatch.setattr(cluster, "BOOTSTRAP_TIMEOUT_MS", 100)
    options = argparse.Namespace(bootstrap_server="127.0.0.1:1", command_config={})
    words = r"127\.0\.0\.1:1: connection refused.*Is --bootstrap-server right\?"
    with pytest.raises(CommandError, match=words), cluster.connected_admin(options):
        pytest.fail("a closed port accepted the connection")
    assert parsing.BOOTSTRAP_TIMEOUT_MS <= 10_000


@pytest.mark.parametrize(
    ("name", "partition", "said"),
    [
        ("order", None, "there is no topic 'order'; did you mean 'orders'?"),
        ("zebras", None, "there is no topic 'zebras'. 'python -m thinconsumer topics list' shows the existing topics"),
        ("orders", 3, "orders has no partition 3: its partitions are 0 to 2"),
    ],
)
def test_a_missing_topic_or_partition_is_reported_with_existing_ones(name, partition, said):
    with pytest.raises(CommandError) as error:
        cluster.partitions_of(TOPICS, name, () if partition is None else (partition,))
    assert str(error.value) == said


def test_each_failure_is_printed_and_the_other_results_are_returned(capsys):
    results = {"a": 1, "order": unknown(), "g": IllegalStateError("not empty"), "b": None}
    assert cluster.successes(results, TOPICS) == {"a": 1, "b": None}
    assert capsys.readouterr().err.splitlines() == [
        "error: order: no such topic; did you mean 'orders'?",
        "error: g: not empty",
    ]
    assert cluster.exit_code(results) == 1
    assert cluster.exit_code({"a": 1, "b": None}) == 0
