"""Read a topic inside an asyncio program, without a thread: the event loop watches one descriptor and one deadline.

    python examples/asyncio_consumer.py localhost:9092 orders [GROUP]

``fileno()`` turns readable when there is I/O to do, ``wake_at()`` says when to poll at the latest, ``poll(0)`` never
blocks. Any event loop that can watch a descriptor and set a timer can do the same. The member stays in its group as
long as the next record is asked for within ``session_timeout_ms``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from thinconsumer import Consumer, ConsumerRecord, TopicPartition

Record = ConsumerRecord["bytes | None", "bytes | None"]


async def records(consumer: Consumer[bytes | None, bytes | None]) -> AsyncIterator[Record]:
    """Yield records as they come, leaving the event loop free in between. It may be left at any record."""
    while True:
        # One at a time: close() commits what poll() has returned, and so only what this generator has yielded.
        found = consumer.poll(0, max_records=1)
        for [record] in found.values():
            yield record
        await (asyncio.sleep(0) if found else until_due(consumer))


async def until_due(consumer: Consumer[bytes | None, bytes | None]) -> None:
    """Wait until there is I/O to do, or a deadline of the consumer has come."""
    loop, due = asyncio.get_running_loop(), asyncio.Event()
    descriptor = consumer.fileno()
    # Registered only while waiting: a generator that is left is finalized late, after close().
    loop.add_reader(descriptor, due.set)
    alarm = loop.call_at(consumer.wake_at(), due.set)
    try:
        await due.wait()
    finally:
        alarm.cancel()
        loop.remove_reader(descriptor)


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
