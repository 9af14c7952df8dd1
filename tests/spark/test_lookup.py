"""The driver's questions: what is chosen, in how many requests, and how often they are asked again."""

from __future__ import annotations

import pickle

import pytest

from thinconsumer import (
    KafkaError,
    TopicAuthorizationFailedError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from thinconsumer.records.builder import NewRecord
from thinconsumer.spark.lookup import COMMIT_PAUSE_S
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"subscribe": "u,t"}, [T0, T1, TopicPartition("u", 0)]),
        ({"subscribePattern": "[tu]"}, [T0, T1, TopicPartition("u", 0)]),
        ({"subscribePattern": "v"}, [TopicPartition("vw", 0)][:0]),
        ({"assign": '{"t":[1]}'}, [T1]),
    ],
)
def test_partitions_are_those_that_the_options_choose(cluster, chosen, expected):
    c = cluster({"u": 1, "t": 2, "vw": 1})
    found = c.lookup(**chosen).partitions()
    assert list(found) == expected
    assert all(topic_id == c.scripted.topics.by_name[tp.topic].topic_id for tp, topic_id in found.items())


def test_topic_that_does_not_exist_is_an_error_that_says_what_to_do(cluster):
    lookup = cluster().lookup(subscribe="t,nope")
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nope'.*correct the option subscribe"):
        lookup.partitions()


def test_topic_that_is_gone_is_left_out_only_after_asking_again(cluster):
    c = cluster()
    assert list(c.lookup(subscribe="t,gone").partitions(known={TopicPartition("gone", 0): 3})) == [T0, T1]
    assert c.slept == [1.0, 1.0]


def test_partition_that_does_not_exist_is_named_at_once(cluster):
    """Its offsets have no leader to be asked of: that would take three minutes, and say that nobody had answered."""
    c = cluster()
    chosen = {"assign": '{"t":[0,7],"nope":[1]}'}
    begun = c.scripted.clock.now()
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition nope-1, t-7.*correct the option assign"):
        c.lookup(**chosen).partitions()
    assert c.scripted.clock.now() - begun < 5
    assert list(c.lookup(**chosen).partitions(known={T0: 1})) == [T0]


def test_all_offsets_are_one_round_trip(cluster):
    c = cluster({"t": 100}, node_ids=(1, 2))
    c.append(b"a", b"b", partition=1)
    lookup = c.lookup()
    tps = lookup.partitions()
    first, last = lookup.offsets(dict.fromkeys(tps, -2), dict.fromkeys(tps, -1))
    assert (first[T1], last[T1]) == (0, 2)
    assert len(c.requests(ListOffsetsRequest)) == 4
    before = len(c.requests(MetadataRequest))
    assert lookup.latest(tps, {})[T1] == 2
    assert len(c.requests(MetadataRequest)) == before  # leaders are known, and stay known
    assert len(c.requests(ListOffsetsRequest)) == 6


def test_ends_that_have_gone_back_are_asked_for_again(cluster):
    c = cluster()
    c.append(b"a")
    lookup = c.lookup(**{"fetchOffset.numRetries": "4", "fetchOffset.retryIntervalMs": "20"})
    assert lookup.latest([T0], {T0: 5}) == {T0: 1}
    assert c.slept == [0.02] * 3


def test_passing_failures_are_tried_again_with_a_new_consumer_and_final_ones_are_not(cluster):
    c = cluster()
    lookup = c.lookup(**{"kafka.default.api.timeout.ms": "500"})
    c.scripted.partition("t", 0).error_code = 6  # not the leader
    with pytest.raises(KafkaError):
        lookup.earliest([T0])
    assert c.slept == [1.0, 1.0]
    assert len(c.made) == 3
    c.scripted.partition("t", 0).error_code = 29
    with pytest.raises(TopicAuthorizationFailedError):
        lookup.earliest([T0])
    assert len(c.slept) == 2
    c.scripted.partition("t", 0).error_code = 0
    assert lookup.earliest([T0]) == {T0: 0}


def test_lookup_is_pickled_without_its_connections(cluster):
    from thinconsumer.spark.lookup import Lookup

    c = cluster()
    lookup = c.lookup()
    lookup.partitions()
    assert lookup.__getstate__()["_consumer"] is None
    assert isinstance(pickle.loads(pickle.dumps(Lookup(c.options()))), Lookup)


def test_sizes_are_those_of_the_first_records_of_the_largest_ranges(cluster):
    c = cluster()
    c.append(*[b"x" * 100] * 50)
    c.append(NewRecord(b"y" * 10, key=b"k", headers=[("h", b"vv"), ("n", None)]), None, partition=1)
    lookup = c.lookup()
    assert sorted(lookup.sizes({T0: 0, T1: 0}, {T0: 50, T1: 2})) == [(2, 15), (50, 5000)]
    assert lookup.sizes({T0: 50}, {T0: 50}) == []
    assert lookup.earliest([T0]) == {T0: 0}


def test_sizes_that_cannot_be_looked_at_are_none_and_no_error(cluster, caplog):
    """What was deleted, for one: whether that is an error is for failOnDataLoss to say, and not here."""
    c = cluster()
    c.append(b"a")
    c.append(b"b")
    c.scripted.partition("t", 0).delete_before(1)
    lookup = c.lookup()
    assert lookup.sizes({T0: 0}, {T0: 2}) == []
    assert "no records could be looked at" in caplog.text
    assert (lookup.sizes({T0: 1}, {T0: 2}), c.slept) == ([(1, 1)], [])


def test_committed_offsets_and_commits_are_a_groups(cluster):
    """Against the broker's own code, which keeps groups."""
    from thinconsumer import Consumer
    from thinconsumer.spark.lookup import Lookup
    from thinconsumer.testing import Simulation

    sim = Simulation(seed=1, topics={"t": 2})
    c = cluster()

    def connect(config):
        return Consumer.from_config({**config, "bootstrap.servers": sim.bootstrap_servers}, driver=sim.driver())

    lookup = Lookup(c.options(), connect=connect, sleep=c.sleep)
    assert lookup.committed("g", [T0, T1]) == {T0: None, T1: None}
    lookup.commit("g", {T0: 7})
    assert lookup.committed("g", [T0, T1]) == {T0: 7, T1: None}
    assert lookup.committed("g", []) == {}
    lookup.commit("g", {})
    lookup.close()


def test_commit_that_fails_is_told_and_costs_time_now_and_then_only(cluster, caplog):
    """A stream that waits for it in every micro-batch would be ten times as slow while a coordinator is away."""
    c = cluster()
    lookup = c.lookup(**{"kafka.default.api.timeout.ms": "200"})
    lookup.partitions()
    assert not lookup.commit("g", {T0: 7})
    assert "were not committed for group 'g', which the query does not need" in caplog.text
    before = c.scripted.clock.now()
    assert not lookup.commit("g", {T0: 8})
    assert (c.scripted.clock.now(), len(c.made)) == (before, 2)
    assert not lookup.commit("g", {T0: 9}, last=True)
    assert len(c.made) == 3
    c.scripted.clock.advance(COMMIT_PAUSE_S)
    assert not lookup.commit("g", {T0: 9})
    assert len(c.made) == 4
    assert list(lookup.partitions()) == [T0, T1]  # the other questions have kept their connections
    assert len(c.made) == 4
