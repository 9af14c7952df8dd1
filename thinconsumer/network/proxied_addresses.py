"""The addresses of hosts behind a proxy. Imported only by clients with a proxy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ..config.proxy import Proxy
from ..driver import Address, Command, Tunnel, Via
from .addresses import AddressBook, Lookup, NameLookup
from .proxy import open_tunnel


class ProxiedAddressBook(AddressBook):
    """The addresses of hosts behind a proxy: each is reached via each of the proxy's own addresses."""

    def __init__(self, commands: deque[Command], proxy: Proxy) -> None:
        super().__init__(commands)
        self._proxy = proxy

    def tunnel(self, host: str, address: Address) -> Callable[[], Tunnel] | None:
        return partial(open_tunnel, self._proxy, host, address)

    def known(self, host: str, port: int) -> tuple[Address, ...]:
        own = super().known(self._proxy.host, self._proxy.port)
        return _via(str(self._proxy), own, self._targets(host, port) or super().known(host, port))

    def look_up(self, host: str, port: int) -> Lookup:
        proxy, targets = self._proxy, self._targets(host, port)
        known = super().known(proxy.host, proxy.port)
        own = NameLookup(known) if known else super().look_up(proxy.host, proxy.port)
        return ProxiedLookup(str(proxy), own, NameLookup(targets) if targets else super().look_up(host, port))

    def worked(self, host: str, port: int, address: Address) -> None:
        assert address.via is not None
        super().worked(self._proxy.host, self._proxy.port, address.via.address)
        super().worked(host, port, Address(address.family, address.sockaddr))

    def failed(self, host: str, port: int) -> None:
        super().failed(self._proxy.host, self._proxy.port)
        super().failed(host, port)

    def _targets(self, host: str, port: int) -> tuple[Address, ...]:
        """Return the name itself, for a proxy that looks it up; empty if this client has to."""
        return (Address(0, (host, port)),) if self._proxy.resolves_names else ()


class ProxiedLookup:
    """The lookups of a proxy and of a host behind it; implements :class:`Lookup`."""

    def __init__(self, proxy: str, own: Lookup, target: Lookup) -> None:
        self._proxy = proxy
        self._own = own
        self._target = target

    @property
    def addresses(self) -> tuple[Address, ...]:
        return _via(self._proxy, self._own.addresses, self._target.addresses)

    @property
    def error(self) -> str:
        return f"proxy {self._proxy}: {self._own.error}" if self._own.error else self._target.error


def _via(proxy: str, own: Sequence[Address], targets: Sequence[Address]) -> tuple[Address, ...]:
    """Return each target via each address of the proxy; those of the first target come first."""
    return tuple(Address(to.family, to.sockaddr, Via(proxy, address)) for to in targets for address in own)
