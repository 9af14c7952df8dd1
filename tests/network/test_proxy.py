"""The handshakes with proxies without a socket: every reply, byte by byte, and hostile ones."""

import base64
import random

import pytest

from thinconsumer.config.proxy import Proxy
from thinconsumer.driver import Address, Via
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.network.proxy import HEADER_BYTES_MAX, SOCKS_REPLIES, open_tunnel

USER, SECRET = "us3r-name", "s3cret:word"
LOGIN = "us3r-name:s3cret%3Aword@"
BASIC = base64.b64encode(b"us3r-name:s3cret:word").decode()
CONNECTED = b"\x05\x00\x00\x01\x0a\x00\x00\x01\x23\x84"


def tunnel(scheme="socks5h", login="", host="b1", target="b1", port=9092):
    proxy = Proxy.parse(f"{scheme}://{login}proxy:1080")
    address = Address(0, (target, port), Via(str(proxy), Address(2, ("10.0.0.9", 1080))))
    return open_tunnel(proxy, host, address)


def drive(tunnel, *replies, size=None):
    """Give the replies, each once the bytes before it are sent, in pieces of ``size``; return what was sent."""
    sent = []
    for number, reply in enumerate(replies):
        sent.append(tunnel.out)
        tunnel.out = b""
        pieces = [reply] if size is None else [reply[at : at + size] for at in range(0, len(reply), size)]
        done = [tunnel.receive(piece) for piece in pieces]
        assert not any(done[:-1])
        assert done[-1] is (number == len(replies) - 1)
    assert tunnel.out == b""
    return sent


def refusal(tunnel, *replies, size=None):
    with pytest.raises(KafkaConnectionError) as caught:
        drive(tunnel, *replies, size=size)
    text = str(caught.value)
    assert text.startswith("b1:9092 (through proxy "), text
    assert "://proxy:1080 at 10.0.0.9:1080): " in text
    assert text.isprintable()
    assert len(text) < 600
    for secret in (USER, SECRET, BASIC, SECRET[:6]):
        assert secret not in text
    assert (caught.value.host, caught.value.port, caught.value.retriable) == ("b1", 9092, True)
    return caught.value


# SOCKS5


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize(
    ("target", "encoded"),
    [
        ("b1", b"\x03\x02b1"),
        ("10.1.2.3", b"\x01\x0a\x01\x02\x03"),
        ("fe80::1%eth0", b"\x04\xfe\x80" + bytes(13) + b"\x01"),
        ("a" * 255, b"\x03\xff" + b"a" * 255),
    ],
)
def test_socks_without_login(target, encoded, size):
    sent = drive(tunnel(target=target), b"\x05\x00", CONNECTED, size=size)
    assert sent == [b"\x05\x01\x00", b"\x05\x01\x00" + encoded + b"\x23\x84"]


@pytest.mark.parametrize("version", [b"\x01", b"\x05"])  # the second is wrong, and sent by some proxies
@pytest.mark.parametrize("size", [None, 1])
def test_socks_with_login(version, size):
    sent = drive(tunnel(login=LOGIN), b"\x05\x02", version + b"\x00", CONNECTED, size=size)
    assert sent[:2] == [b"\x05\x02\x02\x00", b"\x01\x09us3r-name\x0bs3cret:word"]
    assert sent[2].startswith(b"\x05\x01\x00\x03\x02b1")


def test_a_socks_proxy_may_choose_no_login():
    sent = drive(tunnel(login=LOGIN), b"\x05\x00", CONNECTED)
    assert sent[1].startswith(b"\x05\x01\x00\x03")


def test_lengths_of_the_login_count_bytes():
    sent = drive(tunnel(login="%C3%BC:" + "p" * 255 + "@"), b"\x05\x02", b"\x01\x00", CONNECTED)
    assert sent[1] == b"\x01\x02\xc3\xbc\xff" + b"p" * 255


@pytest.mark.parametrize("bound", [b"\x01" + bytes(4), b"\x03\x00", b"\x03\xff" + bytes(255), b"\x04" + bytes(16)])
@pytest.mark.parametrize("size", [None, 1])
def test_the_address_in_the_last_reply_is_taken_in_full(bound, size):
    drive(tunnel(), b"\x05\x00", b"\x05\x00\x00" + bound + b"\x00\x00", size=size)


