"""Arguments are checked at the door, and other clients' shapes are let in."""

from __future__ import annotations

import pytest
from kafka import TopicPartition as TheirTopicPartition

from thinconsumer import IllegalArgumentError, TopicPartition
from thinconsumer.consumer.arguments import is_whole, to_seconds, topic_partition


def test_anything_of_the_shape_is_a_topic_partition():
    ours = TopicPartition("t", 1)
    assert topic_partition(ours) is ours
    assert topic_partition(("t", 1)) == topic_partition(TheirTopicPartition("t", 1)) == ours
    assert type(topic_partition(("t", 1))) is TopicPartition


@pytest.mark.parametrize("wrong", ["t-1", ("t",), ("t", "1"), (1, "t"), None, ["t", 1]])
def test_anything_else_is_refused(wrong):
    with pytest.raises(IllegalArgumentError, match="TopicPartition"):
        topic_partition(wrong)


@pytest.mark.parametrize(
    ("value", "whole"), [(0, True), (2**63 - 1, True), (-1, False), (2**63, False), (True, False), (1.0, False)]
)
def test_offsets_are_whole_numbers_of_64_bits_and_no_bools(value, whole):
    assert is_whole(value, 0) is whole


@pytest.mark.parametrize("wrong", [-1, "1", None, True, float("nan")])
def test_timeouts_are_milliseconds(wrong):
    assert to_seconds(1500) == 1.5
    with pytest.raises(IllegalArgumentError, match="milliseconds"):
        to_seconds(wrong)
