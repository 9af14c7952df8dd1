"""The socket of one stream: connect, handshake, receive, send, close.

This module guarantees the order of calls to the stream: ``connection_made`` once, unless connecting fails; then
received bytes; then ``connection_lost`` once. If sending fails, bytes that have arrived are received first. After
``connection_lost`` or a hang-up there is no call. Between two steps, this module lets the system receive more of a
large response (:meth:`SocketConnection.raise_low_water`).
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from errno import ECONNREFUSED, EINPROGRESS, EWOULDBLOCK
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING

from ..driver import Dial, Tunnel
from ..errors import KafkaConnectionError
from ..support.state_machine import next_state
from . import error_text
from .transport import Transport, TransportFactory

if TYPE_CHECKING:
    from .selector_driver import SelectorDriver

#: Results of ``connect_ex`` that mean that TCP is still connecting. Only on Windows, EWOULDBLOCK is one of them; on
#: other systems it is an error.
_UNDER_WAY = {EINPROGRESS, EWOULDBLOCK} if sys.platform == "win32" else {EINPROGRESS}

#: The arguments of ``setsockopt``: level, option, value.
SocketOption = tuple[int, int, int | bytes]

#: What connecting may raise: errors of sockets and of ``ssl``, and errors about a malformed address, which a user's
#: resolver may return.
_SETUP_ERRORS = (OSError, ValueError, TypeError, OverflowError)

#: Limits for one connection each time that it is ready: otherwise a peer that sends fast would keep other connections
#: waiting.
RECEIVES_PER_STEP = 64
BYTES_PER_STEP = 1024 * 1024
SENDS_PER_STEP = 16
#: Maximum number of bytes to receive at a time during the handshake with a proxy, whose replies are small.
TUNNEL_BYTES = 4096
#: SO_RCVLOWAT is raised only if a response of at least this size is expected: a smaller response arrives in full
#: while the program does not read, even without a raised SO_RCVLOWAT.
LARGE_BYTES = 128 * 1024
#: Maximum value of SO_RCVLOWAT. For a higher value, the kernel would enlarge the receive buffer further, and it never
#: shrinks the buffer of an open socket.
LOW_WATER_MAX_BYTES = 4 * 1024 * 1024
#: Maximum number of bytes to read after sending has failed: more than a socket's receive buffer usually has.
READ_AFTER_SEND_FAILED_BYTES = 16 * 1024 * 1024


class SocketState(Enum):
    """The state of a socket. The value is its name in error texts."""

    CONNECTING = error_text.CONNECTING  #: The TCP handshake runs.
    TUNNELLING = error_text.TUNNELLING  #: The handshake with a proxy runs.
    HANDSHAKING = error_text.HANDSHAKING  #: The TLS handshake runs; a plain connection passes through at once.
    OPEN = error_text.CONNECTED
    CLOSED = "closed"  #: The descriptor is closed; at most ``connection_lost`` of the stream is still called.


_CLOSED = {SocketState.CLOSED: SocketState.CLOSED}
#: For each state, the events that may occur and the states after them; each event is the state that it leads to.
TRANSITIONS: Mapping[SocketState, Mapping[SocketState, SocketState]] = {
    SocketState.CONNECTING: {
        SocketState.TUNNELLING: SocketState.TUNNELLING,
        SocketState.HANDSHAKING: SocketState.HANDSHAKING,
        **_CLOSED,
    },
    SocketState.TUNNELLING: {SocketState.HANDSHAKING: SocketState.HANDSHAKING, **_CLOSED},
    SocketState.HANDSHAKING: {SocketState.OPEN: SocketState.OPEN, **_CLOSED},
    SocketState.OPEN: _CLOSED,
    SocketState.CLOSED: {},
}


class SocketConnection:
    """The socket of a stream. Until it is closed, the driver calls :meth:`start`, then :meth:`ready` for events of the
    selector and :meth:`flush` to send.
    """

    __slots__ = (
        "_dial", "_driver", "_expected_bytes", "_fd", "_low_water", "_new_transport", "_options", "_received_bytes",
        "_sock", "_transport", "_tunnel", "_watched_events", "state", "stream",
    )  # fmt: skip

    def __init__(
        self, driver: SelectorDriver, dial: Dial, options: Sequence[SocketOption], transport: TransportFactory
    ) -> None:
        self.stream = dial.stream
        self.state = SocketState.CONNECTING
        self._driver = driver
        self._dial = dial
        self._options = options
        self._new_transport = transport
        self._sock: socket.socket | None = None
        self._tunnel: Tunnel | None = None
        self._transport: Transport | None = None
        self._fd = -1
        self._received_bytes = 0  #: Bytes received since the last send.
        #: The expected size of the next response: the number of bytes last received between two sends. It is not
        #: updated while the old and the new number are below :data:`LARGE_BYTES`, where it has no effect.
        self._expected_bytes = 0
        self._low_water = 1  #: The value of SO_RCVLOWAT.
        self._watched_events = 0  #: The events that the selector watches for, once TCP is connected.

    def __repr__(self) -> str:
        return f"<SocketConnection {self._dial.host} {self._dial.address} {self.state.name.lower()} fd={self._fd}>"

    def _move(self, state: SocketState) -> None:
        self.state = next_state(TRANSITIONS, self.state, state, self)

    def start(self) -> None:
        """Begin to connect. A failure, even an immediate one, is reported by ``connection_lost`` of the stream."""
        address = self._dial.address if self._dial.address.via is None else self._dial.address.via.address
        try:
            self._sock = socket.socket(address.family, socket.SOCK_STREAM)
            self._fd = self._sock.fileno()
            self._sock.setblocking(False)
            for option in self._options:  # before connecting: TCP then agrees on a window scale for the receive buffer
                self._sock.setsockopt(*option)
            code = self._sock.connect_ex(address.sockaddr)
            if code in _UNDER_WAY:
                self._driver.sockets.set(self._fd, EVENT_WRITE, self.ready)
                return
        except _SETUP_ERRORS as error:
            self._fail(error)
            return
        self._connected(code)

    def _connected(self, code: int) -> None:
        """Continue after TCP's handshake; ``code`` is the handshake's error number, 0 for success."""
        assert self._sock is not None
        if code == 0 and _is_connected_to_itself(self._sock):
            code = ECONNREFUSED
        if code:
            self._fail(OSError(code, ""))
            return
        if self._dial.tunnel is None:
            self._secure(self._sock)
            return
        try:
            self._tunnel = self._dial.tunnel()
        except _SETUP_ERRORS as error:
            self._fail(error)
            return
        self._move(SocketState.TUNNELLING)
        self._continue_tunnel(self._sock, self._tunnel)

    def _continue_tunnel(self, sock: socket.socket, tunnel: Tunnel) -> None:
        """Continue the handshake with a proxy, then with TLS."""
        try:
            if not _is_tunnel_complete(sock, tunnel):
                self._watch(EVENT_WRITE if tunnel.out else EVENT_READ)
                return
        except OSError as error:
            self._fail(error)
            return
        self._tunnel = None  # has user and password
        self._secure(sock)

    def _secure(self, sock: socket.socket) -> None:
        """Begin the TLS handshake, if any."""
        try:
            self._transport = self._new_transport(sock, self._dial.host)
        except _SETUP_ERRORS as error:
            self._fail(error)
            return
        self._sock = None  # the transport has taken over the socket and will close it
        self._move(SocketState.HANDSHAKING)
        self._handshake(self._transport)

    def _handshake(self, transport: Transport) -> None:
        try:
            done = transport.handshake()
            self._watch(transport.read_needs)
        except OSError as error:
            self._fail(error)
            return
        if not done:
            return
        self._move(SocketState.OPEN)
        self.stream.connection_made(self._driver.now())
        self._driver.has_called = True
        self._driver.obey()
        # Receive at once: bytes that arrived with the last handshake message wait inside the TLS object, and no
        # selector reports them.
        self.ready(transport.read_needs)

    def ready(self, events: int) -> None:
        """Handle the ``selectors`` events that the selector reports: continue connecting, or receive and send."""
        if self.state is SocketState.CONNECTING:
            assert self._sock is not None
            self._connected(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            return
        if self.state is SocketState.TUNNELLING:
            assert self._sock is not None
            assert self._tunnel is not None
            self._continue_tunnel(self._sock, self._tunnel)
            return
        transport = self._transport
        if transport is None or self.state is SocketState.CLOSED:
            return
        if self.state is SocketState.HANDSHAKING:
            self._handshake(transport)
            return
        if events & transport.read_needs:
            ended, error = self._hand_over(transport, RECEIVES_PER_STEP, BYTES_PER_STEP)
            if error is not None:
                self._fail(error)
            elif ended:
                self._end(None)
        self.flush()

    def _hand_over(self, transport: Transport, receives: int, limit: int) -> tuple[bool, OSError | None]:
        """Receive bytes and pass them to the stream; return whether the connection has ended, and the error if any.

        Stops after receiving ``receives`` times or ``limit`` bytes, but leaves no bytes inside a TLS object, since no
        selector would report them.
        """
        stream, driver = self.stream, self._driver
        while self.state is SocketState.OPEN and (receives > 0 < limit or transport.pending()):
            buffer = stream.get_buffer()
            try:
                size = transport.recv_into(buffer)
            except BlockingIOError:
                return False, None
            except OSError as error:
                return True, error
            if size == 0:
                return True, None
            receives -= 1
            limit -= size
            self._received_bytes += size
            room = len(buffer) - size
            if stream.buffer_updated(size, driver.now()):
                driver.has_partial = True
            else:
                driver.has_called = True
            if driver.endpoint.commands:
                driver.obey()
            if room and transport.short_read_ends:
                return False, None
        return False, None

    def flush(self) -> None:
        """Send the stream's waiting bytes; while some remain, let the selector report when more can be sent."""
        transport, stream, driver = self._transport, self.stream, self._driver
        if transport is None or self.state is not SocketState.OPEN:
            return
        chunks = stream.data_to_send()
        for _ in range(SENDS_PER_STEP if chunks else 0):
            try:
                size = transport.send(chunks)
            except BlockingIOError:
                break
            except OSError as error:
                self._send_failed(transport, error)
                break
            if self._received_bytes and max(self._received_bytes, self._expected_bytes) >= LARGE_BYTES:
                self._expect(self._received_bytes)
            self._received_bytes = 0
            stream.data_sent(size, driver.now())
            if driver.endpoint.commands:
                driver.obey()
            if self.state is not SocketState.OPEN or not (chunks := stream.data_to_send()):
                break
        if self.state is SocketState.OPEN and (chunks or self._watched_events != transport.read_needs):
            self._set_interest(transport.read_needs | (transport.write_needs if chunks else 0))

    def _set_interest(self, events: int) -> None:
        try:
            self._watch(events)
        except OSError as error:
            self._fail(error)

    def _expect(self, size: int) -> None:
        """Expect that the next response has ``size`` bytes, as the last one had."""
        self._expected_bytes = size
        if size >= LARGE_BYTES:
            self._driver.expecting_large.add(self)
        elif self in self._driver.expecting_large:
            self.reset_low_water()
            self._driver.expecting_large.discard(self)

    def raise_low_water(self) -> None:
        """Set SO_RCVLOWAT to the expected size of the next response, up to :data:`LOW_WATER_MAX_BYTES`.

        The system can then receive the response between two steps. Otherwise hardly a byte would arrive while the
        program handles records: as long as the program reads nothing, Linux rarely acknowledges more bytes than
        SO_RCVLOWAT, and a broker with a small send buffer waits for acknowledgements.
        """
        size = min(self._expected_bytes, LOW_WATER_MAX_BYTES)
        if size == self._low_water or self._transport is None or self.state is not SocketState.OPEN:
            return
        self._low_water = size  # first: if Ctrl-C interrupts the line below, the next step resets SO_RCVLOWAT
        self._transport.set_low_water(size)

    def reset_low_water(self) -> None:
        """Set SO_RCVLOWAT back to 1, so that the selector reports every received byte."""
        if self._low_water != 1 and self._transport is not None:
            self._transport.set_low_water(1)
            self._low_water = 1  # last: if Ctrl-C interrupts the line above, the next call tries again

    def _watch(self, mask: int) -> None:
        self._driver.sockets.set(self._fd, mask, self.ready)
        self._watched_events = mask

    def _send_failed(self, transport: Transport, error: OSError) -> None:
        """Close the connection after a failed send, but first receive the peer's last bytes.

        These bytes may tell why the peer has closed the connection (a rejected login).
        """
        _, alert = self._hand_over(transport, READ_AFTER_SEND_FAILED_BYTES, READ_AFTER_SEND_FAILED_BYTES)
        if self.state is SocketState.OPEN:
            # In TLS 1.3, the alert about a missing client certificate arrives after the handshake. The alert says more
            # than the failed send to a peer that has closed.
            self._fail(alert if alert is not None and error_text.is_tls_error(alert) else error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, KafkaConnectionError):  # of the handshake with a proxy
            self._end(error)
            return
        self._end(error_text.connection_error(self._dial.host, self._dial.address, self.state.value, error))

    def _end(self, error: KafkaConnectionError | None) -> None:
        self._close(is_orderly=error is None)
        self.stream.connection_lost(error, self._driver.now())
        self._driver.has_called = True
        self._driver.obey()

    def hang_up(self) -> None:
        """Close the connection without calling the stream."""
        if self.state is not SocketState.CLOSED:
            self._close(is_orderly=True)

    def abandon(self) -> None:
        """Close this process's descriptor, but keep the connection: in a forked child, it belongs to the parent."""
        self.state = SocketState.CLOSED
        if self._transport is not None:
            self._transport.abandon()
        if self._sock is not None:
            self._sock.close()

    def _close(self, *, is_orderly: bool) -> None:
        self._move(SocketState.CLOSED)
        self._driver.connection_closed(self.stream)
        if self._fd >= 0:
            self._driver.sockets.forget(self._fd)
        if self._transport is not None:
            if is_orderly:
                self._transport.close()
            else:
                self._transport.abandon()
        if self._sock is not None:
            with suppress(OSError):
                self._sock.close()


def _is_tunnel_complete(sock: socket.socket, tunnel: Tunnel) -> bool:
    """Send and receive for the handshake with a proxy until it is complete, or would block; return which."""
    try:
        while True:
            while tunnel.out:
                tunnel.out = tunnel.out[sock.send(tunnel.out) :]
            if tunnel.receive(sock.recv(TUNNEL_BYTES)):
                return True
    except BlockingIOError:
        return False


def _is_connected_to_itself(sock: socket.socket) -> bool:
    """Return whether the socket is connected to itself by TCP's simultaneous open.

    This happens if a port of this host without a listener is dialled, and the system chooses the same port as the
    connection's own. Such a connection prevents the broker from listening on the port.
    """
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False  # the connection has failed already; receiving reports the error
