"""Reading from a cluster: which requests are sent, in which order, and how fast faults of brokers are overcome."""

import logging
import math
import sys

import pytest

from thinconsumer import Consumer, NoBrokersAvailable, TopicPartition
from thinconsumer.fetch.chunks import DECODER
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from thinconsumer_testing.broker.wire.requests import REQUESTS

#: Versions of the APIs for reading that brokers support, by Kafka version (from the sources of those versions).
BROKERS = {
    "2.1": {1: (0, 10), 2: (0, 4), 3: (0, 7), 18: (0, 2), 23: (0, 1)},
    "2.4": {1: (0, 11), 2: (0, 5), 3: (0, 9), 18: (0, 3), 23: (0, 3)},
    "2.8": {1: (0, 12), 2: (0, 6), 3: (0, 11), 18: (0, 3), 23: (0, 4)},
    "3.9": {1: (0, 17), 2: (0, 9), 3: (0, 12), 18: (0, 4), 23: (0, 4)},
    "4.x": {},
}


def cluster_of(version, nodes, topics):
    cluster = MemoryCluster(nodes, topics)
    for api, versions in BROKERS[version].items():
        cluster.set_versions(REQUESTS[api], versions)
    return cluster


class Reader:
    """A consumer on a cluster in memory that remembers what it read."""

    def __init__(self, cluster, assigned, *, seed=0, **options):
        self.cluster = cluster
        self.clock = cluster.clock
        options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **options}
        self.consumer = Consumer(driver=cluster.driver(seed), **options)
        self.consumer.assign(assigned)
        self.found = {tp: [] for tp in assigned}
        self.arrived = {}

    def poll(self, timeout_ms=1000, **how):
        """Poll once; return how many records came."""
        came = self.consumer.poll(timeout_ms, **how)
        for tp, records in came.items():
            for record in records:
                self.found[tp].append(record.offset)
                self.arrived[tp, record.offset] = self.clock.now()
        return sum(map(len, came.values()))

    def run(self, seconds, timeout_ms=100):
        """Poll until so much time has passed; outages are taken in silence."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            try:
                self.poll(min(timeout_ms, (end - self.clock.now()) * 1000))
            except NoBrokersAvailable:
                pass

    def close(self):
        self.consumer.close()
        assert not self.cluster.received(FindCoordinatorRequest)
        assert self.cluster.bugs == [] and not self.cluster.invalid_requests


@pytest.fixture
def reader(closed_at_end):
    return lambda *args, **options: closed_at_end(Reader(*args, **options))


def partitions(count, topic="t"):
    return [TopicPartition(topic, number) for number in range(count)]


def write(cluster, tp, count=1, value=b"x", batches=1):
    for _ in range(batches):
        cluster.produce(tp.topic, [value] * count, tp.partition)


def write_each(cluster, tps, *how, **more):
    for tp in tps:
        write(cluster, tp, *how, **more)


def cluster_and_partitions(nodes, count):
    return MemoryCluster(nodes, {"t": count}), partitions(count)


def fetches(cluster, node_id=None):
    return [received.message for received in cluster.received(FetchRequest, node_id)]


def asked_partitions(fetch):
    return [p.partition for topic in fetch.topics for p in topic.partitions]


@pytest.fixture
def log_lines(caplog):
    """Return a function: lines of the package at INFO and above so far."""
    caplog.set_level(logging.INFO, "thinconsumer")
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("thinconsumer")]


# -- versions


@pytest.mark.parametrize("version", BROKERS)
def test_every_broker_version_is_read_correctly(reader, version):
    """Read, seek, look up, follow a leader, see an expiry: the same from 2.1 to 4.x."""
    cluster = cluster_of(version, 2, {"t": 2})
    t0, t1 = tps = partitions(2)
    write(cluster, t0, 3, batches=2)
    write(cluster, t1, 2)
    r = reader(cluster, tps, metadata_max_age_ms=2000)
    assert r.consumer.end_offsets(tps) == {t0: 6, t1: 2}
    assert r.consumer.topics() == {"t"}
    assert r.consumer.offsets_for_times({t0: 0})[t0].offset == 0
    while r.poll():
        pass
    assert r.found == {t0: [0, 1, 2, 3, 4, 5], t1: [0, 1]}
    cluster.move_leader(t0, 2)
    write(cluster, t0, 2)
    r.run(10)
    assert r.found[t0] == [0, 1, 2, 3, 4, 5, 6, 7]
    r.consumer.seek(t0, 1)
    cluster.delete_records(t0, 3)
    r.run(3)
    assert r.found[t0][8:] == [3, 4, 5, 6, 7]
    assert r.consumer.lag() == {t0: 0, t1: 0}


# -- pipelining and sessions


def test_next_fetch_reaches_the_broker_before_anything_is_decoded(reader):
    """While we decode, the broker works: that is where one thread gets its throughput from."""
    cluster, (tp,) = cluster_and_partitions(1, 1)
    write(cluster, tp, 10, batches=3)
    seen = []

    def counting(data):
        seen.append([p.fetch_offset for fetch in fetches(cluster) for topic in fetch.topics for p in topic.partitions])
        return data

    # One batch per answer: the second request must be there before the first record of the first answer is decoded.
    r = reader(cluster, [tp], value_deserializer=counting, max_partition_fetch_bytes=1)
    network = cluster.network
    assert r.poll(max_records=1) == 1
    assert seen[0] == [0]
    assert r.consumer._shell.engine.network.in_flight  # the second one is written; it crosses the network now
    network.clock.advance(network.latency)
    network.run_due()
    assert [p.fetch_offset for fetch in fetches(cluster) for topic in fetch.topics for p in topic.partitions] == [0, 10]


def test_sessions_say_only_what_changed(reader):
    """After the first request nothing is named but what moved; nothing at all while idle (KIP-227)."""
    cluster, tps = cluster_and_partitions(1, 20)
    r = reader(cluster, tps)
    r.run(3)
    write(cluster, tps[7], 2)
    r.run(3)
    first, *others = fetches(cluster)
    assert len(asked_partitions(first)) == 20
    assert [asked_partitions(fetch) for fetch in others if asked_partitions(fetch)] == [[7]]
    assert [fetch.session_epoch for fetch in others] == list(range(1, len(others) + 1))


def test_without_sessions_everything_is_named_each_time(reader):
    cluster = MemoryCluster(1, {"t": 3})
    r = reader(cluster, partitions(3), enable_incremental_fetch_sessions=False)
    r.run(2)
    assert {len(asked_partitions(fetch)) for fetch in fetches(cluster)} == {3}
    assert {fetch.session_epoch for fetch in fetches(cluster)} == {-1}


# -- partitions and brokers do not delay each other


@pytest.mark.once
def test_leaderless_partition_does_not_slow_the_others(reader):
    """30 s without a leader: the other two get every record within a moment, and the third resumes within a second."""
    cluster = MemoryCluster(3, {"t": 3})
    tps = t0, t1, t2 = partitions(3)
    r = reader(cluster, tps)
    r.run(2)
    start = cluster.clock.now()
    cluster.remove_leader(t0)
    written = {}

    def produce(tp):
        written[tp, cluster.leader(tp).log.end_offset] = cluster.clock.now()
        write(cluster, tp)

    for tenth in range(300):
        for tp in (t1, t2):
            cluster.network.call_at(start + tenth / 10, lambda tp=tp: produce(tp))
    r.run(30)
    late = [r.arrived[key] - at for key, at in written.items()]
    assert len(late) == 600
    assert max(late) < 0.05
    assert r.found[t0] == []
    cluster.move_leader(t0, 2)
    write(cluster, t0)
    back = cluster.clock.now()
    r.run(5)
    assert r.found[t0] == [0]
    assert r.arrived[t0, 0] - back <= 1.3


def test_leader_that_is_back_on_another_node_is_used_at_once(reader):
    """NOT_LEADER with a hint (KIP-951), FENCED_LEADER_EPOCH without one: the new leader is asked within a moment."""
    for version in ("4.x", "2.8"):
        cluster = cluster_of(version, 2, {"t": 1})
        (tp,) = partitions(1)
        r = reader(cluster, [tp])
        r.run(2)
        for _ in range(6):
            moved = cluster.clock.now()
            cluster.move_leader(tp)
            write(cluster, tp)
            r.run(2)
            assert r.arrived[tp, r.found[tp][-1]] - moved < 1
        assert r.found[tp] == list(range(6))


def test_hot_partition_does_not_starve_the_others(reader):
    """One partition always has more than fits; records of the others come within a few polls."""
    cluster = MemoryCluster(1, {"t": 4})
    hot, *cold = partitions(4)
    write(cluster, hot, 50, b"h" * 100, batches=100)
    r = reader(cluster, [hot, *cold], fetch_max_bytes=20_000, max_partition_fetch_bytes=20_000, max_poll_records=50)
    for _ in range(3):
        r.poll()
    for tp in cold:
        write(cluster, tp, 5)
    for _ in range(12):
        r.poll()
    assert [len(r.found[tp]) for tp in cold] == [5, 5, 5]
    assert len(r.found[hot]) >= 200


def test_buffered_bytes_stay_below_the_cap(reader):
    """50 partitions with megabytes behind each, read one record at a time."""
    cluster, tps = cluster_and_partitions(2, 50)
    write_each(cluster, tps, 10, b"v" * 1000, batches=10)
    cap = 200_000
    r = reader(cluster, tps, max_buffered_bytes=cap, max_poll_records=20)
    most = 0
    for _ in range(400):
        r.poll(50)
        most = max(most, r.consumer._reader.managers.buffer.pinned)
    batch = 11_000
    assert most <= cap + 2 * batch
    assert all(found == list(range(len(found))) for found in r.found.values())
    assert sum(map(len, r.found.values())) == 5000


# -- replicas


def test_preferred_replica_is_read_and_left(reader):
    """The leader names a follower in our rack; that one is asked, and the leader again once the follower dies."""
    cluster = MemoryCluster(3, {"t": 1}, racks=["there", "here", "there"])
    (tp,) = partitions(1)
    write(cluster, tp, 3)
    r = reader(cluster, [tp], client_rack="here")
    r.run(3)
    assert r.found[tp] == [0, 1, 2]
    assert fetches(cluster, 1)[0].rack_id == "here"
    assert len(fetches(cluster, 2)) > len(fetches(cluster, 1))
    cluster.kill(2, noticed_after_s=0)
    died = cluster.clock.now()
    write(cluster, tp, 2)
    r.run(3)
    assert r.found[tp] == [0, 1, 2, 3, 4]
    assert r.arrived[tp, 4] - died <= 1


def test_without_a_rack_the_leader_is_read(reader):
    cluster = MemoryCluster(2, {"t": 1}, racks=["there", "here"])
    (tp,) = partitions(1)
    write(cluster, tp, 3)
    r = reader(cluster, [tp])
    r.run(3)
    assert r.found[tp] == [0, 1, 2]
    assert fetches(cluster, 2) == []


# -- topics that come and go


def test_topic_that_is_created_later_is_read_within_two_seconds(reader):
    cluster = MemoryCluster(1, {"u": 1})
    tp = TopicPartition("t", 0)
    r = reader(cluster, [tp])
    r.run(20)
    cluster.create_topic("t", 1)
    write(cluster, tp, 2)
    created = cluster.clock.now()
    r.run(3)
    assert r.found[tp] == [0, 1]
    assert r.arrived[tp, 1] - created <= 2


@pytest.mark.once
def test_deleted_topic_is_one_line_and_the_others_go_on(reader, log_lines):
    """Ten minutes after the deletion: at most a line per minute, metadata asked about once a second at most."""
    cluster = MemoryCluster(2, {"t": 1, "gone": 2})
    tps = [TopicPartition("t", 0), TopicPartition("gone", 0), TopicPartition("gone", 1)]
    r = reader(cluster, tps)
    r.run(3)
    lines, asked = len(log_lines()), len(cluster.received(MetadataRequest))
    cluster.delete_topic("gone")
    start = cluster.clock.now()
    for second in range(0, 600, 5):
        cluster.network.call_at(start + second, lambda: write(cluster, tps[0]))
    r.run(600, timeout_ms=5000)
    assert r.found[tps[0]] == list(range(120))
    assert len(log_lines()) - lines <= 10
    assert any("gone" in line for line in log_lines()[lines:])
    assert len(cluster.received(MetadataRequest)) - asked <= 900


# -- outages


@pytest.mark.once
def test_an_hour_without_brokers_is_a_line_a_minute_for_each(reader, log_lines):
    """Dead brokers, polls for an hour, then back: about a line a minute for each broker, no busy loop."""
    cluster, tps = cluster_and_partitions(2, 2)
    write_each(cluster, tps, 3)
    r = reader(cluster, tps, reconnect_backoff_max_ms=10_000, retry_backoff_max_ms=10_000)
    r.run(3)
    lines, steps = len(log_lines()), r.consumer._shell.driver.steps
    for node in (1, 2):
        cluster.kill(node, noticed_after_s=math.inf)
    r.run(3600, timeout_ms=60_000)
    assert len(log_lines()) - lines <= 180, log_lines()[lines:]
    assert r.consumer._shell.driver.steps - steps < 20_000
    assert len(cluster.network.dials) < 4 * 3600 / 8
    for node in (1, 2):
        cluster.start(node)
    write_each(cluster, tps, 2)
    back = cluster.clock.now()
    r.run(30)
    assert r.found == {tp: [0, 1, 2, 3, 4] for tp in tps}
    assert max(r.arrived[tp, 4] for tp in tps) - back <= 25  # to be dialled again, and then to be asked again


@pytest.mark.once
def test_all_brokers_back_after_a_minute_are_read_within_three_seconds(reader):
    cluster, tps = cluster_and_partitions(2, 2)
    r = reader(cluster, tps)
    r.run(3)
    for node in (1, 2):
        cluster.kill(node, noticed_after_s=math.inf)
    r.run(60)
    for node in (1, 2):
        cluster.start(node)
    write_each(cluster, tps, 2)
    back = cluster.clock.now()
    r.run(10)
    assert r.found == {tp: [0, 1] for tp in tps}
    assert max(r.arrived.values()) - back <= 3


def test_every_address_changes(reader):
    """Kubernetes gives all brokers new addresses behind the same names: they are looked up again."""
    cluster, tps = cluster_and_partitions(2, 2)
    r = reader(cluster, tps)
    r.run(2)
    for node in (1, 2):
        cluster.network.kill(f"kafka{node}", 9092)
    for node in (1, 2):
        cluster.network.names[f"kafka{node}"] = [f"10.7.7.{node}"]
        cluster.listen(node)
    moved = cluster.clock.now()
    write_each(cluster, tps, 2)
    r.run(10)
    assert r.found == {tp: [0, 1] for tp in tps}
    assert max(r.arrived.values()) - moved < 3


def test_a_cluster_that_moved_is_found_by_its_bootstrap_name(reader):
    """No known broker answers any more: start from the bootstrap servers again (KIP-899)."""
    cluster = MemoryCluster(2, {"t": 1})
    network = cluster.network
    network.names["front"] = network.names["kafka1"]
    (tp,) = partitions(1)
    r = reader(cluster, [tp], bootstrap_servers=["front:9092"])
    write(cluster, tp, 2)
    r.run(2)
    for node_id, node in cluster.nodes.items():
        cluster.kill(node_id, noticed_after_s=0)
        network.names[node.host] = "gone"
        node.host = f"new{node_id}"
        cluster.start(node_id)
    network.names["front"] = network.names["new2"]
    write(cluster, tp, 2)
    r.run(20)
    assert r.found[tp] == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(8))
def test_black_hole_is_left_within_the_request_timeout(reader, seed):
    """The leader's network dies without a word; another replica leads soon after, and nothing waits longer."""
    cluster, tps = cluster_and_partitions(2, 2)
    r = reader(cluster, tps, seed=seed, request_timeout_ms=5000)
    r.run(2)
    cluster.network.black_hole("kafka1", 9092)
    r.run(1)
    cluster.controller.fence(1)
    elected = cluster.clock.now()
    write_each(cluster, tps, 2)
    r.run(15)
    assert r.found == {tp: [0, 1] for tp in tps}
    assert max(r.arrived.values()) - elected <= 6


