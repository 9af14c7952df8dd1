"""Serial execution of a coordinator's operations, with replies sent after the current operation.

A reply can immediately cause the client's next request, which would see a half-changed group if it was handled within
the operation that replies. In Kafka the threads of ``CoordinatorEventProcessor`` execute the operations of a partition
one after the other.
"""

from collections import deque
from collections.abc import Callable


class EventProcessor:
    """Runs each operation to its end, then the callbacks that it has deferred."""

    def __init__(self) -> None:
        self._busy = False
        self._later: deque[Callable[[], None]] = deque()

    def run(self, callback: Callable[[], None]) -> None:
        """Run an operation, then the callbacks that it has deferred. If another operation is running already, the
        callbacks wait until that one is complete, too.
        """
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
        """Call ``callback`` once the current operation is complete."""
        self._later.append(callback)
