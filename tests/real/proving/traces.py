"""Spans of producers and consumers, kept in memory."""

from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.context import get_current
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from thinconsumer.opentelemetry import ThinconsumerInstrumentor
from thinconsumer_testing.broker import NewRecord


class Traces:
    def __init__(self):
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")
        self.sent = []  #: The contexts of the producer's spans.

    def record(self, value=b"x", **carrier):
        """Return a record that was produced in a span."""
        with self.tracer.start_as_current_span("send", kind=trace.SpanKind.PRODUCER) as span:
            propagate.inject(carrier)
        self.sent.append(span.get_span_context())
        return NewRecord(value, b"k", [(name, text.encode()) for name, text in carrier.items()])

    @contextmanager
    def instrumented(self, **options):
        """Switch the instrumentation on for a block; no span may be current at its end that was not before."""
        before = get_current()
        ThinconsumerInstrumentor().instrument(tracer_provider=self.provider, **options)
        try:
            yield
            assert get_current() is before
        finally:
            ThinconsumerInstrumentor().uninstrument()

    def spans(self, operation="process"):
        return [span for span in self.exporter.get_finished_spans() if span.name.split()[0] == operation]

    def offsets(self):
        return [span.attributes["messaging.kafka.offset"] for span in self.spans()]

    def joined(self):
        """Return the spans of records by their producers' contexts, all of which they must continue."""
        return {span.parent.span_id: span for span in self.spans() if span.parent.trace_id == span.context.trace_id}


def ids(contexts):
    return [(context.trace_id, context.span_id) for context in contexts]


def current_offset():
    """Return the offset of the record whose span is current; None if none is."""
    span = trace.get_current_span()
    return span.attributes["messaging.kafka.offset"] if span.is_recording() else None
