"""Lookups of schemas that may block, on threads of their own, so that polls wait no longer than their timeouts."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from ..errors import DeserializerNotReadyError, KafkaError

#: How many lookups run at the same time. Each has a thread, which ends with it.
RUNNING_MAX = 8
#: Results that no record has asked for again, as after a seek, are dropped once there are so many.
KEPT_MAX = 100
#: After a failure no lookup begins for so many seconds, and for twice as many after each further failure in a row.
PAUSE_S = 0.1
PAUSE_MAX_S = 5.0
#: By these statuses a registry says that the schema does not exist: the record is bad. All others concern the registry,
#: or who asks: with a wrong password, all records would be bad, and ``on_bad_record="skip"`` would lose them.
MISSING = (404, 422)
#: Errors of libraries that are no OSError, but mean as much; by name, since the libraries need not be there.
UNREACHABLE = ("TransportError", "OAuthTokenError")


class _Lookup:
    def __init__(self, function: Callable[[], Any], began_at: float) -> None:
        self._function = function
        self.began_at = began_at
        self.done = False
        self.value: Any = None
        self.error: Exception | None = RuntimeError("the thread of a lookup has ended")

    def run(self) -> None:
        try:
            self.value = self._function()
            self.error = None
        except Exception as error:  # noqa: BLE001 - of the registry or of user code, and raised in the poll
            self.error = error
        finally:
            self.done = True


def _start(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="thinconsumer-schema-lookup", daemon=True).start()


class Lookups:
    """The results of lookups by their keys; the most recently used ``size`` are kept.

    Several threads may use it, as those of workers. ``start`` runs a function elsewhere, ``clock`` returns seconds.
    """

    def __init__(
        self,
        size: int,
        start: Callable[[Callable[[], None]], None] = _start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size, self._start, self._clock = size, start, clock
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, Any] = OrderedDict()
        self._lookups: dict[Hashable, _Lookup] = {}
        self._failures = 0  #: In a row.
        self._failure = ""
        self._paused_until = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Lookups, (self._size,)  # for worker processes, which look up for themselves

    def get(self, key: Hashable, function: Callable[[], Any]) -> Any:
        """Return what ``function`` has returned for this key; the first call starts it, and does not wait for it.

        Raises:
            DeserializerNotReadyError: it still runs, or the registry could not be asked.
            Exception: that of the function, if the schema does not exist or cannot be used.
        """
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            now = self._clock()
            lookup = self._lookups.get(key)
            if lookup is None:
                lookup = self._begin(key, function, now)
            if not lookup.done:
                raise self._wait(f"a lookup of a schema has taken {now - lookup.began_at:.1f} s", now - lookup.began_at)
            del self._lookups[key]
            if lookup.error is None:
                self._failures = 0
                self._found[key] = lookup.value
                if len(self._found) > self._size:
                    self._found.popitem(last=False)
                return lookup.value
            error = not_ready(lookup.error)
            if error is None:
                self._failures = 0
                raise lookup.error
            pause = min(PAUSE_S * 2 ** min(self._failures, 20), PAUSE_MAX_S)
            self._failures += 1
            self._failure, self._paused_until = str(error), now + pause
            error.retry_after_ms = pause * 1000
            raise error from lookup.error

    def _begin(self, key: Hashable, function: Callable[[], Any], now: float) -> _Lookup:
        if now < self._paused_until:
            raise DeserializerNotReadyError(self._failure, (self._paused_until - now) * 1000)
        running = sum(not each.done for each in self._lookups.values())
        if running >= RUNNING_MAX:
            raise self._wait(f"{running} lookups of schemas run", 0.1)
        if len(self._lookups) >= KEPT_MAX:
            self._lookups = {each: known for each, known in self._lookups.items() if not known.done}
        lookup = _Lookup(function, now)
        try:
            self._start(lookup.run)
        except RuntimeError as error:
            raise self._wait(f"no thread can be started: {error}", 0.1) from error
        self._lookups[key] = lookup
        return lookup

    @staticmethod
    def _wait(reason: str, elapsed: float) -> DeserializerNotReadyError:
        """Return an error to try again soon: later the longer it has taken."""
        return DeserializerNotReadyError(reason, min(max(elapsed / 2, 0.002), 0.1) * 1000)


def not_ready(error: Exception) -> DeserializerNotReadyError | None:
    """Return the error of a registry that cannot be asked; None if the schema does not exist, or the record is bad."""
    for each in _chain(error):
        status = _status(each)
        if status is not None:
            return None if status in MISSING else DeserializerNotReadyError(f"a schema cannot be looked up: {each}")
        is_unreachable = isinstance(each, OSError) or (isinstance(each, KafkaError) and each.retriable)
        if is_unreachable or any(kind.__name__ in UNREACHABLE for kind in type(each).__mro__):
            what = f"{type(each).__name__}: {each}"
            return DeserializerNotReadyError(f"a schema cannot be looked up: {what}")
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from: libraries wrap errors."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of confluent-kafka, httpx, requests or urllib."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "http_status_code"), (response, "status_code"), (error, "code"), (error, "status")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    return None
