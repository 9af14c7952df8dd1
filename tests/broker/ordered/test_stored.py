"""Ordered delivery in ``meta.json``: the round trip of every state, and contents that contradict themselves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.broker.directory import NodeDirectory
from thinconsumer_testing.broker.image import PartitionImage, StoredCluster, TopicImage
from thinconsumer_testing.broker.ordered.changes import (
    begin_expansion,
    begin_shrinking,
    complete_expansion,
    complete_shrinking,
    with_first_counts,
    without_emptied,
)
from thinconsumer_testing.broker.ordered.stored import add_ordered_to_json, with_ordered_from_json
from thinconsumer_testing.broker.ordered.topic import OrderedTopicCounts

CONFIGS = {"enable.ordered.delivery": "true"}


def plain_topic(partitions=2, configs=CONFIGS):
    rows = tuple(PartitionImage("t", b"i" * 16, n, 1, n, (1,), (1,)) for n in range(partitions))
    return TopicImage("t", b"i" * 16, rows, configs)


def elect(row, topic):
    return row._replace(leader=1, leader_epoch=row.leader_epoch + 1)


STEPS = {
    "expand": lambda topic, by: begin_expansion(topic, [(1,)] * by, {1: None}),
    "expanded": lambda topic, by: complete_expansion(topic, elect),
    "shrink": lambda topic, by: begin_shrinking(topic, max(2, topic.ordered.undeleted_partition_count - by)),
    "shrunk": lambda topic, by: complete_shrinking(topic),
    "emptied": lambda topic, by: without_emptied(topic, lambda row: by * row.partition),
}
LEGAL = {"none": ["expand", "shrink", "emptied"], "expansion": ["expanded"], "shrinking": ["shrunk"]}


def next_steps(topic):
    steps = LEGAL[topic.ordered.change.value]
    have = topic.ordered.undeleted_partition_count
    barred = {"shrink"} if have == topic.ordered.initial_partition_count else set()
    barred |= {"expand"} if len(topic.partitions) > have else set()
    return [step for step in steps if step not in barred]


def read_again(topic):
    stored = {}
    add_ordered_to_json(stored, topic)
    stored = json.loads(json.dumps(stored))
    bare = tuple(PartitionImage(*row[:8]) for row in topic.partitions)
    return with_ordered_from_json(topic._replace(partitions=bare, ordered=None), stored)


@given(st.data())
def test_every_state_is_the_same_after_writing_and_reading(data):
    topic = with_first_counts(plain_topic())
    for _ in range(data.draw(st.integers(0, 8))):
        step = data.draw(st.sampled_from(next_steps(topic)))
        topic = STEPS[step](topic, data.draw(st.integers(1, 3)))
        assert read_again(topic) == topic


def test_equal_lists_are_stored_once():
    topic = complete_expansion(begin_expansion(with_first_counts(plain_topic()), [(1,)] * 50, {1: None}), elect)
    stored = {}
    add_ordered_to_json(stored, topic)
    assert stored["ordered"]["leader_epochs"] == [(), (0, 1)]


def test_topics_without_ordered_delivery_store_nothing():
    stored = {}
    topic = plain_topic(configs={})
    add_ordered_to_json(stored, topic)
    assert stored == {}
    assert with_ordered_from_json(topic, stored) == topic


def test_a_topic_without_stored_counts_begins_with_its_present_ones():
    """As the controller of KIP-253 does for existing topics."""
    assert with_ordered_from_json(plain_topic(3), {}).ordered == OrderedTopicCounts(3, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_partition_count": 0},
        {"initial_partition_count": 4},
        {"undeleted_partition_count": 1},
        {"undeleted_partition_count": 4},
        {"change": "growth"},
        {"change": "expansion", "kept_partition_count": 3},
        {"change": "shrinking", "kept_partition_count": 1},
        {"removed": {"9": [1]}},
        {"removed": {"nine": [1, 2]}},
        {"partitions": [[0, 0, 0]]},
        {"partitions": [[0, 0, 0], [0, 7, 0], [0, 0, 0]]},
        {"partitions": [[0, 0, 0], [-1, 0, 0], [0, 0, 0]]},
        {"partitions": [[0, 0, -5], [0, 0, 0], [0, 0, 0]]},
        {"leader_epochs": [["x"]]},
        {"leader_epochs": None},
    ],
)
def test_a_directory_with_impossible_counts_is_not_opened(tmp_path, wrong):
    topic = complete_expansion(begin_expansion(with_first_counts(plain_topic()), [(1,)], {1: None}), elect)
    store = NodeDirectory(tmp_path)
    store.save(StoredCluster("c", 0, {topic.name: topic}))
    store.close()
    again = NodeDirectory(tmp_path)
    assert again.cluster.topics["t"].ordered == topic.ordered
    again.close()
    path = tmp_path / "meta.json"
    meta = json.loads(path.read_text())
    meta["topics"][0]["ordered"].update(wrong)
    path.write_text(json.dumps(meta))
    with pytest.raises(IllegalStateError, match="repair it"):
        NodeDirectory(tmp_path)
