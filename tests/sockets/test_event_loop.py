"""Clients in a foreign event loop, called only when their descriptor is readable or at ``wake_at()``.

Broker and client share one thread and one ``select``: when neither has bytes to read, only a deadline can cause the
next call, and it must be near.
"""

import math
import select
import sys
import time

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.driver import Address
from thinconsumer.produce.producer import Producer
from thinconsumer.produce.settings import ProducerSettings
from thinconsumer.sockets import SelectorDriver
from thinconsumer_testing.broker.server import EmbeddedBroker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="select() there has no descriptor")

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
#: The longest pause a client may prescribe while something is to be done: backoffs end sooner, setup timeouts do not.
PAUSE = 1.5


class Loop:
    """An event loop of two: a broker, and a client with what it does in its turn."""

    def __init__(self, broker, client, turn):
        self.broker = broker
        self.client = client
        self.turn = turn
        self.turns = 0

    def run(self, until, turns=2000):
        """Go on until ``until()``; fail when both would wait for what does not come."""
        while not until():
            client, broker = self.client.fileno(), self.broker.fileno()
            due = min(self.client.wake_at(), self.broker.wake_at()) - time.monotonic()
            ready, _, _ = select.select([client, broker], [], [], max(0.0, min(due, 0.05)))
            assert ready or due < PAUSE, f"nothing to read, and nobody wants to be called for {due:.1f} s"
            if broker in ready or self.broker.wake_at() <= time.monotonic():
                self.broker.step()
            if client in ready or self.client.wake_at() <= time.monotonic():
                self.turns += 1
                self.turn(self.client)
            assert self.turns < turns, "the client wants to be called all the time"


@pytest.fixture
def broker():
    with EmbeddedBroker(3, {"a": 2}) as broker:
        yield broker


def by_name(port_of):
    """Resolve any name to this host: names take a turn of the driver each, addresses do not."""
    return lambda host, port: [Address(2, ("127.0.0.1", port_of.get(host, port)))]


@pytest.fixture
def reading(broker):
    """Return (loop, found, consumer): a consumer that each turn of the loop calls with ``poll(0)``."""
    found = []

    def poll(consumer):
        for records in consumer.poll(0).values():
            found.extend((record.partition, record.value) for record in records)

    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        yield Loop(broker, consumer, poll), found, consumer


def test_a_consumer_reads_existing_records(broker, reading):
    loop, found, consumer = reading
    broker.produce("a", [b"%d" % i for i in range(700)], 0)
    broker.produce("a", [b"%d" % i for i in range(700)], 1)
    consumer.assign([A0, A1])
    loop.run(lambda: len(found) == 1400)
    assert sorted(found) == sorted((p, b"%d" % i) for p in (0, 1) for i in range(700))


@pytest.mark.parametrize(
    "change",
    [
        lambda consumer: consumer.seek(A0, 0),
        lambda consumer: consumer.seek_to_beginning(A0),
        lambda consumer: consumer.resume(A1),
        lambda consumer: (consumer.assign([]), consumer.assign([A0])),
    ],
    ids=["seek", "seek_to_beginning", "resume", "assign"],
)
def test_wake_at_is_now_after_a_change_by_the_user(broker, reading, change):
    loop, found, consumer = reading
    broker.produce("a", [b"x"], 0)
    consumer.assign([A0, A1])
    consumer.pause(A1)
    loop.run(lambda: found)
    broker.produce("a", [b"y"], 1)
    found.clear()
    change(consumer)
    assert consumer.wake_at() <= time.monotonic()
    loop.run(lambda: found)
    assert found in ([(1, b"y")], [(0, b"x")])


def test_queries_do_not_change_wake_at(broker, reading):
    """A loop that shows its lag in every turn must not be kept busy by that."""
    loop, found, consumer = reading
    broker.produce("a", [b"x"], 0)
    consumer.assign([A0])
    loop.run(lambda: found)
    for _ in range(20):
        consumer.lag(), consumer.position(A0), consumer.paused()
        consumer.poll(0)
    consumer.lag()
    assert consumer.wake_at() > time.monotonic()


def test_a_consumer_goes_on_after_an_interrupted_step(broker, reading):
    loop, found, consumer = reading
    consumer.assign([A0])
    broker.produce("a", [b"x"], 0)
    loop.run(lambda: found)
    consumer._shell.step_interrupted = True  # as Ctrl-C in the middle of a step leaves it
    broker.produce("a", [b"y"], 0)
    loop.run(lambda: len(found) == 2)


def test_a_consumer_moves_to_the_new_leader(broker, reading):
    loop, found, consumer = reading
    consumer.assign([A0])
    broker.produce("a", [b"x"], 0)
    loop.run(lambda: found)
    broker.kill(broker.cluster.leader(A0).node.node_id, noticed_after_s=0)
    broker.produce("a", [b"y"], 0)
    loop.run(lambda: len(found) == 2)


def test_names_that_wait_for_a_blocking_resolver_are_looked_up(broker):
    """One name per step of the driver: the rest must not wait until something else happens."""
    ports = {f"kafka{i}": int(one.rpartition(":")[2]) for i, one in enumerate(broker.bootstrap_servers.split(","))}
    names = ",".join(f"{name}:9092" for name in ["dead1", "dead2", *ports])
    broker.produce("a", [b"x"], 0)
    found = []
    driver = SelectorDriver(resolver=by_name({"dead1": 1, "dead2": 1, **ports}))
    with Consumer(bootstrap_servers=names, auto_offset_reset="earliest", driver=driver) as consumer:
        consumer.assign([A0])
        Loop(broker, consumer, lambda consumer: found.extend(consumer.poll(0))).run(lambda: found)


def test_a_producer_sends_its_records(broker):
    settings = ProducerSettings.from_options(bootstrap_servers=broker.bootstrap_servers, max_block_ms=0)
    with Producer(settings, driver=SelectorDriver()) as producer:
        loop = Loop(broker, producer, lambda producer: producer.poll(0))
        for _ in range(3):
            futures = [producer.send("a", b"v", partition=i % 2) for i in range(50)]
            loop.run(lambda: producer.idle)
            assert all(future.error is None for future in futures)


def test_an_idle_client_is_not_called(broker, reading):
    """Twice per long poll and no more, for a second: being called too often is the other way to get this wrong."""
    loop, found, consumer = reading
    consumer.assign([A0])
    broker.produce("a", [b"x"], 0)
    loop.run(lambda: found)
    loop.turns, end = 0, time.monotonic() + 1.0
    loop.run(lambda: time.monotonic() > end)
    assert loop.turns <= 10 and not math.isinf(consumer.wake_at())
