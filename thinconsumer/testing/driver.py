"""The driver for memory: the same contract as the one over sockets, on a virtual clock.

Owns the order of one step: obey the endpoint, send, then either let what is due happen or jump to the next moment at
which something can. A test that waits for an hour takes no time; one that waits for what can never happen fails.
"""

from __future__ import annotations

import io
import random

from ..driver import Dial, Endpoint, Hangup, Resolve, Stream
from ..errors import IllegalStateError
from ..timers import NEVER
from .network import MemoryConnection, Network, Told

#: Orders within one step; more is an endpoint that reacts to its own orders without end.
COMMANDS_PER_STEP = 1000


class MemoryDriver(Told):
    """Implements :class:`thinconsumer.driver.Driver`. ``network`` says who is where and what goes wrong."""

    def __init__(self, network: Network | None = None, seed: int = 0) -> None:
        self.network = network or Network()
        self.clock = self.network.clock
        self.random = random.Random(seed)
        self.steps = 0  #: How often :meth:`step` was called: a busy loop shows here.
        self.closed = False
        self._connections: dict[int, MemoryConnection] = {}
        self._endpoint: Endpoint | None = None
        self._obeying = False
        self._told = False
        self._woken = False
        self._ringing = False  #: Ends one step and no more, while who asked is known until :meth:`take_wakeup`.

    def now(self) -> float:
        """Return the virtual clock's monotonic seconds."""
        return self.clock.now()

    def wall_time(self) -> float:
        """Return the virtual clock's seconds since the epoch."""
        return self.clock.wall_time()

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Obey, and let happen what is due; else jump ahead, to ``deadline`` at the latest. See the contract."""
        if self.closed:
            raise IllegalStateError("this driver is closed")
        self.steps += 1
        self._endpoint = endpoint
        self._told = False
        self._obeying = False
        self._give_up_left_in_work()
        self._obey()
        self._flush()
        ringing, self._ringing = self._ringing, False
        if not self.network.run_due() and not self._told and not ringing:
            self._jump(min(deadline, endpoint.wake_at()))
            self.network.run_due()
        if self._told:
            self._flush()
        self._endpoint = None
        return self._told

    def run(self, endpoint: Endpoint, seconds: float) -> None:
        """Step a bare endpoint (one that needs no stepping of its own) until ``seconds`` have passed."""
        deadline = self.now() + seconds
        while self.now() < deadline:
            self.step(endpoint, deadline)

    def wake_at(self) -> float:
        """Return infinity: lookups are answered at once."""
        return NEVER

    @property
    def waiting(self) -> bool:
        """Never: time passes at once here."""
        return False

    def hang_up_all(self) -> None:
        """Hang up everywhere, and go on."""
        self._endpoint = None
        self._obeying = False
        for connection in list(self._connections.values()):
            connection.hang_up()

    def wakeup(self) -> None:
        """End the current or next step early."""
        self._woken = self._ringing = True

    def take_wakeup(self) -> bool:
        """Return whether :meth:`wakeup` was called since this was last asked."""
        woken, self._woken = self._woken, False
        return woken

    def check_process(self) -> None:
        """Do nothing: there is nothing a fork could share."""

    def fileno(self) -> int:
        """Refuse: memory has no descriptor."""
        raise io.UnsupportedOperation("a driver in memory has no descriptor")

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in list(self._connections.values()):
            connection.hang_up()
        self.closed = True

    @property
    def streams(self) -> list[Stream]:
        """The streams that are connected or being connected."""
        return [connection.stream for connection in self._connections.values()]

    # -- inside

    def called(self) -> None:
        """A stream was called: see what its endpoint wants now, as the real driver does."""
        self._told = True
        if self._endpoint is not None:
            self._obey()

    def gone(self, stream: Stream) -> None:
        """Forget a stream whose connection is over."""
        self._connections.pop(id(stream), None)

    def _give_up_left_in_work(self) -> None:
        left_in_work, self.in_work = self.in_work, None
        if left_in_work is not None:
            left_in_work.interrupted()

    def _jump(self, moment: float) -> None:
        event = self.network.next_event_at()
        moment = min(moment, NEVER if event is None else event)
        if moment == NEVER:
            raise AssertionError("waiting for what can never happen: no deadline, and nothing is under way")
        self.clock.advance_to(moment)

    def _flush(self) -> None:
        for connection in list(self._connections.values()):
            connection.flush()

    def _obey(self) -> None:
        assert self._endpoint is not None
        if self._obeying:
            return
        self._obeying = True
        try:
            for _ in range(COMMANDS_PER_STEP):
                commands = self._endpoint.take_commands()
                if not commands:
                    return
                for command in commands:
                    self._carry_out(command)
            raise AssertionError(f"more than {COMMANDS_PER_STEP} rounds of commands within one step")
        finally:
            self._obeying = False

    def _carry_out(self, command: Dial | Hangup | Resolve) -> None:
        if isinstance(command, Dial):
            if id(command.stream) in self._connections:
                raise IllegalStateError("this stream is dialled already")
            self._connections[id(command.stream)] = self.network.dial(command, self)
        elif isinstance(command, Hangup):
            connection = self._connections.get(id(command.stream))
            if connection is not None:
                connection.hang_up()
        else:
            assert self._endpoint is not None
            addresses, error = self.network.resolve(command.host, command.port)
            self._told = True
            self._endpoint.resolved(command.host, command.port, addresses, error, self.now())
