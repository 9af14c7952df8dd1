"""A link on a workbench: no driver, no broker; the test plays both, one call at a time."""

from __future__ import annotations

import pytest

from thinconsumer.driver import Address
from thinconsumer.link.link import Link, LinkSettings
from thinconsumer.link.request import Request, Target
from thinconsumer.link.states import LinkState
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.header import decode_request_header, encode_response
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse

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
