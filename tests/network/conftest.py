"""Connections and routes without driver and broker: the test plays both, one call at a time."""

from collections import deque

import pytest

from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.network.addresses import AddressBook
from thinconsumer.network.connection import Connection, ConnectionSettings
from thinconsumer.network.request import Request, Target
from thinconsumer.network.route import BrokerRoute, RouteContext
from thinconsumer.network.states import ConnectionState
from thinconsumer.support.timers import NEVER, Backoff
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer_testing.broker.wire.requests import decode_request_header, encode_response

V4 = Address(2, ("10.0.0.1", 9092))
REFUSED = KafkaConnectionError("kafka:9092 (10.0.0.1:9092): connection refused, while connecting")  # as net does
RANGES = {1: (4, 18), 2: (1, 11), 3: (0, 13), 18: (0, 5)}


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class NoJitter:
    def random(self):
        return 0.5

    def randrange(self, stop):
        return 0


def context(settings, rng=None):
    commands, backoff, setup = deque(), Backoff(0.05, 1.0), Backoff(10.0, 30.0)
    return RouteContext(settings, backoff, setup, rng or NoJitter(), commands, AddressBook(commands))


class ConnectionBench:
    """One connection, its answers, and the requests that it wrote."""

    def __init__(self, *, node_id=1, setup_timeout=10.0, now=0.0, connect_by=NEVER, **settings):
        settings = {"client_id": "me", "max_frame_bytes": 10_000_000, "max_in_flight": 5, "max_idle": 540.0} | settings
        self.now = now
        settings = ConnectionSettings(**settings)
        shared = context(settings)
        self.answers, self.commands = shared.answers, shared.commands
        self.polls, self.agenda = shared.polls, shared.agenda
        self.queued = []
        about = "kafka", Address(2, ("10.0.0.1", 9092)), node_id, setup_timeout, now, connect_by
        self.connection = Connection(shared, settings, *about, lambda: self.agenda.alarm("connection"), self.queued)
        self.written = []

    @property
    def hangups(self):
        return [command.stream for command in self.commands if isinstance(command, Hangup)]

    # -- as the driver

    def receive(self, data, size=None, polled_at=None):
        """Hand bytes over, at most ``size`` at a time; I/O was last polled now, or at ``polled_at``."""
        self.polls.read_at = self.polls.after = self.now if polled_at is None else polled_at
        left = memoryview(data)
        while left:
            buffer = self.connection.get_buffer()
            assert len(buffer) > 0
            step = min(len(buffer), len(left), size or len(left))
            buffer[:step] = left[:step]
            left = left[step:]
            self.connection.buffer_updated(step, self.now)

    def write(self, size=None):
        """Take the bytes that wait to be written; add whole requests to ``written``."""
        data = b"".join(self.connection.data_to_send())[:size]
        if data:
            self.connection.data_sent(len(data), self.now)
        self.written += requests_in(data)
        return data

    # -- as the broker

    def reply(self, message, *, version=None, correlation_id=None, polled_at=None):
        """Answer the oldest request that was written and not answered."""
        self.write()
        header = self.written.pop(0)
        self.receive(
            framed(
                encode_response(
                    message,
                    header.api_version if version is None else version,
                    header.correlation_id if correlation_id is None else correlation_id,
                )
            ),
            polled_at=polled_at,
        )

    def api_versions(self, ranges=RANGES, **fields):
        keys = [ApiVersion(api_key=key, min_version=a, max_version=b) for key, (a, b) in ranges.items()]
        return ApiVersionsResponse(api_keys=keys, **fields)

    # -- shortcuts

    def step(self, horizon=None):
        """Step now; I/O was last polled now, or at ``horizon``."""
        self.polls.horizon = self.now if horizon is None else horizon
        self.connection.step(self.now)

    def due(self):
        """Return when the connection has something to do even if nothing is received."""
        self.step(horizon=-NEVER)
        return self.connection.deadline.at

    def reach(self, state):
        connection = self.connection
        if state is ConnectionState.CONNECTING:
            return self
        if state is ConnectionState.DISCONNECTED:
            connection.connection_lost(None, self.now)
        else:
            connection.connection_made(self.now)
            if state is not ConnectionState.NEGOTIATING:
                self.reply(self.api_versions())
        assert connection.state is state
        return self

    def request(self, api=MetadataRequest, *, allowance=30.0, **more):
        build = more.pop("build", lambda version: api())
        return Request("test", api, Target(1), build, self.now + allowance, **more)

    def send(self, request=None, **more):
        request = request or self.request(**more)
        self.connection.send(request, self.now, request.deadline, self.now)
        return request

    def answer_to(self, request):
        (answer,) = [answer for answer in self.answers if answer.request is request]
        return answer


