"""Serial execution of a coordinator's operations, with replies sent after the current operation.

A reply can immediately cause the same client's next request, which would see a half-changed group if it was handled
within the operation. Kafka has a ``CoordinatorEventProcessor`` thread per partition for this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class EventProcessor:
    """Runs each operation to its end, then the callbacks that it has deferred."""

    def __init__(self) -> None:
        self._busy = False
        self._later: deque[Callable[[], None]] = deque()

    def run(self, callback: Callable[[], None]) -> None:
        """Run an operation, then all deferred callbacks; a nested operation leaves them to the outer one."""
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
        """Call back when the current operation is complete."""
        self._later.append(callback)
