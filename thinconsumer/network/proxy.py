"""The handshake with a proxy, without a socket: SOCKS5 (RFC 1928, RFC 1929) and HTTP CONNECT (RFC 9110, section 9.3.6).

The proxy is not trusted. The size of each reply is bounded, and no byte may follow a reply: over the connection to the
broker, the client sends first. Error texts hide user and password, which the proxy may repeat.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from enum import Enum

from ..config.proxy import Proxy
from ..driver import Address, host_and_port
from ..errors import KafkaConnectionError
from ..support.server_text import shown

#: Maximum size of the status line and headers of an HTTP response.
HEADER_BYTES_MAX = 16 * 1024
#: Maximum number of characters that an error shows of a reply in another protocol.
BEGIN_CHARS_MAX = 40

#: Methods of SOCKS5 to log in; the last is the proxy's answer if it accepts none that the client offers.
NO_LOGIN, PASSWORD, NO_METHOD = 0x00, 0x02, 0xFF
#: The reply codes of SOCKS5 (RFC 1928, section 6).
SOCKS_REPLIES = {
    1: "general SOCKS server failure",
    2: "connection not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


def open_tunnel(proxy: Proxy, host: str, address: Address) -> ProxyTunnel:
    """Return the handshake that lets ``proxy`` connect to ``address`` of ``host``.

    Raises:
        KafkaConnectionError: the address is not one that a proxy can be asked for.
    """
    return (HttpTunnel if proxy.scheme == "http" else SocksTunnel)(proxy, host, address)


class ProxyTunnel:
    """The client's side of a handshake; implements :class:`thinconsumer.driver.Tunnel`. Each reply is taken in full."""

    def __init__(self, proxy: Proxy, host: str, address: Address) -> None:
        self.out = b""
        self._received = bytearray()
        self._login = proxy.login
        self._secrets: tuple[str, ...] = proxy.login or ()  #: What the proxy could repeat in its replies.
        self._host = host
        self._address = address
        # The names of brokers come from the network: a name with a line break would add a header to an HTTP request.
        # ``ipaddress`` accepts any text as the zone of an IPv6 address.
        self._name, self._port = str(address.sockaddr[0]).partition("%")[0], address.sockaddr[1]
        if not re.fullmatch(r"[A-Za-z0-9._:-]{1,255}", self._name) or not 0 < self._port < 2**16:
            raise self._error("a proxy cannot be asked for this host name or port")

    def receive(self, data: bytes) -> bool:
        if not data:
            raise self._error("the proxy has closed the connection within the handshake")
        self._received += data
        size = self._reply_size(len(data))
        if not 0 < size <= len(self._received):
            return False
        reply, surplus = bytes(self._received[:size]), len(self._received) - size
        self._received.clear()
        is_complete = self._take(reply)
        if surplus:
            raise self._error(f"the proxy has sent {surplus} bytes more than its reply")
        return is_complete

    def _reply_size(self, new: int) -> int:
        """Return the size of the reply that the received bytes begin, of which ``new`` are new; 0 if still unknown."""
        raise NotImplementedError

    def _take(self, reply: bytes) -> bool:
        """Continue after a reply; return whether the handshake is complete."""
        raise NotImplementedError

    def _error(self, text: str, *, is_login: bool = False) -> KafkaConnectionError:
        where = self._address.where(self._host)
        return KafkaConnectionError(
            f"{where}: {text}", host=self._host, port=self._port, is_proxy_login_rejected=is_login
        )

    def _rejected(self, why: str) -> KafkaConnectionError:
        if self._login is None:
            text = f"the proxy requires a login: write user:password@ before the host in proxy_url ({why})"
        else:
            text = f"the proxy rejects the login: check user and password in proxy_url ({why})"
        return self._error(text, is_login=True)

    def _wrong_protocol(self, name: str) -> KafkaConnectionError:
        begin = self._shown(self._received)[:BEGIN_CHARS_MAX]
        return self._error(f"the proxy does not answer in {name}, check the scheme of proxy_url: '{begin}'")

    def _shown(self, reply: bytes | bytearray) -> str:
        return shown(reply.decode("latin-1"), *self._secrets)


class SocksStep(Enum):
    """The reply of a SOCKS5 proxy that is awaited."""

    METHOD = "method"
    LOGIN = "login"
    CONNECT = "connect"


