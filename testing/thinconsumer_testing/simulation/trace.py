"""The trace of a run: one line per event with virtual time, actor, state, event and reason.

Lines are kept as tuples and formatted only when they are printed, so that a run without an error spends little time on
its trace. Arguments must be numbers and strings: they must not change before they are formatted, and the same seed must
give the same text in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from ..clock import VirtualClock

COLUMNS = "time         actor         state               event            why"


class Line(NamedTuple):
    """One line of the trace: an event, with its text and the arguments that are formatted into the text."""

    time: float
    actor: str
    state: str
    event: str
    why: str
    args: tuple[object, ...]

    def __str__(self) -> str:
        why = self.why % self.args if self.args else self.why
        return f"{self.time:12.6f} {self.actor:<13} {self.state:<19} {self.event:<16} {why}".rstrip()


class Trace:
    """All trace lines of a run. With ``enabled=False``, no line is kept."""

    def __init__(self, clock: VirtualClock, *, enabled: bool = True) -> None:
        self.lines: list[Line] = []
        self.enabled = enabled
        self._clock = clock

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def add(self, actor: str, state: str, event: str, why: str = "", *args: object) -> None:
        """Add an event. ``why % args`` is formatted when the trace is read."""
        if self.enabled:
            self.lines.append(Line(self._clock.now(), actor, state, event, why, args))

    def text(self, last: int | None = None) -> str:
        """Return the lines, or the ``last`` ones, below a heading."""
        lines = self.lines if last is None else self.lines[-last:]
        return "\n".join([COLUMNS, *map(str, lines)])

    def digest(self) -> str:
        """Return a hash of all lines: equal for equal runs."""
        digest = hashlib.sha256()
        for line in self.lines:
            digest.update(str(line).encode())
            digest.update(b"\n")
        return digest.hexdigest()
