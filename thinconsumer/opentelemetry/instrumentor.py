"""The instrumentor: it puts wrappers around the methods by which programs get records, and takes them away again.

Without it, no line of the client is about spans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from itertools import chain
from time import time_ns
from typing import Any, ClassVar

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from ..consumer.plain_calls import PlainCalls
from ..errors import WakeupError
from ..fetch.record_sequence import RecordSequence
from ..workers.base import BaseWorkers
from .instruments import ConsumerInstruments
from .loops import AsyncLoop, Loop, TracedList, TracedRecords, Turns, plain
from .processing import TracedCoroutineHandler, TracedHandler
from .spans import Source, Tracing

Method = Callable[..., Any]
Wrap = Callable[[Tracing, Method], Method]
#: A consumer that is none of this package's subclasses, and its module.
AIOKAFKA = ("thinconsumer.compat.aiokafka.consumer", "AIOKafkaConsumer")


class ThinconsumerInstrumentor(BaseInstrumentor):
    """Makes spans of polls and of the work on records, and metrics, of all consumers of this package.

    ``ThinconsumerInstrumentor().instrument()`` switches it on, best before the program makes its consumers, and
    ``uninstrument()`` off. The command ``opentelemetry-instrument`` calls the first. See docs/observability.md.
    """

    #: By meter provider: of two instruments with the same name, a meter takes only the first.
    _instruments: ClassVar[dict[Any, ConsumerInstruments]] = {}

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: this package instruments itself."""
        return ()

    def instrument(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        links_only: bool = False,
        keys: bool = False,
        **kwargs: Any,
    ) -> None:
        """Switch spans and metrics on. Does nothing if they are.

        ``tracer_provider`` and ``meter_provider`` are the global ones by default. With ``links_only``, the spans of
        records are children of the current span, and only have links to their producers' spans. With ``keys``, they
        have the keys of records that are text or integers. Other keywords are those of ``BaseInstrumentor``.
        """
        providers = {"tracer_provider": tracer_provider, "meter_provider": meter_provider}
        super().instrument(**providers, links_only=links_only, keys=keys, **kwargs)

    def _instrument(self, *, tracer_provider: Any, meter_provider: Any, links_only: bool, keys: bool, **_: Any) -> None:
        self._tracing = Tracing(tracer_provider, links_only=links_only, keys=keys)
        self._replaced: list[tuple[type, str, Any]] = []
        if meter_provider not in self._instruments:
            self._instruments[meter_provider] = ConsumerInstruments(meter_provider=meter_provider)
        self._observed = self._instruments[meter_provider]
        self._replace(PlainCalls, "_set_up", self._setting_up)
        self._replace(BaseWorkers, "__init__", _making_workers)
        self._replace(BaseWorkers, "_take", _taking)
        self._wrap_classes()

    def _uninstrument(self, **_: Any) -> None:
        self._tracing.enabled = False
        for owner, name, method in reversed(self._replaced):
            setattr(owner, name, method)
        self._observed.clear()

    def _replace(self, owner: type, name: str, wrap: Wrap) -> None:
        method = vars(owner)[name]
        self._replaced.append((owner, name, method))
        setattr(owner, name, wraps(method)(wrap(self._tracing, method)))

    def _wrap_classes(self) -> None:
        """Wrap the methods of all consumer classes that are imported; later ones are found by their first consumer."""
        done = {(owner, name) for owner, name, _ in self._replaced}
        aiokafka: type = getattr(sys.modules.get(AIOKAFKA[0]), AIOKAFKA[1], object)
        for owner in (*_subclasses(PlainCalls), aiokafka):
            for name, wrap in WRAPPERS.items():
                if name in vars(owner) and (owner, name) not in done:
                    self._replace(owner, name, wrap)

    def _setting_up(self, tracing: Tracing, method: Method) -> Method:
        def set_up(consumer: Any, *args: Any) -> None:
            method(consumer, *args)
            if tracing.enabled:
                self._observed.add(consumer)
                self._wrap_classes()

        return set_up


