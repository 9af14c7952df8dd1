"""The driver for the real world: sockets over ``selectors``, the system's clocks and its resolver.

Owns the order of one step: obey the endpoint, send, wait, hand over what came and obey again after each call. It knows
nothing of Kafka. Constructing it opens nothing: the selector and the wake-up sockets come with the first step, so that
a consumer made before a fork works after it.

An exception in the middle of a step (Ctrl-C, mostly) may leave a stream having received bytes it was never told of.
Each connection is therefore on a list while it is worked on, and who is still there at the next step is given up:
its stream learns of a lost connection and everybody goes on. An exception out of the wait itself costs nothing.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import Sequence
from math import inf
from selectors import EVENT_READ, DefaultSelector

from ..driver import Address, Command, Dial, Endpoint, Hangup, Resolve
from ..errors import ConcurrentAccessError, IllegalStateError, KafkaConnectionError
from .resolver import Resolver, look_up, numeric, system_resolver
from .socket_connection import SocketConnection, SocketSettings
from .transport import PlainTransport, TransportFactory
from .wake import Waker
from .watch import SelectorLike, Watch
from .words import describe

log = logging.getLogger(__name__)

#: Bound of what an endpoint can order within one step by reacting to its own orders.
COMMANDS_PER_STEP = 1000

NO_DELAY: Sequence[tuple[int, int, int | bytes]] = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)


class SelectorDriver:
    """Implements :class:`thinconsumer.driver.Driver` with non-blocking sockets; no thread, ever.

    Args:
        selector: A ``selectors`` class or instance; epoll or kqueue where there is one.
        resolver: Called with (host, port), returns :class:`~thinconsumer.driver.Address` es to try in order, or raises.
        transport: Wraps each connected socket; plain TCP by default, :func:`thinconsumer.net.tls.tls_transport`.
        receive_buffer_bytes: SO_RCVBUF; None or -1 for the system's choice.
        send_buffer_bytes: SO_SNDBUF; None or -1 for the system's choice.
        socket_options: (level, option, value) for each socket.
        slow_resolve_warning_s: Lookups that took this many seconds or more are logged.
    """

    def __init__(
        self,
        *,
        selector: SelectorLike | None = None,
        resolver: Resolver | None = None,
        transport: TransportFactory = PlainTransport,
        receive_buffer_bytes: int | None = None,
        send_buffer_bytes: int | None = None,
        socket_options: Sequence[tuple[int, int, int | bytes]] = NO_DELAY,
        slow_resolve_warning_s: float = 1.0,
    ) -> None:
        #: Seeded by the system: jitter that is the same in every process would make them all come back at once.
        self.random = random.Random()
        self._selector: SelectorLike = selector or DefaultSelector
        self._resolver = resolver or system_resolver
        self._settings = SocketSettings(receive_buffer_bytes, send_buffer_bytes, tuple(socket_options), transport)
        self._slow_resolve_warning_s = slow_resolve_warning_s
        self._watch: Watch | None = None
        self._waker = Waker()
        self._pid: int | None = None
        self._is_closed = False
        self._connections: dict[int, SocketConnection] = {}
        self._in_work: list[SocketConnection] = []
        self._endpoint: Endpoint | None = None
        self._commands: deque[Command] = deque()
        self._lookups: deque[Resolve] = deque()
        self._commands_left = 0
        self._obeying = False
        self._told = False
        self._part_came = False
        self._is_watched = False  #: Whether somebody else waits for the descriptor between two steps.
        self.waiting = False  #: An exception that finds this true has interrupted a wait, and nothing else.

    # The clocks

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall_time(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    # Stepping

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Obey ``endpoint``, wait for I/O until ``deadline`` or its ``wake_at()``, hand over one batch of events.

        Returns whether ``endpoint`` or one of its streams was told something. May return before the deadline with
        False: the system's waits have a longest duration, and :meth:`wakeup` ends them.

        Raises:
            ConcurrentAccessError: in a forked child, when the parent has connected.
            KafkaConnectionError: the system gives no descriptor for waiting at all.
        """
        self.waiting = False
        self.check_process()
        watch = self._open()
        self._begin(endpoint)
        self._obey()
        self._look_up_one()
        self._flush()
        until = self._wait_until(endpoint, deadline)
        while self._take_in(watch, until):
            pass
        if self._told:
            self._flush()
        if self._commands or self._lookups:
            self._waker.ring()  # who waits for the descriptor alone has to come back for them
        self._endpoint = None
        if not self._is_watched:
            for connection in self._connections.values():
                connection.leave()
        return self._told

    def _begin(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._obeying = False
        self._told = False
        self._commands_left = COMMANDS_PER_STEP
        self._attend()
        left_in_work, self._in_work = self._in_work, []
        for connection in left_in_work:
            connection.interrupted()

    def _attend(self) -> None:
        for connection in self._connections.values():
            connection.attend()

    def _wait_until(self, endpoint: Endpoint, deadline: float) -> float:
        if self._told or self._commands or self._lookups or deadline <= self.now():
            return -inf
        return min(deadline, endpoint.wake_at())

    def _take_in(self, watch: Watch, until: float) -> bool:
        """Wait once and hand over what came; return whether to wait on, since it was but a part of something.

        A large answer comes in many pieces. To step the endpoint for each would cost more than to receive them.
        """
        self._part_came = False
        self.waiting = True
        came = watch.wait(until - self.now())
        self.waiting = False
        rung = False
        for owner, events in came:
            if owner is self._waker:
                self._waker.drain()
                rung = True
            else:
                self._work_on(owner, events)
        nothing_else = not (rung or self._told or self._commands or self._lookups)
        return self._part_came and nothing_else and self.now() < until

    def _flush(self) -> None:
        for connection in list(self._connections.values()):
            self._in_work.append(connection)
            connection.flush()
            self._in_work.pop()

    def _work_on(self, connection: SocketConnection, events: int) -> None:
        self._in_work.append(connection)
        connection.ready(events)
        self._in_work.pop()

    # Obeying

    def _obey(self) -> None:
        """Carry out what the endpoint wants, in its order, also what it wants as a consequence."""
        assert self._endpoint is not None
        self._commands.extend(self._endpoint.take_commands())
        # A command can fail at once and so call a stream, which ends up here again: the outer loop goes on.
        if self._obeying or not self._commands:
            return
        self._obeying = True
        while self._commands and self._commands_left > 0:
            self._commands_left -= 1
            self._carry_out(self._commands.popleft())
            self._commands.extend(self._endpoint.take_commands())
        self._obeying = False

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Dial):
            self._start(command)
        elif isinstance(command, Hangup):
            connection = self._connections.get(id(command.stream))
            if connection is not None:
                connection.hang_up()
        else:
            self._resolve(command)

    def _start(self, dial: Dial) -> None:
        if id(dial.stream) in self._connections:
            raise IllegalStateError(f"{self._connections[id(dial.stream)]!r} is there already: hang up before dialling")
        connection = SocketConnection(self, dial, self._settings)
        self._connections[id(dial.stream)] = connection
        self._in_work.append(connection)
        connection.start()
        self._in_work.pop()

    def _resolve(self, command: Resolve) -> None:
        addresses = numeric(command.host, command.port)
        if not addresses:
            # Real names wait for their turn, one per step, since looking them up blocks.
            self._lookups.append(command)
            return
        self._answer(command, addresses, "")

    def _look_up_one(self) -> None:
        if not self._lookups:
            return
        # Taken off only afterwards: a Ctrl-C during the lookup must not leave the endpoint waiting for ever.
        command = self._lookups[0]
        found = look_up(self._resolver, command.host, command.port, self.now, self._slow_resolve_warning_s)
        self._lookups.popleft()
        self._answer(command, *found)

    def _answer(self, command: Resolve, addresses: Sequence[Address], words: str) -> None:
        assert self._endpoint is not None
        self._told = True
        self._endpoint.resolved(command.host, command.port, addresses, words, self.now())
        self._obey()

    # What connections need

    @property
    def watch(self) -> Watch:
        """The selector, open."""
        assert self._watch is not None
        return self._watch

    def called(self, connection: SocketConnection, *, told: bool, part: bool = False) -> None:
        """Note that a stream was called, and obey at once: a stream hung up now must not hear another byte."""
        self._told = self._told or told
        self._part_came = self._part_came or part
        self._obey()

    def closed(self, connection: SocketConnection) -> None:
        """Forget a connection."""
        del self._connections[id(connection.stream)]

    # Waking, and what an event loop needs

    def wakeup(self) -> None:
        """End the current or the next :meth:`step` early. Safe from signal handlers and other threads."""
        self._waker.wake()

    def take_wakeup(self) -> bool:
        """Return whether :meth:`wakeup` was called since this was last asked."""
        return self._waker.take()

    def fileno(self) -> int:
        """Return the selector's descriptor, readable when a step has I/O to do or :meth:`wakeup` was called.

        Raises:
            io.UnsupportedOperation: ``select()`` and ``poll()`` have none.
        """
        self.check_process()
        self._is_watched = True  # whoever waits for it has to see every byte
        self._attend()
        return self._open().fileno()

    # Opening and closing

    def check_process(self) -> None:
        """Raise ConcurrentAccessError when descriptors were opened in another process, of which this is a fork."""
        if self._pid is not None and self._pid != os.getpid():
            raise ConcurrentAccessError(
                f"connected in process {self._pid} and used in its fork {os.getpid()}: both would read the same "
                "sockets; make a new one here, or fork before the first use"
            )

    def _open(self) -> Watch:
        if self._watch is not None:
            return self._watch
        if self._is_closed:
            raise IllegalStateError("the driver is closed")
        self._pid = os.getpid()
        watch = None
        try:
            watch = Watch(self._selector)
            watch.set(self._waker.open(), EVENT_READ, self._waker)
        except OSError as error:
            self._waker.close()
            if watch is not None:
                watch.close()
            self._pid = None
            raise KafkaConnectionError(f"cannot wait for connections: {describe(error)}") from error
        # Last, so that an interruption in between leaves nothing half open.
        self._watch = watch
        return watch

    def hang_up_all(self) -> None:
        """Close every connection and forget every order; streams are not called, and the next step begins anew."""
        self._commands.clear()
        self._lookups.clear()
        self._in_work.clear()
        for connection in list(self._connections.values()):
            connection.hang_up()
        self._connections.clear()

    def close(self) -> None:
        """Close every connection and descriptor; streams are not called. May be called again, and in a fork.

        A forked child only gives up its copies of the descriptors: the connections go on in the parent.
        """
        self._is_closed = True
        in_fork = self._pid is not None and self._pid != os.getpid()
        for connection in list(self._connections.values()):
            if in_fork:
                connection.abandon()
            else:
                connection.hang_up()
        self._connections.clear()
        self._commands.clear()
        self._lookups.clear()
        self._waker.close()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
