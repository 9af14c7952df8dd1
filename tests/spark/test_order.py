"""The order of each key over micro-batches: gates, barriers, and streams that restart in between."""

import json
import re
from collections import Counter

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.0 and 4.1 have no limits to test with")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from thinconsumer import KafkaConfigurationError, TopicPartition
from thinconsumer.spark.order import LookedUp, TopicOrder, open_topic
from thinconsumer.spark.planner import DataLossError
from thinconsumer.spark.source import KafkaBatchReader, KafkaStreamReader


def ranges(tasks):
    return sorted((*task.value.tp, task.value.start, task.value.until) for task in tasks)


class Query:
    """A stream that continues from the offsets ``at``, which Spark stores as text."""

    def __init__(self, cluster, limit="default", at="{}", **given):
        self.clock = cluster.kafka.clock
        options = cluster.options(**{"startingOffsets": "earliest", **given})
        self.reader = KafkaStreamReader(options, (), cluster.client(**given), self.clock.now, self.clock.now)
        self.limit = self.reader.getDefaultReadLimit() if limit == "default" else limit
        self.at = at

    def trigger(self):
        """Return the ranges of the next micro-batch, or None if there is none."""
        start, end = self.at, json.dumps(self.reader.latestOffset(json.loads(self.at), self.limit))
        self.at = end
        return None if end == start else ranges(self.reader.partitions(json.loads(start), json.loads(end)))


@pytest.fixture
def ordered(cluster):
    """Return a cluster with the topic "t" with ordered delivery: eight records in t-0, expanded, and four in t-1."""
    c = cluster({})
    c.kafka.create_topic("t", 1, 1, {"enable.ordered.delivery": "true"})
    c.append(*[b"v"] * 8)
    c.kafka.expand("t", 2)
    c.kafka.clock.advance(1)
    c.kafka.network.run_due()
    c.append(*[b"v"] * 4, partition=1)
    return c


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_child_is_offered_after_its_parent_was_read_up_to_the_threshold(ordered, is_restarted):
    query = Query(ordered, maxOffsetsPerTrigger="6")
    batches = []
    while (found := query.trigger()) is not None:
        batches.append(found)
        if is_restarted:
            query = Query(ordered, at=query.at, maxOffsetsPerTrigger="6")
    assert batches == [[("t", 0, 0, 6)], [("t", 0, 6, 8)], [("t", 1, 0, 4)]]
    assert query.at == '{"t": {"0": 8, "1": 4}}'  # the checkpoint has no other state


def test_the_partitions_that_are_held_are_logged_when_they_change(ordered, caplog):
    caplog.set_level("INFO", "thinconsumer.spark.source")
    query = Query(ordered, maxOffsetsPerTrigger="2")
    while query.trigger() is not None:
        pass
    said = [record.message for record in caplog.records]
    assert said == ["t-1: held until other partitions have been read further", "no partition is held any more"]


def test_a_micro_batch_takes_three_round_trips_more_once_the_count_has_changed(cluster):
    c = cluster({})
    c.kafka.create_topic("t", 1, 1, {"enable.ordered.delivery": "true"})
    query = Query(c)
    requests = []
    for count in (None, 2):
        if count is not None:
            c.kafka.expand("t", count)
            c.kafka.clock.advance(1)
            c.kafka.network.run_due()
        for _ in range(2):  # the first one connects
            c.append(b"v")
            c.kafka.requests.clear()
            query.trigger()
        requests.append(Counter(type(one.message).__name__ for one in c.kafka.requests))
    added = {"PartitionLeaderEpochsForPartitionsRequest": 1, "OffsetForLeaderEpochRequest": 1, "ListOffsetsRequest": 1}
    assert requests[1] - requests[0] == Counter(added)


def test_available_now_reads_a_child_before_it_ends(ordered):
    query = Query(ordered)
    query.reader.prepareForTriggerAvailableNow()
    ordered.append(*[b"v"] * 2, partition=1)
    assert [query.trigger(), query.trigger(), query.trigger()] == [[("t", 0, 0, 8)], [("t", 1, 0, 6)], None]


def test_trigger_once_leaves_a_child_to_the_next_query(ordered):
    query = Query(ordered, limit=ReadAllAvailable(), minOffsetsPerTrigger="20")
    assert [query.trigger(), query.trigger(), query.trigger()] == [[("t", 0, 0, 8)], [("t", 1, 0, 4)], None]


def test_the_minimum_per_trigger_counts_what_is_held(ordered):
    """Else the rest of the parent, which is less than the minimum, would wait for the maximum delay."""
    query = Query(ordered, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="6")
    assert [query.trigger(), query.trigger()] == [[("t", 0, 0, 6)], [("t", 0, 6, 8)]]


