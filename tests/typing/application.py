"""A sample application for the type checker: what users write, with the types they may count on. It is never run."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from thinconsumer import (
    Consumer,
    ConsumerRecord,
    KafkaError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RebalanceListener,
    RecordError,
    RecordSequence,
    SubscriptionPattern,
    TopicPartition,
)
from thinconsumer.aio import AsyncConsumer
from thinconsumer.broker import BrokerProcess
from thinconsumer.compat.kafka import KafkaConsumer
from thinconsumer.config.typed import ConsumerOptions
from thinconsumer.deserializers import ListDeserializer, LongDeserializer, StringDeserializer
from thinconsumer.testing import MemoryCluster, Simulation
from thinconsumer.testing.fixtures import kafka_broker
from thinconsumer.workers import WorkerOptions, dead_letter, exponential, run


@dataclass
class Order:
    """A deserialized value of this application."""

    number: int
    amount: float


def to_order(data: bytes) -> Order:
    """Decode a value."""
    fields = json.loads(data)
    return Order(int(fields["number"]), float(fields["amount"]))


def to_text(data: bytes) -> str:
    """Decode a key."""
    return data.decode()


def with_deserializers() -> list[int | None]:
    """Keys and values have the types of their deserializers."""
    found: list[int | None] = []
    with Consumer(
        "orders", key_deserializer=StringDeserializer(), value_deserializer=ListDeserializer(LongDeserializer()),
        on_bad_record=dead_letter("orders.bad"),
    ) as consumer:  # fmt: skip
        for record in consumer:
            key: str | None = record.key
            print(key)
            found += record.value or []
    return found


def as_with_kafka_python() -> int:
    """Polls return lists; a deserializer's type is not known."""
    total = 0
    with KafkaConsumer("orders", bootstrap_servers="localhost:9092", value_deserializer=to_order) as consumer:
        limit: object = consumer.config["max_poll_records"]
        for tp, records in consumer.poll(timeout_ms=1000).items():
            records.reverse()
            total += len([record.value for record in records])
            position: int | None = consumer.position(tp, timeout_ms=100)
            total += position or 0
        if consumer.commit_async().is_done and limit:
            total += len(consumer.subscription() or ())
    return total


def raw() -> int:
    """Without deserializers keys and values are bytes, or None."""
    total = 0
    tp = TopicPartition("orders", 0)
    with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        polled: dict[TopicPartition, RecordSequence[bytes | None, bytes | None]] = consumer.poll(
            timeout_ms=1000, max_records=500
        )
        for records in polled.values():
            for record in records:
                value: bytes | None = record.value
                total += len(value) if value is not None else 0
        position: int = consumer.position(tp)
        lag: dict[TopicPartition, int | None] = consumer.lag()
        return total + position + sum(behind or 0 for behind in lag.values())


def decoded() -> float:
    """Deserializers say what keys and values are."""
    total = 0.0
    consumer = Consumer(
        bootstrap_servers=["a:9092", "b:9092"],
        key_deserializer=to_text,
        value_deserializer=to_order,
        client_id="billing",
    )
    try:
        consumer.assign([TopicPartition("orders", 0)])
        for record in consumer:
            order: Order = record.value
            key: str = record.key
            partition: TopicPartition = record.topic_partition
            total += order.amount + len(key) + partition.partition
    except RecordError as error:
        consumer.skip(error)
    except KafkaError:
        raise
    finally:
        consumer.close(timeout_ms=1000)
    return total


def asking(consumer: Consumer[bytes | None, bytes | None]) -> list[int]:
    """Questions have answers with types."""
    tp = TopicPartition("orders", 0)
    found: dict[TopicPartition, OffsetAndTimestamp | None] = consumer.offsets_for_times({tp: 1_700_000_000_000})
    first = found[tp]
    partitions: set[int] | None = consumer.partitions_for_topic("orders")
    ends: dict[TopicPartition, int] = consumer.end_offsets([tp])
    return [first.offset if first is not None else -1, *(partitions or ()), *ends.values()]


