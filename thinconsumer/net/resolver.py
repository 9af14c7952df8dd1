"""Names to addresses, by the system's resolver or one that is plugged in.

This is the only place in the package that blocks without a bound, because the system's resolver does. Numeric addresses
never get there, and what takes long is said aloud with its duration.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from ..driver import Address

log = logging.getLogger(__name__)

#: Looks up a host; returns its addresses in the order to try them, raises when there are none.
Resolver = Callable[[str, int], Sequence[Address]]

_WORDS = {
    socket.EAI_NONAME: "the name does not resolve",
    socket.EAI_AGAIN: "the name server did not answer; temporary",
    getattr(socket, "EAI_NODATA", None): "the name has no address",
}


def system_resolver(host: str, port: int, flags: int = 0) -> list[Address]:
    """Return the addresses of ``host``, IPv4 and IPv6, in the system's order of preference (RFC 6724)."""
    found: dict[Address, None] = {}
    for family, _, _, _, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags):
        if family in (socket.AF_INET, socket.AF_INET6):
            found[Address(int(family), sockaddr)] = None  # type: ignore[arg-type]  # a Python without IPv6 says bytes
    return list(found)


def _describe(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return _WORDS.get(error.errno, error.strerror or str(error))
    if isinstance(error, UnicodeError):
        return "not a valid host name"
    return str(error) or type(error).__name__


def numeric(host: str, port: int) -> list[Address]:
    """Return the address that ``host`` spells out, or nothing when it is a name. Never blocks."""
    try:
        return system_resolver(host, port, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def look_up(
    resolver: Resolver, host: str, port: int, clock: Callable[[], float], slow: float
) -> tuple[list[Address], str]:
    """Return the addresses of ``host``, or none and why; warn when it took ``slow`` seconds or more."""
    started = clock()
    addresses: list[Address] = []
    words = "the name has no address"
    try:
        addresses = list(resolver(host, port))
    # A plugged-in resolver raises what it likes; the host then counts as one that does not resolve.
    except Exception as error:
        words = _describe(error)
        log.debug("looking up %s failed", host, exc_info=True)
    took = clock() - started
    if took >= slow:
        log.warning(
            "looking up %s took %.1f s, and nothing else could happen meanwhile; "
            "use numeric addresses, a local DNS cache, or the resolver option",
            host,
            took,
        )
    return addresses, "" if addresses else words
