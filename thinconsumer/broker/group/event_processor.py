"""One thing after the other: answers leave when a coordinator is done with what it is doing, not in the middle of it.

An answer can bring the next request of that client along at once, and that one would find a group half changed: Kafka
has an event loop per partition, we have this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class EventProcessor:
    """Runs things to their end, and what they put off after them."""

    def __init__(self) -> None:
        self._busy = False
        self._later: deque[Callable[[], None]] = deque()

    def run(self, callback: Callable[[], None]) -> None:
        """Do something now; unless it was asked for by something that is still going on, then what was put off too."""
        if self._busy:
            callback()
            return
        self._busy = True
        try:
            callback()
        finally:
            self._busy = False
        while self._later and not self._busy:
            self._later.popleft()()

    def defer(self, callback: Callable[[], None]) -> None:
        """Do something when what is going on is over."""
        self._later.append(callback)
