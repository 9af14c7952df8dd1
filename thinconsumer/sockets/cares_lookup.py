"""Look up a host name on the driver's own selector, without blocking, with c-ares (the extra ``resolver``: pycares).

c-ares reads /etc/hosts and asks the name servers of /etc/resolv.conf. A program that needs another source, such as mDNS
or LDAP, passes ``resolver=thinconsumer.sockets.system_resolver``, which blocks.

Each lookup has its own c-ares channel (its state and sockets), since c-ares reads /etc/resolv.conf only when a channel
is created. pycares frees channels on a daemon thread. So that no callback runs on that thread, a lookup is cancelled
before its channel is closed.
"""

import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from ..driver import Address
from ..support.agenda import Alarm
from .error_text import describe
from .socket_selector import Sockets

try:
    import pycares
except ImportError:
    pycares = None

log = logging.getLogger(__name__)

IS_INSTALLED = pycares is not None


class CaresLookup:
    """A lookup of the IPv4 and IPv6 addresses of one name. Once :attr:`is_done`, it has :attr:`addresses` or an error.

    Args:
        selector: Watches the sockets of the lookup.
        clock: Returns monotonic seconds.
        timeout: The alarm for c-ares' next timeout.
        servers: Name servers as ``address:port``; None for those of /etc/resolv.conf.
    """

    def __init__(
        self,
        host: str,
        port: int,
        selector: Sockets,
        clock: Callable[[], float],
        timeout: Alarm,
        servers: Sequence[str] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.addresses: list[Address] = []  #: The addresses found, in the order in which to try them (RFC 6724).
        self.error = ""
        self.is_done = False
        self._selector = selector
        self._clock = clock
        self._timeout = timeout
        self._socket_changes: list[tuple[int, bool, bool]] = []
        self._watched: set[int] = set()
        self._channel: Any = None
        try:
            self._channel = pycares.Channel(servers=servers, sock_state_cb=self._note_socket)
            self._channel.getaddrinfo(
                host, port, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM, callback=self._note_result
            )
        # pycares raises AresError for a broken resolv.conf, and other exceptions for a name that IDNA cannot encode.
        except Exception as error:
            log.debug("looking up %s failed", host, exc_info=True)
            self._finish(f"not a valid host name, or c-ares failed: {error}")
        self._follow()

    def _process(self, fd: int, events: int) -> None:
        """Let c-ares read from or write to a socket, as the selector's ``events`` say; without any, check timeouts."""
        if not self.is_done:
            self._channel.process_fd(fd if events & EVENT_READ else -1, fd if events & EVENT_WRITE else -1)
            self._follow()

    def step(self) -> None:
        """If a timeout has passed, let c-ares repeat its query or give up."""
        if self._timeout.is_over(self._clock()):
            self._process(-1, 0)

    def close(self) -> None:
        """Cancel the lookup unless it is done."""
        if not self.is_done:
            self._finish("cancelled")
            self._follow()

    # The next two methods are callbacks of c-ares. They only store their arguments, because pycares prints and drops
    # exceptions of callbacks.

    def _note_socket(self, fd: int, readable: bool, writable: bool) -> None:
        self._socket_changes.append((fd, readable, writable))

    def _note_result(self, result: Any, code: int | None) -> None:
        if self.is_done:
            return
        if result is None:
            self._finish(_ERRORS.get(code, "") or str(pycares.errno.strerror(code)))
            return
        self.addresses = [
            Address(int(node.family), (node.addr[0].decode(), *node.addr[1:]))
            for node in result.nodes
            if node.family in (socket.AF_INET, socket.AF_INET6)
        ]
        self._finish("" if self.addresses else "the name has no address")

    def _finish(self, error: str) -> None:
        self.error = error
        self.is_done = True

    def _follow(self) -> None:
        """Watch the sockets that c-ares has opened, forget those that it has closed, and set the next timeout.

        If the lookup is done, forget all its sockets and close its channel.
        """
        changes, self._socket_changes = self._socket_changes, []
        try:
            for fd, readable, writable in changes:
                self._watch(fd, (EVENT_READ if readable else 0) | (EVENT_WRITE if writable else 0))
        except OSError as error:
            self._finish(f"cannot wait for the name server: {describe(error)}")
        if not self.is_done:
            self._timeout.set(self._clock() + self._channel.timeout())
            return
        self._timeout.clear()
        for fd in self._watched:
            self._selector.forget(fd)
        self._watched.clear()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.cancel()
            channel.close()

    def _watch(self, fd: int, mask: int) -> None:
        if mask:
            self._watched.add(fd)
            self._selector.set(fd, mask, partial(self._process, fd))
        else:
            self._watched.discard(fd)
            self._selector.forget(fd)


_ERRORS: dict[int | None, str] = (
    {}
    if pycares is None
    else {
        pycares.errno.ARES_ENOTFOUND: "the name does not resolve",
        pycares.errno.ARES_ENODATA: "the name has no address",
        pycares.errno.ARES_EBADNAME: "not a valid host name",
        pycares.errno.ARES_ETIMEOUT: "the name server did not answer; temporary",
        pycares.errno.ARES_ECONNREFUSED: "the name server cannot be reached; temporary",
        pycares.errno.ARES_ESERVFAIL: "the name server reports a failure; temporary",
    }
)