def requests_in(data):
    headers = []
    while data:
        stop = 4 + int.from_bytes(data[:4], "big")
        if len(data) < stop:
            break
        headers.append(decode_request_header(data[4:stop]))
        data = data[stop:]
    return headers


class RouteBench:
    """One route; the test is its driver, resolver and broker."""

    def __init__(self, host="kafka", new_login=None, rng=None, in_flight=5):
        settings = ConnectionSettings("me", 10_000_000, in_flight, 540.0, new_login=new_login)
        self.shared = context(settings, rng)
        self.route = BrokerRoute(self.shared, host, 9092, 1)
        self.now = 0.0
        self.written = []

    def step(self, seconds=0.0, **more):
        self.now += seconds
        self.shared.polls.horizon = self.shared.polls.after = self.now
        self.route.step(self.now, **more)

    def due(self):
        self.shared.agenda.take(self.now)  # drops what has come up too early
        return self.shared.agenda.next()

    def send(self, allowance=30.0, **more):
        request = Request("test", MetadataRequest, Target(1), lambda v: MetadataRequest(), self.now + allowance, **more)
        self.route.send(request, self.now)
        return request

    def resolve(self, *addresses, error=""):
        resolve = self.shared.commands.pop()
        assert (resolve.host, resolve.port) == (self.route.host, 9092)
        self.shared.book.resolved(resolve.host, resolve.port, addresses, error)
        self.step()

    def dialled(self):
        """Return the addresses dialled since the last call."""
        commands = list(self.shared.commands)
        self.shared.commands.clear()
        return [command.address for command in commands if isinstance(command, Dial)]

    @property
    def newest(self):
        return self.route.connections()[-1]

    def fail(self, error=REFUSED):
        self.newest.connection_lost(error, self.now)
        self.step()

    def reach(self):
        """Make the newest attempt ready."""
        self.newest.connection_made(self.now)
        keys = [ApiVersion(api_key=3, min_version=0, max_version=13)]
        self.reply(ApiVersionsResponse(api_keys=keys))
        self.step()
        assert self.route.is_ready

    def dial(self, *addresses, error=""):
        """Send a request and answer the lookup that it causes; return the request."""
        request = self.send()
        self.step()
        self.resolve(*addresses, error=error)
        return request

    def dial_unasked(self, *addresses, error=""):
        self.step(wanted=True)
        self.resolve(*addresses, error=error)

    def connect(self):
        """Look up the name and make a connection ready."""
        self.dial_unasked(V4)
        self.reach()
        self.dialled()
        return self

    def answer(self, message=None):
        self.send()
        self.step()
        self.written.clear()
        self.reply(message or MetadataResponse())
        self.step()
        return self

    def reply_to(self, request):
        self.reply(MetadataResponse())
        assert self.answer_to(request).response is not None

    def read_requests(self):
        """Take the bytes that were written; return the headers of requests without an answer."""
        data = b"".join(self.newest.data_to_send())
        if data:
            self.newest.data_sent(len(data), self.now)
        self.written += requests_in(data)
        return self.written

    def reply(self, message):
        self.read_requests()
        header = self.written.pop(0)
        data = framed(encode_response(message, header.api_version, header.correlation_id))
        connection = self.newest
        connection.get_buffer()[: len(data)] = data
        connection.buffer_updated(len(data), self.now)

    def answer_to(self, request):
        (answer,) = [answer for answer in self.shared.answers if answer.request is request]
        return answer

    @property
    def unanswered(self):
        return not self.shared.answers


@pytest.fixture(scope="session")
def bench():
    return ConnectionBench


@pytest.fixture
def ready():
    return ConnectionBench().reach(ConnectionState.READY)


@pytest.fixture
def metadata():
    return MetadataResponse(cluster_id="c", controller_id=7)


@pytest.fixture
def make_frame():
    return framed


@pytest.fixture(scope="session")
def make_route_bench():
    return RouteBench


@pytest.fixture
def route_bench():
    return RouteBench()
