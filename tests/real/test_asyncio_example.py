"""The asyncio example reads every record in order, and neither blocks the event loop nor spins."""

import asyncio
import importlib.util
import sys
import time
from pathlib import Path

import pytest
from realkafka import produce

from thinconsumer import Consumer, TopicPartition

EXAMPLE = Path(__file__).parents[2] / "examples" / "asyncio_consumer.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no descriptor to watch there")


@pytest.fixture
def records():
    """The example's async generator; the file is no package."""
    spec = importlib.util.spec_from_file_location("asyncio_consumer", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.records


def test_everything_is_read_in_order_while_others_have_their_turn(kafka, new_topic, records):
    topic = new_topic(kafka, partitions=1)
    produce.with_confluent(kafka.bootstrap, topic, produce.numbered(20_000))
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async def read(consumer):
        ticking = asyncio.create_task(tick())
        offsets = []
        async for record in (stream := records(consumer)):
            offsets.append(record.offset)
            if len(offsets) == 20_000:
                break
        await stream.aclose()
        ticking.cancel()
        return offsets

    with Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        offsets = asyncio.run(asyncio.wait_for(read(consumer), 30))
    assert offsets == list(range(20_000))
    assert ticks >= 200, "a turn for others between any two polls of a hundred records"


def test_an_idle_topic_costs_next_to_nothing(kafka, new_topic, records):
    """The loop waits for the descriptor and the deadline, and does not poll without a reason."""
    topic = new_topic(kafka, partitions=1)

    async def wait(consumer):
        async def read():
            async for _ in records(consumer):
                pytest.fail("there is nothing to read")

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.5)  # connecting
        before = time.process_time()
        await asyncio.sleep(2)
        spent = time.process_time() - before
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return spent

    with Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert asyncio.run(wait(consumer)) < 0.2
