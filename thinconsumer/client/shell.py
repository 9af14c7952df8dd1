"""Engine and driver of one small client under one roof: how a call waits, and how a broken-off one is mended.

Owns time limits and nothing else. For one thread; the driver is passed in, and closing the client closes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..driver import Driver
from ..errors import IllegalArgumentError, IllegalStateError
from .engine import ClientEngine

log = logging.getLogger(__name__)


def to_seconds(timeout_ms: object, default_ms: float) -> float:
    """Return a user's timeout in seconds; ``default_ms`` for None.

    Raises:
        IllegalArgumentError: it is not a number of milliseconds from 0 on.
    """
    given = default_ms if timeout_ms is None else timeout_ms
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given >= 0:
        raise IllegalArgumentError(f"a timeout is a number of milliseconds from 0 on, not {given!r}")
    return given / 1000


class ClientShell:
    """What the public methods of a small client are made of."""

    def __init__(self, engine: ClientEngine, driver: Driver) -> None:
        self._engine = engine
        self._driver = driver
        self._closed = False
        self._torn = False  #: An exception has left a step half done; the next call starts over, see :meth:`_begin`.

    def wake_at(self) -> float:
        """Return when to call again at the latest, in the driver's monotonic seconds."""
        return self._driver.now() if self._torn else min(self._engine.wake_at(), self._driver.wake_at())

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is I/O to do; ``io.UnsupportedOperation`` if none."""
        return self._driver.fileno()

    def _begin(self) -> None:
        """Begin a public call."""
        if self._closed:
            raise IllegalStateError(f"this {type(self).__name__.lower()} is closed")
        self._driver.check_process()
        if self._torn:
            log.info("a call was interrupted in the middle of a step: connecting anew, and asking again")
            self._driver.hang_up_all()
            self._engine.restart(self._driver.now())
            self._torn = False

    def _turn(self, deadline: float) -> float:
        """One round: wait for I/O until ``deadline``, let everything follow from it, return the time."""
        driver, engine = self._driver, self._engine
        self._torn = True
        try:
            driver.step(engine, min(deadline, engine.wake_at()))
        except BaseException:
            self._torn = not driver.waiting
            raise
        now = driver.now()
        if engine.step(now):
            driver.step(engine, now)  # what is to be sent or dialled leaves now, not in the next call
        self._torn = False
        return now

    def _wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Step until ``done()``, for so long at most, and once at least; return whether it is."""
        deadline = self._driver.now() + seconds
        now = self._turn(self._driver.now())
        while not done():
            if now >= deadline:
                return False
            now = self._turn(deadline)
        return True

    def _end(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        self._driver.close()
