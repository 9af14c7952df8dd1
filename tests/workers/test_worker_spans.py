"""ThinconsumerInstrumentor with workers: the span of a record is current in its handler, wherever it runs."""

import asyncio
import threading

import pytest

pytest.importorskip("opentelemetry.sdk.trace")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry import trace
from opentelemetry.trace import StatusCode
from proving.traces import Traces, current_offset, ids

from tests.workers import handlers
from thinconsumer.workers import AsyncWorkers, WorkerSettings

pytestmark = pytest.mark.once


@pytest.fixture
def traces(world):
    """Spans, and six more records in partition 0, which were produced in spans."""
    traces = Traces()
    for n in range(60, 66):
        world.broker.produce(world.topic, [traces.record(b"%d" % n)], 0)
    with traces.instrumented():
        yield traces


def check(traces, world, seen):
    """Each call has seen its own span, which continues the producer's trace, and knows the group."""
    assert len(seen) == 66 and all(expected == found for expected, found in seen)
    assert not [offsets for offsets in traces.spans() if offsets.status.status_code is StatusCode.ERROR]
    spans = traces.spans()
    assert len(spans) == 66
    assert {span.attributes["messaging.consumer.group.name"] for span in spans} == {f"group-{world.topic}"}
    continued = [span for span in spans if span.parent is not None]
    assert sorted(ids(span.parent for span in continued)) == sorted(ids(traces.sent))
    assert all(span.context.trace_id == span.parent.trace_id for span in continued)
    assert sum(span.attributes["messaging.batch.message_count"] for span in traces.spans("poll")) == 66


@pytest.mark.parametrize("pool", ["inline", "threads"])
def test_the_span_is_current_in_the_handler(traces, world, pool):
    seen, threads = [], set()

    def handler(record):
        threads.add(threading.current_thread().name)
        seen.append((record.offset, current_offset()))

    world.work(handler, until=66, pool=pool, concurrency=2)
    assert any("worker" in name for name in threads) == (pool == "threads")
    check(traces, world, seen)


def test_the_span_is_current_in_the_handlers_task(traces, world):
    seen = []

    async def handler(record):
        await asyncio.sleep(0)
        seen.append((record.offset, current_offset()))

    async def main():
        async with world.async_consumer() as consumer, AsyncWorkers(consumer, handler, WorkerSettings()) as workers:
            while world.processed(workers) < 66:
                await workers.step()

    asyncio.run(main())
    check(traces, world, seen)


def test_errors_are_recorded(traces, world):
    world.work(handlers.double, until=66, attempts=2, backoff=0.0, on_failure="skip", pool="inline")
    failed = [span for span in traces.spans() if span.status.status_code is StatusCode.ERROR]
    assert [span.attributes["error.type"] for span in failed] == ["ValueError"] * 2
    assert failed[0].events[0].attributes["exception.message"] == "thirteen"


def test_a_batch_is_one_span_with_links(traces, world):
    counts = []

    def handler(records):
        counts.append((len(records), trace.get_current_span().attributes.get("messaging.batch.message_count", 1)))

    world.work(handler, until=66, batch_size=4, pool="inline")
    assert all(one == other for one, other in counts) and max(counts) > (1, 1)
    links = [link.context for span in traces.spans() for link in span.links]
    assert sorted(ids(links)) == sorted(ids(traces.sent))


def test_handlers_in_processes_run_in_the_producers_trace(traces, world, tmp_path):
    """The tracer provider of their process makes their spans: none is set here, and they have the context alone."""
    log = tmp_path / "traces"
    world.broker.produce(world.topic, [traces.record(b"66", **{"trace-log": str(log)})], 0)
    world.work(handlers.log_trace, until=67, pool="processes", concurrency=1)
    assert log.read_text() == f"{traces.sent[-1].trace_id}\n"
    assert traces.spans() == [] and len(traces.spans("poll")) > 0
