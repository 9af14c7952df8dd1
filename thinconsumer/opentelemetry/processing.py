"""A block, or a handler of workers, in which a record is processed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import attach, get_current

from .spans import ProcessingContext, Source, Tracing

if TYPE_CHECKING:
    from ..types import ConsumerRecord


@contextmanager
def processing(
    record: ConsumerRecord[Any, Any],
    *,
    group_id: str | None = None,
    client_id: str | None = None,
    tracer_provider: trace.TracerProvider | None = None,
) -> Iterator[trace.Span]:
    """Let a span that processes this record be the current one in the block, and yield it.

    It is a child of the span in which the record was produced, whose context and baggage are read from the record's
    headers by the global propagator (W3C trace context by default). Without them, it is a child of the current span. An
    exception that leaves the block is recorded, and makes the span's status an error. In a loop to which
    :class:`ThinconsumerInstrumentor` has given a span for this record, that is the span, and it ends with the loop's
    turn; the other arguments have no effect then.
    """
    current = get_current()
    if isinstance(current, ProcessingContext) and current.record is record and not current.is_over:
        try:
            yield current.span
        except Exception as error:
            current.fail(error)
            raise
        return
    with _work(Source(Tracing(tracer_provider), group_id, client_id), [record]) as span:
        yield span


@contextmanager
def _work(source: Source, records: Sequence[ConsumerRecord[Any, Any]]) -> Iterator[trace.Span]:
    context = source.process(records)
    if context is None:
        yield trace.INVALID_SPAN
        return
    attach(context)
    try:
        yield context.span
    except Exception as error:
        context.fail(error)
        raise
    finally:
        context.end()


class TracedHandler:
    """A handler of workers, with a span for each of its calls.

    In a worker process, to which it is sent, the global tracer provider of that process makes the spans.
    """

    def __init__(self, handler: Callable[[Any], Any], tracing: Tracing, about: tuple[str | None, str | None]) -> None:
        self._handler = handler
        self._tracing = tracing
        self._about = about
        self._source = Source(tracing, *about)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self._handler, self._tracing.links_only, self._tracing.keys, self._about)

    def __call__(self, argument: Any) -> Any:
        if not self._tracing.enabled:
            return self._handler(argument)
        with self._work(argument):
            return self._handler(argument)

    def _work(self, argument: Any) -> AbstractContextManager[trace.Span]:
        return _work(self._source, argument if isinstance(argument, list) else [argument])


def _remade(handler: Callable[[Any], Any], links_only: bool, keys: bool, about: Any) -> TracedHandler:
    return TracedHandler(handler, Tracing(links_only=links_only, keys=keys), about)


class TracedCoroutineHandler(TracedHandler):
    """A handler of workers in tasks: a coroutine function."""

    def __call__(self, argument: Any) -> Any:
        value = self._handler(argument)
        return self._awaited(value, argument) if self._tracing.enabled and isawaitable(value) else value

    async def _awaited(self, value: Awaitable[Any], argument: Any) -> Any:
        with self._work(argument):
            return await value
