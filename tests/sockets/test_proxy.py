"""Connections through proxies: handshakes on real sockets, and consumers behind real SOCKS5 and CONNECT proxies."""

import base64
import contextlib
import logging
import socket
import threading
import time
from functools import partial

import pytest
from proving.tunnels import ProxyServer

from thinconsumer import Consumer, NoBrokersAvailable
from thinconsumer.broker import BrokerProcess
from thinconsumer.config.proxy import Proxy
from thinconsumer.driver import Address, Dial, Via
from thinconsumer.errors import KafkaConnectionError, ProxyAuthenticationFailedError
from thinconsumer.network.proxy import open_tunnel
from thinconsumer.sockets.socket_connection import SocketState
from thinconsumer.sockets.tls import tls_transport
from thinconsumer.testing import CertificateAuthority

LOGIN = "us3r:s3cret%2Fword@"
CREDENTIALS = b"us3r", b"s3cret/word"
SCHEMES = ["socks5", "socks5h", "http"]

# Handshakes with a scripted proxy


def dial(world, listener, scheme="socks5h", stream=None, host="localhost", tunnel=None):
    """Order a connection to ``host`` through the proxy that the test plays at the listener."""
    own = world.address_of(listener)
    proxy = Proxy.parse(f"{scheme}://{LOGIN}{own}")
    address = Address(0, (host, 9092), Via(str(proxy), own))
    connection = Dial(stream, host, address, "broker", tunnel or partial(open_tunnel, proxy, host, address))
    world.orders.commands.append(connection)
    world.orders.unsent.append(stream)
    return stream


def asked(world, peer, size):
    """Return the ``size`` bytes that the proxy receives next."""
    peer.setblocking(False)
    got = b""

    def has_all():
        nonlocal got
        with contextlib.suppress(BlockingIOError):
            got += peer.recv(size - len(got))
        return len(got) == size

    world.run(has_all)
    peer.setblocking(True)
    return got


