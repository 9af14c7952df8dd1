"""Workers while a partition is added to a topic with ordered delivery, on the embedded broker."""

import asyncio
import threading
import time

import pytest

from tests.workers import handlers
from thinconsumer.records.builder import NewRecord
from thinconsumer.workers import AsyncWorkers, Workers, WorkerSettings

pytestmark = pytest.mark.once

KEYS, BEFORE, AFTER = 4, 8, 8
OPTIONS = {
    "heartbeat_interval_ms": 50,
    "metadata_max_age_ms": 100,
    "partition_assignment_strategy": ["cooperative-sticky"],  # an eager rebalance would wait for the handler
}
#: The last record of a key that moves: its handler runs until the new partition is held, or was read too early.
LAST_OLD = BEFORE - 1


@pytest.fixture
def growing(world):
    """The world with a topic of one partition; half of the keys move to the second one."""
    world.topic += "-growing"
    world.broker.create_topic(world.topic, 1, configs={"enable.ordered.delivery": "true"})
    produce(world, range(BEFORE), lambda key: 0)
    return world


def produce(world, numbers, partition_of):
    for n in numbers:
        record = NewRecord(b"%d" % n, b"k%d" % (n % KEYS), [("log", str(world.log).encode())])
        world.broker.produce(world.topic, [record], partition_of(n % KEYS))


class Growth:
    """Adds a partition once all records but the last old one (or its call) are finished, then lets that one finish."""

    def __init__(self, world, consumer, workers, release):
        self.world, self.consumer, self.workers, self.release = world, consumer, workers, release
        self.is_expanded, self.release_at = False, None

    def go_on(self):
        """Return whether records are left."""
        world, now = self.world, time.monotonic()
        if not self.is_expanded and world.processed(self.workers) >= BEFORE - 2:
            self.is_expanded = True
            world.broker.expand(world.topic, 2)
            produce(world, range(BEFORE, BEFORE + AFTER), lambda key: key % 2)
        if self.release_at is None and ("-1 is held until" in self.consumer.health().reason or self.new_lines()):
            self.release_at = now + 0.2
        if self.release_at is not None and now > self.release_at:
            self.release()
        return world.processed(self.workers) < BEFORE + AFTER

    def new_lines(self):
        return [line for line in self.world.lines() if line[1] == "1"]


def settings(**more):
    return WorkerSettings(concurrency=KEYS, commit_interval_ms=50, **more)


def check(world):
    assert sorted(world.values()) == list(range(BEFORE + AFTER))
    assert len([line for line in world.lines() if line[1] == "1"]) == AFTER / 2
    assert world.is_in_order()


@pytest.mark.parametrize("batch_size", [None, 3])
def test_handlers_in_threads_keep_the_order_of_keys_that_move(growing, batch_size):
    released = threading.Event()

    def handler(records):
        for record in records if batch_size else [records]:
            if record.value == LAST_OLD:
                assert released.wait(60)
            handlers.log_record(record)

    more = settings(pool="threads", batch_size=batch_size)
    with growing.consumer(**OPTIONS) as consumer, Workers(consumer, handler, more) as workers:
        growth = Growth(growing, consumer, workers, released.set)
        while growth.go_on():
            workers.wait(min(workers.step(), time.monotonic() + 0.05))
    check(growing)


def test_handlers_in_tasks_keep_the_order_of_keys_that_move(growing):
    async def main():
        released = asyncio.Event()

        async def handler(record):
            if record.value == LAST_OLD:
                await released.wait()
            handlers.log_record(record)

        consumer = growing.async_consumer(**OPTIONS)
        async with consumer, AsyncWorkers(consumer, handler, settings()) as workers:
            growth = Growth(growing, consumer, workers, released.set)
            while growth.go_on():
                await workers.step()

    asyncio.run(main())
    check(growing)