@pytest.mark.parametrize("login", ["", LOGIN])
def test_every_method(login):
    for method in range(256):
        made = tunnel(login=login)
        if method == 0 or (method == 2 and login):
            assert not made.receive(bytes((5, method)))
            continue
        error = refusal(made, bytes((5, method)))
        assert error.is_proxy_login_rejected is (method == 255)
        says = f"chooses the method {method} to log in, which was not offered"
        if method == 255:
            says = "check user and password in proxy_url" if login else "requires a login: write user:password@ before"
        assert says in str(error)


def test_every_status_of_a_rejected_login():
    for status in range(1, 256):
        error = refusal(tunnel(login=LOGIN), b"\x05\x02", bytes((1, status)))
        assert f"the proxy rejects the login: check user and password in proxy_url (status {status})" in str(error)
        assert error.is_proxy_login_rejected


@pytest.mark.parametrize("rest", [b"", b"\x00\x01" + bytes(6), b"and more" * 100])
def test_every_refusal_is_named_and_is_no_rejected_login(rest):
    for code in range(1, 256):
        error = refusal(tunnel(), b"\x05\x00", bytes((5, code)) + rest)
        assert f"{SOCKS_REPLIES.get(code, 'unknown')} (SOCKS5 reply {code})" in str(error)
        assert not error.is_proxy_login_rejected


def test_every_unknown_type_of_address():
    for kind in set(range(256)) - {1, 3, 4}:
        assert f"unknown type {kind}" in str(refusal(tunnel(), b"\x05\x00", bytes((5, 0, 0, kind, 0))))


def test_another_protocol_is_noticed_at_the_first_byte_of_each_reply():
    for first in set(range(256)) - {5}:
        for replies in ([], [b"\x05\x00"]):
            error = refusal(tunnel(), *replies, bytes((first,)))
            assert "does not answer in SOCKS5, check the scheme of proxy_url" in str(error)
            assert not error.is_proxy_login_rejected
        if first != 1:
            refusal(tunnel(login=LOGIN), b"\x05\x02", bytes((first,)))


def test_an_http_proxy_that_is_asked_in_socks():
    error = refusal(tunnel(login=LOGIN), f"HTTP/1.1 400 Bad {SECRET} Request".encode() + bytes(4000))
    assert str(error).endswith(r": 'HTTP/1.1 400 Bad <hidden> Request\x00\x0'")


@pytest.mark.parametrize("replies", [[b"\x05\x00\x05"], [b"\x05\x00", CONNECTED + b"\x16"], [b"\x05\x00" + CONNECTED]])
def test_bytes_after_a_reply_are_refused(replies):
    """The next bytes belong to TLS or to Kafka, where the broker never sends first."""
    assert "more than its reply" in str(refusal(tunnel(), *replies))


# HTTP CONNECT


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize(
    ("target", "authority"),
    [("b1", "b1:9092"), ("10.1.2.3", "10.1.2.3:9092"), ("fe80::1%x\r\nEvil: 1", "[fe80::1]:9092")],
)
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200\r\nServer: x\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 299 \nServer: x\n\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (HEADER_BYTES_MAX - 30) + b"\r\n\r\n",
    ],
)
def test_http_without_login(target, authority, reply, size):
    (sent,) = drive(tunnel("http", target=target), reply, size=size)
    assert sent.decode() == f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"


def test_http_with_login():
    (sent,) = drive(tunnel("http", LOGIN), b"HTTP/1.1 200 OK\r\n\r\n")
    assert sent.decode().split("\r\n")[2:] == [f"Proxy-Authorization: Basic {BASIC}", "", ""]


