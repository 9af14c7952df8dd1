"""ThinconsumerInstrumentor: the span of a record is current while a loop's body runs, and never after it."""

import gc
import itertools
import sys
import threading
from contextlib import ExitStack
from inspect import getmembers
from operator import length_hint
from time import time_ns

import pytest

pytest.importorskip("opentelemetry.sdk.trace")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry import baggage, propagate, trace
from opentelemetry.context import attach, get_current, get_value, set_value
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode
from proving.traces import Traces, current_offset, ids

from thinconsumer import Consumer, RecordSequence
from thinconsumer.aio import AsyncConsumer
from thinconsumer.errors import WakeupError
from thinconsumer.opentelemetry import processing
from thinconsumer.opentelemetry.loops import TracedList
from thinconsumer.opentelemetry.spans import GETTER, ProcessingContext, Source, Tracing
from thinconsumer.records.builder import NewRecord
from thinconsumer.workers.base import BaseWorkers


class ClusterTraces(Traces):
    """A cluster in memory, and what becomes of its records."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def produce(self, count=1, topic="t", **about):
        for _ in range(count):
            self.world.cluster.produce(topic, [self.record(**about)], 0)


@pytest.fixture
def make_traces(world):
    with ExitStack() as stack:

        def make(count=0, **options):
            traces = ClusterTraces(world(1, {"t": 1, "u": 1}))
            traces.produce(count)
            stack.enter_context(traces.instrumented(**options))
            return traces

        yield make


def by_poll(consumer):
    for records in consumer.poll(1000).values():
        yield from records


def by_iteration(consumer):
    return itertools.islice(consumer, 3)


def by_reading(consumer):
    yield from consumer.read_to_end()


WAYS = [by_poll, by_iteration, by_reading]


@pytest.mark.parametrize("way", WAYS)
def test_the_span_is_current_in_the_body_and_continues_the_producers_trace(make_traces, way):
    traces = make_traces(3)
    for record in way(traces.world.consumer(client_id="me")):
        assert current_offset() == record.offset
        with traces.tracer.start_as_current_span("inner") as inner:
            assert inner.get_span_context().trace_id == traces.sent[record.offset].trace_id
    assert current_offset() is None
    spans = traces.spans()
    assert ids(span.parent for span in spans) == ids(traces.sent)
    assert ids(span.links[0].context for span in spans) == ids(traces.sent)
    assert {span.kind for span in spans} == {SpanKind.CONSUMER}
    assert dict(spans[1].attributes) == {
        "messaging.system": "kafka", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "t", "messaging.destination.partition.id": "0", "messaging.kafka.offset": 1,
        "messaging.client.id": "me",
    }  # fmt: skip
    polls = traces.spans("poll")
    assert polls[0].kind is SpanKind.CLIENT
    assert ids(link.context for poll in polls for link in poll.links) == ids(traces.sent)
    assert sum(poll.attributes["messaging.batch.message_count"] for poll in polls) == 3
    assert dict(polls[0].attributes).items() >= {
        "messaging.operation.name": "poll", "messaging.operation.type": "receive", "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
    }.items()  # fmt: skip
    assert polls[0].start_time < polls[0].end_time <= spans[0].start_time


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_that_is_left_early_ends_its_span(make_traces, way):
    traces = make_traces(3)
    for _ in way(traces.world.consumer()):
        break
    assert current_offset() is None and traces.offsets() == [0]

    def fail():
        for record in way(traces.world.consumer()):
            _ = record.offset / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert current_offset() is None and traces.offsets() == [0, 0]

    def function():
        for record in way(traces.world.consumer()):
            return record, current_offset()
        return None

    assert function()[1] == 0 and current_offset() is None
    iterator = iter(way(traces.world.consumer()))
    next(iterator)
    assert current_offset() == 0
    del iterator
    gc.collect()
    assert current_offset() is None and traces.offsets() == [0] * 4


def test_loops_in_loops_have_the_outer_span_back(make_traces):
    traces = make_traces(2)
    traces.produce(2, topic="u")
    outer, inner = traces.world.consumer(), traces.world.consumer(("u", 0))
    for record in itertools.islice(outer, 2):
        for other in inner.poll(1000).values():
            for each in other:
                assert trace.get_current_span().attributes["messaging.destination.name"] == "u"
                if each.offset:
                    break
        assert (trace.get_current_span().attributes["messaging.destination.name"], current_offset()) == (
            "t",
            record.offset,
        )
        inner.seek_to_beginning()
    spans = [span for span in traces.spans() if span.name == "process u"]
    assert len(spans) == 4
    assert [span.links[1].context.trace_id for span in spans[:2]] == [traces.sent[0].trace_id] * 2


def test_loops_that_take_turns_leave_nothing_behind(make_traces):
    traces = make_traces(6)
    loops = [iter(traces.world.consumer()) for _ in range(3)]
    for offset in range(5):
        for loop in loops:
            next(loop)
            assert current_offset() == offset
    depth, context = 0, get_current()
    while isinstance(context, ProcessingContext):
        depth, context = depth + 1, context.previous
    assert depth <= len(loops) + 1
    loops[1].close()
    assert current_offset() == 4
    assert next(loops[1], None) is None
    del loops[:], loop
    gc.collect()
    assert current_offset() is None
    assert sorted(traces.offsets()) == sorted([*range(5)] * 3)


def test_each_loop_over_a_result_makes_spans_and_copies_make_none(make_traces):
    traces = make_traces(3)
    (records,) = traces.world.consumer().poll(1000).values()
    assert isinstance(records, RecordSequence)
    plain = list(records)
    nothing = []
    copies = [*records], list(records), sorted(records), records + nothing, nothing + records, records[:]
    assert all(list(copy) == plain for copy in copies)
    assert records == plain and plain == records and records == records and plain[1] in records
    assert records.index(plain[1]) == 1 and records.count(plain[2]) == 1 and list(reversed(records)) == plain[::-1]
    assert traces.offsets() == [] and len(records) == 3 and bool(records) and records[1].offset == 1
    for _ in range(2):
        for record in records:
            assert len(records) == 3 and current_offset() == record.offset
    assert traces.offsets() == [0, 1, 2] * 2
    for one, other in zip(records, records):
        assert one is other and current_offset() == one.offset
    assert len(traces.offsets()) == 12


def test_programs_that_show_progress_have_spans(make_traces):
    """They ask an iterator for its length before they call ``iter()``."""
    loop = make_traces(2).world.consumer().read_to_end()
    assert length_hint(loop, 7) == 7
    assert [current_offset() for _ in loop] == [0, 1]


def test_lists_of_compat_do_the_same(make_traces):
    traces = make_traces(2)
    plain = list(traces.world.consumer().read_to_end())
    assert traces.offsets() == []
    records = TracedList(plain, Source(Tracing(traces.provider)))
    assert list(records) == records[:] == plain == records and sorted(records) == plain and traces.offsets() == []
    assert records.__reduce_ex__(4) == (list, (plain,))
    assert [current_offset() for _ in records] == [0, 1] == traces.offsets()


def test_what_a_body_does_with_contexts_is_respected(make_traces):
    traces = make_traces(3)
    loop = iter(traces.world.consumer())
    next(loop)
    with traces.tracer.start_as_current_span("own") as own:
        next(loop)
        loop.end()
        assert trace.get_current_span() is own
    assert isinstance(get_current(), ProcessingContext) and not trace.get_current_span().is_recording()
    next(loop)  # skips the span that has ended
    loop.end()
    assert current_offset() is None and not trace.get_current_span().get_span_context().is_valid
    before = get_current()
    for record in traces.world.consumer().read_to_end():
        attach(set_value("left", record.offset))
    assert get_value("left") == 2 and current_offset() is None  # as the body wanted it
    attach(before)


def test_baggage_comes_along_and_goes(make_traces):
    traces = make_traces()
    traces.produce(baggage="tenant=a")
    for _ in traces.world.consumer().read_to_end():
        assert baggage.get_baggage("tenant") == "a"
    assert baggage.get_baggage("tenant") is None


def test_links_only_and_keys(make_traces):
    traces = make_traces(1, links_only=True, keys=True)
    traces.produce(value=None)
    with traces.tracer.start_as_current_span("own") as own:
        for _ in traces.world.consumer().read_to_end():
            pass
    first, second = traces.spans()
    assert first.parent == second.parent == own.get_span_context()
    assert ids(link.context for span in (first, second) for link in span.links) == ids(traces.sent)
    assert first.attributes["messaging.kafka.message.key"] == "k"
    assert "messaging.kafka.message.tombstone" not in first.attributes
    assert second.attributes["messaging.kafka.message.tombstone"] is True


def test_without_a_usable_context_in_its_headers_the_span_is_a_child_of_the_current_one(make_traces):
    traces = make_traces()
    for value in (None, b"\xff", b"00-" + b"1" * 20_000):
        traces.world.cluster.produce("t", [NewRecord(b"x", headers=[("traceparent", value)])], 0)
    with traces.tracer.start_as_current_span("own") as own:
        for _ in traces.world.consumer().read_to_end():
            pass
    assert [span.parent for span in traces.spans()] == [own.get_span_context()] * 3
    assert all(not span.links for span in traces.spans())


def test_a_propagator_gets_all_values_of_a_field_that_are_not_too_long():
    headers = [("Field", b"a"), ("field", b"\xff"), ("field", None), ("field", b"x" * 8193), ("other", b"b")]
    assert GETTER.get(headers, "FIELD") == ["a", "\ufffd"] and GETTER.get(headers, "none") is None
    assert GETTER.keys(headers) == ["Field", *["field"] * 3, "other"]


def test_an_error_in_a_block_is_recorded_on_the_loops_span(make_traces):
    traces = make_traces(1)

    def fail():
        for record in traces.world.consumer():
            with processing(record) as span:
                assert span is trace.get_current_span()
                with processing(record._replace(offset=7), tracer_provider=traces.provider) as other:
                    assert other is trace.get_current_span() is not span
                raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fail()
    other, span = traces.spans()
    assert other.attributes["messaging.kafka.offset"] == 7 and other.status.status_code is StatusCode.UNSET
    assert span.status.status_code is StatusCode.ERROR and span.attributes["error.type"] == "ValueError"
    assert span.events[0].attributes["exception.message"] == "bad"


def test_without_the_instrumentor_a_block_makes_the_span(world):
    traces = ClusterTraces(world())
    traces.produce(2)
    consumer = traces.world.consumer()
    for record in consumer.read_to_end():
        with processing(record, group_id="g", client_id="me", tracer_provider=traces.provider) as span:
            assert trace.get_current_span() is span
        assert current_offset() is None
    assert ids(span.parent for span in traces.spans()) == ids(traces.sent)
    assert traces.spans()[0].attributes["messaging.consumer.group.name"] == "g"


def test_a_poll_that_raises_has_a_span_and_an_empty_one_has_none(make_traces):
    traces = make_traces()
    consumer = traces.world.consumer()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(10)
    assert consumer.poll(10) == {} and traces.spans("poll") == []
    consumer.unsubscribe()
    with pytest.raises(Exception, match="nothing to read"):
        consumer.poll(10)
    (span,) = traces.spans("poll")
    assert span.status.status_code is StatusCode.ERROR and span.attributes["error.type"] == "IllegalStateError"


def test_a_polls_span_begins_with_the_call(make_traces):
    times = []
    traces = make_traces(1)
    traces.world.consumer(value_deserializer=lambda value: times.append(time_ns())).poll(1000)
    (span,) = traces.spans("poll")
    assert span.start_time < times[0] < span.end_time


def test_several_topics_are_one_poll_without_a_destination(make_traces):
    traces = make_traces(1)
    traces.produce(topic="u")
    consumer = traces.world.consumer(("t", 0), ("u", 0))
    while len(traces.spans("poll")) < 2:
        consumer.poll(1000)
        consumer.seek_to_beginning()
    assert any(
        span.name == "poll" and "messaging.destination.name" not in span.attributes for span in traces.spans("poll")
    )


@pytest.mark.parametrize("way", ["poll", "iteration", "read_to_end"])
def test_ctrl_c_before_any_line_of_the_instrumentation_loses_no_record(make_traces, run_cut_off, way):
    consumer = make_traces(2).world.consumer()
    found, number, was_cut_off = [], -2, True

    def read():
        if way == "poll":
            (records,) = consumer.poll(1000).values()
            found.extend(record.offset for record in itertools.chain(*records._parts))
        else:
            for record in itertools.islice(consumer, 2) if way == "iteration" else consumer.read_to_end():
                found.append(record.offset)

    while was_cut_off:
        number += 3
        consumer.seek_to_beginning()
        found.clear()
        was_cut_off = run_cut_off(read, number)
        assert current_offset() is None
        found += [record.offset for record in list(consumer.read_to_end())]
        assert found == [0, 1]
    assert number > 60


@pytest.fixture
def run_cut_off(monkeypatch):
    """Return a function that calls a function, with Ctrl-C before one of the lines of the room that it runs."""
    monkeypatch.setattr("_thread.interrupt_main", lambda: None)

    def run(function, number):
        count = 0

        def trace_lines(frame, event, arg):
            nonlocal count
            if not str(frame.f_globals.get("__name__", "")).startswith("thinconsumer.opentelemetry"):
                return None
            if event == "line" and frame.f_code.co_name != "__del__":  # Python itself drops what is raised there
                count += 1
                if count == number:
                    raise KeyboardInterrupt
            return trace_lines

        before = sys.gettrace()
        sys.settrace(trace_lines)
        try:
            function()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return count >= number

    return run


def test_a_propagator_that_fails_costs_spans_and_no_records(make_traces, monkeypatch, lines):
    traces = make_traces(3)

    def fail(*args):
        raise RuntimeError("propagator")

    monkeypatch.setattr(propagate, "extract", fail)
    consumer = traces.world.consumer()
    assert [record.offset for record in by_poll(consumer)] == [0, 1, 2]
    assert traces.spans() == traces.spans("poll") == []
    assert len([line for line in lines() if "spans are missing" in line]) == 1


def test_a_loop_in_another_thread_ends_there(make_traces):
    traces = make_traces(2)
    loop = iter(traces.world.consumer())
    first = next(loop)
    thread = threading.Thread(target=loop.end)
    thread.start()
    thread.join()
    assert traces.offsets() == [0] and not trace.get_current_span().is_recording()
    with processing(first, tracer_provider=traces.provider) as span:
        assert span.is_recording()
    next(loop)
    loop.end()
    assert not trace.get_current_span().get_span_context().is_valid


def test_metrics_are_those_of_consumers_made_meanwhile(world):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    def count():
        data = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data and data.resource_metrics else ()
        (found,) = [each for each in metrics if each.name == "kafka.consumer.records_consumed_total"] or [None]
        return sum(point.value for point in found.data.data_points) if found else 0

    for _ in range(2):  # a second time with the same provider
        traces = ClusterTraces(world())
        traces.produce(2)
        with traces.instrumented(meter_provider=provider):
            consumer = traces.world.consumer()
            consumer.poll(1000)
            consumer.poll(0)
            assert count() == 2
        assert count() == 0


def test_uninstrument_puts_every_method_back():
    def methods():
        return [getmembers(owner, callable) for owner in (Consumer, AsyncConsumer, BaseWorkers)]

    before = methods()
    with Traces().instrumented():
        assert methods() != before
    assert methods() == before


def test_a_loop_that_goes_on_after_uninstrument_makes_no_more_spans(world):
    traces = ClusterTraces(world())
    traces.produce(3)
    with traces.instrumented():
        loop = traces.world.consumer().read_to_end()
        next(loop)
        assert current_offset() == 0
        next(loop)
        loop.end()
    assert next(loop).offset == 2 and current_offset() is None and traces.offsets() == [0, 1]


def test_a_method_that_a_program_has_kept_makes_no_more_spans_after_uninstrument(world):
    traces = ClusterTraces(world())
    traces.produce(2)
    with traces.instrumented():
        consumer = traces.world.consumer()
        poll = consumer.poll
    assert {type(records) for records in poll(1000).values()} == {RecordSequence}
    assert traces.spans("poll") == []
