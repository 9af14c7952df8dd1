"""Connect to the addresses of one host side by side, and keep the connection that is ready first (RFC 8305).

One address of a name may drop packets or belong to a stopped broker. Dialled one after the other, each such address
costs a setup timeout of ten seconds and more before the next one is tried.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from ..driver import Address
from ..errors import AuthorizationError, KafkaConnectionError, KafkaError
from ..timers import NEVER
from .connection import Connection
from .states import ConnectionState

log = logging.getLogger(__name__)

#: Seconds before the next address is dialled while the transport to the one before is not ready (RFC 8305, section 5).
CONNECT_DELAY = 0.25
#: ... and while the one before is connected but does not answer: a busy broker needs longer than a network.
ANSWER_DELAY = 1.0
#: Seconds before an address that failed is dialled again while others are still tried. A broker that restarts refuses
#: connections for a moment, and must not be found only after another address has used up the setup timeout.
RETRY_DELAY = 1.0
#: Attempts at the same time. A name with many addresses must not cost a broker a connection for each.
PARALLEL_MAX = 4


class AddressRace:
    """One attempt to reach a host: at most ``PARALLEL_MAX`` connections under one deadline.

    ``dial`` begins a connection to one address. After :attr:`winner` is set or :attr:`has_failed`, the race is over.
    """

    def __init__(self, addresses: Sequence[Address], dial: Callable[[Address], Connection], deadline: float) -> None:
        self.connections: list[Connection] = []  #: Those under way, the newest last.
        self.winner: Connection | None = None
        self.errors: dict[Address, KafkaError] = {}  #: The latest error by address.
        self.login_error: AuthorizationError | None = None
        self._dial = dial
        self._deadline = deadline
        self._untried = deque(addresses)
        self._retries: deque[tuple[float, Address]] = deque()
        self._newest: Connection | None = None

    @property
    def has_failed(self) -> bool:
        """Whether no address can be connected to."""
        return self.winner is None and not self.connections and not self._untried

    def step(self, now: float, horizon: float) -> None:
        """Note connections that are ready or have failed, and dial addresses that are due.

        Time passes up to ``horizon``, when I/O was last polled; see :meth:`.Connection.step`.
        """
        for connection in list(self.connections):
            connection.step(now, horizon)
            if connection.was_ready:
                self.connections.remove(connection)
                self.close()
                self.winner = connection
                return
            if connection.has_ended:
                self.connections.remove(connection)
                self._note_failure(connection, now)
                if self.login_error is not None:
                    # Every address would reject the same credentials, and each rejection may count towards a lock-out.
                    self.close()
                    return
        if horizon >= self._deadline:
            self._untried.clear()
        while self._next_dial_at() <= horizon or (self._untried and not self.connections):
            self._dial_next(now)

    def wake_at(self) -> float:
        """Return when :meth:`step` has something to do even if nothing is received."""
        return min([self._next_dial_at(), *(connection.wake_at() for connection in self.connections)])

    def close(self) -> None:
        """Hang up all connections under way, without an error, and dial no more."""
        for connection in self.connections:
            connection.close(None)
        self.connections.clear()
        self._untried.clear()
        self._retries.clear()

    def _note_failure(self, connection: Connection, now: float) -> None:
        error = connection.error or KafkaConnectionError(f"{connection.where}: closed by this client")
        self.errors[connection.address] = error
        log.debug("attempt failed: %s", error)
        if isinstance(error, AuthorizationError):
            self.login_error = error
        elif now + RETRY_DELAY < self._deadline:
            self._retries.append((now + RETRY_DELAY, connection.address))

    def _next_dial_at(self) -> float:
        """Return when the next address is dialled beside those under way; NEVER if none is."""
        if not self.connections or len(self.connections) >= PARALLEL_MAX:
            return NEVER
        newest = self.connections[-1]
        if newest is not self._newest:
            begins_at = -NEVER  # the latest attempt has failed already
        else:
            is_connecting = newest.state is ConnectionState.CONNECTING
            begins_at = newest.setup_began_at + (CONNECT_DELAY if is_connecting else ANSWER_DELAY)
        if self._untried:
            return begins_at
        return max(begins_at, self._retries[0][0]) if self._retries else NEVER

    def _dial_next(self, now: float) -> None:
        address = self._untried.popleft() if self._untried else self._retries.popleft()[1]
        self._newest = self._dial(address)
        self.connections.append(self._newest)
