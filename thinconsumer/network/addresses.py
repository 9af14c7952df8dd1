"""The addresses of host names: looked up when needed, and reused until an attempt to connect to the host fails.

A name is looked up once, however many routes wait for it. A numeric IPv4 address needs no lookup. A numeric IPv6
address is passed to the driver, which converts it without blocking: an Address needs the number of AF_INET6, which
differs between systems, and only the driver may import the socket module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ..driver import Address, Command, Resolve, Tunnel
from ..support.imports import import_uninterrupted
from ..support.lazy_dataclass import dataclass

AF_INET = 2  # The value of ``socket.AF_INET``, which is 2 on every system; this module must not import socket.


class Lookup(Protocol):
    """The addresses of a host; complete once it has addresses or an error."""

    @property
    def addresses(self) -> tuple[Address, ...]: ...

    @property
    def error(self) -> str: ...


@dataclass(slots=True)
class NameLookup:
    """One lookup of one name; implements :class:`Lookup`."""

    addresses: tuple[Address, ...] = ()
    error: str = ""


class AddressBook:
    """The known addresses by host and port, and the lookups under way. ``commands`` is the queue to the driver."""

    def __init__(self, commands: deque[Command]) -> None:
        self._commands = commands
        self._known: dict[tuple[str, int], tuple[Address, ...]] = {}
        self._last_worked: dict[tuple[str, int], Address] = {}
        self._lookups: dict[tuple[str, int], NameLookup] = {}

    def known(self, host: str, port: int) -> tuple[Address, ...]:
        """Return the host's known addresses, the first to try first; empty if the name has to be looked up."""
        return self._known.get((host, port), ())

    def tunnel(self, host: str, address: Address) -> Callable[[], Tunnel] | None:
        """Return a function that begins the handshake with the proxy for a connection; None without a proxy."""
        return None

    def look_up(self, host: str, port: int) -> Lookup:
        """Return a lookup of the host: under way, or already complete if the host is a numeric IPv4 address."""
        numeric = _numeric(host, port)
        if numeric is not None:
            return NameLookup((numeric,))
        key = host, port
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = NameLookup()
            self._commands.append(Resolve(host, port))
        return lookup

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str) -> None:
        """Complete the lookup of a name; ignore a result for a name that is not looked up."""
        key = host, port
        lookup = self._lookups.pop(key, None)
        if lookup is None:
            return
        # The address to which the client connected last comes first. If an address that drops packets came first, every
        # new connection would be late.
        lookup.addresses = tuple(sorted(addresses, key=lambda address: address != self._last_worked.get(key)))
        if addresses:
            self._known[key] = lookup.addresses
        else:
            lookup.error = error or "the name has no address"

    def worked(self, host: str, port: int, address: Address) -> None:
        """Move ``address``, to which a connection became ready, to the front, now and in later lookups of the host."""
        key = host, port
        self._last_worked[key] = address
        self._known[key] = (address, *(other for other in self._known.get(key, ()) if other != address))

    def failed(self, host: str, port: int) -> None:
        """Forget the addresses of a host after a failed attempt, so that the name is looked up again."""
        self._known.pop((host, port), None)


def _numeric(host: str, port: int) -> Address | None:
    # On demand: otherwise the import of the client would take longer.
    ipaddress = import_uninterrupted("ipaddress")
    try:
        return Address(AF_INET, (str(ipaddress.IPv4Address(host)), port))
    except ValueError:
        return None
