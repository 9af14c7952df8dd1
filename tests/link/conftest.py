"""A link on a workbench: no driver, no broker; the test plays both, one call at a time."""

from __future__ import annotations

import pytest

from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.link.link import Link, LinkSettings
from thinconsumer.link.request import Request, Target
from thinconsumer.link.route import Route, Shared
from thinconsumer.link.states import LinkState
from thinconsumer.timers import Backoff
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.header import decode_request_header, encode_response
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse

V4 = Address(2, ("10.0.0.1", 9092))
REFUSED = KafkaConnectionError("kafka:9092 (10.0.0.1:9092): connection refused, while connecting")  # as net words it
RANGES = {1: (4, 18), 2: (1, 11), 3: (0, 13), 18: (0, 5)}


def framed(data: bytes) -> bytes:
    """Put the size before a frame."""
    return len(data).to_bytes(4, "big") + data


class Bench:
    """One link, what it answered, and what it wrote."""

    def __init__(self, *, node_id=1, setup_timeout=10.0, now=0.0, **settings):
        settings = {"client_id": "me", "max_frame_bytes": 10_000_000, "max_in_flight": 5, "max_idle": 540.0} | settings
        self.now = now
        self.answers = []
        self.hangups = []
        address = Address(2, ("10.0.0.1", 9092))
        self.link = Link(
            LinkSettings(**settings),
            "kafka",
            address,
            node_id,
            setup_timeout,
            now,
            self.answers.append,
            self.hangups.append,
        )
        self.heard = []

    # -- as the driver

    def receive(self, data, size=None):
        """Hand bytes over, at most ``size`` at a time."""
        left = memoryview(data)
        while left:
            buffer = self.link.get_buffer()
            assert len(buffer) > 0
            step = min(len(buffer), len(left), size or len(left))
            buffer[:step] = left[:step]
            left = left[step:]
            self.link.buffer_updated(step, self.now)

    def write(self, size=None):
        """Take what waits to be written; whole requests are added to ``heard``."""
        data = b"".join(self.link.data_to_send())[:size]
        if data:
            self.link.data_sent(len(data), self.now)
        self.heard += requests_in(data)
        return data

    # -- as the broker

    def reply(self, message, *, version=None, correlation_id=None):
        """Answer the oldest request that was written and not answered."""
        self.write()
        header = self.heard.pop(0)
        self.receive(
            framed(
                encode_response(
                    message,
                    header.api_version if version is None else version,
                    header.correlation_id if correlation_id is None else correlation_id,
                )
            )
        )

    def api_versions(self, ranges=RANGES, **fields):
        """Return an ApiVersions response."""
        keys = [ApiVersion(api_key=key, min_version=a, max_version=b) for key, (a, b) in ranges.items()]
        return ApiVersionsResponse(api_keys=keys, **fields)

    # -- shortcuts

    def reach(self, state):
        """Bring the link into a state."""
        link = self.link
        if state is LinkState.CONNECTING:
            return self
        if state is LinkState.CLOSING:
            self.reach(LinkState.READY)
            link.close(None)
        elif state is LinkState.DISCONNECTED:
            link.connection_lost(None, self.now)
        else:
            link.connection_made(self.now)
            if state is not LinkState.NEGOTIATING:
                self.reply(self.api_versions())
        assert link.state is state
        return self

    def request(self, api=MetadataRequest, *, allowance=30.0, **more):
        """Make a request."""
        build = more.pop("build", lambda version: api())
        return Request("test", api, Target(1), build, self.now + allowance, **more)

    def send(self, request=None, **more):
        """Write a request."""
        request = request or self.request(**more)
        self.link.send(request, self.now, request.deadline, self.now)
        return request

    def answer_to(self, request):
        """Return the one answer that a request got."""
        (answer,) = [answer for answer in self.answers if answer.request is request]
        return answer


def requests_in(data):
    """Return the headers of the requests in these bytes."""
    headers = []
    while data:
        stop = 4 + int.from_bytes(data[:4], "big")
        if len(data) < stop:
            break
        headers.append(decode_request_header(data[4:stop]))
        data = data[stop:]
    return headers


class NoJitter:
    """Always the middle."""

    def random(self):
        return 0.5

    def randrange(self, stop):
        return 0


class Road:
    """One route; the test is driver, resolver and broker."""

    def __init__(self, host="kafka", new_login=None, rng=None, in_flight=5):
        settings = LinkSettings("me", 10_000_000, in_flight, 540.0, new_login)
        backoff, setup = Backoff(0.05, 1.0), Backoff(10.0, 30.0)
        self.shared = Shared(settings, backoff, setup, rng or NoJitter())
        self.route = Route(self.shared, host, 9092, 1)
        self.now = 0.0
        self.heard = []

    def step(self, seconds=0.0, **more):
        self.now += seconds
        self.route.step(self.now, self.now, **more)

    def send(self, allowance=30.0, **more):
        request = Request("test", MetadataRequest, Target(1), lambda v: MetadataRequest(), self.now + allowance, **more)
        self.shared.unanswered[request] = None
        self.route.send(request, self.now)
        return request

    def resolve(self, *addresses, error=""):
        """Answer the one lookup there is."""
        resolve = self.shared.book.take_command()
        assert (resolve.host, resolve.port) == (self.route.host, 9092)
        self.shared.book.resolved(resolve.host, resolve.port, addresses, error)
        self.step()

    def dialled(self):
        """Return the addresses dialled since this was last asked."""
        commands, self.shared.commands = self.shared.commands, []
        for command in commands:
            if isinstance(command, Hangup):
                command.stream.hung_up()
        return [command.address for command in commands if isinstance(command, Dial)]

    def fail(self, error=REFUSED):
        """Let the connection attempt under way fail."""
        self.route.link.connection_lost(error, self.now)
        self.step()

    def reach(self):
        """Make the connection that is under way ready."""
        self.route.link.connection_made(self.now)
        keys = [ApiVersion(api_key=3, min_version=0, max_version=13)]
        self.reply(ApiVersionsResponse(api_keys=keys))
        self.step()
        assert self.route.ready

    def connect(self):
        """Do all it takes."""
        self.step(wanted=True)
        self.resolve(V4)
        self.reach()
        self.dialled()
        return self

    def hear(self):
        """Take what was written."""
        data = b"".join(self.route.link.data_to_send())
        if data:
            self.route.link.data_sent(len(data), self.now)
        self.heard += requests_in(data)
        return self.heard

    def reply(self, message):
        """Answer the oldest request."""
        self.hear()
        header = self.heard.pop(0)
        data = framed(encode_response(message, header.api_version, header.correlation_id))
        self.route.link.get_buffer()[: len(data)] = data
        self.route.link.buffer_updated(len(data), self.now)

    def answer_to(self, request):
        (answer,) = [answer for answer in self.shared.answers if answer.request is request]
        return answer

    @property
    def unanswered(self):
        return not self.shared.answers


@pytest.fixture(scope="session")
def bench():
    """Return the class of workbenches."""
    return Bench


@pytest.fixture
def ready():
    """A link that is ready."""
    return Bench().reach(LinkState.READY)


@pytest.fixture
def metadata():
    """Return a response that has a few bytes of content."""
    return MetadataResponse(cluster_id="c", controller_id=7)


@pytest.fixture
def make_frame():
    """Return what puts a size before a frame."""
    return framed


@pytest.fixture(scope="session")
def make_road():
    """Return the class of roads."""
    return Road


@pytest.fixture
def road():
    """A route to which nothing has happened."""
    return Road()
