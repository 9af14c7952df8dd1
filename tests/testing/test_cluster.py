"""The embedded broker's cluster in memory, as a consumer's test uses it."""

import math

import pytest

from thinconsumer import Consumer, IllegalArgumentError, TopicPartition
from thinconsumer.broker import ListenerSecurity
from thinconsumer.testing import MemoryCluster, MemoryDriver
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest

TPS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.fixture
def cluster():
    cluster = MemoryCluster(2, {"orders": 2})
    yield cluster
    assert cluster.bugs == [] and not cluster.invalid_requests


def consumer_of(cluster):
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers, driver=cluster.driver(), auto_offset_reset="earliest"
    )
    consumer.assign(TPS)
    return consumer


def values(records):
    return sorted(record.value for batch in records.values() for record in batch)


def leaders(cluster):
    return [cluster.controller.image.partition(*tp).leader for tp in TPS]


def test_records_are_read_and_requests_recorded(cluster):
    cluster.produce("orders", [b"a", b"b"])
    with consumer_of(cluster) as consumer:
        assert values(consumer.poll(timeout_ms=60_000)) == [b"a", b"b"]
    (fetch, *_) = cluster.received(FetchRequest, node=2)
    assert (fetch.node_id, fetch.api, fetch.message.max_wait_ms) == (2, FetchRequest, 500)
    assert fetch.at >= cluster.received(MetadataRequest)[0].at > 1000.0
    assert {fetch.node_id for fetch in cluster.received(FetchRequest)} == {1, 2}
    assert [record.value for record in cluster.records("orders")] == [b"a", b"b"]


def group_of_two(**seeds):
    """Let two members of the consumer group protocol read two records; return their assignments, values and ids."""
    cluster = MemoryCluster(1, {"orders": 2}, group_consumer_assignment_interval_ms=0)
    options = {"group_id": "g", "group_protocol": "consumer", "auto_offset_reset": "earliest"}
    servers = cluster.bootstrap_servers
    members = [Consumer("orders", bootstrap_servers=servers, driver=cluster.driver(**seeds), **options) for _ in "ab"]
    read = []
    for turn in range(40):
        if turn == 20:
            cluster.produce("orders", [b"a"], 0)
            cluster.produce("orders", [b"b"], 1)
        for member in members:
            read += values(member.poll(1000))
    owned, ids = [member.assignment() for member in members], [m.group_metadata().member_id for m in members]
    for member in members:
        member.close()
    return owned, sorted(read), ids


def test_two_members_have_two_ids_and_share_the_partitions():
    owned, read, ids = group_of_two()
    assert ids[0] != ids[1]
    assert owned[0] | owned[1] == set(TPS) and not owned[0] & owned[1]
    assert read == [b"a", b"b"]


def test_an_equal_run_chooses_equal_ids():
    assert group_of_two() == group_of_two()


def test_an_explicit_seed_stays():
    cluster = MemoryCluster(1)
    first, second = cluster.driver(7).random.random(), cluster.driver(7).random.random()
    assert first == second == MemoryDriver(seed=7).random.random()
    assert cluster.driver("a").random.random() != cluster.driver("b").random.random()


def test_drivers_of_clusters_with_other_seeds_choose_otherwise():
    draws = [MemoryCluster(1, seed=seed).driver().random.random() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_partitions_of_a_killed_broker_move_and_it_returns(cluster):
    with consumer_of(cluster) as consumer:
        consumer.poll(timeout_ms=1000)
        cluster.kill(1, noticed_after_s=0)
        assert leaders(cluster) == [2, 2]
        cluster.produce("orders", [b"a"])
        assert values(consumer.poll(timeout_ms=10_000)) == [b"a"]
        cluster.start(1)
        cluster.kill(2, noticed_after_s=0)
        assert leaders(cluster) == [1, 1]
        cluster.produce("orders", [b"b"], 1)
        assert values(consumer.poll(timeout_ms=10_000)) == [b"b"]


@pytest.mark.once
def test_the_controller_notices_a_death_after_the_session_timeout_or_never(cluster):
    with consumer_of(cluster) as consumer:
        cluster.kill(1)
        consumer.poll(timeout_ms=900)
        assert leaders(cluster) == [1, 2]
        consumer.poll(timeout_ms=200)
        assert leaders(cluster) == [2, 2]
        cluster.start(1)
        cluster.kill(2, noticed_after_s=math.inf)
        consumer.poll(timeout_ms=600_000)
        assert leaders(cluster) == [2, 2]


def test_a_partition_without_a_leader_is_read_once_it_has_one(cluster):
    cluster.remove_leader(TPS[0])
    with pytest.raises(LookupError):
        cluster.records("orders")
    with consumer_of(cluster) as consumer:
        assert consumer.poll(timeout_ms=5000) == {}
        assert cluster.move_leader(TPS[0], 2) == 2
        cluster.produce("orders", [b"a"])
        assert values(consumer.poll(timeout_ms=5000)) == [b"a"]


def test_settings_have_kafkas_names():
    assert MemoryCluster(auto_create_topics_enable=False).config.auto_create_topics_enable is False
    with pytest.raises(IllegalArgumentError, match="did you mean 'num.partitions'"):
        MemoryCluster(num_partition=3)


def test_timers_run_at_their_times_while_the_clock_jumps(cluster):
    moments = []
    began = cluster.clock.now()
    for seconds in (5, 1):
        cluster.schedule.call_later(seconds, lambda: moments.append(cluster.schedule.now - began))
    cluster.schedule.call_later(3, lambda: moments.append("cancelled")).cancel()
    cluster.clock.advance(10)
    cluster.network.run_due()
    assert moments == [1, 5]
    cluster.clock.advance(10)
    cluster.schedule.call_later(1, lambda: moments.append(cluster.schedule.now - began))
    cluster.network.clock.advance(1)
    cluster.network.run_due()
    assert moments == [1, 5, 21]


def test_clients_must_log_in_and_tls_needs_sockets():
    settings = {"sasl_enabled_mechanisms": ("PLAIN",), "users": {"alice": "a"}}
    cluster = MemoryCluster(security=ListenerSecurity("SASL_PLAINTEXT", **settings))
    with consumer_of(cluster) as consumer:
        consumer.poll(1000)
    assert "before the login" in cluster.invalid_requests[0]
    with pytest.raises(IllegalArgumentError, match="SASL_SSL needs sockets"):
        MemoryCluster(security=ListenerSecurity("SASL_SSL", ssl_keystore_location="server.pem", **settings))