class AmountDeserializer:
    """A deserializer with a method, as Java's are."""

    def deserialize(self, topic: str, headers: object, data: bytes) -> float:
        """Decode a value."""
        return float(data)


#: Options that several consumers share.
COMMON: ConsumerOptions = {"bootstrap_servers": "localhost:9092", "group_id": "billing", "fetch_min_bytes": 1}


def committing() -> int:
    """``committed`` has a return type for each type of argument."""
    tp = TopicPartition("orders", 0)
    with Consumer("orders", value_deserializer=AmountDeserializer(), **COMMON) as consumer:
        total = sum(record.value for record in consumer)
        for record in consumer:
            consumer.commit_async(record)
        consumer.commit({tp: 7})
        one: int | None = consumer.committed(tp)
        several: dict[TopicPartition, int | None] = consumer.committed([tp])
        noted: OffsetAndMetadata | None = consumer.committed(tp, metadata=True)
        all_noted: dict[TopicPartition, OffsetAndMetadata | None] = consumer.committed({tp}, metadata=True)
    return (one or 0) + len(several) + len(all_noted) + (noted.offset if noted else 0) + int(total)


def subscribing() -> set[str]:
    """Names, a pattern of Python, or one for the broker."""
    with Consumer(group_id="billing", group_protocol="auto", group_remote_assignor="uniform") as consumer:
        consumer.subscribe(["orders"])
        consumer.subscribe(pattern="orders-.*")
        consumer.subscribe(pattern="orders-.*", exclude=re.compile(".*-test"))
        pattern = SubscriptionPattern("orders-.*")
        consumer.subscribe(pattern=pattern)
        return {*consumer.subscription(), pattern.pattern}


def testing() -> list[int]:
    """Use ``thinconsumer.testing`` and ``thinconsumer.broker`` with the types of thinconsumer-testing."""
    with BrokerProcess(3, {"orders": 6}) as broker:
        process_id: int | None = broker.pid
    cluster = MemoryCluster(2, topics={"orders": 1})
    now: float = cluster.clock.now()
    actor = Simulation(seed=1, topics={"orders": 1}).consumer(assign={"orders": [0]})
    return [process_id or 0, int(now), len(actor.records), len(kafka_broker.__doc__ or "")]


class AwaitingListener(RebalanceListener):
    """A listener with a coroutine."""

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Await something."""


async def total_in_a_loop() -> float:
    """Read in an event loop."""
    total, tp = 0.0, TopicPartition("orders", 0)
    async with AsyncConsumer(
        bootstrap_servers="localhost:9092", group_id="billing", value_deserializer=to_order
    ) as consumer:
        consumer.subscribe(["orders"], listener=AwaitingListener())
        async for record in consumer:
            order: Order = record.value
            total += order.amount
        async for last in consumer.read_to_end():
            total += last.value.amount
        found: dict[TopicPartition, RecordSequence[bytes | None, Order]] = await consumer.poll(100)
        offset: int | None = await consumer.committed(tp)
        await consumer.commit({tp: OffsetAndMetadata(offset or 0, "")})
        ends: dict[TopicPartition, int] = await consumer.end_offsets(found)
        return total + ends[tp]


def work_in_parallel(consumer: Consumer[bytes | None, Order]) -> None:
    """Process records with workers."""
    options: WorkerOptions = {"order": "key", "pool": "processes", "concurrency": 8, "batch_size": 100}
    run(consumer, print, **options)
    run(consumer, print, attempts=None, backoff=exponential(0.5), on_failure=dead_letter("orders-dead"))


async def work_in_a_loop(consumer: AsyncConsumer[bytes | None, Order]) -> None:
    """Process records with coroutines."""

    async def handler(record: ConsumerRecord[bytes | None, Order]) -> float:
        return record.value.amount

    task = asyncio.create_task(run(consumer, handler, concurrency=1000))
    await asyncio.wait([task], timeout=60)
    await run(consumer, handler, on_failure="skip")
