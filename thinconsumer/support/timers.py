"""Backoff and retries.

Times are arguments, in seconds of a monotonic clock. Jitter comes from a :class:`Random` that is passed in, so that the
same seed gives the same delays.
"""

from __future__ import annotations

from typing import Protocol

from .agenda import NEVER as NEVER
from .agenda import Agenda
from .lazy_dataclass import dataclass

#: Minimum backoff in seconds, even with ``retry_backoff_ms=0``. Otherwise the client would retry in a tight loop when a
#: broker rejects requests at once.
LEAST_PAUSE = 0.01


class Random(Protocol):
    """A source of randomness, such as ``random.Random``."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""


class RetrySettings(Protocol):
    """The options of a backoff, in milliseconds."""

    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


class SharedJitter:
    """A :class:`Random` that returns one value until :meth:`redraw`.

    Partitions that failed together share it: with a jitter each, thousands of partitions would be retried at different
    times, each in a request of its own.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._value: float | None = None

    def redraw(self) -> None:
        """Forget the value. The next one is drawn only when it is needed, since each draw may be a system call."""
        self._value = None

    def random(self) -> float:
        """Return the shared value, in [0, 1)."""
        if self._value is None:
            self._value = self._random.random()
        return self._value

    def randrange(self, stop: int, /) -> int:
        """Return the shared value as an int in [0, stop)."""
        return int(self.random() * stop)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter (KIP-144, KIP-580); durations in seconds, ``jitter`` as a fraction of a delay."""

    initial: float
    maximum: float
    multiplier: float = 2.0
    jitter: float = 0.2

    @classmethod
    def from_settings(cls, settings: RetrySettings) -> Backoff:
        """Return the backoff between two attempts of a request, at least :data:`LEAST_PAUSE`."""
        initial, maximum = settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000
        return cls(max(LEAST_PAUSE, initial), max(LEAST_PAUSE, maximum))

    def delay(self, attempts: int, random: Random) -> float:
        """Return the seconds to wait after ``attempts`` failures in a row: ``initial`` to ``maximum``; 0 after none."""
        if attempts <= 0:
            return 0.0
        # The exponent is limited, since 2.0 ** 1100 overflows a float; sixty doublings exceed any maximum.
        grown = min(self.initial * self.multiplier ** min(attempts - 1, 60), self.maximum)
        # A delay below ``initial`` would allow more than one attempt in ``retry_backoff_ms``.
        least, most = max(self.initial, grown * (1.0 - self.jitter)), grown * (1.0 + self.jitter)
        # The maximum includes the jitter (KIP-580).
        return min(least + (most - least) * random.random(), self.maximum)


class Retry:
    """Whether a request may be sent now: not while one is in flight, nor in the pause after a failure.

    Modelled on Java's ``RequestState``. The owner calls :meth:`sent`, then :meth:`succeeded` or :meth:`failed`.
    """

    __slots__ = ("attempts", "backoff", "in_flight", "pause", "random")

    def __init__(self, backoff: Backoff, random: Random, agenda: Agenda | None = None) -> None:
        self.backoff = backoff
        self.random = random
        self.in_flight = False
        self.attempts = 0  #: Consecutive failures.
        self.pause = (agenda or Agenda()).alarm()  #: The end of the pause, at which the managers step.

    def may_send(self, now: float) -> bool:
        """Return whether no request is in flight and the pause is over."""
        return not self.in_flight and not self.pause.is_ahead(now)

    def sent(self) -> None:
        """Record that a request is in flight."""
        self.in_flight = True

    def succeeded(self) -> None:
        """Record a success: the next request may be sent at once."""
        self.in_flight = False
        self.attempts = 0
        self.pause.clear()

    def failed(self, now: float) -> None:
        """Record a failure: the next request waits for the backoff."""
        self.in_flight = False
        self.attempts += 1
        self.pause.set(now + self.backoff.delay(self.attempts, self.random))
