"""The interface between the engine and I/O.

The engine does no I/O. It issues commands (resolve a name, connect a stream to an address, hang up); a :class:`Driver`
carries them out and reports the results. ``sockets`` implements it over ``selectors``, ``thinconsumer_testing`` in
memory on a virtual clock.

A stream has the methods of asyncio's ``BufferedProtocol``: the driver receives into the stream's own buffer, so that a
response of 50 MB is copied only once, from the kernel into the buffer from which it is decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from .errors import KafkaConnectionError
from .support.agenda import Agenda
from .support.lazy_dataclass import dataclass
from .support.timers import Random


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Address:
    """One numeric address of a host, as ``socket.getaddrinfo`` returns it, without the socket module.

    With ``via``, it is the address that a proxy is asked for: then a name in ``sockaddr`` is looked up by the proxy.
    """

    family: int  #: ``socket.AF_INET`` or ``AF_INET6``; 0 in a driver in memory, and for a name in ``sockaddr``.
    sockaddr: tuple[str, int] | tuple[str, int, int, int]
    via: Via | None = None

    def __str__(self) -> str:
        return host_and_port(self.sockaddr[0], self.sockaddr[1])

    def where(self, host: str) -> str:
        """Return host and port, this address and the proxy, each once, for log lines and errors."""
        name = host_and_port(host or self.sockaddr[0], self.sockaddr[1])
        numeric = "" if str(self) == name else str(self)
        proxy = "" if self.via is None else f"through {self.via}"
        more = f"{numeric} {proxy}".strip()
        return f"{name} ({more})" if more else name


@dataclass(frozen=True, slots=True)
class Via:
    """A proxy that leads to an address."""

    name: str  #: Its URL without user and password, for log lines and errors.
    address: Address  #: The proxy's own address, to connect to.

    def __str__(self) -> str:
        return f"proxy {self.name}" + ("" if self.name.endswith(f"//{self.address}") else f" at {self.address}")


class Tunnel(Protocol):
    """The client's side of the handshake with a proxy, after which a connection leads to the broker."""

    out: bytes  #: The bytes to send. The driver removes those that it has sent.

    def receive(self, data: bytes) -> bool:
        """Take received bytes, or ``b""`` for the end of the connection; return whether the handshake is complete.

        Raises:
            KafkaConnectionError: the proxy refuses, or violates its protocol.
        """


class Stream(Protocol):
    """The driver's interface to one connection, to a broker or to a token endpoint.

    The driver calls ``connection_made`` when the transport is ready (after the handshakes with a proxy and of TLS), or
    ``connection_lost`` if that fails; after ``connection_lost`` it makes no call. No method raises: a stream that
    receives malformed bytes closes itself, and the driver gets a :class:`Hangup`.
    """

    def connection_made(self, now: float) -> None:
        """Report that the transport is ready to send and receive."""

    def get_buffer(self) -> memoryview:
        """Return a writable, non-empty buffer to receive into; valid until the next call of ``buffer_updated``."""

    def buffer_updated(self, size: int, now: float) -> bool:
        """Report that ``size`` bytes (at least one) were received into the front of the last buffer.

        Returns True if the bytes complete no message: the endpoint then has nothing to handle and need not be stepped.
        """

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """Report that the connection failed, ended or was never made; ``None`` if the peer closed it cleanly.

        All bytes that could still be received were delivered before this call.
        """

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return the bytes to write, in order. If there are none, the driver waits only for bytes to receive."""

    def data_sent(self, size: int, now: float) -> None:
        """Report that the first ``size`` bytes of ``data_to_send`` were written."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up ``host`` and report with :meth:`Endpoint.resolved`. Lookups run one after the other."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect ``stream`` to ``address``. With TLS, the certificate is checked for the name ``host``.

    ``tunnel`` begins the handshake with the proxy of ``address.via``; it may raise as :meth:`Tunnel.receive`.
    ``purpose`` decides about TLS: ``"broker"`` follows ``security_protocol``; ``"https"`` and ``"http"`` are for the
    token endpoint of an OAUTHBEARER login.
    """

    stream: Stream
    host: str
    address: Address
    purpose: str = "broker"
    tunnel: Callable[[], Tunnel] | None = None


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the transport of ``stream`` and make no further call to it."""

    stream: Stream


Command = Resolve | Dial | Hangup


class Endpoint(Protocol):
    """The issuer of commands to the driver: the engine, or a single connection in tests."""

    @property
    def agenda(self) -> Agenda:
        """The endpoint's schedule: what is due even if no byte is received. The driver adds alarms for its timeouts."""

    @property
    def commands(self) -> deque[Command]:
        """The commands to carry out, in order. The driver removes each, and looks here after each call of a stream."""

    @property
    def unsent(self) -> Collection[Stream]:
        """The streams with bytes to send that the driver has not got yet from :meth:`Stream.data_to_send`.

        A stream that queues bytes only when the driver calls it need not be included.
        """

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        """Handle the result of :class:`Resolve`: addresses, or no address and the text of the error."""


class Driver(Protocol):
    """Does the I/O of one endpoint and provides its clocks. Only ``wakeup`` may be called from other threads."""

    woken: bool  #: Whether :meth:`wakeup` was called. The client sets it to False once it acts on that.

    @property
    def random(self) -> Random:
        """The random generator of backoff jitter and nonces."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def wall_time(self) -> float:
        """Return seconds since the epoch, for timestamps in the protocol and for the expiry of credentials."""

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Carry out the endpoint's commands, wait for I/O, and call the streams and the endpoint with the results.

        The wait ends at the latest with the first I/O events, :meth:`wakeup`, ``deadline`` or the next time in the
        endpoint's agenda; bytes of a message that is still incomplete need not end the wait. If ``deadline`` has
        passed, the driver does not wait.
        Bytes that a stream queues when it is called leave in the same step. Bytes that the call makes other streams
        queue leave with the next :meth:`send` or step.
        Returns whether the endpoint or a stream was called.
        """

    def send(self, endpoint: Endpoint) -> None:
        """Carry out the endpoint's commands and send the bytes that its streams have queued, without a wait.

        Called when the endpoint has queued requests since the last :meth:`step`. This method need not receive: bytes
        that have arrived meanwhile are for the next step.
        """

    @property
    def waiting(self) -> bool:
        """Whether an exception ended the last step while it only waited for I/O: nothing was handled in part."""

    def hang_up_all(self) -> None:
        """Close every transport and drop all commands, without calling a stream. The driver can be used again.

        Used after an interrupted step, which may have left the streams in an inconsistent state.
        """

    def wakeup(self) -> None:
        """End the current or the next :meth:`step` early. Safe from signal handlers and other threads."""

    def check_process(self) -> None:
        """Raise ``ConcurrentAccessError`` in a fork of the process that connected."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when a step has I/O to do; raise ``io.UnsupportedOperation`` if none."""

    def close(self) -> None:
        """Close every transport and descriptor. No stream is called any more."""
