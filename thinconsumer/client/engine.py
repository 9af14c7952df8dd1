"""Wires links, metadata and the managers of one small client: inputs, deadlines, outputs. It decides nothing itself.

Implements :class:`thinconsumer.driver.Endpoint`. It reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..connection.request import Answer, Request
from ..driver import Address, Command
from ..metadata import ASKER as METADATA
from ..metadata import Metadata
from ..network_client import NetworkClient
from ..timers import Random
from .options import ClientOptions

#: Steps of managers within one step of the engine; each may only be caused by an answer of the one before.
ROUNDS_MAX = 100


class Manager(Protocol):
    """One concern: asks brokers for something and takes their answers. No method blocks."""

    @property
    def asker(self) -> str:
        """What its requests are marked with."""
        ...

    def step(self, now: float) -> list[Request]:
        """Return the requests due now."""
        ...

    def handle(self, answer: Answer, now: float) -> None:
        """Take the answer of one of its requests."""

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` has something to do by itself."""
        ...

    def restart(self, now: float) -> None:
        """Forget what is under way, since who would have answered is gone; whatever is wanted is asked again."""


class ClientEngine:
    """One client's machinery, without a clock and without a socket."""

    def __init__(self, options: ClientOptions, random: Random, metadata: Metadata, managers: Sequence[Manager]) -> None:
        self.network = NetworkClient(options, random)
        self.metadata = metadata
        self._options = options
        self._random = random
        self._managers = tuple(managers)
        self._handlers = {METADATA: metadata.handle, **{manager.asker: manager.handle for manager in managers}}
        self._metadata_seen = metadata.version
        self._now = 0.0

    def step(self, now: float) -> bool:
        """Let everything that can happen now, happen. Returns whether the driver has something to do at once."""
        self._now = now
        self.network.step(now)
        for why in self.network.take_refresh_reasons(now):
            self.metadata.request_update(why)
        for _ in range(ROUNDS_MAX):
            for answer in self.network.take_answers():
                self._handlers[answer.request.asker](answer, now)
            requests = self._requests(now)
            if not requests:
                break
            for request in requests:
                self.network.send(request, now)
            self.network.step(now)
        return self.network.wants_driver()

    def wake_at(self) -> float:
        """Return when to step the driver and this again even if nothing arrives."""
        dues = [manager.wake_at(self._now) for manager in self._managers]
        return min(self.network.wake_at(), self.metadata.wake_at(self._now), *dues)

    def take_commands(self) -> list[Command]:
        """Return what the driver shall do."""
        return self.network.take_commands()

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the resolver's answer."""
        self.network.resolved(host, port, addresses, error, now)

    def restart(self, now: float) -> None:
        """Start over with new connections: an exception left a step half done, and nothing about them is certain."""
        self.network = NetworkClient(self._options, self._random)
        self.metadata.restart()
        for manager in self._managers:
            manager.restart(now)

    def trouble(self) -> str:
        """Return what stands in the way of everything, in words; empty when nothing does."""
        outage = self.network.outage(self._now)
        errors = self.metadata.final_errors()
        return f"no broker reachable: {outage}" if outage else str(errors[0]) if errors else ""

    def _requests(self, now: float) -> list[Request]:
        requests = self.metadata.step(now)
        for manager in self._managers:
            requests += manager.step(now)
        # After them, since a manager may have been told of a new leader; before what is sent to that one.
        if self.metadata.rebootstrap_reason is not None:
            self.metadata.rebootstrap_reason = None
            self.network.rebootstrap(now)
        if self._metadata_seen != self.metadata.version:
            self._metadata_seen = self.metadata.version
            self.network.update_nodes(self.metadata.nodes.values())
        return requests
