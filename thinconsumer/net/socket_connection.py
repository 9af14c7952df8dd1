"""One stream's connection: connect, handshake, receive, send, end.

It does what its stream asks: no timeout, no retry, no second address; those are the engine's. All it decides by itself
is how much the system shall take in between two steps. What it guards is the order in which a stream learns things:
``connection_made`` once, bytes, ``connection_lost`` once, with everything that could still be received handed over
before, and silence after that or after a hang-up.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from errno import ECONNREFUSED, EINPROGRESS, EWOULDBLOCK
from selectors import EVENT_WRITE
from typing import Protocol

from ..driver import Dial
from ..errors import IllegalStateError, KafkaConnectionError
from . import words
from .transport import Transport, TransportFactory
from .watch import Watch

#: What a non-blocking connect says when it is under way. Elsewhere than on Windows EWOULDBLOCK is a failure: no port.
_UNDER_WAY = {EINPROGRESS, EWOULDBLOCK} if sys.platform == "win32" else {EINPROGRESS}

#: What sockets, ``ssl`` and sockaddrs made by a plugged-in resolver raise.
_SETUP_ERRORS = (OSError, ValueError, TypeError, OverflowError)

#: Bounds of what one stream may take of one step, so that a firehose cannot starve the others.
RECEIVES_PER_STEP = 64
BYTES_PER_STEP = 1024 * 1024
SENDS_PER_STEP = 16
#: What comes in answers below this is taken in by the system without being told to.
LARGE_BYTES = 128 * 1024
#: And no more than this is to be taken in: it is the kernel's memory, which a socket keeps once it was given it.
EXPECTED_BYTES = 4 * 1024 * 1024
#: Bound of what is still read from a connection that can no longer be written to. Kernels buffer less than this.
LAST_WORDS_BYTES = 16 * 1024 * 1024


class SocketState(Enum):
    """Where a connection stands."""

    CONNECTING = "connecting"  #: TCP's handshake.
    HANDSHAKING = "handshaking"  #: The transport's own, TLS.
    OPEN = "open"
    CLOSED = "closed"  #: The descriptor is gone and the stream is not called any more.


TRANSITIONS: dict[SocketState, frozenset[SocketState]] = {
    SocketState.CONNECTING: frozenset({SocketState.HANDSHAKING, SocketState.CLOSED}),
    SocketState.HANDSHAKING: frozenset({SocketState.OPEN, SocketState.CLOSED}),
    SocketState.OPEN: frozenset({SocketState.CLOSED}),
    SocketState.CLOSED: frozenset(),
}
_DOING = {
    SocketState.CONNECTING: words.CONNECTING,
    SocketState.HANDSHAKING: words.HANDSHAKING,
    SocketState.OPEN: words.CONNECTED,
}


@dataclass(frozen=True)
class SocketSettings:
    """How sockets are made: buffer sizes in bytes (None: the system's choice), options, and what wraps them."""

    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    options: Sequence[tuple[int, int, int | bytes]]
    transport: TransportFactory

    def apply(self, sock: socket.socket) -> None:
        """Set the options; before connecting, since the receive buffer decides the window TCP may offer."""
        if self.receive_buffer_bytes is not None and self.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        if self.send_buffer_bytes is not None and self.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        for level, option, value in self.options:
            sock.setsockopt(level, option, value)


class Owner(Protocol):
    """What a connection needs of its driver."""

    @property
    def watch(self) -> Watch:
        """The selector."""
        ...

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def called(self, connection: SocketConnection, *, told: bool, part: bool = False) -> None:
        """Note that the stream was called, and obey what its endpoint wants now: that may be to hang it up.

        ``told`` says whether the stream learned something, ``part`` whether it received a part of what it will learn.
        """

    def closed(self, connection: SocketConnection) -> None:
        """Forget the connection: it has closed."""


class SocketConnection:
    """A stream's socket. The driver calls :meth:`start`, then :meth:`ready` and :meth:`flush` until it is closed."""

    def __init__(self, owner: Owner, dial: Dial, settings: SocketSettings) -> None:
        self.stream = dial.stream
        self.state = SocketState.CONNECTING
        self._owner = owner
        self._dial = dial
        self._settings = settings
        self._sock: socket.socket | None = None
        self._transport: Transport | None = None
        self._fd = -1
        self._came = 0  #: Bytes since something was sent, ...
        self._expected = 0  #: ... and how many there were the time before.
        self._is_left = False  #: Whether the system receives on by itself.

    def __repr__(self) -> str:
        return f"<Connection {self._dial.host} {self._dial.address} {self.state.value} fd={self._fd}>"

    def _move(self, state: SocketState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"connection to {self._dial.address} cannot go from {self.state} to {state}")
        self.state = state

    # Getting there

    def start(self) -> None:
        """Begin to connect. A failure at once is told like one that comes later."""
        address = self._dial.address
        try:
            self._sock = socket.socket(address.family, socket.SOCK_STREAM)
            self._fd = self._sock.fileno()
            self._sock.setblocking(False)
            self._settings.apply(self._sock)
            code = self._sock.connect_ex(address.sockaddr)
            if code in _UNDER_WAY:
                self._owner.watch.set(self._fd, EVENT_WRITE, self)
                return
        except _SETUP_ERRORS as error:
            self._fail(error)
            return
        self._connected(code)

    def _connected(self, code: int) -> None:
        """TCP has an answer: an error number, or 0."""
        assert self._sock is not None
        if code == 0 and _is_connected_to_itself(self._sock):
            code = ECONNREFUSED
        if code:
            self._fail(OSError(code, ""))
            return
        try:
            self._transport = self._settings.transport(self._sock, self._dial.host)
        except _SETUP_ERRORS as error:
            self._fail(error)
            return
        self._sock = None  # Now the transport's.
        self._move(SocketState.HANDSHAKING)
        self._handshake(self._transport)

    def _handshake(self, transport: Transport) -> None:
        try:
            done = transport.handshake()
            self._owner.watch.set(self._fd, transport.read_needs, self)
        except OSError as error:
            self._fail(error)
            return
        if not done:
            return
        self._move(SocketState.OPEN)
        self.stream.connection_made(self._owner.now())
        self._owner.called(self, told=True)
        # The peer's first bytes may have come with its last handshake message and be inside the transport already.
        self._receive(transport)
        self.flush()

    # Being there

    def ready(self, events: int) -> None:
        """Do what the selector says can be done."""
        if self.state is SocketState.CONNECTING:
            assert self._sock is not None
            self._connected(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            return
        transport = self._transport
        if transport is None or self.state is SocketState.CLOSED:
            return
        if self.state is SocketState.HANDSHAKING:
            self._handshake(transport)
            return
        if events & transport.read_needs:
            self._receive(transport)
        self.flush()

    def _receive(self, transport: Transport) -> None:
        ended, error = self._hand_over(transport, RECEIVES_PER_STEP, BYTES_PER_STEP)
        if error is not None:
            self._fail(error)
        elif ended:
            self._end(None)

    def _hand_over(self, transport: Transport, receives: int, limit: int) -> tuple[bool, OSError | None]:
        """Receive and hand over; return whether the peer has closed, or how receiving failed.

        Stops at either limit, except that it empties the transport: what waits inside it wakes no selector.
        """
        stream, called = self.stream, self._owner.called
        while self.state is SocketState.OPEN and (receives > 0 < limit or transport.pending()):
            buffer = stream.get_buffer()
            try:
                size = transport.recv_into(buffer)
            except OSError as error:
                return True, error
            if size is None:
                return False, None
            if size == 0:
                return True, None
            receives -= 1
            limit -= size
            self._came += size
            room = len(buffer) - size
            part = stream.buffer_updated(size, self._owner.now())
            called(self, told=not part, part=part)
            if room and transport.short_read_ends:
                return False, None
        return False, None

    def flush(self) -> None:
        """Send what waits, and hold write interest only while something still does."""
        transport = self._transport
        if transport is None or self.state is not SocketState.OPEN:
            return
        sends = SENDS_PER_STEP
        while (chunks := self.stream.data_to_send()) and sends > 0:
            sends -= 1
            try:
                size = transport.send(chunks)
            except OSError as error:
                self._send_failed(transport, error)
                return
            if size is None:
                break
            if self._came:
                self._expected, self._came = self._came, 0
            self.stream.data_sent(size, self._owner.now())
            self._owner.called(self, told=False)
            if self.state is not SocketState.OPEN:
                return
        self._set_interest(transport, sending=bool(chunks))

    def leave(self) -> None:
        """Nobody looks before the next step: have the system receive on by itself, if much is to be expected.

        Linux acknowledges what is not fetched only now and then, and a sender with a small buffer, as brokers have,
        waits for that: it would have sent nothing worth mentioning while records are worked on. Below the mark at
        which the socket becomes readable everything is acknowledged at once.
        """
        if self._expected < LARGE_BYTES or self._transport is None or self.state is not SocketState.OPEN:
            return
        self._is_left = True
        self._transport.expect(min(self._expected, EXPECTED_BYTES))

    def attend(self) -> None:
        """Somebody looks again, and wants to know of every byte."""
        if self._is_left and self._transport is not None:
            self._transport.expect(1)
            self._is_left = False  # last, or an interruption would leave it for good

    def _set_interest(self, transport: Transport, *, sending: bool) -> None:
        mask = transport.read_needs | transport.write_needs if sending else transport.read_needs
        try:
            self._owner.watch.set(self._fd, mask, self)
        except OSError as error:
            self._fail(error)

    def _send_failed(self, transport: Transport, error: OSError) -> None:
        """Hand over the peer's last words before its end is told: they may say why it hung up (a wrong password)."""
        self._hand_over(transport, LAST_WORDS_BYTES, LAST_WORDS_BYTES)
        if self.state is SocketState.OPEN:
            self._fail(error)

    # Getting out

    def _fail(self, error: BaseException) -> None:
        self._end(words.connection_error(self._dial.host, self._dial.address, _DOING[self.state], error))

    def _end(self, error: KafkaConnectionError | None) -> None:
        self._close(goodbye=error is None)
        self.stream.connection_lost(error, self._owner.now())
        self._owner.called(self, told=True)

    def hang_up(self) -> None:
        """Close, as the endpoint wants: the stream is not called any more."""
        if self.state is not SocketState.CLOSED:
            self._close(goodbye=True)

    def interrupted(self) -> None:
        """Give the connection up, if it is still there: an exception left its stream in the middle of something."""
        if self.state is not SocketState.CLOSED:
            self._fail(OSError("the last call was interrupted in the middle of it"))

    def abandon(self) -> None:
        """Free the descriptor, and nothing else: in a forked child the connection itself is the parent's."""
        self.state = SocketState.CLOSED
        if self._transport is not None:
            self._transport.abandon()
        if self._sock is not None:
            self._sock.close()

    def _close(self, *, goodbye: bool) -> None:
        self._move(SocketState.CLOSED)
        self._owner.closed(self)
        if self._fd >= 0:
            self._owner.watch.forget(self._fd)
        if self._transport is not None:
            if goodbye:
                self._transport.close()
            else:
                self._transport.abandon()
        if self._sock is not None:
            with suppress(OSError):
                self._sock.close()


def _is_connected_to_itself(sock: socket.socket) -> bool:
    """Return whether TCP's simultaneous open has met itself.

    Dialling a dead port of this machine again and again, one day the system picks that very port as the local end.
    The connection then "works", and keeps the broker from ever listening there again.
    """
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False  # Gone already; receiving will say how.
