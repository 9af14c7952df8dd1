"""A driver over real loopback sockets, with streams that record the calls they get.

Nothing here sleeps: a test drives steps until something has happened, or fails at a deadline.
"""

import os
import select
import selectors
import socket
import ssl
from collections import deque

import pytest
import trustme

from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.sockets import SelectorDriver
from thinconsumer.sockets.socket_selector import EpollSockets
from thinconsumer.support.agenda import Agenda

SELECTORS = [
    getattr(selectors, name)
    for name in ("EpollSelector", "KqueueSelector", "PollSelector", "SelectSelector")
    if hasattr(selectors, name)
]
SELECTORS = [*([EpollSockets] if hasattr(select, "epoll") else []), *SELECTORS]
PATIENCE = 10.0


class RecordingStream:
    """Receives all bytes, notes all calls, sends the bytes in ``outgoing``."""

    def __init__(self, buffer_bytes=4096):
        self.made = 0
        self.received = bytearray()
        self.sizes = []
        self.lost = []
        self.outgoing = deque()
        self.sent = 0
        self.calls = []
        self.on_call = lambda name: None
        #: Size of a message; fewer received bytes are a part of it.
        self.message_bytes = 0
        self._buffer = memoryview(bytearray(buffer_bytes))

    def _note(self, name):
        assert not self.lost or name == "lost", f"{name} after connection_lost"
        self.calls.append(name)
        self.on_call(name)

    @property
    def error(self):
        """The error of ``connection_lost``; fails before that call."""
        (error,) = self.lost
        return error

    def connection_made(self, now):
        self.made += 1
        self._note("made")

    def get_buffer(self):
        return self._buffer

    def buffer_updated(self, size, now):
        assert 0 < size <= len(self._buffer)
        self.received += self._buffer[:size]
        self.sizes.append(size)
        self._note("received")
        return len(self.received) < self.message_bytes

    def connection_lost(self, error, now):
        self.lost.append(error)
        self._note("lost")

    def data_to_send(self):
        return tuple(self.outgoing)

    def data_sent(self, size, now):
        self.sent += size
        while size:
            chunk = self.outgoing.popleft()
            if len(chunk) > size:
                self.outgoing.appendleft(memoryview(chunk)[size:])
                break
            size -= len(chunk)
        self._note("sent")


class Orders:
    """An endpoint with the commands that the test appends."""

    def __init__(self):
        self.agenda = Agenda()
        self.commands = deque()
        self.answers = []
        self.unsent = []  #: All streams, since each may have bytes to send.

    def resolved(self, host, port, addresses, error, now):
        self.answers.append((host, port, list(addresses), error))


def counting(selector_class):
    """Return a subclass that counts how often its wait returned."""
    name = "wait" if selector_class is EpollSockets else "select"

    def wait(self, seconds=None):
        result = getattr(super(Counting, self), name)(seconds)
        self.returns += 1
        return result

    Counting = type("Counting", (selector_class,), {"returns": 0, name: wait})
    return Counting


