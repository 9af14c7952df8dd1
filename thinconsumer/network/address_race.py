"""Connect to the addresses of one host side by side, and keep the connection that is ready first (RFC 8305).

If the addresses were dialled one after the other, each that drops packets or belongs to a stopped broker would cost a
setup timeout of ten seconds and more.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from ..driver import Address
from ..errors import AuthorizationError, KafkaConnectionError, KafkaError
from ..support.agenda import Alarm
from .connection import Connection, IoPolls
from .states import ConnectionState

log = logging.getLogger(__name__)

#: Seconds to wait for TCP (and TLS) to one address before the next one is dialled (RFC 8305, section 5).
CONNECT_DELAY = 0.25
#: The next address is dialled after this many seconds if the address before is connected, but has not answered the
#: current request of the setup: ApiVersions or one of the login's. Longer than CONNECT_DELAY, since a busy broker takes
#: longer to answer than a network takes to connect.
ANSWER_DELAY = 1.0
#: A failed address is dialled again after this many seconds while others are still tried. A restarting broker refuses
#: connections only for a moment: without a retry, the client would wait for the setup timeout of another address.
RETRY_DELAY = 1.0
#: Maximum number of connections in setup at a time: without a limit, a name with many addresses would open one to each.
PARALLEL_MAX = 4


class AddressRace:
    """Connects to addresses of one host until a deadline: over with a :attr:`winner`, or once all have failed.

    ``dial`` begins a connection to one address, ``probe`` one without TLS and login.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        dial: Callable[[Address, float], Connection],
        probe: Callable[[Address, float], Connection],
        deadline: float,
        next_dial: Alarm,
        polls: IoPolls,
    ) -> None:
        self.connections: list[Connection] = []  #: Connections that are not ready yet, the newest last.
        self.winner: Connection | None = None
        self.errors: dict[Address, KafkaError] = {}  #: By address: the error of the last connection to it.
        self.login_error: AuthorizationError | None = None
        #: A connection without TLS to an address that has cut the TLS handshake off. If it gets an answer, the port
        #: does not use TLS; otherwise the broker is probably restarting.
        self.probe: Connection | None = None
        self._dial = dial
        self._new_probe = probe
        self._deadline = deadline
        self._next_dial = next_dial
        self._polls = polls
        self._untried = deque(addresses)
        self._retries: deque[tuple[float, Address]] = deque()  #: (when it failed, address)
        self._newest: Connection | None = None

    @property
    def has_failed(self) -> bool:
        return self.winner is None and not self.connections and not self._untried and self.probe is None

    def step(self, now: float) -> None:
        if self.probe is not None and self._is_answered(self.probe, now):
            return
        for connection in list(self.connections):
            connection.step(now)
            if connection.was_ready:
                self.connections.remove(connection)
                self.close()
                self.winner = connection
                return
            if connection.has_ended:
                self.connections.remove(connection)
                self._note_failure(connection, now)
                if self.login_error is not None:
                    # Every address would reject the same credentials, and several rejections may lock the account.
                    self.close()
                    return
        if self._polls.horizon >= self._deadline:
            self._untried.clear()
        self._plan_dial()
        while self._next_dial.is_over(self._polls.horizon) or (self._untried and not self.connections):
            self._dial_next(now)
            self._plan_dial()

    @property
    def open(self) -> list[Connection]:
        return self.connections if self.probe is None else [*self.connections, self.probe]

    def _is_answered(self, probe: Connection, now: float) -> bool:
        probe.step(now)
        if probe.was_ready:
            self.login_error = self.errors[probe.address] = probe.plaintext_port_error()
            self.close()
        elif probe.has_ended:
            self.probe = None
        return probe.was_ready

    def close(self) -> None:
        """Close all connections in setup, without an error, and stop dialling."""
        for connection in self.open:
            connection.close(None)
        self.connections.clear()
        self.probe = None
        self._untried.clear()
        self._retries.clear()
        self._next_dial.clear()

    def _note_failure(self, connection: Connection, now: float) -> None:
        error = connection.error or KafkaConnectionError(f"{connection.where}: closed by this client")
        self.errors[connection.address] = error
        log.debug("connecting failed: %s", error)
        if isinstance(error, AuthorizationError):
            self.login_error = error
        elif isinstance(error, KafkaConnectionError) and error.is_handshake_cut and self.probe is None:
            self.probe = self._new_probe(connection.address, now)
        elif now + RETRY_DELAY < self._deadline:
            self._retries.append((now, connection.address))

    def _plan_dial(self) -> None:
        """Set the alarm for the next dial, or clear it if no address is left or :data:`PARALLEL_MAX` are in setup.

        It is also cleared if no connection is in setup: :meth:`step` then dials an untried address without the alarm.
        """
        if not (self._untried or self._retries) or not 0 < len(self.connections) < PARALLEL_MAX:
            self._next_dial.clear()
            return
        newest = self.connections[-1]
        at = self._polls.horizon  # the connection dialled last has failed: dial the next at once
        if newest is self._newest:
            is_connecting = newest.state is ConnectionState.CONNECTING
            at = newest.setup_began_at + (CONNECT_DELAY if is_connecting else ANSWER_DELAY)
        if not self._untried:
            at = max(at, self._retries[0][0] + RETRY_DELAY)
        self._next_dial.set(at)

    def _dial_next(self, now: float) -> None:
        address = self._untried.popleft() if self._untried else self._retries.popleft()[1]
        self._newest = self._dial(address, now)
        self.connections.append(self._newest)
