"""Coroutines of tests in each event loop, in which nothing may be left, and reads that are cancelled at random."""

import gc
import os
from functools import partial

import anyio

BACKENDS = {"asyncio": ("asyncio", {}), "uvloop": ("asyncio", {"use_uvloop": True}), "trio": ("trio", {})}


def running():
    """Return the tasks, without those that trio starts for itself at some time."""
    return [task for task in anyio.get_running_tasks() if not (task.name or "").startswith("<")]


def in_loop(name, main, *args, seconds=30):
    """Return the result of a coroutine function, which leaves neither a task nor a descriptor."""

    async def limited():
        before = len(running())
        with anyio.fail_after(seconds):
            result = await main(*args)
        left = running()
        assert len(left) == before, f"a task is left: {left}"
        return result

    backend, options = BACKENDS[name]
    anyio.run(anyio.sleep, 0, backend=backend, backend_options=options)  # uvloop keeps two of its first
    gc.collect()  # what tests before have left
    before = open_descriptors()
    found = anyio.run(limited, backend=backend, backend_options=options)
    gc.collect()
    assert open_descriptors() <= before, "a descriptor is left"
    return found


def open_descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


async def polled(consumer, tp, records):
    records.extend((await consumer.poll(2000, max_records=3)).get(tp, ()))


async def iterated(consumer, tp, records):
    records.append(await consumer.__anext__())


async def read_to_end(consumer, tp, records):
    async for record in consumer.read_to_end(2000):
        records.append(record)


async def read_with_cancellations(make, write, tp, points, rng, *, in_group=False):
    """Read and write in turn, with all kinds of calls, until ``points`` of them were cancelled while they waited.

    ``make`` returns a consumer with a group id. ``write`` writes some records to the partition and returns its end
    offset. Each record is read once, and the next consumer in this loop works.
    """
    records, written, cancelled = [], write(), 0
    async with make() as one:
        one.subscribe([tp.topic]) if in_group else one.assign([tp])
        while cancelled < points or len(records) < written:
            if len(records) == written:
                written = write()
            seconds = rng.choice((0, 0.0002, 0.0005, 0.001)) if cancelled < points else 10
            with anyio.move_on_after(seconds) as scope:
                await call_one(one, tp, records, rng.random() if one.assignment() else 0)
            cancelled += scope.cancelled_caught
        assert await one.position(tp) == written
        await one.commit()
        assert await one.committed(tp) == written
    assert [record.offset for record in records] == list(range(written))
    async with make() as other:
        assert await other.committed(tp) == written


async def call_one(consumer, tp, records, chance):
    """Await one call, which ``chance`` between 0 and 1 chooses: four of five read."""
    if chance < 0.8:
        read = polled if chance < 0.4 else iterated if chance < 0.7 else read_to_end
        await read(consumer, tp, records)
    else:
        calls = (partial(consumer.position, tp), partial(consumer.end_offsets, [tp]))
        calls += (consumer.commit, partial(consumer.committed, tp))
        await calls[int((chance - 0.8) * 20)]()
