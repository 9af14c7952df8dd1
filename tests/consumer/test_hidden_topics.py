"""Topics without a group that a broker hides for a time: their partitions go on where they were."""

import random

import pytest

from thinconsumer import TopicPartition
from thinconsumer.broker import Edit, EntryError
from thinconsumer.group import whole_topics
from thinconsumer.wire.error_codes import Code

#: How often these consumers refresh metadata, in ms.
AGE = 5000


@pytest.mark.parametrize("how", [{"topics": ["t"]}, {"pattern": "t.*"}])
def test_a_topic_that_a_lagging_broker_hides_goes_on_where_it_was(make, how):
    """No group has its positions: read by auto_offset_reset, it would skip records, or repeat them all."""
    w, consumer = make(auto_offset_reset="latest")
    consumer.subscribe(**how)
    w.read(consumer)
    w.append(2, 0)
    w.append(1, 1)
    consumer.pause(TopicPartition("t", 1))
    assert w.read(consumer) == ["0:0", "0:1"]
    rule = w.hide("t")
    while consumer.assignment():
        consumer.poll(100)
    w.append(1, 0)
    w.cluster.rules.remove(rule)
    assert w.read(consumer) == ["0:2"]
    assert consumer.paused() == {TopicPartition("t", 1)}
    consumer.resume(TopicPartition("t", 1))
    assert w.read(consumer) == ["1:0"]


@pytest.mark.parametrize("way", ["iteration", "read_to_end"])
def test_a_topic_that_is_hidden_while_one_result_is_iterated_is_read_once(make, way):
    w, consumer = make("t", known={"t": 1}, auto_offset_reset="earliest", consumer_timeout_ms=500)
    w.append(200, 0)
    found = []
    for record in consumer if way == "iteration" else consumer.read_to_end():
        found.append(record.offset)
        w.clock.advance(0.1)
        if len(found) == 50:
            w.hide("t", times=1)
    assert found == list(range(200))


@pytest.mark.parametrize("call", ["pause", "seek_to_end"])
def test_what_was_asked_of_a_partition_that_was_hidden_before_it_had_a_position_still_counts(make, call):
    w, consumer = make("t", known={"t": 1}, auto_offset_reset="earliest", metadata_max_age_ms=300)
    w.append(5, 0)
    while not consumer.assignment():
        consumer.drive()
        w.clock.advance(0.01)
    w.cluster.on("ListOffsets", EntryError(Code.LEADER_NOT_AVAILABLE), times=6)
    getattr(consumer, call)(TopicPartition("t", 0))
    assert w.read(consumer, 0.1) == []
    w.hide("t", times=1)
    assert w.read(consumer, 5.0) == []
    assert consumer.paused() == ({TopicPartition("t", 0)} if call == "pause" else set())


def test_added_partitions_that_a_lagging_broker_has_not_heard_of_go_on_where_they_were(make):
    w, consumer = make("t", known={"t": 4}, auto_offset_reset="latest")
    w.read(consumer)
    w.append(1, 3)
    assert w.read(consumer) == ["3:0"]

    def forget(call, response):
        response.topics[0].partitions = [row for row in response.topics[0].partitions if row.partition_index < 2]

    w.cluster.on("Metadata", Edit(forget), times=1)
    while len(consumer.assignment()) == 4:
        consumer.poll(50)
    w.append(1, 3)
    assert w.read(consumer) == ["3:1"], "a removal is confirmed at once, not after metadata_max_age_ms"


def test_a_topic_that_was_hidden_when_it_was_unsubscribed_is_read_by_the_policy(make):
    w, consumer = make("t", "u", known={"t": 1, "u": 1}, auto_offset_reset="earliest")
    w.append(1, 0)
    assert w.read(consumer) == ["0:0"]
    rule = w.hide("t")
    w.read(consumer, AGE / 1000 + 1)
    consumer.subscribe(["u"])
    w.cluster.rules.remove(rule)
    consumer.subscribe(["t", "u"])
    assert w.read(consumer) == ["0:0"]


