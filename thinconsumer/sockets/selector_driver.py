"""The driver for real connections: sockets over ``selectors``, the system's clocks, name lookups.

One step has this order: carry out the endpoint's commands, send, wait, pass received bytes to streams. Commands are
also carried out after each call of a stream. The constructor opens nothing; the first use opens the selector and the
wake-up sockets, so that a consumer made before a fork works after it.

After an exception in a step, such as Ctrl-C, a stream may not have been told of bytes in its buffer. The owner then
calls :meth:`SelectorDriver.hang_up_all`, unless the exception interrupted only the wait.
"""

import logging
import random
import socket
import time
from collections import deque
from collections.abc import Sequence
from math import inf
from os import getpid
from selectors import EVENT_READ
from typing import TYPE_CHECKING

from ..driver import Address, Command, Dial, Endpoint, Resolve, Stream
from ..errors import ConcurrentAccessError, IllegalStateError, KafkaConnectionError
from .error_text import describe
from .resolver import Resolver, look_up, numeric, system_resolver
from .socket_connection import SocketConnection, SocketOption
from .socket_selector import SelectorLike, Sockets, open_sockets
from .transport import PlainTransport, TransportFactory
from .wake import Waker

if TYPE_CHECKING:
    from .cares_lookup import CaresLookup

log = logging.getLogger(__name__)

#: Maximum number of commands carried out at once. Without it, a step would never end if each command led to another.
COMMANDS_PER_STEP = 1000

NO_DELAY: Sequence[SocketOption] = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)


