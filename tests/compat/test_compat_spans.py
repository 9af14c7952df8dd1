"""ThinconsumerInstrumentor with the consumers of thinconsumer.compat, whose polls return lists."""

import asyncio

import pytest

pytest.importorskip("opentelemetry.sdk.trace")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry.context import get_current
from proving.traces import Traces, current_offset, ids

from thinconsumer import Consumer
from thinconsumer.compat.aiokafka import AIOKafkaConsumer
from thinconsumer.compat.kafka import KafkaConsumer
from thinconsumer_testing.broker.process import BrokerProcess

pytestmark = pytest.mark.once
OPTIONS = {"auto_offset_reset": "earliest", "client_id": "me"}


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess() as broker:
        yield broker


@pytest.fixture
def traces(broker, request):
    topic = request.node.name.replace("[", ".").replace("]", "")
    broker.create_topic(topic, 1)
    traces = Traces()
    traces.topic = topic
    for _ in range(3):
        broker.produce(topic, [traces.record()])
    with traces.instrumented():
        yield traces
    assert ids(span.parent for span in traces.spans()) == ids(traces.sent)
    assert sum(span.attributes["messaging.batch.message_count"] for span in traces.spans("poll")) == 3
    assert all(span.attributes["messaging.client.id"] == "me" for span in traces.spans())


@pytest.mark.parametrize("way", ["poll", "iteration", "read_to_end"])
def test_kafka_consumer(broker, traces, way):
    def records(consumer):
        if way == "poll":
            seen = 0
            while seen < 3:
                for found in consumer.poll(1000).values():
                    assert isinstance(found, list) and list(found) == found
                    seen += len(found)
                    yield from found
        else:
            yield from consumer.read_to_end() if way == "read_to_end" else consumer

    with KafkaConsumer(traces.topic, bootstrap_servers=broker.bootstrap_servers, **OPTIONS) as consumer:
        for record in records(consumer):
            assert current_offset() == record.offset
            if record.offset == 2:
                break
        assert current_offset() is None


def test_a_class_that_is_imported_later_makes_spans_once(broker, traces):
    """``KafkaConsumer`` has functions around those methods that it finds when it is imported."""
    late = type("LateConsumer", (KafkaConsumer,), {"read_to_end": lambda self: Consumer.read_to_end(self)})
    late.__module__ = KafkaConsumer.__module__
    with late(traces.topic, bootstrap_servers=broker.bootstrap_servers, **OPTIONS) as consumer:
        assert "read_to_end" in vars(late) and late.read_to_end.__wrapped__
        assert [current_offset() for _ in consumer.read_to_end()] == [0, 1, 2]


@pytest.mark.parametrize("way", ["getmany", "iteration"])
def test_aiokafka_consumer(broker, traces, way):
    async def records(consumer):
        if way == "iteration":
            async for record in consumer:
                yield record
        while True:
            for found in (await consumer.getmany(timeout_ms=1000)).values():
                for record in found:
                    yield record

    async def main():
        before = get_current()
        async with AIOKafkaConsumer(traces.topic, bootstrap_servers=broker.bootstrap_servers, **OPTIONS) as consumer:
            found = records(consumer)
            async for record in found:
                assert current_offset() == record.offset
                if record.offset == 2:
                    break
            await found.aclose()
            assert get_current() is before

    asyncio.run(main())
