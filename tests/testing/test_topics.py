"""Topics as data: logs, epochs and bounds."""

from __future__ import annotations

import pytest

from thinconsumer.records import split
from thinconsumer.testing import Topics
from thinconsumer.types import TopicPartition

TP = TopicPartition("t", 0)


@pytest.fixture
def log():
    topics = Topics((1, 2, 3))
    topics.add("t", 1)
    return topics[TP]


def test_leaders_go_round_and_ids_are_never_used_twice():
    topics = Topics((1, 2))
    first = topics.add("t", 3).topic_id
    assert [log.leader for log in topics.by_name["t"].partitions.values()] == [1, 2, 1]
    topics.remove("t")
    assert topics.add("t").topic_id != first
    assert topics.find("", first) is None
    assert topics.find("t", bytes(16)) is topics.by_name["t"]
    assert topics.find("", topics.by_name["t"].topic_id) is topics.by_name["t"]
    assert topics.find("x", bytes(16)) is None


def test_appended_batches_get_offset_and_epoch_and_stay_valid(log):
    assert log.append_values([b"a", b"b"]) == 0
    log.elect(2)
    assert log.append_values([b"c"]) == 2
    data = log.read(0, 3, 10_000, at_least_one=True)
    batches, error = split(memoryview(data), TP)
    assert error is None
    assert [(b.base_offset, b.next_offset, b.leader_epoch) for b in batches] == [(0, 2, 0), (2, 3, 1)]


def test_reading_keeps_limits_but_gives_one_batch_if_asked(log):
    for _ in range(3):
        log.append_values([b"x" * 100])
    size = len(log.batches[0].data)
    assert len(log.read(0, 3, 2 * size, at_least_one=False)) == 2 * size
    assert len(log.read(0, 3, 1, at_least_one=True)) == size
    assert log.read(0, 3, 1, at_least_one=False) == b""
    assert len(log.read(1, 3, 10_000, at_least_one=True)) == 2 * size
    assert len(log.read(0, 2, 10_000, at_least_one=True)) == 2 * size
    assert log.read(3, 3, 10_000, at_least_one=True) == b""


def test_epochs_end_where_the_next_begins(log):
    log.append_values([b"a"] * 5)
    log.elect(2)
    log.append_values([b"b"] * 3)
    log.elect(-1)
    assert log.epoch == 1
    log.elect(3)
    assert [log.end_of_epoch(epoch) for epoch in (-1, 0, 1, 2, 9)] == [(-1, -1), (0, 5), (1, 8), (2, 8), (2, 8)]


def test_expiry_and_truncation(log):
    for _ in range(4):
        log.append_values([b"a"] * 2)
    log.delete_before(3)
    assert (log.start_offset, log.end_offset) == (3, 8)
    assert log.batches[0].base_offset == 2
    log.truncate(6)
    assert log.end_offset == 6
    log.delete_before(6)
    assert (log.start_offset, log.end_offset, log.batches) == (6, 6, [])


def test_marks_default_to_the_end(log):
    log.append_values([b"a"] * 4)
    assert (log.visible_end, log.stable_end) == (4, 4)
    log.high_watermark = 3
    assert (log.visible_end, log.stable_end) == (3, 3)
    log.last_stable_offset = 1
    assert (log.visible_end, log.stable_end) == (3, 1)


def test_times_find_batches(log):
    log.append_values([b"a"], timestamp=100)
    log.append_values([b"b"], timestamp=200)
    assert log.offset_for_time(50).base_offset == 0
    assert log.offset_for_time(101).base_offset == 1
    assert log.offset_for_time(201) is None


def test_changes_are_announced():
    topics, calls = Topics(), []
    topics.add("t")
    topics.on_change.append(lambda: calls.append(1))
    topics.append_values(TP, [b"a"])
    assert calls == [1]


def test_bytes_can_be_placed_as_they_are(log):
    log.place(7, 9, b"whatever", max_timestamp=5)
    assert log.end_offset == 9
    assert log.read(0, 9, 100, at_least_one=True) == b"whatever"
