"""A whole cluster in memory, as a consumer's test uses it."""

from __future__ import annotations

from thinconsumer import Consumer, TopicPartition
from thinconsumer.testing import ScriptedCluster
from thinconsumer.wire.fetch import FetchRequest

TPS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def consumer_of(cluster):
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver(), auto_offset_reset="earliest"
    )
    consumer.assign(TPS)
    return consumer


def values(records):
    return sorted(record.value for batch in records.values() for record in batch)


def test_the_docstrings_example_works():
    cluster = ScriptedCluster(node_ids=(1, 2), topics={"orders": 2})
    cluster.topics.append_values(TPS[0], [b"a", b"b"])
    with consumer_of(cluster) as consumer:
        assert values(consumer.poll(timeout_ms=60_000)) == [b"a", b"b"]
    assert cluster.brokers[1].received(FetchRequest)
    assert cluster.complaints == []


def test_a_killed_broker_is_noticed_its_partitions_move_and_it_comes_back():
    cluster = ScriptedCluster(node_ids=(1, 2), topics={"orders": 2})
    with consumer_of(cluster) as consumer:
        consumer.poll(timeout_ms=1000)
        cluster.kill(1)
        assert [cluster.partition("orders", n).leader for n in (0, 1)] == [2, 2]
        cluster.topics.append_values(TPS[0], [b"a"])
        assert values(consumer.poll(timeout_ms=10_000)) == [b"a"]
        cluster.start(1)
        cluster.kill(2)
        assert [cluster.partition("orders", n).leader for n in (0, 1)] == [1, 1]
        cluster.topics.append_values(TPS[1], [b"b"])
        assert values(consumer.poll(timeout_ms=10_000)) == [b"b"]
    assert cluster.complaints == []


def test_without_any_broker_partitions_have_no_leader_until_one_starts():
    cluster = ScriptedCluster(node_ids=(1,), topics={"orders": 1})
    cluster.kill(1)
    assert cluster.partition("orders").leader == -1
    cluster.start(1)
    assert cluster.partition("orders").leader == 1


def test_an_unnoticed_death_leaves_metadata_as_it_was():
    cluster = ScriptedCluster(node_ids=(1, 2), topics={"orders": 2})
    cluster.kill(1, noticed=False)
    assert set(cluster.alive) == {1, 2}
    cluster.notice(1)
    assert set(cluster.alive) == {2}
