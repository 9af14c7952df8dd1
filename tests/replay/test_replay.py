"""Traces replay to the same requests, in a process of another hash seed, and show no secret."""

import base64
import subprocess
import sys

import pytest

from thinconsumer import OffsetAndMetadata, TopicPartition
from thinconsumer.replay import RecordingConsumer, read_trace, replay
from thinconsumer_testing import MemoryCluster, Network, NewRecord

AGAIN = "import sys; from thinconsumer.replay import replay; r = replay(sys.argv[1]); print(r.divergence, r.requests)"
SECRETS = (b"s3cret-key", b"s3cret-value", b"s3cret-header", b"s3cret-metadata")


class Listener:
    """Asks for positions where they are new, and commits where they are given up."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.calls = 0

    def on_partitions_assigned(self, assigned):
        self.calls += 1
        for tp in assigned:
            self.consumer.position(tp)

    def on_partitions_revoked(self, revoked):
        self.calls += 1
        self.consumer.commit()


@pytest.fixture
def cluster():
    cluster = MemoryCluster(2, topics={"orders": 3})
    for number in range(3):
        cluster.produce(
            "orders",
            [NewRecord(b"s3cret-value %d" % n, b"s3cret-key", headers=[("h", b"s3cret-header")]) for n in range(40)],
            partition=number,
        )
    return cluster


@pytest.fixture
def trace(tmp_path):
    return str(tmp_path / "trace")


def recording(cluster, trace, *topics, **options):
    options = {"auto_offset_reset": "earliest", "bootstrap_servers": cluster.bootstrap_servers, **options}
    return RecordingConsumer(trace, *topics, driver=cluster.driver(), **options)


def read_in_group(cluster, trace):
    """A member reads all records, commits, asks, and leaves."""
    with recording(cluster, trace, group_id="readers", max_poll_records=7) as consumer:
        listener = Listener(consumer)
        consumer.subscribe(["orders"], listener=listener)
        count = 0
        while count < 110:
            count += sum(map(len, consumer.poll(1000).values()))
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(5, "s3cret-metadata", -1)})
        consumer.commit_async(callback=lambda offsets, error: None)
        assert consumer.committed({TopicPartition("orders", 0)}) == {TopicPartition("orders", 0): 40}
        consumer.seek(TopicPartition("orders", 1), 3)
        cluster.kill(2)
        consumer.poll(2000)
        cluster.start(2)
        for record, _ in zip(consumer, range(20)):
            assert record.value
    assert listener.calls >= 2


def test_a_group_member_replays_in_another_process(cluster, trace):
    read_in_group(cluster, trace)
    there = replay(trace)
    assert there.divergence is None
    assert there.events == len(read_trace(trace))
    assert there.requests > 20
    assert there.records >= 130
    for seed in "1", "2":
        done = subprocess.run(
            [sys.executable, "-c", AGAIN, trace], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == ["None", str(there.requests)], done


def test_no_secret_is_in_a_trace(cluster, trace):
    read_in_group(cluster, trace)
    shown = repr(read_trace(trace)).encode()
    for secret in SECRETS:
        for form in secret, base64.b64encode(secret)[:-4], secret.hex().encode(), secret.decode().encode("utf-16-le"):
            assert form not in shown
            assert repr(form)[2:-1].encode() not in shown


@pytest.mark.parametrize("chunk", [None, 7])
def test_a_reader_without_group_replays(trace, chunk):
    cluster = MemoryCluster(2, topics={"orders": 2}, network=Network(chunk=chunk))
    cluster.produce("orders", [b"a"] * 30)
    with recording(cluster, trace, reconnect_backoff_ms=50) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.poll(1000)
        cluster.kill(1)
        consumer.poll(5000)
        cluster.start(1)
        consumer.poll(5000)
        assert consumer.wake_at() is not None
        consumer.pause(TopicPartition("orders", 0))
        consumer.wakeup()
        with pytest.raises(Exception, match="wakeup"):
            consumer.poll(10)
    assert replay(trace).divergence is None
