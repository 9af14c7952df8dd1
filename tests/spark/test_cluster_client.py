"""The driver's requests: selection of partitions, number of requests, retries, and commits."""

import pickle

import pytest

from thinconsumer import KafkaError, TopicAuthorizationFailedError, TopicPartition, UnknownTopicOrPartitionError
from thinconsumer.broker import Reply
from thinconsumer.records.builder import NewRecord
from thinconsumer.spark.cluster_client import COMMIT_PAUSE_S
from thinconsumer.wire.error_codes import Code

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
def test_options_select_partitions_and_topic_ids(cluster, chosen, expected):
    c = cluster({"u": 1, "t": 2, "vw": 1})
    found = c.client(**chosen).partitions()
    assert list(found) == expected
    assert all(topic_id == c.kafka.controller.image.topics[tp.topic].topic_id for tp, topic_id in found.items())


def test_a_missing_topic_is_an_error_with_advice(cluster):
    client = cluster().client(subscribe="t,nope")
    with pytest.raises(
        UnknownTopicOrPartitionError, match="topic 'nope' does not exist .*correct the option subscribe"
    ):
        client.partitions()


def test_a_deleted_topic_is_left_out_only_after_retries(cluster):
    c = cluster()
    assert list(c.client(subscribe="t,gone").partitions(known={TopicPartition("gone", 0): 3})) == [T0, T1]
    assert c.slept == [1.0, 1.0]


def test_a_missing_partition_is_named_at_once(cluster):
    """ListOffsets for it would time out after three minutes without naming it."""
    c = cluster()
    chosen = {"assign": '{"t":[0,7],"nope":[1]}'}
    begun = c.kafka.clock.now()
    with pytest.raises(
        UnknownTopicOrPartitionError, match="partition nope-1, t-7 does not exist .*correct the option assign"
    ):
        c.client(**chosen).partitions()
    assert c.kafka.clock.now() - begun < 5
    assert list(c.client(**chosen).partitions(known={T0: 1})) == [T0]


def test_log_ends_before_known_offsets_are_requested_again(cluster):
    c = cluster(holds=[b"a"])
    client = c.client(**{"fetchOffset.numRetries": "4", "fetchOffset.retryIntervalMs": "20"})
    assert client.latest([T0], {T0: 5}).offsets == [{T0: 1}]
    assert c.slept == [0.02] * 3


def test_retriable_errors_are_retried_with_a_new_consumer_and_others_are_raised(cluster):
    c = cluster()
    client = c.client(**{"kafka.default.api.timeout.ms": "500"})
    rule = c.kafka.on("ListOffsets", Reply(Code.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(KafkaError):
        client.earliest([T0])
    assert c.slept == [1.0, 1.0]
    assert len(c.made) == 3
    c.kafka.rules.remove(rule)
    rule = c.kafka.on("ListOffsets", Reply(Code.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(TopicAuthorizationFailedError):
        client.earliest([T0])
    assert len(c.slept) == 2
    c.kafka.rules.remove(rule)
    assert client.earliest([T0]) == {T0: 0}


def test_the_client_is_pickled_without_its_connections(cluster):
    from thinconsumer.spark.cluster_client import ClusterClient

    c = cluster()
    client = c.client()
    client.partitions()
    assert client.__getstate__()["_consumer"] is None
    assert isinstance(pickle.loads(pickle.dumps(ClusterClient(c.options()))), ClusterClient)


def test_the_first_records_of_the_largest_ranges_are_sampled(cluster):
    c = cluster(holds=[b"x" * 100] * 50)
    c.append(NewRecord(b"y" * 10, key=b"k", headers=[("h", b"vv"), ("n", None)]), None, partition=1)
    client = c.client()
    assert sorted(client.sizes({T0: 0, T1: 0}, {T0: 50, T1: 2})) == [(2, 15), (50, 5000)]
    assert client.sizes({T0: 50}, {T0: 50}) == []
    assert client.earliest([T0]) == {T0: 0}


def test_a_failed_sample_is_empty_and_not_an_error(cluster, caplog):
    """Deleted records are one reason; failOnDataLoss decides whether that is an error."""
    c = cluster(holds=[b"a"])
    c.append(b"b")
    c.kafka.delete_records(("t", 0), 1)
    client = c.client()
    assert client.sizes({T0: 0}, {T0: 2}) == []
    assert "no records could be sampled" in caplog.text
    assert (client.sizes({T0: 1}, {T0: 2}), c.slept) == ([(1, 1)], [])


def test_offsets_are_committed_and_fetched_for_a_group(cluster):
    client = cluster().client()
    assert client.committed("g", [T0, T1]) == {T0: None, T1: None}
    client.commit("g", {T0: 7})
    assert client.committed("g", [T0, T1]) == {T0: 7, T1: None}
    assert client.committed("g", []) == {}
    client.commit("g", {})
    client.close()


def test_a_failed_commit_is_logged_and_repeated_only_after_a_pause(cluster, caplog):
    """Waiting in every micro-batch would make a stream ten times as slow while the coordinator is away."""
    c = cluster()
    client = c.client(**{"kafka.default.api.timeout.ms": "200"})
    client.partitions()
    c.kafka.on("FindCoordinator", Reply(Code.COORDINATOR_NOT_AVAILABLE))
    assert not client.commit("g", {T0: 7})
    assert "offsets were not committed for group 'g' (the query goes on)" in caplog.text
    before = c.kafka.clock.now()
    assert not client.commit("g", {T0: 8})
    assert (c.kafka.clock.now(), len(c.made)) == (before, 2)
    assert not client.commit("g", {T0: 9}, last=True)
    assert len(c.made) == 3
    c.kafka.clock.advance(COMMIT_PAUSE_S)
    assert not client.commit("g", {T0: 9})
    assert len(c.made) == 4
    assert list(client.partitions()) == [T0, T1]  # other requests keep their connection
    assert len(c.made) == 4
