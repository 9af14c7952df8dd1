"""AsyncConsumer on real Kafka reads every record in order, and neither blocks the event loop nor spins."""

import asyncio
import itertools
import random
import sys
import time
from functools import partial

import pytest
from proving import filling
from proving.loops import in_loop, read_with_cancellations
from realkafka import produce

from thinconsumer import TopicPartition
from thinconsumer.aio import AsyncConsumer
from thinconsumer.records.builder import NewRecord, build_batch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no descriptor to watch there")


def test_everything_is_read_in_order_while_others_have_their_turn(kafka, new_topic):
    topic = new_topic(kafka, partitions=1)
    produce.with_confluent(kafka.bootstrap, topic, produce.numbered(20_000))
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async def read():
        ticking, offsets = asyncio.create_task(tick()), []
        async with AsyncConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) == 20_000:
                    break
        ticking.cancel()
        return offsets

    assert asyncio.run(asyncio.wait_for(read(), 30)) == list(range(20_000))
    assert ticks >= 20, "a turn for others every few milliseconds"


@pytest.mark.parametrize("polls", [True, False], ids=["polled", "driven by the loop"])
def test_an_idle_topic_costs_next_to_nothing(kafka, new_topic, polls):
    """The loop waits for the descriptor and the deadline, and does not step without a reason."""
    topic = new_topic(kafka, partitions=1)

    async def wait():
        async with AsyncConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="latest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert await consumer.poll(500) == {}  # connecting
            before = time.process_time()
            await (consumer.poll(2000) if polls else asyncio.sleep(2))
            return time.process_time() - before

    assert asyncio.run(wait()) < 0.2


@pytest.mark.parametrize("in_group", [False, True], ids=["assigned", "in a group"])
def test_calls_that_are_cancelled_at_random_lose_and_repeat_nothing(kafka, new_topic, in_group):
    """The same with more points, and in each loop: ``tests/aio/test_cancellation.py``, on the embedded broker."""
    topic, ends = new_topic(kafka, partitions=1), itertools.count(4, 4)
    batch = build_batch([NewRecord(b"value", timestamp=1_700_000_000_000)] * 4)
    options = {"bootstrap_servers": kafka.bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}

    def write():
        filling.produce_raw(kafka.bootstrap, topic, 0, batch)
        return next(ends)

    make, tp, rng = partial(AsyncConsumer, group_id=topic, **options), TopicPartition(topic, 0), random.Random(3)
    main = partial(read_with_cancellations, in_group=in_group)
    in_loop("asyncio", main, make, write, tp, 300, rng, seconds=120)
