"""Readers in an event loop, each in a process of its own: ``aio.py`` starts them. A line of JSON is the result.

The loops over records are written out for polls and for ``async for``: a function for each record would cost as much as
the client, and so hide the difference between clients.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from clusters import memory_mb
from latency import Probe
from readers import MAX_RECORDS, Meter, Places, Result, of_topic

#: A poll that waits up to a second, and the records that it returns.
Poll = Callable[[], Awaitable[Mapping[Any, Sequence[Any]]]]
#: What each of the other tasks computes before it waits again: about 20 us.
DOCUMENT = json.dumps([{"id": number, "name": "customer", "paid": number / 7} for number in range(15)])
POLLS, EACH = "poll", "async for"


async def open_thinconsumer(bootstrap: str, places: Places, **options: object) -> tuple[Any, Poll]:
    from thinconsumer import TopicPartition
    from thinconsumer.aio import AsyncConsumer

    more: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    consumer = AsyncConsumer(bootstrap_servers=bootstrap, **more)
    consumer.assign([TopicPartition(*place) for place in places])
    return consumer, partial(consumer.poll, timeout_ms=1000, max_records=MAX_RECORDS)


async def open_aiokafka(bootstrap: str, places: Places, **options: object) -> tuple[Any, Poll]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    more: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **more)
    await consumer.start()
    consumer.assign([TopicPartition(*place) for place in places])
    return consumer, partial(consumer.getmany, timeout_ms=1000, max_records=MAX_RECORDS)


CLIENTS = {"thinconsumer": open_thinconsumer, "aiokafka": open_aiokafka}


async def close(consumer: Any) -> None:
    await (consumer.stop() if hasattr(consumer, "stop") else consumer.close())


# -- throughput


async def read_polls(meter: Meter, poll: Poll, count: int) -> Result:
    """Read every field of ``count`` records, by polls."""
    records = size = 0
    while records < count:
        for polled in (await poll()).values():
            meter.first(len(polled))
            records += len(polled)
            for record in polled:
                key, value, headers = record.key, record.value, record.headers
                record.topic, record.partition, record.offset, record.timestamp, record.timestamp_type  # noqa: B018
                if key is not None:
                    size += len(key)
                if value is not None:
                    size += len(value)
                for _name, content in headers:
                    size += len(content)
    return meter.result(records, size)


async def read_each(meter: Meter, consumer: Any, count: int) -> Result:
    """Read every field of ``count`` records, by ``async for``."""
    records = size = 0
    async for record in consumer:
        if not records:
            meter.first(1)
        records += 1
        key, value, headers = record.key, record.value, record.headers
        record.topic, record.partition, record.offset, record.timestamp, record.timestamp_type  # noqa: B018
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        for _name, content in headers:
            size += len(content)
        if records >= count:
            break
    return meter.result(records, size)


async def rate(client: str, way: str, bootstrap: str, topic: str, partitions: str, count: str) -> Result:
    """Read the topic to its end."""
    await _import(client)
    meter = Meter()
    consumer, poll = await CLIENTS[client](bootstrap, of_topic(topic, int(partitions)))
    reading = read_polls(meter, poll, int(count)) if way == POLLS else read_each(meter, consumer, int(count))
    result = await reading
    await close(consumer)
    return result


async def _import(client: str) -> None:
    """Import what the client imports on demand: that is not counted."""
    consumer, _ = await CLIENTS[client]("127.0.0.1:9", ()) if client == "thinconsumer" else (None, None)
    if consumer is None:
        import aiokafka  # noqa: F401
    else:
        await close(consumer)


# -- latency beside other tasks


async def work(pause: float) -> None:
    """Compute for some 20 us, wait, and begin again."""
    while True:
        await asyncio.sleep(pause)
        json.loads(DOCUMENT)


async def latency(client: str, way: str, bootstrap: str, topic: str, count: str, tasks: str, pause: str) -> Result:
    """Read records whose values are the times of the producer's calls, beside tasks that compute."""
    consumer, poll = await CLIENTS[client](bootstrap, of_topic(topic, 1))
    probe = Probe(int(count))
    await poll()
    await poll()
    others = [asyncio.create_task(work(float(pause))) for _ in range(int(tasks))]
    await asyncio.sleep(0.2)
    probe.ready()
    await (_take_polls(poll, probe) if way == POLLS else _take_each(consumer, probe))
    for task in others:
        task.cancel()
    await close(consumer)
    p50, p99, cpu, _ = probe.figures()
    return {"p50": p50, "p99": p99, "cpu": cpu}


async def _take_polls(poll: Poll, probe: Probe) -> None:
    while True:
        for records in (await poll()).values():
            for record in records:
                if probe.took(record.value):
                    return


async def _take_each(consumer: Any, probe: Probe) -> None:
    async for record in consumer:
        if probe.took(record.value):
            return


# -- many consumers in one loop


async def many(client: str, way: str, bootstrap: str, topic: str, consumers: str, seconds: str) -> Result:
    """Open consumers of one partition each, which has a record; measure them idle, then beside a producer.

    A line without text asks for records at a small rate; the next one says that they are not needed any more.
    """
    assert way == POLLS
    await _import(client)
    got = [0] * int(consumers)
    before, began, cpu = memory_mb(), time.perf_counter(), time.process_time()

    async def read(number: int) -> Any:
        consumer, poll = await CLIENTS[client](bootstrap, [(topic, number)])
        reading = asyncio.create_task(_count(poll, got, number))
        while not got[number]:
            await asyncio.sleep(0.01)
        return consumer, reading

    pairs = await asyncio.gather(*map(read, range(len(got))))
    result = {"start_s": time.perf_counter() - began, "start_cpu_s": time.process_time() - cpu}
    await asyncio.sleep(2)
    result["idle_percent"] = await _cpu_percent(float(seconds))
    read_before = sum(got)
    print(flush=True)
    await asyncio.sleep(1)
    result["busy_percent"] = await _cpu_percent(float(seconds))
    print(flush=True)
    result["records"] = sum(got) - read_before
    result["mb"] = memory_mb() - before
    began = time.perf_counter()
    for _, reading in pairs:
        reading.cancel()
    await asyncio.gather(*(reading for _, reading in pairs), return_exceptions=True)
    await asyncio.gather(*(close(consumer) for consumer, _ in pairs))
    result["close_s"] = time.perf_counter() - began
    return result


async def _count(poll: Poll, got: list[int], number: int) -> None:
    while True:
        got[number] += sum(map(len, (await poll()).values()))


async def _cpu_percent(seconds: float) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return 100 * (time.process_time() - cpu) / (time.perf_counter() - began)


PARTS: dict[str, Callable[..., Coroutine[Any, Any, Result]]] = {"rate": rate, "latency": latency, "many": many}


def main() -> None:
    """``python aio_readers.py PART LOOP CLIENT WAY BOOTSTRAP TOPIC ...``."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    part, loop, *arguments = sys.argv[1:]
    factory = __import__("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    running = factory()
    print(json.dumps(running.run_until_complete(PARTS[part](*arguments))), flush=True)


if __name__ == "__main__":
    main()
