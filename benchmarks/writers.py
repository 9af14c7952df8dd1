"""One writer, in a process of its own: ``python writers.py WRITER BOOTSTRAP TOPIC PARTITIONS RECORDS`` prints JSON.

Every writer uses its client's default settings, sends records of 100 bytes to the partitions in turn, and waits until
all of them are acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable

VALUE = b"x" * 100
#: Unacknowledged sends that an asyncio writer keeps at a time; each is a future.
AHEAD = 10_000


def kafka_python(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Write with kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    started = time.perf_counter()
    for n in range(count):
        producer.send(topic, VALUE, partition=n % partitions)
    producer.flush()
    seconds = time.perf_counter() - started
    producer.close()
    return seconds


def aiokafka(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Write with aiokafka."""
    from aiokafka import AIOKafkaProducer

    async def write() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        started = time.perf_counter()
        futures = []
        for n in range(count):
            futures.append(await producer.send(topic, VALUE, partition=n % partitions))
            if len(futures) >= AHEAD:
                await asyncio.gather(*futures)
                futures.clear()
        await asyncio.gather(*futures)
        seconds = time.perf_counter() - started
        await producer.stop()
        return seconds

    return asyncio.run(write())


def confluent(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Write with confluent-kafka."""
    from confluent_kafka import Producer

    failures: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap})
    started = time.perf_counter()
    for n in range(count):
        while True:
            try:
                producer.produce(topic, VALUE, partition=n % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if n % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    seconds = time.perf_counter() - started
    if left or failures:
        raise RuntimeError(f"{left} records left, {len(failures)} failed: {failures[:1]}")
    return seconds


def thinconsumer(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Write with the library's own small producer."""
    from thinconsumer.produce import Producer
    from thinconsumer.sockets import SelectorDriver

    with Producer(bootstrap_servers=bootstrap, driver=SelectorDriver()) as producer:
        started = time.perf_counter()
        for n in range(count):
            producer.send(topic, VALUE, partition=n % partitions)
        producer.flush(timeout_ms=120_000)
        return time.perf_counter() - started


WRITERS: dict[str, Callable[[str, str, int, int], float]] = {
    "thinconsumer": thinconsumer,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent,
}


def main() -> None:
    """Run one writer and print what it measured."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    name, bootstrap, topic, partitions, count = sys.argv[1:]
    seconds = WRITERS[name](bootstrap, topic, int(partitions), int(count))
    print(json.dumps({"records": int(count), "per_second": int(count) / seconds}))


if __name__ == "__main__":
    main()
