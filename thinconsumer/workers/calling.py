"""The call of a handler, the same in this process and in worker processes, and what a pool of workers is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import iscoroutine
from typing import Any, NamedTuple, Protocol

from ..errors import IllegalArgumentError, KafkaError
from ..records.rows import ColumnDeserializer, deserialize
from ..types import ConsumerRecord, TopicPartition
from .dispatcher import Job

Record = ConsumerRecord[Any, Any]


class WrongHandlerError(IllegalArgumentError):
    """The handler is a coroutine function where none can be awaited, or none where one is needed."""


class HandlerCall(NamedTuple):
    """A handler with what its argument is made by. It can be pickled if its parts can."""

    handler: Callable[[Any], Any]
    key_deserializer: ColumnDeserializer | None
    value_deserializer: ColumnDeserializer | None
    in_batches: bool  #: Whether the handler takes a list of records.

    def argument(self, records: Sequence[Record]) -> Any:
        """Return what to pass to the handler. Raises DeserializationError."""
        if self.key_deserializer is not None or self.value_deserializer is not None:
            records = [self._deserialized(each) for each in records]
        return records if self.in_batches else records[0]

    def _deserialized(self, record: Record) -> Record:
        found, error = deserialize([record], self.key_deserializer, self.value_deserializer)
        if error is not None:
            raise error
        return found[0]

    def __call__(self, records: Sequence[Record]) -> Any:
        value = self.handler(self.argument(records))
        if iscoroutine(value):  # of a lambda, or of an object with an async __call__: it has done nothing
            value.close()
            raise WrongHandlerError("the handler has returned a coroutine, which needs an AsyncConsumer")
        return value


class NotBegunError(KafkaError):
    """In place of a handler's error: the handler was not called, and another worker may run the job."""


class Result(NamedTuple):
    """How a job has ended."""

    job: Job[Record]
    value: Any  #: What the handler has returned.
    error: Exception | None  #: What it has raised, or why its worker has ended.


class CallResult(NamedTuple):
    """How a call of the handler has ended."""

    records: Sequence[Record]  #: The records of the call, with the bytes of keys and values.
    value: Any  #: What the handler has returned.
    error: Exception | None  #: What it has raised, or why its worker process has ended.
    attempts: int  #: How often the handler was called for these records.


class Pool(Protocol):
    """Runs jobs, in whatever way. No method waits, except ``stop``."""

    def room(self) -> int:
        """Return how many jobs can be started now."""

    def start(self, job: Job[Record]) -> None:
        """Start a job, at the latest with the next call of :meth:`watched`; call this only if there is room."""

    def results(self) -> Iterable[Result]:
        """Return the results of jobs that have ended since the last call, and jobs that were taken back."""

    def take_back(self, partitions: Collection[TopicPartition]) -> None:
        """Let the next results have what has not begun of the jobs of these partitions, and perhaps of others."""
        return

    def watched(self) -> Iterable[tuple[int, bool]]:
        """Return descriptors that are readable when there are results, each with whether to wait for writing, too."""
        return ()

    def before_wait(self) -> float:
        """Return for how many seconds results may wait, as all workers have more to do; below 0 if there are some now.

        Called when jobs were started for all that is ready.
        """
        return 0.0

    def stop(self, seconds: float) -> None:
        """Give jobs that run up to ``seconds`` to end, and free everything. Their results are lost."""
        return


class InlinePool(Pool):
    """Runs each job when it is started."""

    def __init__(self, call: HandlerCall) -> None:
        self._call = call
        self._results: list[Result] = []

    def room(self) -> int:
        return 0 if self._results else 1

    def start(self, job: Job[Record]) -> None:
        try:
            value = self._call(job.records)
        except Exception as error:  # noqa: BLE001 - the handler's: its records are tried again, or given up
            self._results.append(Result(job, None, error))
        else:
            self._results.append(Result(job, value, None))

    def results(self) -> Iterable[Result]:
        results, self._results = self._results, []
        return results
