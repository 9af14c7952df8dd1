"""Spans by OpenTelemetry's messaging conventions: "poll" for what a call returns, "process" while a record is in work.

Loops end where no code of this package runs: in another generator, thread or task, or while another loop goes on. A
token of ``contextvars`` cannot be reset there. A span's context therefore keeps the one before it, and whichever span
ends later skips those that have ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, get_current
from opentelemetry.propagators.textmap import Getter

from .._version import __version__

if TYPE_CHECKING:
    from ..types import ConsumerRecord, TopicPartition

    Record = ConsumerRecord[Any, Any]

log = logging.getLogger(__name__)

#: A "poll" span has at most so many links, as many as the SDK keeps by default: others would be made and dropped.
LINKS_MAX = 128
#: Longer values of headers are not read: no context is as long (W3C's baggage has at most 8192 bytes), and they come
#: from the network.
HEADER_MAX = 8192


class HeaderGetter(Getter[Any]):
    """Reads a propagator's fields from the headers of a record."""

    def get(self, carrier: Any, key: str) -> list[str] | None:
        key = key.lower()
        found = [
            value.decode("utf-8", "replace")
            for name, value in carrier
            if name.lower() == key and value is not None and len(value) <= HEADER_MAX
        ]
        return found or None

    def keys(self, carrier: Any) -> list[str]:
        return [name for name, _ in carrier]


GETTER = HeaderGetter()


class ProcessingContext(Context):
    """The context in which a record is processed: that of its span, and with the producer's baggage."""

    __slots__ = ("is_over", "previous", "record", "span")

    def __init__(self, values: Context, span: trace.Span, previous: Context, record: Any) -> None:
        super().__init__(values)
        self.span = span
        self.previous = previous  #: What was current before.
        self.record = record
        self.is_over = False

    def fail(self, error: BaseException) -> None:
        """Record what has ended the work."""
        self.span.record_exception(error)
        self.span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self.span.set_attribute("error.type", type(error).__qualname__)

    def end(self) -> None:
        """End the span. If its context is current, so is now the one before it. Cut off by Ctrl-C, call it again."""
        if not self.is_over:
            if get_current() is self:
                attach(live(self.previous))
            if self.span.is_recording():
                self.span.end()
            self.is_over = True


def live(context: Context) -> Context:
    """Return the context, or the nearest one before it whose span has not ended."""
    while isinstance(context, ProcessingContext) and context.is_over:
        context = context.previous
    return context


class Tracing:
    """Makes spans. It is switched off for good by :attr:`enabled`, as loops outlive the instrumentor."""

    def __init__(
        self, tracer_provider: trace.TracerProvider | None = None, *, links_only: bool = False, keys: bool = False
    ) -> None:
        self.tracer = trace.get_tracer("thinconsumer", __version__, tracer_provider)
        self.links_only = links_only
        self.keys = keys
        self.enabled = True
        self._has_failed = False

    def failed(self, error: Exception) -> None:
        """Log the first exception of a propagator or SDK: no span is worth a record."""
        if not self._has_failed:
            self._has_failed = True
            log.error("spans are missing, as making one has failed", exc_info=error)


