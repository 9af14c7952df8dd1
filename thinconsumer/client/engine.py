"""The engine of every client: steps a list of managers, sends their requests and hands them the answers.

Owns the order within a step. Implements :class:`thinconsumer.driver.Endpoint`; reads no clock and does no I/O: a driver
carries out :meth:`Engine.take_commands` and feeds received bytes to the connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..calls import Call
from ..connection.options import ConnectionOptions
from ..connection.request import Answer, Request, Target
from ..driver import Address, Command
from ..errors import KafkaError, KafkaTimeoutError
from ..metadata import Metadata
from ..network_client import NetworkClient
from ..timers import NEVER, Random

#: Steps of the managers within one step of the engine; each is caused by answers of the one before.
ROUNDS_MAX = 100


class Manager(Protocol):
    """One concern: asks brokers for something and takes their answers. No method blocks or calls user code."""

    @property
    def asker(self) -> str:
        """The mark of its requests; their answers come to :meth:`handle`."""
        ...

    def step(self, now: float) -> list[Request]:
        """Return the requests due now."""
        ...

    def handle(self, answer: Answer, now: float) -> None:
        """Take the answer to one of its requests."""

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` is due even if no answer arrives."""
        ...

    def restart(self, now: float) -> None:
        """Forget every request under way, since its connection is closed; send again what is still wanted."""


class ManagerParts(NamedTuple):
    """A :class:`Manager` put together from methods of several objects."""

    asker: str
    step: Callable[[float], list[Request]]
    handle: Callable[[Answer, float], None] = lambda answer, now: None
    wake_at: Callable[[float], float] = lambda now: NEVER
    restart: Callable[[float], None] = lambda now: None


class Engine:
    """One client without a clock and without a socket.

    Args:
        managers: in the order in which they step. Metadata steps first unless it is among them.
    """

    def __init__(
        self, options: ConnectionOptions, random: Random, metadata: Metadata, managers: Sequence[Manager]
    ) -> None:
        self.network = NetworkClient(options, random)
        self.metadata = metadata
        #: Called with each answer after its manager has handled it.
        self.on_answer: Callable[[Answer, float], None] = lambda answer, now: None
        self._options = options
        self._random = random
        self._managers = tuple(managers) if metadata in managers else (metadata, *managers)
        self._handlers = {manager.asker: manager.handle for manager in self._managers}
        self._metadata_seen = metadata.version
        self._now = 0.0
        self._closing = False
        self._unanswered: set[Request] = set()  #: The last requests, see :meth:`close`.

    # -- stepping

    def step(self, now: float) -> bool:
        """Do everything that is due. Returns whether the driver has something to do at once."""
        self._now = now
        self.network.step(now)
        for why in self.network.take_refresh_reasons(now):
            self.metadata.request_update(why)
        for _ in range(ROUNDS_MAX):
            for answer in self.network.take_answers():
                self._handlers[answer.request.asker](answer, now)
                self.on_answer(answer, now)
            requests = [request for manager in self._managers for request in manager.step(now)]
            self._follow_metadata(now)
            for request in requests:
                self.network.send(request, now)
            if not requests:
                break
            self.network.step(now)
        return self.network.wants_driver()

    def wake_at(self) -> float:
        """Return when to step the driver and this again even if nothing arrives."""
        if self._closing:
            return self.network.wake_at()  # managers are stepped no more, so their moments would never pass
        due = self.network.wake_at()
        for manager in self._managers:
            due = min(due, manager.wake_at(self._now))
        return due

    def take_commands(self) -> list[Command]:
        """Return what the driver shall do."""
        return self.network.take_commands()

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the resolver's answer."""
        self.network.resolved(host, port, addresses, error, now)

    def drop(self, target: Target) -> None:
        """End the connection to a target: the broker holds back a request on it that is not wanted any more."""
        self.network.drop(target, "the request that its broker holds back is not wanted any more")

    def restart(self, now: float) -> None:
        """Start over with new connections after an exception in the middle of a step.

        No connection, queue or request of before is used again. Managers keep what no broker can be asked for again.
        """
        self.network = NetworkClient(self._options, self._random)
        self._metadata_seen = -1
        for manager in self._managers:
            manager.restart(now)

    def _follow_metadata(self, now: float) -> None:
        """Hand new nodes to the network before requests are sent to them."""
        if self.metadata.rebootstrap_reason is not None:
            self.metadata.rebootstrap_reason = None
            self.network.rebootstrap(now)
        if self._metadata_seen != self.metadata.version:
            self._metadata_seen = self.metadata.version
            self.network.update_nodes(self.metadata.nodes.values())

    # -- why nothing comes back

    def obstacle(self) -> str:
        """Return why no request can be answered, in words: an outage or a final error. Empty while they can."""
        outage = self.network.outage(self._now)
        errors = self.metadata.final_errors()
        return f"no broker reachable: {outage}" if outage else str(errors[0]) if errors else ""

    def timeout_error(self, call: Call[Any], seconds: float) -> KafkaTimeoutError:
        """Return the error of a call whose time has passed, with its last failure."""
        known = call.last_error or next(iter(self.metadata.final_errors()), None)
        cause: KafkaError | str = known or self.obstacle() or "no answer yet"
        return KafkaTimeoutError(f"{call.what}: no result within {seconds:.3f} s; last: {cause}")

    # -- closing

    def close(self, requests: Sequence[Request], now: float) -> bool:
        """Stop the managers and send their last ``requests``, to nodes with a ready connection only.

        Dialling for them would delay the close, and brokers forget fetch sessions by themselves. Returns whether
        :meth:`closing` has answers to wait for.
        """
        self._closing = True
        sent = [request for request in requests if self.network.is_ready(*request.target)]
        self._unanswered = set(sent)
        for request in sent:
            self.network.send(request, now)
        self.network.step(now)
        return bool(sent)

    def closing(self, now: float) -> bool:
        """Step the connections alone; return whether a last request is still unanswered."""
        self.network.step(now)
        self._unanswered.difference_update(answer.request for answer in self.network.take_answers())
        return bool(self._unanswered)
