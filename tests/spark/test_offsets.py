"""Offsets as JSON: the official connector's format, errors that name the fault, and the start of the first batch."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.spark.offsets import (
    first_batch_end,
    first_batch_start,
    from_json,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
    partition_names,
    to_json,
)

A0, A2, A10, B0 = (TopicPartition(*tp) for tp in [("a", 0), ("a", 2), ("a", 10), ("b", 0)])
topics = st.text("abcXYZ019._-", min_size=1, max_size=8)
offsets = st.dictionaries(st.builds(TopicPartition, topics, st.integers(0, 300)), st.integers(0, 2**63 - 1), max_size=9)


def test_text_is_that_of_the_official_connector_sorted_by_topic_and_partition_number():
    text = json.dumps(to_json({B0: 5, A10: 1, A2: 2, A0: 0}), separators=(",", ":"))
    assert text == '{"a":{"0":0,"2":2,"10":1},"b":{"0":5}}'


@given(offsets, st.randoms())
def test_equal_offsets_have_equal_text(found, random):
    items = list(found.items())
    random.shuffle(items)
    assert json.dumps(to_json(dict(items))) == json.dumps(to_json(found))
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


@given(offsets, offsets)
def test_end_of_the_first_batch_holds_its_start(start, end):
    stored = json.loads(json.dumps(first_batch_end(start, end)))
    assert first_batch_start(stored) == start
    assert from_json(stored) == end
    assert first_batch_start(to_json(end)) is None


def test_earliest_latest_and_whitespace_are_parsed():
    text = ' {"a": {"2": -1, "0": 23, "10": -2},\n "b": {"0": 9223372036854775807}} '
    assert parse_offsets(text, "startingOffsets") == {A0: 23, A2: -1, A10: -2, B0: 2**63 - 1}
    assert parse_timestamps('{"a":{"0":0}}', "x") == {A0: 0}
    assert parse_assignment('{"b":[0],"a":[10,2,0,2]}') == [A0, A2, A10, B0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":{"0":1}', "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "names no partition"),
        ('{"a":{}}', "names no partition"),
        ('{"a":1}', "topic 'a' has 1, not a JSON object by partition"),
        ('{"a":{"x":1}}', "'x' is not a partition number of 'a'"),
        ('{"a":{"-1":1}}', "'-1' is not a partition number of 'a'"),
        ('{"a":{"2147483648":1}}', "'2147483648' is not a partition number"),
        ('{"a":{"0":-3}}', "a-0: -3 is not an offset"),
        ('{"a":{"0":1.5}}', "a-0: 1.5 is not an offset"),
        ('{"a":{"0":true}}', "a-0: true is not an offset"),
        ('{"a":{"0":"1"}}', 'a-0: "1" is not an offset'),
        ('{"a":{"0":9223372036854775808}}', "is not an offset"),
        ('{"a":{"0":1,"0":2}}', "'0' is named twice"),
    ],
)
def test_invalid_offsets_are_refused_with_an_example(text, words):
    with pytest.raises(KafkaConfigurationError) as refused:
        parse_offsets(text, "startingOffsets")
    assert str(refused.value).startswith("startingOffsets: ")
    assert words in str(refused.value)
    assert '{"topicA":{"0":23' in str(refused.value)


def test_timestamps_cannot_be_negative():
    with pytest.raises(KafkaConfigurationError, match="-1 is not a time"):
        parse_timestamps('{"a":{"0":-1}}', "startingOffsetsByTimestamp")


@pytest.mark.parametrize("text", ["{}", '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', '{"a":[]}', "x"])
def test_invalid_assignments_are_refused(text):
    with pytest.raises(KafkaConfigurationError, match=r'assign: .*write it like {"topicA":\[0,1\]'):
        parse_assignment(text)


def test_a_checkpoint_of_another_source_is_refused():
    with pytest.raises(KafkaConfigurationError, match="not written by this source.*a checkpoint of its own"):
        from_json({"logOffset": 17})
    with pytest.raises(KafkaConfigurationError, match="not written by this source"):
        from_json({"a": {"0": -2}})


def test_long_lists_of_partitions_are_shortened():
    assert partition_names([B0, A10, A2]) == "a-2, a-10, b-0"
    assert partition_names(TopicPartition("t", n) for n in range(23)).endswith("t-19 and 3 more")
