"""A tap between a member's client and its connections, which reports requests of the group APIs when the client writes
them, and responses when the client has received them.

Checkers need the client's end: a response in flight has changed nothing in the client yet. The tap wraps the streams
that the client gives to its driver, so that client and network work as without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....driver import Dial, Endpoint, Hangup, Resolve, Stream
from ....errors import KafkaConnectionError
from ....wire import Message
from ....wire.apis import REQUESTS
from ....wire.find_coordinator import FindCoordinatorRequest
from ....wire.header import decode_request_header, decode_response_header
from ....wire.heartbeat import HeartbeatRequest
from ....wire.join_group import JoinGroupRequest
from ....wire.leave_group import LeaveGroupRequest
from ....wire.offset_commit import OffsetCommitRequest
from ....wire.offset_fetch import OffsetFetchRequest
from ....wire.sync_group import SyncGroupRequest
from ..driver import SimDriver
from ..network import SimNetwork
from ..world import World

SIZE = 4
#: What is read at all; of everything else only that it is there.
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


class Sent(NamedTuple):
    """A request that is on its way or unanswered; ``message`` is None if it is not about groups."""

    api_key: int
    version: int
    message: Message | None


#: Told of a connection's number and a request that was written to it, with those before it that are unanswered.
Said = Callable[[int, Sent, Sequence[Sent]], None]
#: Told of a connection's number, a request and the answer that has come.
Learned = Callable[[int, Sent, Message], None]
#: Told of a new connection's number, and of the host and port that it goes to.
Dialled = Callable[[int, str, int], None]


class ClientTap:
    """Wraps a stream, passes all calls on, and decodes the frames in both directions."""

    def __init__(self, inner: Stream, number: int, said: Said, learned: Learned, closed: Callable[[int], None]) -> None:
        self.inner = inner
        self.number = number
        self._said = said
        self._learned = learned
        self._closed = closed
        self._offered = b""
        self._room = memoryview(b"")
        self._out = b""
        self._in = bytearray()
        self._unanswered: deque[Sent] = deque()

    def connection_made(self, now: float) -> None:
        """Pass it on."""
        self.inner.connection_made(now)

    def get_buffer(self) -> memoryview:
        """Remember where bytes will be."""
        self._room = self.inner.get_buffer()
        return self._room

    def buffer_updated(self, size: int, now: float) -> bool:
        """Read what has come, before the client does: it may act on it at once."""
        self._in += self._room[:size]
        while len(self._in) >= SIZE:
            end = SIZE + int.from_bytes(self._in[:SIZE], "big")
            if len(self._in) < end:
                break
            frame = bytes(self._in[SIZE:end])
            del self._in[:end]
            self._hear(frame)
        return self.inner.buffer_updated(size, now)

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """Pass it on."""
        self._closed(self.number)
        self.inner.connection_lost(error, now)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Remember what may be written."""
        self._offered = b"".join(self.inner.data_to_send())
        return [self._offered] if self._offered else []

    def data_sent(self, size: int, now: float) -> None:
        """Read what was written."""
        self._out += self._offered[:size]
        self.inner.data_sent(size, now)
        while len(self._out) >= SIZE:
            end = SIZE + int.from_bytes(self._out[:SIZE], "big")
            if len(self._out) < end:
                break
            frame, self._out = self._out[SIZE:end], self._out[end:]
            self._say(frame)

    def hung_up(self) -> None:
        """The client has closed it."""
        self._closed(self.number)

    # -- inside

    def _say(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        message = None
        if header.api_key in GROUP_APIS:
            message = REQUESTS[header.api_key].decode(frame, header.api_version, header.body_offset)
        sent = Sent(header.api_key, header.api_version, message)
        before = tuple(self._unanswered)
        self._unanswered.append(sent)
        self._said(self.number, sent, before)

    def _hear(self, frame: bytes) -> None:
        if not self._unanswered:
            return
        sent = self._unanswered.popleft()
        if sent.message is None:
            return
        request = type(sent.message)
        _, start = decode_response_header(frame, request, sent.version)
        answer = request.RESPONSE
        assert answer is not None
        self._learned(self.number, sent, answer.decode(frame, sent.version, start))


class MemberDriver(SimDriver):
    """A driver that listens in on its connections."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        name: str,
        said: Said,
        learned: Learned,
        closed: Callable[[int], None],
        dialled: Dialled,
    ) -> None:
        super().__init__(world, network, name)
        self._dialled = dialled
        self._said = said
        self._learned = learned
        self._closed = closed
        self._numbers = 0
        self._heard: list[Callable[[], None]] = []

    def step(self, endpoint: Endpoint, deadline: float) -> bool:
        """Step; what has come is known to the client afterwards, and not when the first half of a batch was read."""
        try:
            return super().step(endpoint, deadline)
        finally:
            heard, self._heard = self._heard, []
            for tell in heard:
                tell()

    def gone(self, stream: Stream) -> None:
        """Forget a stream, by the name that the client has for it."""
        super().gone(stream.inner if isinstance(stream, ClientTap) else stream)

    def _carry_out(self, command: Dial | Hangup | Resolve) -> None:
        if not isinstance(command, Dial):
            connection = self._connections.get(id(command.stream)) if isinstance(command, Hangup) else None
            super()._carry_out(command)
            if connection is not None and isinstance(connection.stream, ClientTap):
                connection.stream.hung_up()
            return
        self._numbers += 1
        tap = ClientTap(command.stream, self._numbers, self._said, self._hear, self._end)
        self._dialled(self._numbers, command.host, command.address.sockaddr[1])
        self._connections[id(command.stream)] = self.network.dial(Dial(tap, command.host, command.address), self)

    def _hear(self, line: int, sent: Sent, response: Message) -> None:
        self._heard.append(lambda: self._learned(line, sent, response))

    def _end(self, line: int) -> None:
        self._heard.append(lambda: self._closed(line))
