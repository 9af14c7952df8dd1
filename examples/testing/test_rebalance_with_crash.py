"""Tests of an application: one member of a group crashes, the other takes over, and no order is lost.

    pip install thinconsumer pytest && pytest examples/testing

The first test uses an embedded broker in a second process and a member that really crashes. The second is a simulation,
in which a session timeout of 45 seconds passes in milliseconds. Neither needs Docker or Java.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from thinconsumer import Consumer

PARTITIONS = 3


def new_member(servers: str, topic: str) -> Consumer[bytes | None, bytes | None]:
    """Return a member configured like the application's, with timeouts short enough for a test."""
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
    """Process orders as a member until a second one has joined, then crash without closing."""
    member = new_member(servers, topic)
    has_begun = False
    while True:
        for records in member.poll(timeout_ms=100).values():
            for record in records:
                tell.send(record.value)
                has_begun = True
        if has_begun and len(member.assignment()) < PARTITIONS:
            os._exit(1)  # no commit, no LeaveGroup, no close: the operating system closes the sockets


def test_the_other_member_takes_over_what_a_crashed_one_left(kafka_broker, kafka_topic):
    """The surviving member of two gets all three partitions and processes every order."""
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
            if not has_taken_over:  # orders are still written, also to the crashed member's partitions
                for partition in range(PARTITIONS):
                    order = f"order {len(written)}".encode()
                    kafka_broker.produce(topic, [order], partition)
                    written.add(order)
            for records in surviving.poll(timeout_ms=50).values():
                processed.update(record.value for record in records)

    assert crashing.exitcode == 1
    # The crashed member had processed some orders without a commit, so the other one processed them again.
    assert hear.recv() in written


def test_takeover_after_a_session_timeout_in_virtual_time(simulation):
    """A member is cut off by the network; the other takes over after its session timeout, 45 virtual seconds."""
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
        assert simulation.now() < 1200, "the test did not end in time"  # virtual time begins at 1000
        processed.extend(record.value for found in member.poll(ms).values() for record in found)

    while not other.assignment() or len(set(processed)) < PARTITIONS:
        work(one, 100)
        work(other, 100)
    simulation.partition({"one"}, {1, 2, 3})
    processed.clear()
    cut_at = simulation.now()
    # Nothing was committed, so the other member processes the orders of all partitions again.
    while len(processed) < PARTITIONS:
        work(other, 1000)
    assert 40 < simulation.now() - cut_at < 50

    simulation.heal()
    while one.assignment() == other.assignment() or len(other.assignment()) == PARTITIONS:
        work(one, 100)  # its heartbeat is rejected with UNKNOWN_MEMBER_ID, and it joins again
        work(other, 100)
    one.close()
    other.close()
    simulation.check()
