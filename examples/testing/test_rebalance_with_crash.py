"""A user's own test: one member of a group crashes, the other takes over, and no order is left undone.

    pip install thinconsumer pytest && pytest examples/testing

Twice: with a broker in a process beside this one and a member that really dies, and as a simulation, in which a session
of 45 seconds ends in no time. No Docker, no Java.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from thinconsumer import Consumer

PARTITIONS = 3


def new_member(servers: str, topic: str) -> Consumer[bytes | None, bytes | None]:
    """Return a member as the application makes it, but for timeouts that are fit for a test."""
    return Consumer(
        topic,
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=300,
        max_poll_interval_ms=300,
        heartbeat_interval_ms=30,
    )


def work_and_crash(servers: str, topic: str, tell: Connection) -> None:
    """Be a member that processes orders until it shares them with another, and is then gone without a word."""
    member = new_member(servers, topic)
    has_begun = False
    while True:
        for records in member.poll(timeout_ms=100).values():
            for record in records:
                tell.send(record.value)
                has_begun = True
        if has_begun and len(member.assignment()) < PARTITIONS:
            os._exit(1)  # as a crash does: nothing is committed or closed, nobody is told, the sockets just die


def test_the_other_member_takes_over_what_a_crashed_one_left(kafka_broker, kafka_topic):
    """Two members share three partitions, one crashes: the other gets all three, and every order is processed."""
    topic = kafka_topic(partitions=PARTITIONS)
    hear, tell = multiprocessing.Pipe(duplex=False)
    work = (kafka_broker.bootstrap_servers, topic, tell)
    crashing = multiprocessing.get_context("fork").Process(target=work_and_crash, args=work)
    crashing.start()
    tell.close()

    written: set[bytes] = set()
    processed: set[bytes | None] = set()
    deadline = time.monotonic() + 20
    has_taken_over = False
    with new_member(kafka_broker.bootstrap_servers, topic) as surviving:
        while not has_taken_over or processed != written:
            assert time.monotonic() < deadline, f"not processed: {written - processed}"
            has_taken_over |= not crashing.is_alive() and len(surviving.assignment()) == PARTITIONS
            if not has_taken_over:  # orders keep coming, meanwhile to partitions that nobody reads
                for partition in range(PARTITIONS):
                    order = f"order {len(written)}".encode()
                    kafka_broker.produce(topic, [order], partition)
                    written.add(order)
            for records in surviving.poll(timeout_ms=50).values():
                processed.update(record.value for record in records)

    assert crashing.exitcode == 1
    assert hear.recv() in written  # it had begun some; since it committed nothing, the other did those as well


def test_the_same_without_waiting(simulation):
    """One member is cut off: nobody hears of it until its session ends, 45 virtual seconds later."""
    simulation.create_topic("orders", PARTITIONS)
    for partition in range(PARTITIONS):
        simulation.produce("orders", partition, [f"order {partition}".encode()])
    one, other = (
        Consumer(
            "orders",
            driver=simulation.driver(name),
            bootstrap_servers=simulation.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        for name in ("one", "other")
    )
    processed: list[bytes | None] = []

    def work(member, ms: int) -> None:
        assert simulation.now() < 1200, "it should have ended long ago"  # virtual time begins at 1000
        processed.extend(record.value for found in member.poll(ms).values() for record in found)

    while not other.assignment() or len(set(processed)) < PARTITIONS:
        work(one, 100)
        work(other, 100)
    simulation.partition({"one"}, {1, 2, 3})
    processed.clear()
    cut_at = simulation.now()
    while len(processed) < PARTITIONS:  # nothing was committed: the other does what it took over, and its own, again
        work(other, 1000)
    assert 40 < simulation.now() - cut_at < 50

    simulation.heal()
    while one.assignment() == other.assignment() or len(other.assignment()) == PARTITIONS:
        work(one, 100)  # it hears that it was expelled, and joins again
        work(other, 100)
    one.close()
    other.close()
    simulation.check()