class World:
    """One driver, one endpoint, and the peers they talk to."""

    def __init__(self, selector_class=selectors.DefaultSelector, **options):
        self.selector = counting(selector_class)()
        self.driver = SelectorDriver(selector=lambda: self.selector, **options)
        self.orders = Orders()
        self.sockets = []

    def listen(self, host="127.0.0.1", backlog=None):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, 0), family=family, backlog=backlog)
        listener.settimeout(PATIENCE)
        self.sockets.append(listener)
        return listener

    @staticmethod
    def address_of(listener):
        return Address(int(listener.family), listener.getsockname())

    def dial(self, where, stream=None, host="localhost", purpose="broker"):
        """Order a connection; where is a listener or an Address."""
        stream = stream or RecordingStream()
        address = where if isinstance(where, Address) else self.address_of(where)
        self.orders.commands.append(Dial(stream, host, address, purpose))
        self.orders.unsent.append(stream)
        return stream

    def hang_up(self, stream):
        self.orders.commands.append(Hangup(stream))

    def step(self, seconds=0.0):
        return self.driver.step(self.orders, self.driver.now() + seconds)

    def run(self, until, within=PATIENCE):
        deadline = self.driver.now() + within
        while not until():
            assert self.driver.now() < deadline, "it did not happen in time"
            self.driver.step(self.orders, min(deadline, self.driver.now() + 0.02))

    def settle(self):
        """Step until a poll finds nothing to do."""
        while self.step():
            pass

    def accept(self, listener):
        peer, _ = listener.accept()
        peer.settimeout(PATIENCE)
        # Nagle would hold small pieces back, and a reset discards what is held back.
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(peer)
        return peer

    def connect(self, listener=None, stream=None):
        listener = listener or self.listen()
        stream = self.dial(listener, stream)
        self.run(lambda: stream.made)
        return stream, self.accept(listener)

    def _fd_of(self, stream):
        return self.driver._connections[id(stream)]._fd

    def await_bytes(self, stream, count):
        """Wait until the kernel holds that many bytes for the stream: even loopback may take a while."""
        fd = self._fd_of(stream)
        with socket.socket(fileno=os.dup(fd)) as copy, selectors.DefaultSelector() as selector:
            selector.register(copy, selectors.EVENT_READ)
            while True:
                assert selector.select(PATIENCE), "nothing arrived"
                if len(copy.recv(count, socket.MSG_PEEK)) >= count:
                    return

    def await_reset(self, stream):
        """Wait until the kernel knows that the stream's connection is broken."""
        poll = select.poll()
        poll.register(self._fd_of(stream), 0)
        assert poll.poll(PATIENCE * 1000), "no reset arrived"

    def interest(self):
        """Return what each connection is watched for, without the wake-up socket."""
        if self.driver._sockets is None:
            return []
        waker = self.driver._waker._reader.fileno()
        return [mask for fd, mask in self.driver.sockets._masks.items() if fd != waker]

    def close(self):
        self.driver.close()
        for sock in self.sockets:
            sock.close()


class TlsServer:
    """A TLS server on one connection, which goes on only while the test steps it."""

    def __init__(self, raw, context):
        raw.setblocking(False)
        self.tls = context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        self.shaken = self.closed = False
        self.got = bytearray()

    def step(self):
        """Go on with the handshake, then receive; close as soon as either has failed, as a broker does."""
        if self.closed:
            return
        try:
            if not self.shaken:
                self.tls.do_handshake()
                self.shaken = True
            self.got += self.tls.recv(1 << 16)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.tls.close()
            self.closed = True


@pytest.fixture
def connect_tls(closed_at_end):
    """Return a function that connects a world to a TLS server; the connection may fail."""

    def connect(world, context, *, listener=None, host="localhost", request=b"request", purpose="broker"):
        listener = listener or world.listen()
        stream = world.dial(listener, host=host, purpose=purpose)
        if request:
            stream.outgoing.append(request)
        world.step()
        raw, _ = listener.accept()
        server = TlsServer(raw, context)
        closed_at_end(server.tls)

        def going_on():
            server.step()
            return stream.lost or (stream.made and server.shaken and len(server.got) >= len(request))

        world.run(going_on)
        return stream, server

    return connect


@pytest.fixture(params=SELECTORS, ids=lambda cls: cls.__name__)
def selector_class(request):
    return request.param


@pytest.fixture
def make_world(closed_at_end):
    return lambda *args, **options: closed_at_end(World(*args, **options))


@pytest.fixture
def world(make_world, selector_class):
    return make_world(selector_class)


@pytest.fixture
def make_stream():
    return RecordingStream


@pytest.fixture
def count_fds():
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return lambda: len(os.listdir(folder))
    pytest.skip("this system does not say which descriptors are open")


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture(scope="session")
def client_context(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture(scope="session")
def server_context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # They would be on their way at some time after the handshake, among a test's own bytes.
    authority.issue_cert("localhost").configure_cert(context)
    return context