# -- promises about what is never done


def test_only_what_reading_needs_is_ever_asked(reader):
    """No coordinator, no commit, no group API, whatever happens to the cluster."""
    cluster = MemoryCluster(2, {"t": 2})
    r = reader(cluster, partitions(2))
    r.run(2)
    cluster.kill(1, noticed_after_s=0)
    r.run(10)
    cluster.start(1)
    r.run(5)
    heard = {request.api for request in cluster.requests}
    wanted = {ApiVersionsRequest, MetadataRequest, ListOffsetsRequest, FetchRequest, OffsetForLeaderEpochRequest}
    assert heard <= wanted


def test_idle_consumer_steps_twice_per_long_poll(reader):
    """40 topics, nothing arriving: steps and requests follow fetch_max_wait_ms and nothing else."""
    cluster = MemoryCluster(1, {f"t{number}": 1 for number in range(40)})
    r = reader(cluster, [TopicPartition(f"t{number}", 0) for number in range(40)])
    r.run(5)
    steps, asked = r.consumer._shell.driver.steps, len(cluster.requests)
    r.run(60, timeout_ms=1000)
    assert len(cluster.requests) - asked <= 122
    assert r.consumer._shell.driver.steps - steps <= 120 * 6 + 120


@pytest.mark.parametrize(("has_numpy", "later"), [(True, 2 << 20), (False, 1 << 20)])
def test_without_numpy_a_single_partition_is_not_fetched_in_larger_responses(reading, monkeypatch, has_numpy, later):
    """Decoding one batch after the other gains nothing by them, and takes longer outside of the processor's caches."""
    w, consumer = reading(200, max_poll_records=100)
    if has_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setitem(sys.modules, DECODER, None)
    for _ in range(4):
        consumer.poll(1000)
        w.append(1)
    told = [one.partition_max_bytes for fetch in w.fetches() for topic in fetch.topics for one in topic.partitions]
    assert told[0] == 2 << 20
    assert told[-1] == later
