"""Other clients on a topic with ordered delivery: they write and read as on any other topic, while its count changes.

The project's additions to the protocol are invisible to them (``wire/extensions.py``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiokafka
import kafka
import pytest

from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(180),
]

TOPIC, KEYS, ROUNDS = "orders", range(30), 10
PATIENCE_S = 60.0

Write = Callable[[str, int], None]
Read = Callable[[str, int], "list[int]"]


def write_with_kafka_python(servers: str, first: int) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
    sent = [
        producer.send(TOPIC, b"%d" % number, key=b"%d" % (number % len(KEYS)))
        for number in range(first, first + ROUNDS * len(KEYS))
    ]
    for future in sent:
        future.get(PATIENCE_S)
    producer.close()


def read_with_kafka_python(servers: str, count: int) -> list[int]:
    consumer = kafka.KafkaConsumer(TOPIC, bootstrap_servers=servers, group_id="python", auto_offset_reset="earliest")
    found: list[int] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until:
        found += [int(record.value) for records in consumer.poll(500).values() for record in records]
    consumer.close()
    return found


def write_with_confluent_kafka(servers: str, first: int) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(first, first + ROUNDS * len(KEYS)):
        producer.produce(TOPIC, b"%d" % number, b"%d" % (number % len(KEYS)))
    assert producer.flush(PATIENCE_S) == 0


def read_with_confluent_kafka(servers: str, count: int) -> list[int]:
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {"bootstrap.servers": servers, "group.id": "confluent", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until:
        found += [int(message.value()) for message in consumer.consume(500, 0.5) if message.error() is None]
    consumer.close()
    return found


def write_with_aiokafka(servers: str, first: int) -> None:
    async def write() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
            for number in range(first, first + ROUNDS * len(KEYS)):
                await producer.send(TOPIC, b"%d" % number, key=b"%d" % (number % len(KEYS)))
            await producer.flush()

    asyncio.run(write())


def read_with_aiokafka(servers: str, count: int) -> list[int]:
    async def read() -> list[int]:
        about = {"bootstrap_servers": servers, "group_id": "aio", "auto_offset_reset": "earliest"}
        found: list[int] = []
        async with aiokafka.AIOKafkaConsumer(TOPIC, **about) as consumer:
            until = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < until:
                batches = await consumer.getmany(timeout_ms=500)
                found += [int(record.value) for records in batches.values() for record in records]
        return found

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(write_with_kafka_python, read_with_kafka_python, id="kafka-python"),
        pytest.param(write_with_confluent_kafka, read_with_confluent_kafka, id="confluent-kafka"),
        pytest.param(write_with_aiokafka, read_with_aiokafka, id="aiokafka"),
    ],
)
def test_other_clients_write_and_read_while_the_count_changes(write: Write, read: Read) -> None:
    size = ROUNDS * len(KEYS)
    with BrokerProcess(3) as brokers:
        servers = brokers.bootstrap_servers
        brokers.create_topic(TOPIC, 2, 3, {"enable.ordered.delivery": "true"})
        write(servers, 0)
        brokers.expand(TOPIC, 5)
        write(servers, size)
        brokers.shrink(TOPIC, 3)
        write(servers, 2 * size)
        assert sorted(read(servers, 3 * size)) == list(range(3 * size))
        assert brokers.bugs() == []
