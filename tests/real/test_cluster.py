"""The clusters that other tests kill, pause and restart."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from realkafka import jars, produce, wait_for
from realkafka.metadata import ask

from thinconsumer import Consumer, TopicPartition

HERE = Path(__file__).parent


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
    produce.with_confluent(own_kafka.bootstrap, topic, produce.numbered(100))
    own_kafka.kill(1)
    assert not own_kafka.running(1)
    with pytest.raises(ConnectionRefusedError):
        ask("127.0.0.1", own_kafka.ports[1])
    own_kafka.restart(1)
    own_kafka.wait_for_partitions(topic, 1)
    with Consumer(bootstrap_servers=own_kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.offset for record in consumer.read_to_end(timeout_ms=30_000)] == list(range(100))


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
