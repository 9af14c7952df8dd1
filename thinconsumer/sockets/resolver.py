"""Look up host names with the system's resolver, or with a function that the user passed. Either may block.

If the extra ``resolver`` is installed, :mod:`.cares_lookup`, which never blocks, is the default instead.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from ..driver import Address

log = logging.getLogger(__name__)

#: A function that takes host and port, and returns the addresses in the order in which to try them, or raises.
Resolver = Callable[[str, int], Sequence[Address]]

_TEXTS = {
    socket.EAI_NONAME: "the name does not resolve",
    socket.EAI_AGAIN: "the name server did not answer; temporary",
    getattr(socket, "EAI_NODATA", None): "the name has no address",
}


def system_resolver(host: str, port: int, flags: int = 0) -> list[Address]:
    """Return the IPv4 and IPv6 addresses of ``host`` in the system's order (RFC 6724); ``flags`` of ``getaddrinfo``."""
    found: dict[Address, None] = {}
    for family, _, _, _, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags):
        if family in (socket.AF_INET, socket.AF_INET6):
            found[Address(int(family), sockaddr)] = None  # type: ignore[arg-type]  # a Python without IPv6 says bytes
    return list(found)


def numeric(host: str, port: int) -> list[Address]:
    """Return the address if ``host`` is a numeric address, or an empty list if it is a name. Never blocks."""
    try:
        return system_resolver(host, port, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def look_up(
    resolver: Resolver, host: str, port: int, clock: Callable[[], float], slow: float
) -> tuple[list[Address], str]:
    """Return the addresses of ``host`` and an error text, one of them empty.

    Logs a warning if the lookup has taken ``slow`` seconds or more.
    """
    started = clock()
    addresses: list[Address] = []
    text = "the name has no address"
    try:
        addresses = list(resolver(host, port))
    # A user's resolver may raise any exception. Only this lookup fails then, not the step of the client.
    except Exception as error:
        text = str(error) or type(error).__name__
        if isinstance(error, socket.gaierror):
            text = _TEXTS.get(error.errno, error.strerror or text)
        elif isinstance(error, UnicodeError):
            text = "not a valid host name"
        log.debug("looking up %s failed", host, exc_info=True)
    took = clock() - started
    if took >= slow:
        log.warning(
            "looking up %s took %.1f s and blocked the consumer: install thinconsumer[resolver], "
            "use numeric addresses or a local DNS cache, or pass the option resolver",
            host,
            took,
        )
    return addresses, "" if addresses else text
