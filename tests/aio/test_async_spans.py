"""ThinconsumerInstrumentor with AsyncConsumer: in each task, the span of its record is current."""

import asyncio

import pytest

pytest.importorskip("opentelemetry.sdk.trace")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry import trace
from opentelemetry.context import get_current
from proving.traces import Traces, current_offset, ids


@pytest.fixture
def traces(broker, topic):
    traces = Traces()
    for _ in range(3):
        broker.produce(topic, [traces.record()], 1)
    with traces.instrumented():
        yield traces


async def iterate(consumer):
    async for record in consumer:
        yield record
        if record.offset == 2:
            return


async def read_to_end(consumer):
    async for record in consumer.read_to_end():
        yield record


async def poll(consumer):
    while True:
        for records in (await consumer.poll(1000)).values():
            for record in records:
                yield record
                if record.offset == 2:
                    return


@pytest.mark.parametrize("way", [iterate, read_to_end, poll])
def test_the_span_is_current_in_the_body_and_continues_the_producers_trace(run, traces, consumer, tp, way):
    async def main():
        before = get_current()
        async with consumer() as one:
            one.assign([tp._replace(partition=1)])
            async for record in way(one):
                assert current_offset() == record.offset
                with traces.tracer.start_as_current_span("inner") as inner:
                    assert inner.get_span_context().trace_id == traces.sent[record.offset].trace_id
            assert get_current() is before

    run(main)
    assert ids(span.parent for span in traces.spans()) == ids(traces.sent)
    assert sum(span.attributes["messaging.batch.message_count"] for span in traces.spans("poll")) == 3
    assert ids(link.context for span in traces.spans("poll") for link in span.links) == ids(traces.sent)


def test_tasks_have_spans_of_their_own(run_asyncio, traces, consumer, tp, topic):
    async def read(pause):
        async with consumer() as one:
            one.assign([tp._replace(partition=1)])
            async for record in one:
                for _ in range(pause):
                    await asyncio.sleep(0)
                    assert current_offset() == record.offset
                if record.offset == 2:
                    break
            assert not trace.get_current_span().is_recording()
            async for _ in one.read_to_end():
                raise AssertionError("all is read")

    async def main():
        await asyncio.gather(*map(read, range(1, 5)))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(forever(), 0.2)

    async def forever():
        async with consumer() as one:
            one.assign([tp._replace(partition=1)])
            async for _ in one:
                await asyncio.sleep(10)

    run_asyncio(main)
    assert sorted(traces.offsets()) == sorted([*range(3)] * 4 + [0])
