"""A driver on a network in memory and a virtual clock, with the same contract as the driver over sockets.

One step carries out the endpoint's commands, sends bytes, and runs the events that are due; if there is nothing to do,
it advances the clock instead of waiting. A test that waits for an hour of virtual time therefore takes no real time. A
test that waits without a deadline, while no event is pending, fails with an AssertionError.
"""

import io
import random

from thinconsumer.driver import Dial, Endpoint, Hangup, Resolve, Stream
from thinconsumer.errors import IllegalStateError
from thinconsumer.support.timers import NEVER

from .clock import VirtualClock
from .network import MemoryConnection, Network

#: Limit of commands in one step: beyond it the step fails, since the endpoint probably adds commands without end.
COMMANDS_PER_STEP = 100_000


class MemoryDriver:
    """Implements ``thinconsumer.driver.Driver`` on a :class:`Network`.

    Args:
        network: The network of the servers; a new one by default.
        seed: Seed of the client's random choices. None: the network gives this driver a number, which is the seed.
    """

    def __init__(self, network: Network | None = None, seed: int | str | None = None) -> None:
        self.network: Network = network or Network()
        self.clock: VirtualClock = self.network.clock
        if seed is None:
            seed = self.network.new_driver_number()
        self.random: random.Random = random.Random(seed)
        self.steps: int = 0  #: Number of calls of :meth:`step`: tests limit it to find busy loops of a client.
        self.closed: bool = False
        self._connections: dict[int, MemoryConnection] = {}
        self._endpoint: Endpoint | None = None
        self._obeying = False
        self._was_called = False  #: Whether the step in progress has called the endpoint or a stream with a result.
        self.woken: bool = False  #: See ``thinconsumer.driver.Driver``.
        self._skips_wait = False  #: Whether the next step must not advance the clock, since :meth:`wakeup` was called.

    def now(self) -> float:
        """Return the virtual clock's monotonic seconds."""
        return self.clock.now()

    def wall_time(self) -> float:
        """Return the virtual clock's seconds since the epoch."""
        return self.clock.wall_time()

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Carry out commands and run due events; if there was nothing to do, advance the clock and run due events.

        The clock advances to the next event, the next time in the endpoint's agenda or ``deadline``, whichever comes
        first. After :meth:`wakeup` it does not advance. Returns whether this step called the endpoint or a stream with
        a result, such as received bytes.
        """
        if self.closed:
            raise IllegalStateError("this driver is closed")
        self.steps += 1
        self._endpoint = endpoint
        self._was_called = False
        self._obeying = False
        self._obey()
        self._flush()
        skips_wait, self._skips_wait = self._skips_wait, False
        if not self.network.run_due() and not self._was_called and not skips_wait:
            self._jump(min(deadline, endpoint.agenda.next()))
            self.network.run_due()
        if self._was_called:
            self._flush()
        self._endpoint = None
        return self._was_called

    def send(self, endpoint: Endpoint) -> None:
        """Carry out commands, send bytes, and run the events that are due; do not advance the clock."""
        self.step(endpoint, self.now())

    def run(self, endpoint: Endpoint, seconds: float) -> None:
        """Call :meth:`step` for an endpoint until ``seconds`` of virtual time have passed."""
        deadline = self.now() + seconds
        while self.now() < deadline:
            self.step(endpoint, deadline)

    @property
    def waiting(self) -> bool:
        """Always False: a step advances the virtual clock instead of waiting for I/O."""
        return False

    def hang_up_all(self) -> None:
        """Close all connections; the driver stays usable."""
        self._endpoint = None
        self._obeying = False
        for connection in list(self._connections.values()):
            connection.hang_up()

    def wakeup(self) -> None:
        """Make the current or the next step end without waiting."""
        self.woken = self._skips_wait = True

    def check_process(self) -> None:
        """Do nothing: this driver has no sockets that a forked process could share, so it may be used after a fork."""

    def fileno(self) -> int:
        """Raise ``io.UnsupportedOperation``: a network in memory has no file descriptor."""
        raise io.UnsupportedOperation("a driver in memory has no file descriptor")

    def close(self) -> None:
        """Close all connections; :meth:`step` must not be called any more."""
        self.hang_up_all()
        self.closed = True

    @property
    def streams(self) -> list[Stream]:
        """The streams that are connected or being connected."""
        return [connection.stream for connection in self._connections.values()]

    def called(self) -> None:
        """Note that a stream was called, and at once carry out commands, as the driver over sockets does."""
        self._was_called = True
        if self._endpoint is not None:
            self._obey()

    def gone(self, stream: Stream) -> None:
        """Forget a stream after its connection has ended."""
        self._connections.pop(id(stream), None)

    def _jump(self, moment: float) -> None:
        event = self.network.next_event_at()
        moment = min(moment, NEVER if event is None else event)
        if moment == NEVER:
            raise AssertionError("waiting without end: the step has no deadline, and the network no pending event")
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
                if not self._endpoint.commands:
                    return
                self._carry_out(self._endpoint.commands.popleft())
            raise AssertionError(f"the endpoint gave more than {COMMANDS_PER_STEP} commands within one step")
        finally:
            self._obeying = False

    def _carry_out(self, command: Dial | Hangup | Resolve) -> None:
        if isinstance(command, Dial):
            if id(command.stream) in self._connections:
                raise IllegalStateError("this stream is connected or being connected already")
            self._connections[id(command.stream)] = self.network.dial(command, self)
        elif isinstance(command, Hangup):
            connection = self._connections.get(id(command.stream))
            if connection is not None:
                connection.hang_up()
        else:
            assert self._endpoint is not None
            addresses, error = self.network.resolve(command.host, command.port)
            self._was_called = True
            self._endpoint.resolved(command.host, command.port, addresses, error, self.now())