SOCKS_TALK = [
    (b"\x05\x02\x02\x00", b"\x05\x02"),
    (b"\x01\x04us3r\x0bs3cret/word", b"\x01\x00"),
    (b"\x05\x01\x00\x03\x09localhost\x23\x84", b"\x05\x00\x00\x01" + bytes(6)),
]
BASIC = base64.b64encode(b":".join(CREDENTIALS))
CONNECT = (
    b"CONNECT localhost:9092 HTTP/1.1\r\nHost: localhost:9092\r\nProxy-Authorization: Basic " + BASIC + b"\r\n\r\n"
)
HTTP_TALK = [(CONNECT, b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n")]
TALKS = {"socks5h": SOCKS_TALK, "http": HTTP_TALK}


def begin(world, scheme, stream):
    """Dial through a proxy with something to send; return the proxy's end of the connection."""
    listener = world.listen()
    dial(world, listener, scheme, stream)
    stream.outgoing.append(b"request")
    world.step()
    return world.accept(listener)


@pytest.mark.parametrize("scheme", TALKS)
@pytest.mark.parametrize("in_bytes", [False, True])
def test_a_stream_is_made_once_the_proxy_has_connected(world, make_stream, scheme, in_bytes):
    stream = make_stream()
    peer = begin(world, scheme, stream)
    for expected, reply in TALKS[scheme]:
        assert asked(world, peer, len(expected)) == expected
        assert not stream.calls
        for piece in [bytes((byte,)) for byte in reply] if in_bytes else [reply]:
            peer.sendall(piece)
            world.settle()
    assert asked(world, peer, 7) == b"request"
    assert stream.made == 1
    peer.sendall(b"response")
    world.run(lambda: stream.received == b"response")


@pytest.mark.parametrize("scheme", TALKS)
def test_tls_begins_behind_the_proxy(make_world, make_stream, scheme, client_context, server_context):
    """The certificate is checked for the broker's name, not for the proxy's."""
    world = make_world(transport=tls_transport(lambda: client_context))
    stream = make_stream()
    peer = begin(world, scheme, stream)
    for expected, reply in TALKS[scheme]:
        assert asked(world, peer, len(expected)) == expected
        peer.sendall(reply)
    got = []

    def serve():
        with server_context.wrap_socket(peer, server_side=True) as tls:
            got.append(tls.recv(100))

    thread = threading.Thread(target=serve)
    thread.start()
    world.run(lambda: stream.made and stream.sent == 7)
    thread.join(10)
    assert got == [b"request"]


@pytest.mark.parametrize("scheme", TALKS)
def test_an_early_end_at_every_stage(world, make_stream, count_fds, scheme):
    world.step()
    listener = world.listen()
    before = count_fds()
    for stages in range(len(TALKS[scheme])):
        for rest in (b"", TALKS[scheme][stages][1][:-1]):
            stream = dial(world, listener, scheme, make_stream())
            world.step()
            with world.accept(listener) as peer:
                for expected, reply in TALKS[scheme][:stages]:
                    asked(world, peer, len(expected))
                    peer.sendall(reply)
                asked(world, peer, len(TALKS[scheme][stages][0]))
                peer.sendall(rest)
            world.run(lambda stream=stream: stream.lost)
            assert "the proxy has closed the connection within the handshake" in str(stream.error)
            assert not stream.made
    assert count_fds() == before


def test_a_reset_and_a_refused_connection_name_proxy_and_broker(world, make_stream):
    listener = world.listen()
    stream = dial(world, listener, "socks5h", make_stream())
    world.step()
    peer = world.accept(listener)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    world.run(lambda: stream.lost)
    where = rf"localhost:9092 (through proxy socks5h://127.0.0.1:{listener.getsockname()[1]})"
    assert str(stream.error) == f"{where}: connection reset by the peer, during the handshake with the proxy"
    listener.close()
    stream = dial(world, world.listen(), "socks5h", make_stream())
    closed = Address(2, ("127.0.0.1", 1))
    address = Address(0, ("b1", 9092), Via("http://127.0.0.1:1", closed))
    world.orders.commands.clear()
    world.orders.commands.append(Dial(stream, "b1", address, "broker", lambda: None))
    world.run(lambda: stream.lost)
    says = "connection refused (nothing listens there), while connecting to the proxy"
    assert str(stream.error) == f"b1:9092 (through proxy http://127.0.0.1:1): {says}"
    assert not stream.error.is_handshake_cut


@pytest.mark.parametrize("reply", [b"\x05\x02\x00", b"GET", b"\x05\xff", b"z" * 100_000])
def test_a_hostile_reply_is_a_typed_error(world, make_stream, reply, count_fds):
    world.step()
    listener = world.listen()
    before = count_fds()
    stream = dial(world, listener, "socks5h", make_stream())
    world.step()
    with world.accept(listener) as peer:
        peer.sendall(reply)
        world.run(lambda: stream.lost)
    assert isinstance(stream.error, KafkaConnectionError)
    assert "s3cret" not in str(stream.error)
    assert stream.error.is_proxy_login_rejected is (reply == b"\x05\xff")
    assert count_fds() == before


def test_a_host_that_no_proxy_can_be_asked_for_fails_the_connection_only(world, make_stream):
    stream = dial(world, world.listen(), "http", make_stream(), host="b1\r\nEvil: 1")
    world.run(lambda: stream.lost)
    assert "a proxy cannot be asked for this host name or port" in str(stream.error)


def test_a_silent_proxy_causes_no_work_and_can_be_hung_up(world, make_stream, count_fds):
    world.step()
    listener = world.listen()
    before = count_fds()
    stream = dial(world, listener, "socks5h", make_stream())
    world.step()
    peer = world.accept(listener)
    asked(world, peer, 4)
    assert f"{world.driver._connections[id(stream)]!r}".endswith(f"fd={world._fd_of(stream)}>")
    assert world.driver._connections[id(stream)].state is SocketState.TUNNELLING
    returns = world.selector.returns
    world.step(0.1)
    assert world.selector.returns - returns <= 2
    world.hang_up(stream)
    world.step()
    peer.close()
    assert not stream.calls
    assert count_fds() == before


def test_a_long_request_waits_until_the_proxy_reads(world, make_stream):
    class LongTunnel:
        out = b"x" * 20_000_000

        def receive(self, data):
            return data == b"!"

    listener = world.listen()
    stream = dial(world, listener, stream=make_stream(), tunnel=LongTunnel)
    world.step()
    peer = world.accept(listener)
    assert asked(world, peer, 20_000_000) == LongTunnel.out
    peer.sendall(b"!")
    world.run(lambda: stream.made)


# Consumers behind a real proxy


@pytest.fixture(scope="module", params=["PLAINTEXT", "SSL"])
def cluster(request):
    """A broker that advertises the name localhost, and the options to connect to it."""
    protocol, authority = request.param, CertificateAuthority()
    more = authority.broker_settings("localhost", "kafka.internal") if protocol == "SSL" else {}
    security = {"security.protocol": protocol, **more}
    options = {"security_protocol": protocol, **(authority.client_options() if more else {})}
    with BrokerProcess(topics={"t": 1}, host="localhost", security=security) as broker:
        broker.produce("t", [b"1", b"2"], 0)
        yield broker, options


@pytest.fixture(scope="module")
def broker():
    with BrokerProcess(topics={"t": 1}) as process:
        process.produce("t", [b"1", b"2"], 0)
        yield process


@pytest.fixture
def resolver():
    """Resolves names, and notes them; behind a proxy that resolves them, only its own may be asked for."""
    names = []

    def resolve(host, port):
        names.append(host)
        return [Address(int(socket.AF_INET), ("127.0.0.1", port))]

    resolve.names = names
    return resolve


def consumer_at(servers, url, topic="t", **options):
    consumer = Consumer(auto_offset_reset="earliest", bootstrap_servers=servers, proxy_url=url, **options)
    consumer.assign([(topic, 0)])
    return consumer


def read(consumer, count, within=20):
    values, deadline = [], time.monotonic() + within
    while len(values) < count and time.monotonic() < deadline:
        values += [record.value for records in consumer.poll(100).values() for record in records]
    return values


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("login", [None, CREDENTIALS], ids=["open", "login"])
def test_a_consumer_reads_through_a_proxy(cluster, resolver, scheme, login):
    broker, options = cluster
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with ProxyServer(login=login) as proxy:
        url = f"{scheme}://{LOGIN if login else ''}proxy.test:{proxy.port}"
        bootstrap = f"kafka.internal:{port}"
        with consumer_at(bootstrap, url, resolver=resolver, **options) as consumer:
            assert read(consumer, 2) == [b"1", b"2"]
        if scheme == "socks5":
            assert set(resolver.names) == {"proxy.test", "kafka.internal", "localhost"}
            assert set(proxy.asked) == {("127.0.0.1", port)}
        else:
            assert set(resolver.names) == {"proxy.test"}
            assert set(proxy.asked) == {("kafka.internal", port), ("localhost", port)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_consumer_continues_after_its_proxy_was_killed(cluster, scheme):
    broker, options = cluster
    broker.create_topic(scheme)
    broker.produce(scheme, [b"1", b"2"], 0)
    proxy = ProxyServer()
    url = f"{scheme}://127.0.0.1:{proxy.port}"
    with consumer_at(broker.bootstrap_servers, url, scheme, reconnect_backoff_max_ms=100, **options) as consumer:
        with proxy:
            assert read(consumer, 2) == [b"1", b"2"]
        broker.produce(scheme, [b"3"], 0)
        assert read(consumer, 1, within=0.2) == []
        assert f"through proxy {url}" in repr(consumer)
        assert "while connecting to the proxy" in repr(consumer)
        with ProxyServer(port=proxy.port):
            assert read(consumer, 1) == [b"3"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("login", ["", "us3r:wr0ng-s3cret@"])
def test_a_rejected_login_of_the_proxy_is_raised_by_poll(broker, scheme, login, caplog):
    caplog.set_level(logging.DEBUG)
    with ProxyServer(login=CREDENTIALS) as proxy:
        url = f"{scheme}://{login}127.0.0.1:{proxy.port}"
        with consumer_at(broker.bootstrap_servers, url) as consumer:
            began = time.monotonic()
            with pytest.raises(ProxyAuthenticationFailedError, match=r"proxy (rejects the|requires a) login") as caught:
                consumer.poll(20_000)
            assert time.monotonic() - began < 15
            shown = f"{caught.value!r} {consumer.health()} {consumer!r} {caplog.text}"
    assert f"{broker.bootstrap_servers} (through proxy {scheme}://127.0.0.1:{proxy.port}): the proxy" in shown
    for secret in ("wr0ng", base64.b64encode(b"us3r:wr0ng-s3cret").decode()):
        assert secret not in shown
    assert not caught.value.retriable


@pytest.mark.parametrize(
    ("scheme", "answer", "says"),
    [
        ("socks5", b"\x05\x05\x00\x01" + bytes(6), "connection refused (SOCKS5 reply 5)"),
        ("http", b"HTTP/1.1 503 Service Unavailable\r\n\r\nbody", "'HTTP/1.1 503 Service Unavailable'"),
    ],
)
def test_a_broker_that_the_proxy_cannot_reach_is_tried_again(broker, scheme, answer, says):
    with ProxyServer() as proxy:
        proxy.answer = answer
        url = f"{scheme}://127.0.0.1:{proxy.port}"
        with consumer_at(broker.bootstrap_servers, url, bootstrap_timeout_ms=500) as consumer:
            with pytest.raises(NoBrokersAvailable) as caught:
                consumer.poll(20_000)
            cause = caught.value.causes[broker.bootstrap_servers]
            assert says in cause
            assert f"(through proxy {url})" in cause
            assert len(proxy.asked) > 1
            proxy.answer = None
            values, deadline = [], time.monotonic() + 20
            while not values and time.monotonic() < deadline:
                with contextlib.suppress(NoBrokersAvailable):  # on a busy machine, 0.5 s may pass again
                    values = read(consumer, 2)
            assert values == [b"1", b"2"]


def test_a_proxy_that_never_answers_is_named_after_the_setup_timeout(broker):
    with ProxyServer(mute=True) as proxy:
        url = f"socks5h://127.0.0.1:{proxy.port}"
        times = {"socket_connection_setup_timeout_ms": 200, "bootstrap_timeout_ms": 700}
        with (
            consumer_at(broker.bootstrap_servers, url, **times) as consumer,
            pytest.raises(NoBrokersAvailable) as caught,
        ):
            consumer.poll(20_000)
    cause = caught.value.causes[broker.bootstrap_servers]
    assert "timed out: no connection within " in cause
    assert f"(through proxy {url})" in cause


def test_a_proxy_whose_name_does_not_resolve_is_named(broker):
    def resolver(host, port):
        raise OSError("no such name")

    url = "http://us3r:s3cret@proxy.test:3128"
    with (
        consumer_at(broker.bootstrap_servers, url, resolver=resolver, bootstrap_timeout_ms=200) as consumer,
        pytest.raises(NoBrokersAvailable) as caught,
    ):
        consumer.poll(20_000)
    assert "DNS: proxy http://proxy.test:3128: no such name" in caught.value.causes[broker.bootstrap_servers]
