"""Read a topic inside an asyncio program, without a thread: the event loop watches one descriptor and one deadline.

    python examples/asyncio_consumer.py localhost:9092 orders [GROUP]

``fileno()`` turns readable when there is I/O to do, ``wake_at()`` says when to call at the latest; ``poll(0)`` never
blocks. Any event loop that can watch a descriptor and set a timer can do the same. That keeps a member of a group
alive, too, as long as no other task keeps the event loop for longer than the session lasts.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from thinconsumer import Consumer, ConsumerRecord, TopicPartition

Record = ConsumerRecord["bytes | None", "bytes | None"]


async def records(consumer: Consumer[bytes | None, bytes | None]) -> AsyncIterator[Record]:
    """Yield records as they come, leaving the event loop free in between."""
    loop = asyncio.get_running_loop()
    due = asyncio.Event()
    loop.add_reader(consumer.fileno(), due.set)
    try:
        while True:
            for batch in consumer.poll(0, max_records=100).values():
                for record in batch:
                    yield record
            # One turn for everybody else, even while there is always more to read.
            await asyncio.sleep(0)
            alarm = loop.call_at(consumer.wake_at(), due.set)
            await due.wait()
            alarm.cancel()
            due.clear()
    finally:
        loop.remove_reader(consumer.fileno())


async def main(servers: str, topic: str, group: str | None = None) -> None:
    """Print a topic's records, and a clock beside them to show that nothing blocks."""

    async def clock() -> None:
        while True:
            await asyncio.sleep(1)
            print("tick", file=sys.stderr)

    ticking = asyncio.create_task(clock())
    with Consumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer:
        if group is not None:
            consumer.subscribe([topic])
        else:
            partitions = consumer.partitions_for_topic(topic) or set()
            consumer.assign([TopicPartition(topic, number) for number in partitions])
        async for record in records(consumer):
            print(record.partition, record.offset, record.value, flush=True)
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
