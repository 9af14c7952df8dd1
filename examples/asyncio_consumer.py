"""Read a topic inside an asyncio program, without a thread: the event loop drives the consumer.

    python examples/asyncio_consumer.py localhost:9092 orders [GROUP]

The clock shows that nothing blocks. With ``uvloop.run`` in place of ``asyncio.run``, it works the same.
"""

from __future__ import annotations

import asyncio
import sys

from thinconsumer import TopicPartition
from thinconsumer.aio import AsyncConsumer


async def main(servers: str, topic: str, group: str | None = None) -> None:
    """Print a topic's records, and a clock beside them."""

    async def clock() -> None:
        while True:
            await asyncio.sleep(1)
            print("tick", file=sys.stderr)

    ticking = asyncio.create_task(clock())
    async with AsyncConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer:
        if group is not None:
            consumer.subscribe([topic])
        else:
            partitions = await consumer.partitions_for_topic(topic) or set()
            consumer.assign([TopicPartition(topic, number) for number in partitions])
        async for record in consumer:
            print(record.partition, record.offset, record.value, flush=True)
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
