"""The result of ``commit_async``, which is there later, with the methods of kafka-python's ``kafka.future.Future``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..peer_types import KAFKA_PYTHON

__all__ = ["Future"]


class _Future:
    """A result that is there later. Functions added to it run when it is done: in a later call of the consumer."""

    def __init__(self) -> None:
        self.is_done: bool = False
        self.value: Any = None
        self.exception: BaseException | None = None
        self._callbacks: list[tuple[bool, Callable[[Any], Any]]] = []

    def succeeded(self) -> bool:
        """Return whether the result is there."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Return whether there is an :attr:`exception` instead of a result."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Return whether the same call may succeed later."""
        return bool(self.failed() and getattr(self.exception, "retriable", False))

    def success(self, value: Any) -> _Future:
        """Set the result, and call the functions for it."""
        self.value = value
        return self._end()

    def failure(self, error: BaseException) -> _Future:
        """Set the exception, and call the functions for it."""
        self.exception = error
        return self._end()

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> _Future:
        """Call the function with the result, now or when it is there."""
        return self._add(True, partial(function, *args, **kwargs))

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> _Future:
        """Call the function with the exception, now or when it is there."""
        return self._add(False, partial(function, *args, **kwargs))

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> _Future:
        """Call the function with the result or the exception, now or when it is there."""
        return self.add_callback(function, *args, **kwargs).add_errback(function, *args, **kwargs)

    def _add(self, for_success: bool, function: Callable[[Any], Any]) -> _Future:
        self._callbacks.append((for_success, function))
        return self._end() if self.is_done else self

    def _end(self) -> _Future:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for for_success, function in callbacks:
            if for_success == self.succeeded():
                function(self.value if for_success else self.exception)
        return self


if TYPE_CHECKING:
    Future = _Future
else:
    Future = KAFKA_PYTHON.find("future.Future", _Future)