class SelectorDriver:
    """Implements :class:`thinconsumer.driver.Driver` with non-blocking sockets and without threads.

    Args:
        selector: A ``selectors`` class or instance; None for epoll, kqueue, or what the system has.
        resolver: Called with (host, port), returns :class:`~thinconsumer.driver.Address` es to try in order, or raises.
            It may block. None: c-ares if pycares is installed, else the system's resolver, which blocks.
        transport: Wraps each socket connected to a broker; :func:`.secured.broker_transport` returns the one that a
            client's options choose. Plain TCP by default.
        https: Wraps each socket connected to an https server (the purpose of a :class:`~thinconsumer.driver.Dial`).
        receive_buffer_bytes: SO_RCVBUF; None or -1 for the system's choice.
        send_buffer_bytes: SO_SNDBUF; None or -1 for the system's choice.
        socket_options: (level, option, value) for each socket.
        slow_resolve_warning_s: A blocking lookup that takes this many seconds or more is logged.
        name_servers: ``address:port`` of each, for c-ares; None for those of /etc/resolv.conf.
    """

    def __init__(
        self,
        *,
        selector: SelectorLike | None = None,
        resolver: Resolver | None = None,
        transport: TransportFactory = PlainTransport,
        https: TransportFactory | None = None,
        receive_buffer_bytes: int | None = None,
        send_buffer_bytes: int | None = None,
        socket_options: Sequence[SocketOption] = NO_DELAY,
        slow_resolve_warning_s: float = 1.0,
        name_servers: Sequence[str] | None = None,
    ) -> None:
        #: The source of jitter and of nonces. A generator with a seed could be predicted from its earlier output, and a
        #: SCRAM server that predicts a nonce can replay a recorded login.
        self.random = random.SystemRandom()
        self._selector = selector
        self._resolver = resolver or system_resolver
        sizes = (socket.SO_RCVBUF, receive_buffer_bytes), (socket.SO_SNDBUF, send_buffer_bytes)
        buffers = [(socket.SOL_SOCKET, name, size) for name, size in sizes if size is not None and size >= 0]
        self._socket_options = (*buffers, *socket_options)
        self._transports = {"broker": transport, "http": PlainTransport} | ({} if https is None else {"https": https})
        #: Whether c-ares looks up names; None as long as no name was looked up, since importing it takes long.
        self._uses_cares: bool | None = None if resolver is None else False
        self._name_servers = name_servers
        self._slow_resolve_warning_s = slow_resolve_warning_s
        self._sockets: Sockets | None = None
        self._waker = Waker()
        self._pid: int | None = None
        self._is_closed = False
        self._connections: dict[int, SocketConnection] = {}
        self.endpoint: Endpoint  #: The endpoint of the step under way, or of the last step.
        #: Connections that expect a large response, whose low-water mark (SO_RCVLOWAT) may be raised between two steps.
        self.expecting_large: set[SocketConnection] = set()
        self._blocking_lookups: deque[Resolve] = deque()
        self._lookup: CaresLookup | None = None
        #: Lookups by c-ares, for brokers and a token endpoint, that wait for the end of the lookup under way.
        self._waiting_lookups: deque[Resolve] = deque()
        self._is_obeying = False
        #: Whether this step has had a result for which the engine must step: the end of a lookup, a complete message,
        #: or the beginning or end of a connection.
        self.has_called = False
        self.has_partial = False  #: Whether bytes were received that complete no message.
        self._has_rung = False  #: Whether the wake-up sockets have ended the last wait.
        self.woken = False  #: See :class:`thinconsumer.driver.Driver`.
        #: Whether the program has asked for :meth:`fileno`, and so may wait for I/O itself between two steps.
        self._is_polled_outside = False
        self.waiting = False  #: Whether the step is waiting for I/O.

    # Assigned, not defined as methods: a step reads the clock several times, and a method would double the cost.
    now = staticmethod(time.monotonic)
    wall_time = staticmethod(time.time)

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Implement :meth:`.Driver.step`. It may return False before the deadline: a single wait has a maximum length.

        Raises:
            ConcurrentAccessError: in a forked child, when the parent has connected.
            KafkaConnectionError: the system refuses to open the selector or the wake-up sockets.
        """
        self.waiting = self.has_called = False
        self.send(endpoint)
        if self.expecting_large:
            self._reset_low_water()
        if self._lookup is not None:
            self._check_lookups()
        if self._blocking_lookups:
            self._look_up_one()
        until = -inf
        if not (self.has_called or self._blocking_lookups or endpoint.commands or deadline <= self.now()):
            until = min(deadline, endpoint.agenda.next())
        while self._receive(until):
            pass
        if self._blocking_lookups or self.expecting_large or endpoint.commands:
            self._finish()
        return self.has_called

    def send(self, endpoint: Endpoint) -> None:
        """Implement :meth:`.Driver.send`. Raises as :meth:`step`."""
        if self._pid != getpid() or self._sockets is None:
            self._open()
        self.endpoint = endpoint
        if endpoint.commands:
            self.obey()
        # A connection whose bytes the system did not accept is not in ``unsent``: it waits for a writable socket.
        for stream in tuple(endpoint.unsent):
            connection = self._connections.get(id(stream))
            if connection is not None:
                connection.flush()
        if self._blocking_lookups or self.expecting_large or endpoint.commands:
            self._finish()

    def _finish(self) -> None:
        if self._blocking_lookups or self.endpoint.commands:
            self._waker.ring()  # makes fileno() readable, so that an event loop steps again
        if not self._is_polled_outside:
            for connection in self.expecting_large:
                connection.raise_low_water()

    def _reset_low_water(self) -> None:
        for connection in self.expecting_large:
            connection.reset_low_water()

    def _receive(self, until: float) -> bool:
        """Wait once and pass received bytes to streams; return whether to wait again.

        The driver waits again if the bytes complete no message and nothing else has happened: a large response arrives
        in many pieces, and an engine step for each would take longer than receiving them.
        """
        self.has_partial = self._has_rung = False
        self.waiting = True
        assert self._sockets is not None
        ready = self._sockets.wait(until - self.now())
        self.waiting = False
        for handle, events in ready:
            handle(events)
        if self._lookup is not None or self._waiting_lookups:
            self._check_lookups()
        if not self.has_partial or self._has_rung or self.has_called or self._blocking_lookups:
            return False
        return not self.endpoint.commands and self.now() < until

    def _rung(self, events: int) -> None:
        self._has_rung = True
        self._waker.drain()

    def obey(self) -> None:
        """Carry out the endpoint's commands in order, and the commands that the endpoint issues because of them.

        Called at once after each call of a stream, since a stream must not be called after its Hangup.
        """
        # While a command is carried out, a stream and then this method may be called, as for a dial that fails at once.
        # This inner call returns here, and the loop of the outer call carries out the new commands.
        if self._is_obeying:
            return
        self._is_obeying = True
        for _ in range(COMMANDS_PER_STEP):
            if not self.endpoint.commands:
                break
            self._carry_out(self.endpoint.commands.popleft())
        self._is_obeying = False

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Resolve):
            self._resolve(command)
            return
        stream = id(command.stream)
        known = self._connections.get(stream)
        if isinstance(command, Dial):
            if known is not None:
                raise IllegalStateError(f"{known!r} is open: hang up before dialling again")
            transport = self._transports.get(command.purpose)
            if transport is None:
                raise IllegalStateError(f"this driver has no transport for {command.purpose!r}: pass one to it")
            self._connections[stream] = SocketConnection(self, command, self._socket_options, transport)
            self._connections[stream].start()
        elif known is not None:
            known.hang_up()

    def _resolve(self, command: Resolve) -> None:
        addresses = numeric(command.host, command.port)
        if addresses:
            self._answer(command, addresses, "")
            return
        if self._uses_cares is None:
            from .cares_lookup import IS_INSTALLED

            self._uses_cares = IS_INSTALLED
        if self._uses_cares:
            self._waiting_lookups.append(command)
            self._check_lookups()
        else:
            self._blocking_lookups.append(command)  # it blocks, so each step makes only one such lookup

    def _check_lookups(self) -> None:
        while self._lookup is not None or self._waiting_lookups:
            if self._lookup is None:
                from .cares_lookup import CaresLookup

                command = self._waiting_lookups.popleft()
                self._lookup = CaresLookup(
                    command.host, command.port, self.sockets, self.now, self.endpoint.agenda.alarm(), self._name_servers
                )
            lookup = self._lookup
            lookup.step()
            if not lookup.is_done:
                return
            self._lookup = None
            self._answer(Resolve(lookup.host, lookup.port), lookup.addresses, lookup.error)

    def _look_up_one(self) -> None:
        command = self._blocking_lookups[0]
        found = look_up(self._resolver, command.host, command.port, self.now, self._slow_resolve_warning_s)
        self._blocking_lookups.popleft()
        self._answer(command, *found)

    def _answer(self, command: Resolve, addresses: Sequence[Address], error: str) -> None:
        self.has_called = True
        self.endpoint.resolved(command.host, command.port, addresses, error, self.now())
        self.obey()

    @property
    def sockets(self) -> Sockets:
        """The selector for this driver's sockets; it must be open, as it is during a step."""
        assert self._sockets is not None
        return self._sockets

    def connection_closed(self, stream: Stream) -> None:
        self.expecting_large.discard(self._connections.pop(id(stream)))

    def wakeup(self) -> None:
        self.woken = True
        self._waker.ring()

    def fileno(self) -> int:
        self._open()
        self._is_polled_outside = True
        self._reset_low_water()
        return self.sockets.fileno()

    def check_process(self) -> None:
        if self._pid != getpid() and self._pid is not None:
            raise ConcurrentAccessError(
                f"connected in process {self._pid} and used in its fork {getpid()}: both would read from the same "
                "sockets; make a new consumer in the fork, or fork before the first use"
            )

    def _open(self) -> None:
        self.check_process()
        if self._sockets is not None:
            return
        if self._is_closed:
            raise IllegalStateError("the driver is closed: make a new client")
        self._pid = getpid()
        sockets = None
        try:
            sockets = open_sockets(self._selector)
            sockets.set(self._waker.open(), EVENT_READ, self._rung)
            if self.woken:
                self._waker.ring()
        except OSError as error:
            self._waker.close()
            if sockets is not None:
                sockets.close()
            self._pid = None
            raise KafkaConnectionError(f"cannot open a selector and wake-up sockets: {describe(error)}") from error
        # Assigned only now that selector and sockets are open: after an earlier Ctrl-C, the next step opens both again.
        self._sockets = sockets

    def hang_up_all(self) -> None:
        self._is_obeying = False
        self._blocking_lookups.clear()
        self._waiting_lookups.clear()
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            lookup.close()
        for connection in list(self._connections.values()):
            connection.hang_up()
        self._connections.clear()
        self.expecting_large.clear()

    def close(self) -> None:
        """Close every connection and descriptor, without calling a stream. May be called again.

        A forked child only closes its copies of the descriptors: the connections stay open in the parent.
        """
        self._is_closed = True
        if self._pid is not None and self._pid != getpid():
            for connection in self._connections.values():
                connection.abandon()
            self._connections.clear()
        else:
            self.hang_up_all()
        self._waker.close()
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            sockets.close()
