"""AsyncConsumer on real Kafka reads every record in order, and neither blocks the event loop nor spins."""

import asyncio
import sys
import time

import pytest
from realkafka import produce

from thinconsumer import TopicPartition
from thinconsumer.aio import AsyncConsumer

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
