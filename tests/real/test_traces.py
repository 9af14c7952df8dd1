"""Spans of confluent-kafka's producer, as its own instrumentation makes them, and of our consumers are one trace."""

import asyncio

import pytest
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.trace import SpanKind
from proving import filling
from proving.traces import Traces, current_offset, ids

from thinconsumer import Consumer
from thinconsumer.aio import AsyncConsumer
from thinconsumer.workers import AsyncWorkers, Workers, WorkerSettings

COUNT = 6


def by_poll(consumer):
    while True:
        for records in consumer.poll(1000).values():
            yield from records


def by_iteration(consumer):
    yield from consumer


async def by_async_poll(consumer):
    while True:
        for records in (await consumer.poll(1000)).values():
            for record in records:
                yield record


async def by_async_iteration(consumer):
    async for record in consumer:
        yield record


def read(way, make, seen):
    with make(Consumer) as consumer:
        for record in way(consumer):
            seen.append((record.offset, current_offset()))
            if len(seen) == COUNT:
                break


async def read_async(way, make, seen):
    async with make(AsyncConsumer) as consumer:
        found = way(consumer)
        async for record in found:
            seen.append((record.offset, current_offset()))
            if len(seen) == COUNT:
                break
        await found.aclose()


def work(pool, make, seen):
    def handler(record):
        seen.append((record.offset, current_offset()))

    with make(Consumer) as consumer, Workers(consumer, handler, WorkerSettings(pool=pool)) as workers:
        while len(seen) < COUNT:
            workers.wait(workers.step())


async def work_in_tasks(_, make, seen):
    async def handler(record):
        await asyncio.sleep(0)
        seen.append((record.offset, current_offset()))

    async with make(AsyncConsumer) as consumer, AsyncWorkers(consumer, handler, WorkerSettings()) as workers:
        while len(seen) < COUNT:
            await workers.step()


@pytest.mark.parametrize(
    ("program", "way"),
    [
        (read, by_poll), (read, by_iteration), (read_async, by_async_poll), (read_async, by_async_iteration),
        (work, "threads"), (work, "inline"), (work_in_tasks, None),
    ],
    ids=["poll", "iteration", "async poll", "async iteration", "threads", "inline", "tasks"],
)  # fmt: skip
def test_producer_and_consumer_are_one_trace(kafka, new_topic, program, way):
    topic, traces, seen = new_topic(kafka), Traces(), []
    options = {"bootstrap_servers": kafka.bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    plain = filling.producer(kafka.bootstrap)
    producer = ConfluentKafkaInstrumentor.instrument_producer(plain, traces.provider)
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    sent = [span for span in traces.exporter.get_finished_spans() if span.kind is SpanKind.PRODUCER]
    with traces.instrumented():
        result = program(way, lambda cls: cls(topic, group_id=topic, **options), seen)
        if result is not None:
            asyncio.run(result)
    assert sorted(seen) == [(offset, offset) for offset in range(COUNT)]
    spans = sorted(traces.spans(), key=lambda span: span.attributes["messaging.kafka.offset"])
    assert len(sent) == COUNT and ids(span.parent for span in spans) == ids(span.context for span in sent)
    assert [span.context.trace_id for span in spans] == [span.context.trace_id for span in sent]
    assert {span.attributes["messaging.consumer.group.name"] for span in spans} == {topic}
    links = [link.context for span in traces.spans("poll") for link in span.links]
    assert set(ids(links)) == set(ids(span.context for span in sent))