class Source:
    """Makes the spans of one consumer's records."""

    def __init__(self, tracing: Tracing, group_id: str | None = None, client_id: str | None = None) -> None:
        self.tracing = tracing
        common: dict[str, Any] = {"messaging.system": "kafka"}
        if group_id is not None:
            common["messaging.consumer.group.name"] = group_id
        if client_id is not None:
            common["messaging.client.id"] = client_id
        self._poll_common = {**common, "messaging.operation.name": "poll", "messaging.operation.type": "receive"}
        self._process_common = {**common, "messaging.operation.name": "process", "messaging.operation.type": "process"}

    def process(self, records: Sequence[Record]) -> ProcessingContext | None:
        """Return the context for work on a record, or on a batch of them, with a span that has begun."""
        try:
            return self._process(records)
        except Exception as error:  # noqa: BLE001 - of a propagator, or of the SDK
            self.tracing.failed(error)
            return None

    def _process(self, records: Sequence[Record]) -> ProcessingContext:
        current = live(get_current())
        below = current
        while isinstance(below, ProcessingContext):  # else loops that take turns would make a chain without end
            below.previous = live(below.previous)
            below = below.previous
        if len(records) == 1:
            context, links = self._continued(records[0], current)
            attributes = self._of_one(records[0])
        else:
            context, links = current, producers(islice(records, LINKS_MAX))
            attributes = {**self._process_common, **_places(records), "messaging.batch.message_count": len(records)}
        name = _name("process", attributes)
        span = self.tracing.tracer.start_span(name, context, trace.SpanKind.CONSUMER, attributes, links)
        return ProcessingContext(trace.set_span_in_context(span, context), span, current, records[0])

    def _continued(self, record: Record, current: Context) -> tuple[Context, list[trace.Link]]:
        """Return the context of a record's producer on top of the current one, and what its span links to."""
        if not record.headers:
            return current, []
        context, ambient = propagate.extract(record.headers, current, GETTER), trace.get_current_span(current)
        producer = trace.get_current_span(context)
        if producer is ambient:
            return context, []
        links = [trace.Link(producer.get_span_context())]
        if self.tracing.links_only:
            return trace.set_span_in_context(ambient, context), links
        if ambient.get_span_context().is_valid:
            links.append(trace.Link(ambient.get_span_context()))
        return context, links

    def poll(self, began: int, records: Iterable[Record], partitions: Iterable[TopicPartition], count: int) -> None:
        """Make the span of a poll that began at ``began`` (ns since the epoch) and returns ``count`` records."""
        attributes = {**self._poll_common, **_places(partitions), "messaging.batch.message_count": count}
        try:
            links = producers(islice(records, LINKS_MAX))
            name = _name("poll", attributes)
            self.tracing.tracer.start_span(name, None, trace.SpanKind.CLIENT, attributes, links, began).end()
        except Exception as error:  # noqa: BLE001 - as in ``process``
            self.tracing.failed(error)

    def poll_failed(self, began: int, error: Exception) -> None:
        """Make the span of a poll that has raised an error."""
        attributes = {**self._poll_common, "error.type": type(error).__qualname__}
        span = self.tracing.tracer.start_span("poll", None, trace.SpanKind.CLIENT, attributes, start_time=began)
        span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))
        span.end()

    def _of_one(self, record: Record) -> dict[str, Any]:
        found = {
            **self._process_common,
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.partition),
            "messaging.kafka.offset": record.offset,
        }
        if record.value is None:
            found["messaging.kafka.message.tombstone"] = True
        if self.tracing.keys and (key := _text(record.key)) is not None:
            found["messaging.kafka.message.key"] = key
        return found


def producers(records: Iterable[Record]) -> list[trace.Link]:
    """Return links to the spans in which records were produced, as far as their headers say."""
    found = []
    for record in records:
        if record.headers:
            span = trace.get_current_span(propagate.extract(record.headers, Context(), GETTER)).get_span_context()
            if span.is_valid:
                found.append(trace.Link(span))
    return found


def _places(of: Iterable[Any]) -> dict[str, Any]:
    """Return the attributes for the topic and partition of records, or of partitions, as far as all have the same."""
    partitions = {(each.topic, each.partition) for each in of}
    if len({topic for topic, _ in partitions}) != 1:
        return {}
    topic, partition = next(iter(partitions))
    found = {"messaging.destination.name": topic}
    return found if len(partitions) > 1 else {**found, "messaging.destination.partition.id": str(partition)}


def _name(operation: str, attributes: dict[str, Any]) -> str:
    topic = attributes.get("messaging.destination.name")
    return operation if topic is None else f"{operation} {topic}"


def _text(key: object) -> str | None:
    """Return a key as text; None if it has no form as text that is beyond doubt."""
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            return None
    return str(key) if isinstance(key, (str, int)) else None
