"""One world: its clock, the heap of all future events, and the turns of actors.

Everything is single-threaded, so an actor that waits inside a blocking call lets the world go on *on its own stack*
(:meth:`World.wait`): other actors have turns, messages arrive, brokers' timers pass, in the order of time, until
something arrives for the waiting actor or its deadline passes. An actor in a call is not entered again. A long turn
delays the actors that wait below on the stack: with :attr:`World.depth` above 0 an application polls without waiting,
as an event loop does. Nothing here depends on Kafka.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...timers import NEVER
from ..clock import VirtualClock
from .streams import Streams
from .trace import Trace

if TYPE_CHECKING:
    from .driver import SimDriver


class Violation(AssertionError):
    """A promise was broken. The message says which, by which client and when; the trace has the events before."""


class World:
    """See the module. ``streams`` give each use its own randomness."""

    def __init__(self, seed: int | str = 0, *, traced: bool = True) -> None:
        self.clock = VirtualClock()
        self.streams = Streams(seed)
        self.trace = Trace(self.clock, enabled=traced)
        self.violations: list[Violation] = []
        self.depth = 0  #: How many actors wait inside a blocking call, one on top of the other.
        self.happened = 0  #: Events so far.
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.clock.now()

    # -- events

    def call_at(self, moment: float, callback: Callable[[], None]) -> None:
        """Let something happen at a moment; things of one moment in the order they were asked for."""
        heapq.heappush(self._heap, (max(moment, self.clock.now()), next(self._numbers), callback))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Let something happen after a while."""
        self.call_at(self.clock.now() + seconds, callback)

    def next_event_at(self) -> float:
        """Return when the next thing happens."""
        return self._heap[0][0] if self._heap else NEVER

    def accuse(self, words: str) -> None:
        """Record a broken promise; the next step of the world raises it."""
        self.violations.append(Violation(f"at {self.clock.now():.6f}: {words}"))

    def step(self) -> None:
        """Let the next event happen. Raises: Violation, when there has been one."""
        moment, _, callback = heapq.heappop(self._heap)
        self.clock.advance_to(moment)
        self.happened += 1
        callback()
        if self.violations:
            raise self.violations[0]

    def run_until(self, moment: float) -> None:
        """Let everything happen up to a moment."""
        while self.next_event_at() <= moment:
            self.step()
        self.clock.advance_to(moment)

    def wait(self, driver: SimDriver, deadline: float) -> None:
        """Let the world go on until something has arrived for ``driver``, or its deadline has passed."""
        self.depth += 1
        try:
            while not driver.has_mail:
                moment = self.next_event_at()
                if moment > deadline:
                    self.clock.advance_to(deadline)
                    return
                if moment == NEVER:
                    raise AssertionError("waiting for what can never happen: no deadline, and nothing is under way")
                self.step()
        finally:
            self.depth -= 1


class Actor:
    """The base of everything that has turns. A subclass defines its turn, which returns when the next one is."""

    def __init__(self, world: World, name: str, *, stream: str | None = None) -> None:
        self.world = world
        self.name = name
        self.random = world.streams(f"actor/{stream or name}")
        self.is_active = True
        self._due = NEVER
        self._in_turn = False

    def turn(self) -> float:
        """Do something; return when the next turn is."""
        raise NotImplementedError

    def wake(self, moment: float | None = None) -> None:
        """Have a turn at a moment (now, if none is given), if there is none earlier."""
        moment = self.world.now() if moment is None else max(moment, self.world.now())
        if moment < self._due and not self._in_turn and self.is_active:
            self._due = moment
            self.world.call_at(moment, lambda: self._have_turn(moment))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Be in a call made from outside of a turn: no turn comes meanwhile, and one comes right after it."""
        before, self._in_turn = self._in_turn, True
        try:
            yield
        finally:
            self._in_turn = before
        self.wake()

    def _have_turn(self, moment: float) -> None:
        if moment != self._due:
            return
        self._due = NEVER  # even if it is busy: a moment that stayed here would be earlier than all to come, for ever
        if self._in_turn or not self.is_active:
            return
        self._in_turn = True
        try:
            due = self.turn()
        finally:
            self._in_turn = False
        if due < NEVER:
            self.wake(due)
