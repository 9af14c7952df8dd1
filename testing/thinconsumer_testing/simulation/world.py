"""The event loop of a simulation (a *world*): its virtual clock, the heap of all future events, and its actors.

An actor is a simulated process. The world calls :meth:`Actor.turn`, which does one piece of work and returns the time
of the next call. Everything is single-threaded, so a blocking call inside a turn runs later events *on its own stack*
(:meth:`World.wait`), in the order of time, until something arrives for the waiting actor or its deadline passes. During
its turn an actor gets no other turn. A long turn delays the actors that wait below it on the stack, so with
:attr:`World.depth` above 0 an application polls without waiting. Nothing here depends on Kafka.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from thinconsumer.support.timers import NEVER

from ..clock import VirtualClock
from .streams import Streams
from .trace import Trace

if TYPE_CHECKING:
    from .driver import SimDriver


class Violation(AssertionError):
    """A checked guarantee was broken. The message says which, by which client and when; the trace has the history."""


class World:
    """The event loop that the module describes. ``streams`` has a random generator for each purpose."""

    def __init__(self, seed: int | str = 0, *, traced: bool = True) -> None:
        self.clock: VirtualClock = VirtualClock()
        self.streams: Streams = Streams(seed)
        self.trace: Trace = Trace(self.clock, enabled=traced)
        self.violations: list[Violation] = []
        #: Number of blocking calls of actors that wait now, each on top of the one before on the stack.
        self.depth: int = 0
        self.happened: int = 0  #: Number of events that have run so far.
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.clock.now()

    def call_at(self, moment: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` at a time of the virtual clock. Several for the same time are called in the order added."""
        now = self.clock.now()
        heapq.heappush(self._heap, (moment if moment > now else now, next(self._numbers), callback))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` after this many virtual seconds."""
        self.call_at(self.clock.now() + seconds, callback)

    def next_event_at(self) -> float:
        """Return the time of the next event; infinity if there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def accuse(self, words: str) -> None:
        """Record a violation, which :meth:`step` raises once the running event is over."""
        self.violations.append(Violation(f"at {self.clock.now():.6f}: {words}"))

    def step(self) -> None:
        """Advance the clock to the next event and run it. Raises: Violation, the first one recorded so far."""
        moment, _, callback = heapq.heappop(self._heap)
        self.clock.advance_to(moment)
        self.happened += 1
        callback()
        if self.violations:
            raise self.violations[0]

    def run_until(self, moment: float) -> None:
        """Run all events up to a moment, and advance the clock to it."""
        while self.next_event_at() <= moment:
            self.step()
        self.clock.advance_to(moment)

    def wait(self, driver: SimDriver, deadline: float) -> None:
        """Run events until ``driver`` has mail; without mail, run all up to ``deadline``, and advance the clock."""
        self.depth += 1
        try:
            while not driver.has_mail:
                moment = self.next_event_at()
                if moment > deadline:
                    self.clock.advance_to(deadline)
                    return
                if moment == NEVER:
                    raise AssertionError("waiting without end: no deadline, and no event is pending")
                self.step()
        finally:
            self.depth -= 1


class Actor:
    """The base class of simulated processes. A subclass implements :meth:`turn`."""

    def __init__(self, world: World, name: str, *, stream: str | None = None) -> None:
        self.world = world
        self.name = name
        self.random: Random = world.streams(f"actor/{stream or name}")
        self.is_active = True
        self._due = NEVER
        self._in_turn = False

    def turn(self) -> float:
        """Do one piece of work; return the time of the next turn, infinity for none until :meth:`wake`."""
        raise NotImplementedError

    def wake(self, moment: float | None = None) -> None:
        """Schedule the next turn at ``moment`` (default: now), unless it is due earlier. During a turn, do nothing."""
        moment = self.world.now() if moment is None else max(moment, self.world.now())
        if moment < self._due and not self._in_turn and self.is_active:
            self._due = moment
            self.world.call_at(moment, lambda: self._have_turn(moment))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Return a context for calls of the actor's client outside a turn; the next turn comes after the context."""
        before, self._in_turn = self._in_turn, True
        try:
            yield
        finally:
            self._in_turn = before
        self.wake()

    def _have_turn(self, moment: float) -> None:
        if moment != self._due:
            return
        # Reset even if no turn follows below: wake() schedules a turn only before ``_due``, which has come by now.
        self._due = NEVER
        if self._in_turn or not self.is_active:
            return
        self._in_turn = True
        try:
            due = self.turn()
        finally:
            self._in_turn = False
        if due < NEVER:
            self.wake(due)