def _subclasses(owner: type) -> Iterator[type]:
    """Yield the subclasses in this package; programs' own call the methods of these."""
    subclasses: list[type] = owner.__subclasses__()
    for found in subclasses:
        if found.__module__.startswith("thinconsumer."):
            yield found
        yield from _subclasses(found)


def _source(tracing: Tracing, consumer: Any) -> Source:
    reader = (consumer if hasattr(consumer, "_reader") else consumer._consumer)._reader
    return Source(tracing, reader.config.group_id, reader.config.client_id)


def _iteration(consumer: Any) -> Any:
    return (consumer if hasattr(consumer, "_iteration") else consumer._consumer)._iteration


def _polling(tracing: Tracing, method: Method) -> Method:
    def poll(consumer: Any, *args: Any, **kwargs: Any) -> Any:
        began, records = time_ns(), None
        try:
            records = method(consumer, *args, **kwargs)
            return _returned(tracing, consumer, began, records)
        except BaseException as error:
            _not_returned(tracing, consumer, began, records, error)
            raise

    async def async_poll(consumer: Any, *args: Any, **kwargs: Any) -> Any:
        began, records = time_ns(), None
        try:
            records = await method(consumer, *args, **kwargs)
            return _returned(tracing, consumer, began, records)
        except BaseException as error:
            _not_returned(tracing, consumer, began, records, error)
            raise

    return async_poll if iscoroutinefunction(method) else poll


def _returned(tracing: Tracing, consumer: Any, began: int, records: dict[Any, Any]) -> dict[Any, Any]:
    """Make the span of a poll; return its records so that loops over them make spans."""
    if not records or not tracing.enabled:
        return records
    try:
        source = _source(tracing, consumer)
        count = sum(map(len, records.values()))
        source.poll(began, chain.from_iterable(records.values()), records, count)
        return {tp: _traced(found, source) for tp, found in records.items()}
    except Exception as error:  # noqa: BLE001 - of a propagator, or of the SDK
        tracing.failed(error)
        return records


def _traced(records: Any, source: Source) -> Any:
    return TracedRecords(records, source) if isinstance(records, RecordSequence) else TracedList(records, source)


def _not_returned(tracing: Tracing, consumer: Any, began: int, records: Any, error: BaseException) -> None:
    if isinstance(error, Exception):
        if tracing.enabled and not isinstance(error, WakeupError):
            _source(tracing, consumer).poll_failed(began, error)
    elif records and hasattr(consumer, "_reader"):
        # Ctrl-C after the poll, and before the program got the records: the next poll returns them.
        consumer._reader.poll_result = None


def _iterating(tracing: Tracing, method: Method) -> Method:
    def iterate(consumer: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(consumer, *args, **kwargs)
        if isinstance(found, Turns) or not tracing.enabled:
            return found
        source, iteration = _source(tracing, consumer), _iteration(consumer)
        if hasattr(found, "__anext__"):
            return AsyncLoop(source, found.__anext__, iteration)
        return Loop(source, found.__next__, iteration)

    return iterate


def _making_workers(tracing: Tracing, method: Method) -> Method:
    def init(workers: Any, consumer: Any, handler: Any, settings: Any) -> None:
        if callable(handler) and tracing.enabled:
            kind = TracedCoroutineHandler if hasattr(consumer, "__anext__") else TracedHandler
            handler = kind(handler, tracing, (consumer.config.group_id, consumer.config.client_id))
        method(workers, consumer, handler, settings)

    return init


def _taking(tracing: Tracing, method: Method) -> Method:
    def take(workers: Any, records: Any) -> Any:
        return method(workers, {tp: plain(found) for tp, found in records.items()})

    return take


#: By name of a method: what wraps it.
WRAPPERS: dict[str, Wrap] = {
    "poll": _polling,
    "getmany": _polling,
    "__iter__": _iterating,
    "__aiter__": _iterating,
    "read_to_end": _iterating,
}
