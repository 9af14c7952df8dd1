"""The driver of one simulated client: it simulates the client's process, sockets and clock.

The *mail* is all input at this client's sockets that was not read yet. As with real sockets, the endpoint gets it only
inside :meth:`SimDriver.step`; a client that is not stepped notices nothing. A step that waits runs the events of
the world meanwhile. A tap on each connection reports what the client writes and reads.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from thinconsumer.driver import Dial, Endpoint, Hangup, Resolve, Stream
from thinconsumer.engine import Engine
from thinconsumer.errors import IllegalStateError
from thinconsumer.wire import Message

from ..driver import MemoryDriver
from .client_tap import ClientTap, SentRequest
from .network import SimConnection, SimNetwork
from .world import Violation, World

#: Limit of steps within LOOP_S virtual seconds without an event of the world: more are an endless loop, ten are usual.
STEPS_MAX, LOOP_S = 500, 1.0


class Crashed(BaseException):
    """The simulated process was killed inside a call. Not an ``Exception``, since no handler of the client may run."""


class SimDriver(MemoryDriver):
    """Implements :class:`thinconsumer.driver.Driver` in a simulation; created by ``Simulation.driver``.

    ``on_mail`` is called when something arrives, so that an idle actor gets a turn. ``report`` is called with the name
    of an event, which is a method of :class:`.checkers.Checker` ("connection_opened", "request_written",
    "response_received", "response_read" or "connection_closed"), and with that method's arguments except the first, the
    reader.
    """

    def __init__(self, world: World, network: SimNetwork, name: str, report: Callable[..., None]) -> None:
        super().__init__(network)
        self.steps: int = 0
        self.random: Random = world.streams(f"driver/{name}")
        self.name = name
        self.wall_skew: float = 0.0  #: Seconds that this host's wall clock is ahead of the simulation's.
        self.is_dead: bool = False
        self.on_mail: Callable[[], None] | None = None
        self._world = world
        self._sim_network = network
        self._idle_steps = 0
        self._moment = (-1, 0.0)  #: The values of ``World.happened`` and of the clock when ``_idle_steps`` became 0.
        self._mail: list[tuple[SimConnection, Callable[[], None]]] = []
        self._report = report
        self._dials = 0
        #: Reports of responses and closed connections, held back until the client has handled them in the step.
        self._after_step: list[tuple[Any, ...]] = []

    @property
    def has_mail(self) -> bool:
        """Whether a step must not wait, since input has arrived, wakeup() was called, or the process was killed."""
        return bool(self._mail) or self.is_dead or self._skips_wait

    def wall_time(self) -> float:
        """Return seconds since the epoch by this host's clock."""
        return self.clock.wall_time() + self.wall_skew

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Carry out commands and pass the mail to the streams. Return whether the endpoint or a stream was called.

        If there is nothing to do, first run the world's events until mail arrives, the endpoint's agenda is due or
        ``deadline`` is reached.
        """
        try:
            return self._step(endpoint, deadline)
        finally:
            after, self._after_step = self._after_step, []
            for report in after:
                self._report(*report)

    def gone(self, stream: Stream) -> None:
        """Forget a stream after its connection has ended."""
        super().gone(stream.inner if isinstance(stream, ClientTap) else stream)

    def _step(self, endpoint: Endpoint, deadline: float) -> bool:
        if self.is_dead:
            raise Crashed(self.name)
        if self.closed:
            raise IllegalStateError("this driver is closed")
        self.steps += 1
        self._raise_if_looping()
        self._endpoint = endpoint
        self._was_called = self._obeying = False
        self._obey()
        self._flush()
        if not self._was_called and not self.has_mail and deadline > self.clock.now():
            until = min(deadline, endpoint.agenda.next())
            if until > self.clock.now():
                self._raise_if_overlooked(endpoint)
            self._world.wait(self, until)
        self._skips_wait = False
        if self.is_dead:
            raise Crashed(self.name)
        self._take_mail()
        if self._was_called:
            self._flush()
        self._endpoint = None
        return self._was_called

    def close(self) -> None:
        """Close all connections, and drop the mail."""
        self._mail.clear()
        super().close()

    def die(self, *, silently: bool = False) -> None:
        """Kill the process as ``kill -9`` does; ``silently``: as if its host lost power, unnoticed by brokers."""
        self.is_dead = True
        self._mail.clear()
        for connection in list(self._connections.values()):
            assert isinstance(connection, SimConnection)
            connection.orphan(silently=silently)
        self._connections.clear()

    def deliver(self, connection: SimConnection, take: Callable[[], None]) -> None:
        """Queue input that has arrived at one of this client's sockets: the next step calls ``take`` to handle it."""
        if self.is_dead or self.closed:
            return
        self._mail.append((connection, take))
        if self.on_mail is not None:
            self.on_mail()

    def _carry_out(self, command: Dial | Hangup | Resolve) -> None:
        if isinstance(command, Dial):
            self._dials += 1
            self._report("connection_opened", self._dials, command.host, command.address.sockaddr[1])
            dial = Dial(self._tap(command.stream, self._dials), command.host, command.address)
            self._connections[id(command.stream)] = self.network.dial(dial, self)
            return
        connection = self._connections.get(id(command.stream)) if isinstance(command, Hangup) else None
        super()._carry_out(command)
        if connection is not None and isinstance(connection.stream, ClientTap):
            connection.stream.closed()

    def _tap(self, stream: Stream, line: int) -> ClientTap:
        return ClientTap(
            stream,
            lambda sent, before: self._report("request_written", line, sent, before),
            lambda sent, response: self._take_response(line, sent, response),
            lambda: self._after_step.append(("connection_closed", line)),
        )

    def _take_response(self, line: int, sent: SentRequest, response: Message) -> None:
        self._report("response_received", line, sent, response)
        self._after_step.append(("response_read", line, sent, response))

    def _raise_if_overlooked(self, endpoint: Endpoint) -> None:
        """Raise Violation if the client waits although a manager, which is not in the agenda, has a request to send.

        Such a client may hang for ever. Each manager is stepped twice more at the same time, and must return no
        request. Once would not be enough: the first step may only end what is no longer needed, such as the query of a
        call that timed out.
        """
        if not isinstance(endpoint, Engine):
            return
        for manager in (*endpoint.managers, *endpoint.managers):
            for request in manager.step(self.clock.now()):
                words = f"{self.name} waits, and overlooks that {manager.asker} has to send {request.api.__name__}"
                self._world.accuse(words)
                raise Violation(words)

    def _raise_if_looping(self) -> None:
        """Raise Violation if the client is in an endless loop, which would otherwise hang the run."""
        happened, since = self._moment
        if happened != self._world.happened or self.clock.now() > since + LOOP_S:
            self._idle_steps, self._moment = 0, (self._world.happened, self.clock.now())
        self._idle_steps += 1
        if self._idle_steps > STEPS_MAX:
            words = f"{self.name} is in an endless loop: {STEPS_MAX} steps without an event of the world in between"
            self._world.accuse(words)
            raise Violation(words)

    def _take_mail(self) -> None:
        mail, self._mail = self._mail, []
        for connection, take in mail:
            if connection.is_open:
                take()