@pytest.mark.parametrize("given", [{"startingOffsets": "latest"}, {"startingOffsets": '{"t":{"0":0,"1":2}}'}])
def test_a_start_behind_the_gate_holds_nothing(ordered, given):
    query = Query(ordered, **given)
    query.trigger()
    ordered.append(b"v", partition=1)
    assert ("t", 1, 4, 5) in query.trigger()


def test_without_ordered_delivery_nothing_is_held(ordered):
    query = Query(ordered, **{"kafka.ordered.delivery": "off"})
    assert query.trigger() == [("t", 0, 0, 8), ("t", 1, 0, 4)]


def test_a_partition_that_is_not_selected_is_not_awaited(ordered):
    assert Query(ordered, assign='{"t":[1]}').trigger() == [("t", 1, 0, 4)]


@pytest.mark.parametrize(("ends", "expected"), [
    ({"0": 8, "1": -1}, [("t", 0, 0, 8), ("t", 1, 0, 4)]),
    ({"0": 7, "1": -1}, [("t", 0, 0, 7)]),
])  # fmt: skip
def test_a_batch_has_no_records_of_a_key_without_the_earlier_ones(ordered, caplog, ends, expected):
    given = {"endingOffsets": json.dumps({"t": ends})}
    assert ranges(KafkaBatchReader(ordered.options(**given), (), ordered.client(**given)).partitions()) == expected
    assert ("t-1: records are left out" in caplog.text) == (len(expected) == 1)


def shrink(c, count):
    c.kafka.shrink("t", count)
    c.kafka.clock.advance(1)
    c.kafka.network.run_due()


def test_an_heir_is_read_up_to_its_threshold_until_the_marked_partition_is_read(ordered):
    shrink(ordered, 1)
    ordered.append(*[b"v"] * 3)
    query = Query(ordered, maxOffsetsPerTrigger="9")
    assert [query.trigger() for _ in range(4)] == [[("t", 0, 0, 8)], [("t", 1, 0, 4)], [("t", 0, 8, 11)], None]


def test_a_removed_partition_is_no_loss_if_it_was_read_and_continues_when_it_is_added_again(ordered):
    query = Query(ordered)
    assert [query.trigger(), query.trigger()] == [[("t", 0, 0, 8)], [("t", 1, 0, 4)]]
    shrink(ordered, 1)
    ordered.kafka.delete_records(("t", 1), 4)
    ordered.kafka.controller.counts.remove_emptied()
    ordered.append(b"v")
    assert query.trigger() == [("t", 0, 8, 9)]
    ordered.kafka.expand("t", 2)
    ordered.kafka.clock.advance(1)
    ordered.kafka.network.run_due()
    ordered.append(b"v", partition=1)
    assert query.trigger() == [("t", 1, 4, 5)]


def test_offsets_are_committed_for_the_partitions_that_are_left(ordered, caplog):
    query = Query(ordered, commitGroup="g")
    query.trigger(), query.trigger()
    shrink(ordered, 1)
    ordered.kafka.delete_records(("t", 1), 4)
    ordered.kafka.controller.counts.remove_emptied()
    ordered.append(b"v")
    query.trigger(), query.trigger()
    tp = TopicPartition("t", 0)
    assert ordered.client().committed("g", [tp]) == {tp: 9}
    assert "not committed" not in caplog.text


def test_records_that_retention_deletes_before_a_partition_is_removed_are_lost(ordered):
    query = Query(ordered, maxOffsetsPerTrigger="6")
    query.trigger()
    shrink(ordered, 1)
    query.trigger()
    query.trigger()
    ordered.append(b"v", partition=0)
    ordered.kafka.delete_records(("t", 1), 4)
    ordered.kafka.controller.counts.remove_emptied()
    query.at = '{"t": {"0": 8, "1": 1}}'
    with pytest.raises(DataLossError, match=re.escape("t-1 [1, 4): deleted, and the emptied partition was removed")):
        query.trigger()


# -- the barrier

BARRIER = {"kafka.ordered.delivery": "barrier", "kafka.ordered.delivery.grace.ms": "60000"}


def test_a_topic_with_ordered_delivery_has_no_barrier(ordered):
    """Its gates are enough, and open without a grace time."""
    query = Query(ordered, maxOffsetsPerTrigger="6", **BARRIER)
    assert [query.trigger() for _ in range(3)] == [[("t", 0, 0, 6)], [("t", 0, 6, 8)], [("t", 1, 0, 4)]]
    ordered.kafka.expand("t", 3)
    ordered.append(b"v", partition=2)
    assert query.trigger() == [("t", 2, 0, 1)]
    assert query.at == '{"t": {"0": 8, "1": 4, "2": 1}}'


