"""The clusters themselves: what other tests count on when they kill, pause, restart, write and read."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from realkafka import Record, jars, produce, wait_for
from realkafka.metadata import ask
from realkafka.produce import CODECS, New

HERE = Path(__file__).parent
RICH = [
    New(b"plain"),
    New(None, b"tombstone"),
    New(b"", b"", (("null", None), ("empty", b""), ("twice", b"1"), ("twice", b"2"))),
    New(b"old", timestamp=1_000_000_000_000),
    New("grüße".encode(), b"\x00\xff", (("größe", b"\xff"),), 1_700_000_000_123),
]
#: kafka-python refuses to write a header without a value.
SIMPLER = [record._replace(headers=tuple(pair for pair in record.headers if pair[1] is not None)) for record in RICH]
WRITERS = {"confluent": (produce.with_confluent, RICH), "kafka-python": (produce.with_kafka_python, SIMPLER)}


def read_with_kafka_python(bootstrap, topic, count, partitions=1, **options):
    """Read that many records from the beginning."""
    from kafka import KafkaConsumer, TopicPartition

    with produce.quiet_kafka_python():
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest", enable_auto_commit=False, **options
        )
        try:
            consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
            records = []
            deadline = time.monotonic() + 30
            while len(records) < count and time.monotonic() < deadline:
                for polled in consumer.poll(timeout_ms=500).values():
                    records += [
                        Record(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
                        for r in polled
                    ]
            return sorted(records, key=lambda record: record[:2])
        finally:
            consumer.close()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_each_writer_writes_with_each_codec_comes_back(kafka, new_topic, writer, codec):
    write, records = WRITERS[writer]
    topic = new_topic(kafka)
    written = write(kafka.bootstrap, topic, records, codec)
    assert [record[-3:] for record in written] == [(record.key, record.value, record.headers) for record in records]
    assert [record.timestamp for record in written][3:] == [1_000_000_000_000, 1_700_000_000_123]
    assert read_with_kafka_python(kafka.bootstrap, topic, len(RICH)) == written


def test_kafkas_own_consumer_reads_the_same(kafka, new_topic):
    topic = new_topic(kafka, partitions=2)
    records = [record._replace(partition=number % 2) for number, record in enumerate(RICH * 2)]
    written = produce.with_confluent(kafka.bootstrap, topic, records, "lz4")
    assert kafka.java_records(topic) == written


@pytest.mark.parametrize("writer", [produce.transactions_with_confluent, produce.transactions_with_kafka_python])
def test_aborted_transactions_are_on_the_log_and_read_committed_leaves_them_out(kafka, new_topic, writer):
    topic = new_topic(kafka)
    kept = produce.numbered(5)
    dropped = [New(b"never happened")] * 5
    committed = writer(kafka.bootstrap, topic, [(True, kept), (False, dropped), (True, kept)])
    assert [record.offset for record in committed] == [0, 1, 2, 3, 4, 12, 13, 14, 15, 16]
    seen = kafka.java_records(topic, "read_committed")
    assert [record.offset for record in seen] == [record.offset for record in committed]
    assert len(kafka.java_records(topic)) == 15


def test_idempotent_producer_numbers_its_batches(own_kafka, new_topic):
    """The producer id is in the batch header, from byte 43 on; -1 without one."""
    topic = new_topic(own_kafka)
    for idempotent in (False, True):
        produce.with_confluent(own_kafka.bootstrap, topic, produce.numbered(1), enable_idempotence=idempotent)
    (segment,) = own_kafka.data_folder(1, topic, 0).glob("*.log")
    data = wait_for(lambda: _if_long(segment.read_bytes(), 2), 5, "two batches on disk")
    (size,) = struct.unpack_from(">i", data, 8)
    ids = [struct.unpack_from(">q", data, at + 43)[0] for at in (0, 12 + size)]
    assert ids[0] == -1
    assert ids[1] >= 0


def _if_long(data, batches):
    return data if len(data) > batches * 61 else None


def test_topics_are_made_grown_cut_and_deleted(kafka, new_topic):
    topic = new_topic(kafka, partitions=2)
    produce.with_confluent(kafka.bootstrap, topic, produce.numbered(10))
    kafka.delete_records(topic, 0, 4)
    assert [record.offset for record in kafka.java_records(topic)] == [4, 5, 6, 7, 8, 9]
    kafka.add_partitions(topic, 4)
    assert sorted(kafka.describe(topic)) == [0, 1, 2, 3]
    kafka.delete_topic(topic)
    assert kafka.describe(topic) == {}


def test_compaction_happens_while_a_test_waits(own_kafka, new_topic):
    topic = new_topic(
        own_kafka,
        config={
            "cleanup.policy": "compact",
            "segment.ms": 100,
            "min.cleanable.dirty.ratio": 0.01,
            "max.compaction.lag.ms": 100,
        },
    )
    for number in range(3):
        produce.with_confluent(own_kafka.bootstrap, topic, [New(str(number).encode(), b"same key")] * 10)

    def offsets():
        produce.with_confluent(own_kafka.bootstrap, topic, [New(b"x", b"another key")])  # rolls the segment
        found = [record.offset for record in own_kafka.java_records(topic) if record.key == b"same key"]
        return found == [29]

    wait_for(offsets, 30, "one record per key")


def test_tools_of_kafka_run_against_it(kafka, new_topic):
    topic = new_topic(kafka)
    produce.with_confluent(kafka.bootstrap, topic, produce.numbered(100))
    assert topic in kafka.java_tool("org.apache.kafka.tools.TopicCommand", "--list")
    table = kafka.java_tool(
        "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", "100", "--timeout", "20000"
    )
    assert ", 100, " in table


def test_a_killed_broker_keeps_what_it_acknowledged(own_kafka, new_topic):
    topic = new_topic(own_kafka)
    written = produce.with_confluent(own_kafka.bootstrap, topic, produce.numbered(100), acks="all")
    own_kafka.kill(1)
    assert not own_kafka.running(1)
    with pytest.raises(ConnectionRefusedError):
        ask("127.0.0.1", own_kafka.ports[1])
    own_kafka.restart(1)
    own_kafka.wait_for_partitions(topic, 1)
    assert own_kafka.java_records(topic) == written


def test_a_paused_broker_accepts_connections_and_says_nothing(own_kafka):
    own_kafka.pause(1)
    try:
        with pytest.raises(TimeoutError):
            ask("127.0.0.1", own_kafka.ports[1], seconds=0.5)
        assert own_kafka.running(1)
    finally:
        own_kafka.resume(1)
    assert set(ask("127.0.0.1", own_kafka.ports[1]).nodes) == {1}


def test_three_brokers_replicate_on_three_racks(kafka3, new_topic):
    topic = new_topic(kafka3, partitions=3)
    assert kafka3.nodes() == {1, 2, 3}
    for partition in kafka3.describe(topic).values():
        assert set(partition.replicas) == {1, 2, 3}
    assert {kafka3.leader(topic, partition) for partition in range(3)} == {1, 2, 3}


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_leadership_leaves_a_broker_that_is_killed_or_paused(kafka3, new_topic, how):
    topic = new_topic(kafka3)
    kafka3.wait_in_sync(topic)
    old = kafka3.leader(topic)
    getattr(kafka3, how)(old)
    new = kafka3.wait_for_leader(topic, other_than=old)
    assert new in {1, 2, 3} - {old}
    written = produce.with_confluent(kafka3.bootstrap, topic, produce.numbered(3), acks="all")
    if how == "kill":
        kafka3.restart(old)
    else:
        kafka3.resume(old)
    kafka3.wait_in_sync(topic)
    assert kafka3.java_records(topic) == written


def test_a_steady_producer_loses_nothing_while_brokers_restart(kafka3, new_topic):
    topic = new_topic(kafka3, partitions=2)
    kafka3.wait_in_sync(topic)
    with produce.SteadyProducer(kafka3.bootstrap, topic, 2) as producer:
        wait_for(lambda: min(producer.acknowledged.values()) > 50, 30, "some records")
        kafka3.kill(kafka3.leader(topic))
        before = dict(producer.acknowledged)
        wait_for(
            lambda: all(producer.acknowledged[p] > before[p] + 50 for p in before),
            60,
            "writing after the leader's death",
        )
    counts = producer.stop()
    records = kafka3.java_records(topic)
    for partition, count in counts.items():
        values = [record.value for record in records if record.partition == partition]
        assert values == [str(number).encode() for number in range(count)]


@pytest.mark.parametrize(("format_version", "magic"), [("0.9.0", 0), ("0.10.2", 1), ("2.8", 2)])
def test_the_old_broker_keeps_old_formats(kafka28, new_topic, format_version, magic):
    """The magic byte is at offset 16 in every format."""
    topic = new_topic(kafka28, config={"message.format.version": format_version})
    produce.with_confluent(kafka28.bootstrap, topic, produce.numbered(5), "gzip")
    (segment,) = kafka28.data_folder(1, topic, 0).glob("*.log")
    data = wait_for(segment.read_bytes, 5, "a segment")
    assert data[16] == magic
    assert len(read_with_kafka_python(kafka28.bootstrap, topic, 5)) == 5


def test_the_old_broker_comes_back_after_a_kill(kafka28, new_topic):
    topic = new_topic(kafka28)
    written = produce.with_confluent(kafka28.bootstrap, topic, produce.numbered(5))
    kafka28.kill(1)
    kafka28.restart(1)
    kafka28.wait_for_partitions(topic, 1)
    assert kafka28.java_records(topic) == written


def test_brokers_die_with_a_run_that_is_killed(kafka, tmp_path):
    """No cleanup runs after SIGKILL: what is left behind would slow every later run on this machine."""
    if sys.platform != "linux":
        pytest.skip("only Linux can do that")
    code = f"""
        import sys, time
        sys.path.insert(0, {str(HERE)!r})
        from realkafka import new_cluster
        cluster = new_cluster().start()
        print(cluster.folder, *cluster.pids(), flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        folder, *pids = child.stdout.readline().split()
        assert pids
        assert all(_alive(int(pid)) for pid in pids)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    wait_for(lambda: not any(_alive(int(pid)) for pid in pids), 10, f"the end of {pids}")
    subprocess.run(["rm", "-r", folder], check=True)


def _alive(pid):
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        os.kill(pid, 0)
        return state != "Z"
    return False


def test_ports_are_free_and_out_of_the_way_of_outgoing_connections():
    from realkafka.layout import PORTS, free_ports

    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        assert port in PORTS
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_without_java_or_maven_it_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("THINCONSUMER_CACHE", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(jars.NoJars, match="no mvn"):
        jars.class_path(jars.CURRENT)
    with pytest.raises(jars.NoJars, match="no java"):
        jars.java()
