"""Reads the requests and responses of groups at a client's own sockets.

A checker must compare what a client does with the responses it has read: a response that is still on its way changes
nothing yet. :class:`ClientTap` sits between a driver and a stream, so neither the network nor the client sees it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ...driver import Dial, Endpoint, Hangup, Resolve, Stream
from ...errors import KafkaConnectionError
from ...wire import Message
from ...wire.apis import REQUESTS
from ...wire.find_coordinator import FindCoordinatorRequest
from ...wire.header import decode_request_header, decode_response_header
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.leave_group import LeaveGroupRequest
from ...wire.offset_commit import OffsetCommitRequest
from ...wire.offset_fetch import OffsetFetchRequest
from ...wire.sync_group import SyncGroupRequest
from .driver import SimDriver
from .network import SimNetwork
from .world import World

SIZE = 4
#: The APIs whose messages are decoded; of others only the API key is noted.
GROUP_APIS: frozenset[int] = frozenset(
    api.API_KEY
    for api in (
        FindCoordinatorRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
    )
)


class SentRequest(NamedTuple):
    """A request that was written; ``message`` is None if its API is not one of :data:`GROUP_APIS`."""

    api_key: int
    version: int
    message: Message | None


class ConnectionEvents(Protocol):
    """Receives the events of a client's connections, each with the connection's number."""

    def connection_opened(self, line: int, host: str, port: int) -> None:
        """The client connects to an address."""

    def request_written(self, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        """The client wrote a request; the requests ``before`` are unanswered."""

    def response_read(self, line: int, sent: SentRequest, response: Message) -> None:
        """The client read the response to a group request."""

    def connection_closed(self, line: int) -> None:
        """The client closed the connection, or noticed that it was lost."""


def take_frames(data: bytearray) -> list[bytes]:
    """Remove the complete frames from the front of ``data`` and return them without their sizes."""
    frames = []
    while len(data) >= SIZE and len(data) >= (end := SIZE + int.from_bytes(data[:SIZE], "big")):
        frames.append(bytes(data[SIZE:end]))
        del data[:end]
    return frames


class ClientTap:
    """A stream around a client's stream, that passes everything on."""

    def __init__(
        self,
        inner: Stream,
        written: Callable[[SentRequest, Sequence[SentRequest]], None],
        read: Callable[[SentRequest, Message], None],
        closed: Callable[[], None],
    ) -> None:
        self.inner = inner
        self.closed = closed
        self._written = written
        self._read = read
        self._offered = b""
        self._room = memoryview(b"")
        self._out = bytearray()
        self._in = bytearray()
        self._unanswered: deque[SentRequest] = deque()

    def connection_made(self, now: float) -> None:
        """Pass it on."""
        self.inner.connection_made(now)

    def get_buffer(self) -> memoryview:
        """Return the client's buffer, and keep it to read the bytes there."""
        self._room = self.inner.get_buffer()
        return self._room

    def buffer_updated(self, size: int, now: float) -> bool:
        """Read responses before the client does: it may act on them at once."""
        self._in += self._room[:size]
        for frame in take_frames(self._in):
            self._response(frame)
        return self.inner.buffer_updated(size, now)

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """Report the end, and pass it on."""
        self.closed()
        self.inner.connection_lost(error, now)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return the client's bytes, and keep them to read those that are sent."""
        self._offered = b"".join(self.inner.data_to_send())
        return [self._offered] if self._offered else []

    def data_sent(self, size: int, now: float) -> None:
        """Read the requests that were sent."""
        self._out += self._offered[:size]
        self.inner.data_sent(size, now)
        for frame in take_frames(self._out):
            self._request(frame)

    # -- inside

    def _request(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        message = None
        if header.api_key in GROUP_APIS:
            message = REQUESTS[header.api_key].decode(frame, header.api_version, header.body_offset)
        sent = SentRequest(header.api_key, header.api_version, message)
        before = tuple(self._unanswered)
        self._unanswered.append(sent)
        self._written(sent, before)

    def _response(self, frame: bytes) -> None:
        if not self._unanswered:
            return
        sent = self._unanswered.popleft()
        if sent.message is None:
            return
        request = type(sent.message)
        _, start = decode_response_header(frame, request, sent.version)
        answer = request.RESPONSE
        assert answer is not None
        self._read(sent, answer.decode(frame, sent.version, start))


class TappedDriver(SimDriver):
    """A driver with a tap on each connection."""

    def __init__(self, world: World, network: SimNetwork, name: str, events: ConnectionEvents) -> None:
        super().__init__(world, network, name)
        self._events = events
        self._numbers = 0
        self._after_step: list[Callable[[], None]] = []

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Step, and then report what was read: the client acts on a batch of responses only when it has all of it."""
        try:
            return super().step(endpoint, deadline)
        finally:
            after, self._after_step = self._after_step, []
            for report in after:
                report()

    def gone(self, stream: Stream) -> None:
        """Forget the client's stream."""
        super().gone(stream.inner if isinstance(stream, ClientTap) else stream)

    def _carry_out(self, command: Dial | Hangup | Resolve) -> None:
        if isinstance(command, Dial):
            self._numbers += 1
            tap = self._new_tap(command.stream, self._numbers)
            self._events.connection_opened(self._numbers, command.host, command.address.sockaddr[1])
            dial = Dial(tap, command.host, command.address)
            self._connections[id(command.stream)] = self.network.dial(dial, self)
            return
        connection = self._connections.get(id(command.stream)) if isinstance(command, Hangup) else None
        super()._carry_out(command)
        if connection is not None and isinstance(connection.stream, ClientTap):
            connection.stream.closed()

    def _new_tap(self, stream: Stream, line: int) -> ClientTap:
        events = self._events
        return ClientTap(
            stream,
            lambda sent, before: events.request_written(line, sent, before),
            lambda sent, response: self._after_step.append(lambda: events.response_read(line, sent, response)),
            lambda: self._after_step.append(lambda: events.connection_closed(line)),
        )
