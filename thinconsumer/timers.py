"""Deadlines and backoff as plain values.

Owns the arithmetic of waiting. It never reads a clock: ``now`` is an argument in float seconds of a monotonic clock,
and what comes back is an absolute deadline in the same unit. Jitter comes from an object passed in, so that a test or
a simulation with the same seed waits exactly as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

#: A deadline that never comes.
NEVER = math.inf


class Random(Protocol):
    """What this package asks of a source of randomness; ``random.Random`` has it."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""
        ...


class SharedJitter:
    """A :class:`Random` that says the same until it is drawn again.

    For what failed together, to be tried again together: thousands of partitions with a jitter each would each have a
    moment, a look through all of them, and a request of its own.
    """

    __slots__ = ("_random", "_value")

    def __init__(self, random: Random) -> None:
        self._random = random
        self._value = random.random()

    def draw(self) -> None:
        """Say something else from now on."""
        self._value = self._random.random()

    def random(self) -> float:
        """Return what was drawn last."""
        return self._value

    def randrange(self, stop: int, /) -> int:
        """Return the same as an int in [0, stop)."""
        return int(self._value * stop)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter (KIP-144, KIP-580); durations in seconds."""

    initial: float
    maximum: float
    multiplier: float = 2.0
    jitter: float = 0.2

    def delay(self, attempts: int, random: Random) -> float:
        """Return how long to wait after ``attempts`` failures in a row; nothing before the first."""
        if attempts <= 0:
            return 0.0
        # 2.0 ** 1100 overflows a float: past sixty doublings every sane maximum has been reached.
        grown = self.initial * self.multiplier ** min(attempts - 1, 60)
        spread = 1.0 + self.jitter * (2.0 * random.random() - 1.0)
        # The maximum is cut after the jitter (KIP-580), so that it is one.
        return min(min(grown, self.maximum) * spread, self.maximum)


@dataclass(slots=True)
class Retry:
    """Whether one thing may be asked again: in flight or not, failures so far, and not before when.

    After Java's ``RequestState``. The owner calls :meth:`sent`, then :meth:`succeeded` or :meth:`failed`.
    """

    backoff: Backoff
    random: Random
    in_flight: bool = False
    attempts: int = 0
    not_before: float = -math.inf

    def may_send(self, now: float) -> bool:
        """Return whether nothing is in flight and the backoff has passed."""
        return not self.in_flight and now >= self.not_before

    def wake_at(self) -> float:
        """Return when :meth:`may_send` turns true by itself; never, while an answer is awaited."""
        return NEVER if self.in_flight else self.not_before

    def sent(self) -> None:
        """Note that the request is on its way."""
        self.in_flight = True

    def succeeded(self) -> None:
        """Note an answer: the next request may go at once."""
        self.in_flight = False
        self.attempts = 0
        self.not_before = -math.inf

    def failed(self, now: float) -> None:
        """Note a failure: the next request waits for the backoff."""
        self.in_flight = False
        self.attempts += 1
        self.not_before = now + self.backoff.delay(self.attempts, self.random)