def test_a_hidden_topic_is_read_by_the_policy_if_it_was_subscribed_anew(make):
    w, consumer = make("t", auto_offset_reset="earliest")
    w.append(1, 0)
    assert w.read(consumer) == ["0:0"]
    rule = w.hide("t")
    w.read(consumer, AGE / 1000 + 1)
    assert consumer.assignment() == set()
    consumer.unsubscribe()
    w.cluster.rules.remove(rule)
    consumer.subscribe(["t"])
    assert w.read(consumer) == ["0:0"]


def test_positions_of_topics_that_are_gone_for_good_do_not_accumulate(make, monkeypatch):
    monkeypatch.setattr(whole_topics, "GONE_MAX", 3)
    w, consumer = make(known={})
    consumer.subscribe(pattern="t.*")
    for number in range(5):
        name = f"t{number}"
        w.cluster.create_topic(name, 1)
        w.read(consumer, AGE / 1000 + 1)
        w.cluster.delete_topic(name)
        w.read(consumer, AGE / 1000 + 1)
    assert [tp.topic for tp in consumer._reader.managers.whole_topics.gone] == ["t2", "t3", "t4"]


@pytest.mark.parametrize("how", [{"topics": ["t"]}, {"pattern": "t.*"}])
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_is_hidden_before_its_first_position_is_read_from_its_end_of_then(make, how, policy):
    """Metadata have forgotten it meanwhile: as a new topic, it would be read from its beginning."""
    w, consumer = make(known={"t": 1}, auto_offset_reset=policy)
    w.append(3, 0)
    w.clock.advance(1)
    w.cluster.on("ListOffsets", EntryError(Code.LEADER_NOT_AVAILABLE), times=3)
    consumer.subscribe(**how)
    while not consumer.assignment():
        consumer.drive()
        w.clock.advance(0.01)
    rule = w.hide("t")
    assert w.read(consumer, AGE / 1000 + 1) == [] and consumer.assignment() == set()
    w.append(2, 0)
    w.cluster.rules.remove(rule)
    expected = ["0:3", "0:4"]
    assert w.read(consumer, AGE / 1000 + 1) == (expected if policy == "latest" else ["0:0", "0:1", "0:2", *expected])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_topics_each_record_is_read_once(make, seed):
    draw = random.Random(seed)
    w, consumer = make(known={"t-a": 1, "t-b": 2}, nodes=2, auto_offset_reset="latest", max_poll_records=3)
    consumer.subscribe(**draw.choice([{"topics": ["t-a", "t-b", "t-c"]}, {"pattern": "t-.*"}]))
    while not consumer.assignment():
        consumer.poll(10)
    counts, written, found, hidden = {"t-a": 1, "t-b": 2}, [], [], []

    def poll():
        for records in consumer.poll(draw.choice([0, 10, 500])).values():
            found.extend(int(record.value) for record in records)

    def produce():
        tp = any_partition()
        written.append(len(written))
        w.cluster.produce(tp.topic, [b"%d" % written[-1]], tp.partition)

    def any_partition():
        name = draw.choice(list(counts))
        return TopicPartition(name, draw.randrange(counts[name]))

    def expand():
        name = draw.choice([name for name in counts if counts[name] < 6] or ["t-a"])
        counts[name] += 1
        w.cluster.expand(name, counts[name])

    def create():
        if "t-c" not in counts:
            w.cluster.create_topic("t-c", 1)
            counts["t-c"] = 1

    def disturb():
        if hidden:
            w.cluster.rules.remove(hidden.pop())
        else:
            hidden.append(w.hide(draw.choice(list(counts)), times=draw.choice([1, 3])))

    def move():
        w.cluster.move_leader(any_partition())

    for _ in range(150):
        draw.choice([poll, poll, poll, produce, produce, expand, create, disturb, move, consumer.drive])()
        w.clock.advance(draw.choice([0, 0, 0.05, 1]))
    for rule in hidden:
        w.cluster.rules.remove(rule)
    end = w.clock.now() + 30
    while w.clock.now() < end:
        poll()
    assert sorted(found) == written
