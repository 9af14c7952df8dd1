"""A broker's port: it accepts connections, and stays bound while the broker is down."""

from __future__ import annotations

import errno
import logging
import selectors
import socket
from collections.abc import Callable

from .channel import READ

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTS_PER_STEP = 64
#: How long a listener pauses when no file descriptor is available.
ACCEPT_PAUSE_S = 0.1

_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class PortListener:
    """A broker's port. It stays bound while the broker is down, so that no other process takes it.

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
        """Accept connections."""
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
        """Release the port."""
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
                # The connection stays in the accept queue and the listening socket readable, so the selector would
                # report it in every step and use up the processor. The listener is not watched for ACCEPT_PAUSE_S
                # instead.
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
