"""Iterators that let the span of each record be current while the body of the loop runs.

A span ends when the loop asks for the next record, or when the loop is over: it then drops its iterator, whether it was
left by ``break`` or by an exception.
"""

from __future__ import annotations

import _thread
from collections.abc import Awaitable, Callable, Iterable, Iterator
from time import time_ns
from typing import Any
from weakref import ref

from opentelemetry.context import attach

from ..fetch.record_sequence import RecordSequence
from .spans import ProcessingContext, Source


class Turns:
    """The spans of a loop's records, one at a time."""

    __slots__ = ("__weakref__", "_iteration", "_next", "_seen", "_source", "_turn", "is_copy", "is_fresh")

    def __init__(self, source: Source, following: Callable[[], Any], iteration: Any = None) -> None:
        """``iteration`` is that of a consumer, if the loop polls."""
        self._source = source
        self._next = following
        self._iteration = iteration
        self._seen = None if iteration is None else iteration.poll_result  #: The poll result that had a span.
        self._turn: ProcessingContext | None = None
        self.is_fresh = True  #: Whether no record was requested since ``iter()``.
        self.is_copy = False  #: Whether it fills a list, whose items are not processed yet.

    def end(self) -> None:
        """End the span of the record that was returned last."""
        self.is_fresh = False
        if (turn := self._turn) is not None:
            turn.end()
            self._turn = None

    def begin(self, record: Any, began: int) -> None:
        """Let a record's span begin; the record was requested at ``began``, in ns since the epoch."""
        if not self._source.tracing.enabled:
            return
        if self._iteration is not None and (result := self._iteration.poll_result) is not self._seen:
            self._seen = result
            self._source.poll(began, self._iteration.records, result.records, result.count)
        if not self.is_copy:
            self._turn = turn = self._source.process([record])
            if turn is not None:
                attach(turn)

    def take_back(self, record: Any) -> None:
        """Let a record be returned once more: Ctrl-C has come before the program got it."""
        self.end()
        if record is not None and self._iteration is not None:
            self._iteration.poll_result.taken -= 1

    def close(self) -> None:
        """End the span of the record that was returned last, and the iteration."""
        self.end()
        self._next = iter(()).__next__

    def __del__(self) -> None:
        try:
            self.end()
        except KeyboardInterrupt:
            self.end()
            _thread.interrupt_main()  # an exception that leaves this method would be lost
        except Exception:  # noqa: BLE001 - the interpreter ends
            pass


class Loop(Turns):
    """The iterator of a loop."""

    __slots__ = ()

    def __iter__(self) -> Loop:
        self.is_fresh, self.is_copy = True, False
        return self

    def __next__(self) -> Any:
        record = None
        try:
            self.end()
            began = time_ns()
            record = self._next()
            self.begin(record, began)
            return record
        except BaseException as error:
            if not isinstance(error, Exception):
                self.take_back(record)
            raise

    def __length_hint__(self) -> Any:
        # ``list`` calls this right after ``iter()``; loops do not.
        self.is_copy = self.is_fresh
        return NotImplemented


class AsyncLoop(Turns):
    """The iterator of an ``async for``."""

    __slots__ = ()
    _next: Callable[[], Awaitable[Any]]

    def __aiter__(self) -> AsyncLoop:
        return self

    async def __anext__(self) -> Any:
        record = None
        try:
            self.end()
            began = time_ns()
            record = await self._next()
            self.begin(record, began)
            return record
        except BaseException as error:
            if not isinstance(error, Exception):
                self.take_back(record)
            raise


class Traced:
    """Lets loops over records make spans. A class has it as a base before the class with the records."""

    __slots__ = ()
    _source: Source
    _loop: Callable[[], Loop | None]

    def __iter__(self) -> Iterator[Any]:
        loop = Loop(self._source, super().__iter__().__next__)  # type: ignore[misc]
        self._loop = ref(loop)
        return loop

    def __len__(self) -> int:
        # Right after ``iter()`` the length is asked for by ``list`` and ``sorted``, and by no loop.
        loop = self._loop()
        if loop is not None and loop.is_fresh:
            loop.is_copy = True
        length: int = super().__len__()  # type: ignore[misc]
        return length


class TracedRecords(Traced, RecordSequence[Any, Any]):
    """The records of one partition in a poll's result, which loops over them process with spans."""

    __slots__ = ("_loop", "_source")

    def __init__(self, records: RecordSequence[Any, Any], source: Source) -> None:
        self._parts, self._ends = records._parts, records._ends
        self._source = source
        self._loop = _no_loop

    # These would loop over the records without processing them.

    def __eq__(self, other: object) -> bool:
        return bool(plain(self) == plain(other))

    def __contains__(self, value: object) -> bool:
        return value in plain(self)

    def count(self, value: Any) -> int:
        return int(plain(self).count(value))


class TracedList(Traced, list[Any]):
    """The same for the lists that ``thinconsumer.compat`` returns."""

    __slots__ = ("_loop", "_source")

    def __init__(self, records: Iterable[Any], source: Source) -> None:
        super().__init__(records)
        self._source = source
        self._loop = _no_loop

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (self[:],)


def _no_loop() -> None:
    return None


def plain(records: Any) -> Any:
    """Return records without spans."""
    return RecordSequence(records._parts) if isinstance(records, TracedRecords) else records