def test_every_status_but_2xx_is_refused():
    for status in (*range(200), *range(300, 1000)):
        reply = f"HTTP/1.1 {status:03} Because\r\nA: b\r\n\r\n<html>some page</html>"
        error = refusal(tunnel("http"), reply.encode())
        assert f"'HTTP/1.1 {status:03} Because'" in str(error)
        assert "page" not in str(error)
        assert error.is_proxy_login_rejected is (status == 407)


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_a_proxy_that_requires_another_login(login, size):
    headers = "Proxy-Authenticate: Negotiate\r\nproxy-authenticate:NTLM\r\nProxy-Authenticate: NTLM abc\r\n"
    error = refusal(tunnel("http", login), f"HTTP/1.1 407 No\r\n{headers}\r\n".encode(), size=size)
    assert "'HTTP/1.1 407 No'; it accepts Negotiate, NTLM, this client has only Basic" in str(error)
    assert ("rejects the login" if login else "requires a login") in str(error)
    basic = refusal(tunnel("http", login), b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\n\r\n")
    assert "only Basic" not in str(basic)


@pytest.mark.parametrize("line", ["HTTP/1.1 20", "HTTP/1.1 2000 OK", "HTTP/1.1  200", "HTTP/1.x 200 OK", "HTTP/1.1"])
def test_malformed_status_lines(line):
    assert f"malformed status line: '{line}'" in str(refusal(tunnel("http"), f"{line}\r\n\r\n".encode()))


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize(
    "reply", [b"\x05\xff", b"SSH-2.0-OpenSSH\r\n", b"HTTP/2", b"http/1.1 200", b"\x15\x03\x01\0\2"]
)
def test_a_proxy_that_does_not_speak_http(reply, size):
    assert "does not answer in HTTP/1.1, check the scheme" in str(refusal(tunnel("http"), reply, size=size))


@pytest.mark.parametrize("size", [1, 4096])
def test_endless_headers_are_refused(size):
    made = tunnel("http")
    header = b"HTTP/1.1 200 OK\r\n" + b"a" * (HEADER_BYTES_MAX - 17)
    for at in range(0, HEADER_BYTES_MAX, size):
        assert not made.receive(header[at : at + size])
    with pytest.raises(KafkaConnectionError, match="headers of more than 16384 bytes"):
        made.receive(b"a")


def test_headers_that_end_too_late_are_refused():
    reply = b"HTTP/1.1 200 OK\r\nX: " + b"y" * HEADER_BYTES_MAX + b"\r\n\r\n"
    assert "headers of more than" in str(refusal(tunnel("http"), reply))


def test_bytes_after_the_headers_are_refused():
    reply = b"HTTP/1.1 200 OK\r\n\r\n\x16"
    assert "1 bytes more than its reply" in str(refusal(tunnel("http"), reply))


def test_what_the_proxy_says_is_cut_and_escaped_and_has_no_login():
    says = f"HTTP/1.1 503 \x1b[2J\tBasic {BASIC} {USER} {SECRET}\xff".encode("latin-1") + b"z" * 5000
    text = str(refusal(tunnel("http", LOGIN), says + b"\r\n\r\n"))
    assert r"\x1b[2J\tBasic <hidden> <hidden> <hidden>" in text
    assert text.endswith("z...'")


# Both


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize(
    ("host", "port"),
    [("b1\r\nEvil: 1", 1), ("", 1), ("b 1", 1), ("b1\0", 1), ("bü", 1), ("a" * 256, 1), ("b/1", 1), ("b@1", 1),
     ("b1", 0), ("b1", -1), ("b1", 65536)],
)  # fmt: skip
def test_names_that_brokers_advertise_cannot_change_the_request(scheme, host, port):
    with pytest.raises(KafkaConnectionError, match="a proxy cannot be asked for this host name or port"):
        tunnel(scheme, host=host, target=host, port=port)


@pytest.mark.parametrize(
    ("scheme", "replies"),
    [("socks5h", []), ("socks5h", [b"\x05\x00"]), ("socks5h", [b"\x05\x00", CONNECTED[:9]]), ("http", []),
     ("http", [b"HTTP/1.1 200 OK\r\n\r"])],
)  # fmt: skip
def test_an_early_end(scheme, replies):
    made = tunnel(scheme)
    for reply in replies:
        assert not made.receive(reply)
    with pytest.raises(KafkaConnectionError, match=r"b1:9092 \(.*the proxy has closed the connection within the"):
        made.receive(b"")


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_random_replies_end_in_a_typed_error_or_a_complete_handshake(scheme, login):
    rng = random.Random(1)
    starts = [b"", b"\x05\x00", b"\x05\x02\x01\x00", b"\x05\x00\x05\x00\x00", b"HTTP/1.1 ", b"HTTP/1.1 407 x\r\n"]
    ends = set()
    for _ in range(3000):
        made = tunnel(scheme, login)
        data = rng.choice(starts) + bytes(rng.choice(b"\0\1\2\3\4\5\r\n H\xff") for _ in range(rng.randrange(40)))
        size = rng.choice((1, 2, 50))
        try:
            end = any(made.receive(data[at : at + size]) for at in range(0, len(data), size)) or made.receive(b"")
        except KafkaConnectionError as error:
            assert error.host == "b1"
            end = "error"
        ends.add(end)
    assert ends <= {True, "error"}
    assert "error" in ends


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_no_repr_shows_the_login(scheme):
    made = tunnel(scheme, LOGIN)
    assert "s3cret" not in repr(made) + repr(made._login) + repr(Proxy.parse(f"{scheme}://{LOGIN}h"))
