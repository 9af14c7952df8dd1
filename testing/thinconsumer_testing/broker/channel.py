"""A broker's listening socket, and each client's socket as the transport of its connection to the broker.

Owns the unsent responses and the registration with the selector. Must not know requests.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import struct
from collections.abc import Callable

from .connection import ServerConnection

log = logging.getLogger(__name__)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: Once more response bytes than this are unsent on a connection, its further requests wait until at most half of this
#: size is unsent. Otherwise a client that does not read its responses could fill the broker's memory.
UNSENT_MAX = 1024 * 1024
#: How long a closed connection may take to flush its last responses.
LINGER_S = 5.0

_NO_LINGER = struct.pack("ii", 1, 0)
RECEIVE_BYTES = 512 * 1024
BACKLOG = 1024
ACCEPTS_PER_STEP = 64
#: How long a listener pauses when file descriptors or memory have run out.
ACCEPT_PAUSE_S = 0.1

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ChannelRegistry:
    """The channels of all brokers of a cluster, and the selector that watches their sockets."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.channels: set[Channel] = set()
        self.unread: set[Channel] = set()  #: Channels that are open but not read from at present.
        self._to_flush: dict[Channel, None] = {}

    @property
    def has_unflushed(self) -> bool:
        """Whether a channel waits for :meth:`flush`."""
        return bool(self._to_flush)

    def flush_later(self, channel: Channel) -> None:
        """Let the next :meth:`flush` send the channel's responses."""
        self._to_flush[channel] = None

    def flush(self) -> None:
        """Send the queued responses, and read again from each channel whose connection takes input again."""
        dirty, self._to_flush = self._to_flush, {}
        for channel in dirty:
            channel.flush()
        for channel in list(self.unread):
            channel.update_interest()

    def close(self) -> None:
        """Reset all connections, and release the selector."""
        for channel in list(self.channels):
            channel.connection.connection_lost()
            channel.reset()
        self.selector.close()