class SocksTunnel(ProxyTunnel):
    """The handshake of SOCKS5. With a login, the proxy may also choose none."""

    def __init__(self, proxy: Proxy, host: str, address: Address) -> None:
        super().__init__(proxy, host, address)
        self._step = SocksStep.METHOD
        self._methods = (NO_LOGIN,) if self._login is None else (PASSWORD, NO_LOGIN)
        self.out = bytes((5, len(self._methods), *self._methods))

    def _reply_size(self, new: int) -> int:
        received = self._received
        # Some proxies answer to a login with SOCKS' version instead of that of RFC 1929.
        if received[0] != 5 and (self._step is not SocksStep.LOGIN or received[0] != 1):
            raise self._wrong_protocol("SOCKS5")
        if self._step is not SocksStep.CONNECT:
            return 2
        # Some proxies end a refusal after these two bytes.
        if len(received) >= 2 and received[1]:
            name = SOCKS_REPLIES.get(received[1], "unknown")
            raise self._error(f"the proxy cannot connect to it: {name} (SOCKS5 reply {received[1]})")
        if len(received) < 5:
            return 0
        sizes = {1: 4, 3: 1 + received[4], 4: 16}
        if received[3] not in sizes:
            raise self._error(f"the proxy has sent an address of the unknown type {received[3]}")
        return 4 + sizes[received[3]] + 2

    def _take(self, reply: bytes) -> bool:
        if self._step is SocksStep.CONNECT:
            return True
        if self._step is SocksStep.LOGIN:
            if reply[1]:
                raise self._rejected(f"status {reply[1]}")
        elif reply[1] == NO_METHOD:
            raise self._rejected("it accepts no offered method")
        elif reply[1] not in self._methods:
            raise self._error(f"the proxy chooses the method {reply[1]} to log in, which was not offered")
        elif reply[1] == PASSWORD and self._login is not None:
            self._step = SocksStep.LOGIN
            user, password = (text.encode() for text in self._login)
            self.out = bytes((1, len(user))) + user + bytes((len(password),)) + password
            return False
        self._step = SocksStep.CONNECT
        self.out = b"\x05\x01\x00" + self._target() + self._port.to_bytes(2, "big")
        return False

    def _target(self) -> bytes:
        try:
            packed = ipaddress.ip_address(self._name).packed
        except ValueError:
            return bytes((3, len(self._name))) + self._name.encode()
        return bytes((1 if len(packed) == 4 else 4,)) + packed


class HttpTunnel(ProxyTunnel):
    """The handshake of HTTP CONNECT, with Basic authorization (RFC 7617)."""

    def __init__(self, proxy: Proxy, host: str, address: Address) -> None:
        super().__init__(proxy, host, address)
        target = host_and_port(self._name, self._port)
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self._login is not None:
            basic = b64encode(":".join(self._login).encode()).decode()
            self._secrets += (basic,)
            lines.append(f"Proxy-Authorization: Basic {basic}")
        self.out = "\r\n".join([*lines, "", ""]).encode()

    def _reply_size(self, new: int) -> int:
        received = self._received
        if not received.startswith(b"HTTP/1."[: len(received)]):
            raise self._wrong_protocol("HTTP/1.1")
        start = max(0, len(received) - new - 2)
        ends = [at + len(mark) for mark in (b"\n\r\n", b"\n\n") if (at := received.find(mark, start)) >= 0]
        size = min(ends, default=0)
        if max(size, len(received) if not size else 0) > HEADER_BYTES_MAX:
            raise self._error(f"the proxy has sent headers of more than {HEADER_BYTES_MAX} bytes")
        return size

    def _take(self, reply: bytes) -> bool:
        line = reply.partition(b"\n")[0].rstrip(b"\r")
        match = re.match(rb"HTTP/1\.[0-9] ([0-9]{3})(?: |$)", line)
        text = f"'{self._shown(line)}'"
        if match is None:
            raise self._error(f"the proxy has sent a malformed status line: {text}")
        if match[1].startswith(b"2"):
            return True
        if match[1] == b"407":
            schemes = re.findall(rb"(?im)^proxy-authenticate:[ \t]*([a-z0-9-]{1,20})", reply)
            if schemes and b"basic" not in (scheme.lower() for scheme in schemes):
                names = self._shown(b", ".join(dict.fromkeys(schemes)))
                text += f"; it accepts {names}, this client has only Basic"
            raise self._rejected(text)
        raise self._error(f"the proxy refuses to connect to it: {text}")
