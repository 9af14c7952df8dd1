"""The seam between the engine and the world: what a driver does for an endpoint, and what it must not decide.

The engine is sans-IO. It says *what* it wants done (resolve this name, dial this address for this stream, hang up),
and a :class:`Driver` does it and tells what happened. ``net`` implements it over ``selectors``; ``testing`` implements
it in memory on a virtual clock. Both run the same engine, unchanged.

The shape is asyncio's ``BufferedProtocol``: the driver receives into the stream's own buffer, so that a response of
50 MB is copied once, from the kernel to where it is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import KafkaConnectionError
from .timers import Random


@dataclass(frozen=True, slots=True)
class Address:
    """One numeric address of a host: what ``socket.getaddrinfo`` says, without the socket module."""

    family: int  #: ``socket.AF_INET`` or ``AF_INET6``; a driver in memory may use 0.
    sockaddr: tuple[str, int] | tuple[str, int, int, int]

    def __str__(self) -> str:
        host, port = self.sockaddr[0], self.sockaddr[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Stream(Protocol):
    """One connection as its driver sees it. Implemented by ``link.Link``.

    The driver calls ``connection_made`` once the transport is ready (after a TLS handshake, if any), or
    ``connection_lost`` when that fails. After ``connection_lost`` it calls nothing more. No method raises: what the
    bytes break, the stream turns into its own closing, which the driver learns as a :class:`Hangup`.
    """

    def connection_made(self, now: float) -> None:
        """The transport is ready: bytes may flow."""

    def get_buffer(self) -> memoryview:
        """Return a writable, non-empty buffer to receive into; valid until the next call of ``buffer_updated``."""
        ...

    def buffer_updated(self, size: int, now: float) -> bool:
        """``size`` bytes (at least one) were received into the front of the last buffer.

        Returns whether they are only a part of a message that has to go on arriving before anything follows from it.
        """
        ...

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """The connection failed or ended, or was never made; ``None`` when the peer closed it in order.

        Everything that could still be received has been handed over before.
        """

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return what waits to be written, in order; empty when there is nothing (then no write interest is held)."""
        ...

    def data_sent(self, size: int, now: float) -> None:
        """The first ``size`` bytes of ``data_to_send`` were written."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up ``host``; answer through :meth:`Endpoint.resolved`. At most one is under way at a time."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect ``stream`` to ``address``. ``host`` is the name a TLS certificate is checked against."""

    stream: Stream
    host: str
    address: Address


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the transport of ``stream`` and forget it, without calling it again."""

    stream: Stream


Command = Resolve | Dial | Hangup


class Endpoint(Protocol):
    """The side that decides: the engine (or, in tests, a lone link)."""

    def take_commands(self) -> list[Command]:
        """Return what to do now, in order, and forget it."""
        ...

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Take the answer to :class:`Resolve`: addresses, or none and the resolver's words."""

    def wake_at(self) -> float:
        """Return when the endpoint wants to be stepped again even if nothing happens (monotonic seconds)."""
        ...


class Driver(Protocol):
    """Does the I/O of one endpoint, owns its clocks. Used by one thread; only ``wakeup`` may come from others."""

    @property
    def random(self) -> Random:
        """Where jitter and nonces come from."""
        ...

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def wall_time(self) -> float:
        """Return seconds since the epoch, for what the protocol dates."""
        ...

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Carry out the endpoint's commands, wait for I/O until ``deadline`` or its ``wake_at()``, hand over what came.

        Returns after the first batch of events that tell anybody anything; parts of messages need not. At once when
        ``deadline`` has passed, having polled I/O without waiting. Returns whether anything happened. Ends early,
        without raising, on :meth:`wakeup`.
        """
        ...

    @property
    def waiting(self) -> bool:
        """Whether the last step still waits for I/O: true after an exception that ended the wait and tore nothing."""
        ...

    def hang_up_all(self) -> None:
        """Close every transport and forget every order, without calling a stream, and go on being of use.

        For whoever was interrupted in the middle of a step: what the streams believe cannot be trusted any more.
        """

    def wakeup(self) -> None:
        """End the current or the next :meth:`step` early. Safe from signal handlers and other threads."""

    def take_wakeup(self) -> bool:
        """Return whether :meth:`wakeup` was called since this was last asked."""
        ...

    def check_process(self) -> None:
        """Raise ``ConcurrentAccessError`` in a forked child of the process that connected."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when a step has I/O to do; ``io.UnsupportedOperation`` if none."""
        ...

    def close(self) -> None:
        """Close every transport and descriptor. Streams are not called any more."""
