"""The pending result of a blocking method, which steps the engine until the result is there; and :func:`run_all`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ..errors import KafkaError

T = TypeVar("T")


class Call(Generic[T]):
    """The call of a blocking method: pending until it has a result or an error, or until the caller abandons it."""

    __slots__ = ("_result", "abandoned", "done", "error", "last_error", "what")

    def __init__(self, what: str) -> None:
        self.what = what  #: The request in words, which the timeout error names.
        self.done = False
        self.abandoned = False  #: Whether the caller has stopped waiting: no more requests are sent for this call.
        self.last_error: KafkaError | None = None  #: The latest retriable error, named by the timeout error.
        self.error: KafkaError | None = None  #: The error of a call that has failed; None while pending or successful.
        self._result: T | None = None

    @property
    def over(self) -> bool:
        """Whether the call is done or abandoned."""
        return self.done or self.abandoned

    def succeed(self, result: T) -> None:
        """End the call with ``result``, unless it is done already."""
        if not self.done:
            self._result = result
            self.done = True

    def fail(self, error: KafkaError) -> None:
        """End the call with ``error``, unless it is done already."""
        if not self.done:
            self.error = error
            self.done = True

    def result(self) -> T:
        """Return the result of a call that is done, or raise its error."""
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]


def run_all(calls: Iterable[Callable[[], object]], raised: BaseException | None = None) -> None:
    """Run all functions, then raise ``raised``, or else the first exception that any of them raised."""
    for call in calls:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below
            raised = raised or error
    if raised is not None:
        raise raised
