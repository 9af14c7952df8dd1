"""What commands that ask share: a cluster that is not there, names that are nearly right, one failure among several."""

from __future__ import annotations

import argparse

import pytest

from thinconsumer import IllegalStateError, PartitionInfo, UnknownTopicOrPartitionError
from thinconsumer.admin import TopicDescription
from thinconsumer.cli import cluster, parsing
from thinconsumer.cli.parsing import Failure

TOPICS = {
    "orders": TopicDescription(
        "orders", bytes(16), False, {n: PartitionInfo("orders", n, 1, 0, (1,), (1,), ()) for n in range(3)}
    )
}


def unknown():
    return UnknownTopicOrPartitionError("no such topic", code=3, name="UNKNOWN_TOPIC_OR_PARTITION")


def test_a_cluster_that_is_not_there_is_known_soon(monkeypatch):
    monkeypatch.setattr(cluster, "BOOTSTRAP_TIMEOUT_MS", 100)
    options = argparse.Namespace(bootstrap_server="127.0.0.1:1")
    words = r"127\.0\.0\.1:1: connection refused.*Is --bootstrap-server right\?"
    with pytest.raises(Failure, match=words), cluster.asking(options):
        pytest.fail("nobody answers there")
    assert parsing.BOOTSTRAP_TIMEOUT_MS <= 10_000


def test_a_topic_that_is_there_passes():
    cluster.check_topic(TOPICS, "orders")
    cluster.check_topic(TOPICS, "orders", 2)


@pytest.mark.parametrize(
    ("name", "partition", "said"),
    [
        ("order", None, "there is no topic 'order'; did you mean 'orders'?"),
        ("zebras", None, "there is no topic 'zebras'. 'python -m thinconsumer topics list' shows what there is"),
        ("orders", 3, "orders has no partition 3: its partitions are 0 to 2"),
    ],
)
def test_one_that_is_not_is_said_with_what_there_is(name, partition, said):
    with pytest.raises(Failure) as error:
        cluster.check_topic(TOPICS, name, partition)
    assert str(error.value) == said


def test_each_failure_is_a_line_and_the_rest_goes_on(capsys):
    results = {"a": 1, "order": unknown(), "g": IllegalStateError("not empty"), "b": None}
    assert cluster.well(results, TOPICS) == {"a": 1, "b": None}
    assert capsys.readouterr().err.splitlines() == [
        "error: order: no such topic; did you mean 'orders'?",
        "error: g: not empty",
    ]
    assert cluster.exit_code(results) == 1
    assert cluster.exit_code({"a": 1, "b": None}) == 0