def expanded(cluster, count=2):
    c = cluster({"t": 1}, holds=[b"v"] * 3)
    query = Query(c, **BARRIER)
    assert query.trigger() == [("t", 0, 0, 3)]
    c.kafka.expand("t", count)
    return c, query


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_new_partition_is_held_for_the_grace_time_and_until_the_old_ones_are_read_that_far(cluster, is_restarted):
    c, query = expanded(cluster)
    c.append(b"v", partition=1)
    c.append(b"v")
    assert query.trigger() == [("t", 0, 3, 4)]
    state = json.loads(query.at)["@barrier"]["t"]
    assert state.pop("seen") == pytest.approx(c.kafka.clock.now() * 1000, abs=100)
    assert state == {"new": [1], "before": {"0": 4}, "after": None}
    c.kafka.clock.advance(59)
    c.append(b"old count")
    assert query.trigger() == [("t", 0, 4, 5)]
    if is_restarted:
        query = Query(c, at=query.at, **BARRIER)
    c.append(b"old count")
    c.kafka.clock.advance(2)
    assert query.trigger() == [("t", 0, 5, 6)]
    assert query.trigger() == [("t", 1, 0, 1)]
    assert query.at == '{"t": {"0": 6, "1": 1}}'


def test_available_now_goes_on_with_the_barrier_of_the_last_run(cluster):
    c, query = expanded(cluster)
    c.append(b"v", partition=1)
    for seconds, batches in ((61, [[], None]), (0, [[("t", 1, 0, 1)], None])):
        query = Query(c, at=query.at, **BARRIER)
        query.reader.prepareForTriggerAvailableNow()
        assert [query.trigger() for _ in batches] == batches
        c.kafka.clock.advance(seconds)


def test_old_partitions_stop_where_they_were_when_the_new_count_was_seen(cluster):
    c = cluster({"t": 2}, holds=[b"v"] * 4)
    query = Query(c, maxOffsetsPerTrigger="1", **BARRIER)
    assert query.trigger() == [("t", 0, 0, 1)]
    c.kafka.expand("t", 3)
    assert query.trigger() == [("t", 0, 1, 2)]
    c.append(b"v", partition=1)
    found = [query.trigger() for _ in range(3)]
    assert found == [[("t", 0, 2, 3)], [("t", 0, 3, 4)], [("t", 1, 0, 1)]]


def test_a_wrong_barrier_in_a_checkpoint_is_refused(cluster):
    query = Query(cluster(), at='{"t": {"0": 0, "1": 0}, "@barrier": {"t": {"seen": 1}}}', **BARRIER)
    with pytest.raises(KafkaConfigurationError, match="were not written by this source"):
        query.trigger()


# -- pure functions


def test_a_later_new_partition_waits_for_the_ones_that_it_may_have_been_split_off_from():
    when, grace = LookedUp(100_000, 100_000), 0
    begin, latest = {0: 5, 1: 5}, {0: 5, 1: 5, 2: 3, 3: 4, 5: 1}
    found, barrier = open_topic(begin, latest, None, when, grace)
    assert found == {0: 5, 1: 5, 2: 3, 3: 4}, "5 may have keys of 2"
    found, barrier = open_topic({**begin, 2: 2, 3: 0}, latest, barrier, when, grace)
    assert found == {0: 5, 1: 5, 2: 3, 3: 4}, "2 is not read to the end that it had after the grace time"
    found, _ = open_topic({**begin, 2: 3, 3: 4}, latest, barrier, when, grace)
    assert found == latest


def test_another_expansion_begins_the_barrier_anew():
    _, barrier = open_topic({0: 5}, {0: 5, 1: 0}, None, LookedUp(0, 1000), 60_000)
    found, again = open_topic({0: 5}, {0: 9, 1: 0, 2: 0}, barrier, LookedUp(50_000, 50_000), 60_000)
    assert (found, again.seen_ms, again.before, again.after) == ({0: 9}, 50_000, {0: 9}, None)


@pytest.mark.parametrize(("begin", "latest"), [({}, {0: 5, 1: 5}), ({0: 3, 1: 3}, {0: 5, 1: 5})])
def test_a_new_topic_and_one_without_new_partitions_have_no_barrier(begin, latest):
    assert open_topic(begin, latest, None, LookedUp(0, 0), 60_000) == (latest, None)


def test_without_gates_all_is_open():
    assert TopicOrder(frozenset(), {}).open_ends({}, {}, {}) == {}
