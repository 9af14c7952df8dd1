"""A FastStream broker that only consumes runs its subscribers on our consumer, by the line of docs/migrating.md."""

import asyncio
import itertools

import pytest

from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

faststream = pytest.importorskip("faststream.kafka", reason="not promised: faststream[kafka] is not installed")
aiokafka = pytest.importorskip("aiokafka")

pytestmark = pytest.mark.once
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster():
    with BrokerProcess() as found:
        yield found


@pytest.fixture
def topic(cluster):
    name = f"faststream-{next(NUMBERS)}"
    cluster.create_topic(name, 2)
    for partition in range(2):
        cluster.produce(name, [b"%d" % n for n in range(10)], partition)
    return name


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", AIOKafkaConsumer)


def run(main):
    return asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize(
    ("options", "batch"),
    [
        ({}, False),
        ({"group_id": "one"}, False),
        ({"group_id": "batch"}, True),
        ({"group_id": "several", "max_workers": 2}, False),
    ],
)
def test_a_subscriber_gets_all_records(cluster, topic, options, batch):
    async def main():
        broker = faststream.KafkaBroker(cluster.bootstrap_servers, consumer_only=True)
        found, done = [], asyncio.Event()
        kwargs = {**options, "group_id": f"{topic}-{options['group_id']}"} if "group_id" in options else options
        kwargs = {**kwargs, "batch": True} if batch else kwargs
        if "max_workers" in kwargs:
            kwargs["ack_policy"] = faststream_ack().ACK

        @broker.subscriber(topic, auto_offset_reset="earliest", heartbeat_interval_ms=200, **kwargs)
        async def handle(body):
            found.extend(body if batch else [body])
            if len(found) >= 20:
                done.set()

        async with broker:
            await broker.start()
            await done.wait()
        return sorted(found)

    assert run(main) == sorted(list(range(10)) * 2)


def faststream_ack():
    from faststream import AckPolicy

    return AckPolicy


def test_the_consumer_is_ours(cluster, topic):
    async def main():
        broker = faststream.KafkaBroker(cluster.bootstrap_servers, consumer_only=True)

        @broker.subscriber(topic)
        async def handle(body):
            """Do nothing."""

        async with broker:
            await broker.start()
            return [type(subscriber.consumer) for subscriber in broker.subscribers]

    assert run(main) == [AIOKafkaConsumer]