class Channel:
    """One client's socket, as the transport of its ServerConnection."""

    __slots__ = ("_interest", "_is_closing", "_queue", "_registry", "_socket", "_unsent", "client_host", "connection")

    connection: ServerConnection

    def __init__(self, registry: ChannelRegistry, sock: socket.socket, client_host: str) -> None:
        self._registry = registry
        self._socket = sock
        self.client_host = client_host
        self._queue: list[bytes | memoryview] = []
        self._unsent = 0
        self._interest = 0
        self._is_closing = False

    def write(self, data: bytes) -> None:
        """Queue data, which is sent at the end of the running step together with other responses."""
        self._queue.append(data)
        self._unsent += len(data)
        self._registry.flush_later(self)
        if self._unsent > UNSENT_MAX:
            self.connection.is_muted = True

    def close(self) -> None:
        """Close once the queued data is sent; reset the connection if that takes longer than LINGER_S."""
        self._is_closing = True
        if self._unsent:
            self._registry.flush_later(self)
            self.connection.node.schedule.call_later(LINGER_S, self.reset)
        else:
            self._finish()

    def reset(self) -> None:
        """Close with a TCP reset; queued data is lost."""
        if self._socket.fileno() >= 0:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            except OSError:
                pass  # Some systems reject the option after the client has closed the connection.
        self._release()

    def on_ready(self, mask: int) -> None:
        """Receive if the socket is readable; schedule a flush if it is writable."""
        if mask & WRITE:
            self._registry.flush_later(self)
        if mask & READ:
            self._receive()

    def flush(self) -> None:
        """Send as much of the queued data as the kernel accepts without blocking. Also lets the connection serve
        requests again once at most half of UNSENT_MAX is unsent, and completes :meth:`close`.
        """
        try:
            if self._queue:
                data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
                sent = self._send(data)
                self._unsent -= sent
                self._queue = [memoryview(data)[sent:]] if self._unsent else []
        except OSError as error:
            self._lost(error)
            return
        connection = self.connection
        if connection.is_muted and self._unsent <= UNSENT_MAX // 2:
            connection.is_muted = False
            connection.process_frames()
        if self._is_closing and not self._unsent:
            self._finish()
        self.update_interest()

    def update_interest(self) -> None:
        """Register with the selector for reading if the connection takes input, and for writing if bytes are unsent."""
        if self._socket.fileno() < 0:
            return
        is_reading = self._wants_read()
        interest = READ * is_reading | WRITE * self._wants_write()
        if interest == self._interest:
            return
        selector = self._registry.selector
        if not self._interest:
            selector.register(self._socket, interest, self)
        elif not interest:
            selector.unregister(self._socket)
        else:
            selector.modify(self._socket, interest, self)
        self._interest = interest
        if is_reading:
            self._registry.unread.discard(self)
        else:
            self._registry.unread.add(self)

    def _wants_read(self) -> bool:
        return not self._is_closing and self.connection.wants_input

    def _wants_write(self) -> bool:
        return self._unsent > 0

    def _send(self, data: bytes | memoryview) -> int:
        """Send without blocking; return the number of bytes that were sent. Raises: OSError."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    def _finish(self) -> None:
        self._release()

    def _receive(self) -> None:
        if self._socket.fileno() < 0 or self._is_closing:
            return
        buffer = self._registry.receive_buffer
        try:
            size = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error)
            return
        if not size:
            self._lost(None)
            return
        self._deliver(buffer[:size])

    def _deliver(self, data: memoryview) -> None:
        try:
            self.connection.data_received(data)
        except Exception as error:  # One client's bytes must not stop the broker for all clients.
            log.exception("%r failed to process received data; resetting it", self.connection)
            self.connection.node.cluster.bugs.append(f"{self.connection!r}: {error!r}")
            self.connection.abort()
        self.update_interest()

    def _lost(self, error: OSError | None) -> None:
        log.debug("%r is lost: %s", self.connection, error or "closed by the client")
        self.connection.connection_lost()
        self._release()

    def _release(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._interest:
            self._registry.selector.unregister(self._socket)
            self._interest = 0
        self._socket.close()
        self._queue.clear()
        self._unsent = 0
        self._registry.channels.discard(self)
        self._registry.unread.discard(self)


class PortListener:
    """A broker's listening socket. Its port stays bound while the broker is down, so that no other process takes it.

    Args:
        selector: Watches the listening socket.
        host, port: The address to listen on; port 0: any free port.
        accepted: Called with each new socket and the client's address.
        call_later: Calls a function after a number of seconds.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        host: str,
        port: int,
        accepted: Callable[[socket.socket, str], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._selector = selector
        self._host = host
        self._accepted = accepted
        self._call_later = call_later
        self._is_listening = False
        self._socket = self._bound(port)
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    def open(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self._socket.listen(BACKLOG)
            self._selector.register(self._socket, READ, self)

    def refuse(self) -> None:
        """Refuse connections, including those in the accept queue."""
        if self._is_listening:
            self.close()
            self._socket = self._bound(self.port)

    def close(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._stop_watching()
        self._socket.close()

    def on_ready(self, mask: int) -> None:
        """Accept waiting connections, limited per step so that connected clients are served, too."""
        for _ in range(ACCEPTS_PER_STEP):
            if not self._is_listening:
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    log.info("cannot accept a connection on port %d: %s", self.port, error)
                    return  # The client has closed the connection before it was accepted.
                # The listening socket stays readable while the connection is in the accept queue, so the selector would
                # report the socket in every step and use up the processor. For ACCEPT_PAUSE_S it is not watched.
                log.warning(
                    "out of resources: cannot accept on port %d, retrying in %s s: %s", self.port, ACCEPT_PAUSE_S, error
                )
                self._stop_watching()
                self._call_later(ACCEPT_PAUSE_S, self._watch_again)
                return
            self._accepted(sock, address[0])

    def _watch_again(self) -> None:
        if self._is_listening:
            self._stop_watching()
            self._selector.register(self._socket, READ, self)

    def _stop_watching(self) -> None:
        try:
            self._selector.unregister(self._socket)
        except KeyError:
            pass  # The listening socket is not registered with the selector while accepting is paused.

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where REUSEADDR would let two processes share a port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind((self._host, port))
        except BaseException:
            sock.close()
            raise
        return sock
