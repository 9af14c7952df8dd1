"""Names to addresses, remembered: reused until connecting to them fails, looked up one name at a time.

The system's resolver blocks, so at most one :class:`~thinconsumer.driver.Resolve` is under way, however many wait.
IPv4 addresses spelt out need none; IPv6 ones go to the driver, since only the socket module knows its number for the
family on this system, and are answered there without blocking.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Sequence

from ..driver import Address, Resolve

#: A question without an answer is asked again after this many seconds: a Ctrl-C has swallowed one of the two.
ASK_AGAIN = 30.0
AF_INET = 2  # Everywhere: it came from BSD before systems parted.


class NameLookup:
    """One question to the resolver, shared by everybody who has it; settled once."""

    __slots__ = ("addresses", "done", "error")

    def __init__(self, addresses: tuple[Address, ...] = ()) -> None:
        self.addresses = addresses
        self.done = bool(addresses)
        self.error = ""


class AddressBook:
    """The addresses of hosts, by (host, port)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Address, ...]] = {}
        self._lookups: dict[tuple[str, int], NameLookup] = {}
        self._waiting: deque[tuple[str, int]] = deque()
        self._under_way: tuple[str, int] | None = None
        self._asked_at = 0.0

    def known(self, host: str, port: int) -> tuple[Address, ...]:
        """Return the addresses that worked or were looked up before; none when the name has to be looked up."""
        return self._known.get((host, port), ())

    def look_up(self, host: str, port: int) -> NameLookup:
        """Ask for the addresses of a name, whatever is known of it."""
        numeric = _numeric(host, port)
        if numeric is not None:
            return NameLookup((numeric,))
        key = host, port
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = NameLookup()
            self._waiting.append(key)
        return lookup

    def has_command(self, now: float = 0.0) -> bool:
        """Return whether :meth:`take_command` would return one."""
        return bool(self._waiting) if self._under_way is None else now >= self._asked_at + ASK_AGAIN

    def take_command(self, now: float = 0.0) -> Resolve | None:
        """Return the next question for the driver, unless one is under way."""
        if not self.has_command(now):
            return None
        if self._under_way is None:
            self._under_way = self._waiting[0]
            self._waiting.popleft()
        self._asked_at = now
        return Resolve(*self._under_way)

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str) -> None:
        """Take the driver's answer; one that nobody waits for is dropped."""
        key = host, port
        if key != self._under_way:
            return
        self._under_way = None
        lookup = self._lookups.pop(key)
        lookup.addresses = tuple(addresses)
        lookup.error = error or "the name has no address"
        lookup.done = True
        if addresses:
            self._known[key] = lookup.addresses

    def start_over(self) -> None:
        """Forget what is being asked; whoever still wants to know asks again."""
        self._lookups.clear()
        self._waiting.clear()
        self._under_way = None

    def worked(self, host: str, port: int, address: Address) -> None:
        """Put the address first: behind one that hangs it would cost a timeout at every new connection."""
        known = self._known.get((host, port), ())
        self._known[host, port] = (address, *(other for other in known if other != address))

    def failed(self, host: str, port: int) -> None:
        """Forget the addresses of a host, none of which could be connected to."""
        self._known.pop((host, port), None)


def _numeric(host: str, port: int) -> Address | None:
    try:
        return Address(AF_INET, (str(ipaddress.IPv4Address(host)), port))
    except ValueError:
        return None
