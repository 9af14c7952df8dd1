"""A user's own test: one member of a group crashes, the other takes over, and no order is left undone.

    pip install thinconsumer pytest kafka-python && pytest examples/testing

The broker is a real one as far as clients can tell, in a process beside this one: no Docker, no Java. The members are
kafka-python's consumers, since thinconsumer has no groups yet.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from kafka import KafkaConsumer

PARTITIONS = 3


def new_member(servers: str, topic: str) -> KafkaConsumer:
    """Return a member as the application makes it, but for timeouts that are fit for a test."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=200,
        heartbeat_interval_ms=20,
        max_poll_interval_ms=5000,
    )


def work_and_crash(servers: str, topic: str, tell: Connection) -> None:
    """Be a member that processes orders until it shares them with another, and is then gone without a word."""
    member = new_member(servers, topic)
    while True:
        for records in member.poll(timeout_ms=500).values():
            for record in records:
                tell.send(record.value)
            if len(member.assignment()) < PARTITIONS:
                os._exit(1)  # as a crash does: nothing is committed or closed, nobody is told, the sockets just die


def test_the_other_member_takes_over_what_a_crashed_one_left(kafka_broker, kafka_topic):
    """Two members share three partitions, one crashes: the other gets all three, and every order is processed."""
    topic = kafka_topic(partitions=PARTITIONS)
    hear, tell = multiprocessing.Pipe(duplex=False)
    work = (kafka_broker.bootstrap_servers, topic, tell)
    crashing = multiprocessing.get_context("fork").Process(target=work_and_crash, args=work)
    crashing.start()
    tell.close()
    surviving = new_member(kafka_broker.bootstrap_servers, topic)

    written: set[bytes] = set()
    processed: set[bytes] = set()
    deadline = time.monotonic() + 20
    has_taken_over = False
    while not has_taken_over or processed != written:
        assert time.monotonic() < deadline, f"not processed: {written - processed}"
        has_taken_over |= not crashing.is_alive() and len(surviving.assignment()) == PARTITIONS
        if not has_taken_over:  # orders keep coming, meanwhile to partitions that nobody reads
            for partition in range(PARTITIONS):
                order = f"order {len(written)}".encode()
                kafka_broker.produce(topic, [order], partition)
                written.add(order)
        for records in surviving.poll(timeout_ms=500).values():
            processed.update(record.value for record in records)

    surviving.close()
    assert crashing.exitcode == 1
    assert hear.recv() in written  # it had begun some; since it committed nothing, the other did those as well
