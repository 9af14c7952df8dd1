"""The option ``proxy_url``: its kind, and the parts of the URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from .kinds import HIDDEN, Kind, safe_repr
from .security_kinds import HOST, Secret, split_url
from .values import HostPort

#: The schemes, with the port that a URL without one means.
DEFAULT_PORTS = {"socks5": 1080, "socks5h": 1080, "http": 80}
#: Maximum size of a user and of a password for SOCKS5, which has their sizes in one byte (RFC 1929).
SOCKS_BYTES_MAX = 255
_ENCODE = "percent-encode other characters in user and password (@ is %40, / is %2F)"


class Proxy(NamedTuple):
    """The parts of a proxy's URL."""

    scheme: str  #: "socks5", "socks5h" or "http".
    host: str  #: A name or an IP address, without brackets.
    port: int
    login: tuple[Secret, Secret] | None  #: User and password, percent-decoded; None for no login.

    @property
    def resolves_names(self) -> bool:
        """Whether the proxy looks up the brokers' names. With ``socks5``, this client does."""
        return self.scheme != "socks5"

    def __str__(self) -> str:
        """Return the URL without user and password, for log lines and errors."""
        return f"{self.scheme}://{HostPort(self.host, self.port)}"

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def parse(cls, url: object) -> Proxy:
        """Return the parts of a URL.

        Raises:
            ValueError: the URL cannot be used. The message contains no part of it.
        """
        try:
            parts, host, port = split_url(url)
        except ValueError as error:
            raise ValueError(f"{error}; {_ENCODE}" if isinstance(url, str) else str(error)) from None
        if parts.scheme not in DEFAULT_PORTS:
            tls = ": TLS to the proxy itself is not supported" if parts.scheme == "https" else ""
            raise ValueError(f"must begin with {', '.join(f'{scheme}://' for scheme in DEFAULT_PORTS)}{tls}")
        if not re.fullmatch(HOST, host):
            raise ValueError(f"has no host: write {parts.scheme}://host:port; {_ENCODE}")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(f"must end after the port; {_ENCODE}")
        if port == 0:
            raise ValueError("must have a port from 1 to 65535")
        login = None if parts.username is None else _login(parts.scheme, parts.username, parts.password or "")
        return cls(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], login)


def _login(scheme: str, *encoded: str) -> tuple[Secret, Secret]:
    from urllib.parse import unquote  # on demand, since few clients have a proxy with a login

    try:
        user, password = (Secret(unquote(part, errors="strict")) for part in encoded)
    except UnicodeDecodeError:
        raise ValueError("must have user and password in UTF-8, percent-encoded") from None
    if not user:
        raise ValueError("has an empty user before the @: write user:password@host, or only the host")
    if scheme == "http" and ":" in user:
        raise ValueError("has a user with a colon, where HTTP's Basic authorization ends the user")
    if scheme != "http" and max(len(user.encode()), len(password.encode())) > SOCKS_BYTES_MAX:
        raise ValueError(f"has a user or password of more than {SOCKS_BYTES_MAX} bytes, the maximum of SOCKS5")
    return user, password


class ProxyUrl(Kind):
    """The URL of a proxy; becomes a :class:`.Secret`, since it may contain a password."""

    description = "str, a socks5, socks5h or http URL; user and password are never shown"
    is_secret = True

    def parse(self, value: object) -> Secret:
        Proxy.parse(value)
        return Secret(value)

    def show(self, value: object) -> str:
        try:
            return safe_repr(str(Proxy.parse(value)))
        except ValueError:
            return HIDDEN
