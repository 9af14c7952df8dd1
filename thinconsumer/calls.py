"""An answer that is not there yet: what a blocking method waits for while ``poll``'s machinery works on it.

Owns one small class, and :func:`run_all`. It knows nothing of time or I/O: whoever waits steps the engine until
:attr:`Call.done`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from .errors import KafkaError

T = TypeVar("T")


class Call(Generic[T]):
    """Settled once, with a result or an error; abandoned by whoever asked when its time has passed."""

    __slots__ = ("_error", "_result", "abandoned", "done", "last_error", "what")

    def __init__(self, what: str) -> None:
        self.what = what  #: What is asked, for the message of a timeout.
        self.done = False
        self.abandoned = False  #: Nobody waits any more; managers drop the work.
        #: The latest passing failure. A timeout without it would say only that time passed.
        self.last_error: KafkaError | None = None
        self._result: T | None = None
        self._error: KafkaError | None = None

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self.done or self.abandoned

    @property
    def error(self) -> KafkaError | None:
        """The error of a settled call, if it has one."""
        return self._error

    def succeed(self, result: T) -> None:
        """Settle with ``result``; a call settled before stays as it is."""
        if not self.done:
            self._result = result
            self.done = True

    def fail(self, error: KafkaError) -> None:
        """Settle with ``error``; a call settled before stays as it is."""
        if not self.done:
            self._error = error
            self.done = True

    def result(self) -> T:
        """Return the result of a settled call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def run_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make every one of these calls; raise the first exception of any kind when all are made."""
    raised: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below
            raised = raised or error
    if raised is not None:
        raise raised
