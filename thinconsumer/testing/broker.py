"""A scripted broker: decodes requests with our codec, answers each API by a function, and remembers everything.

Owns the server's side of the protocol's outer layer: framing, headers, ApiVersions, one request at a time per
connection and answers in order. What an API answers is the table's business: see :mod:`.handlers` for ready-made
ones. It shares the codec with the client, so that a mistake made twice shows only on real brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import KafkaProtocolError
from ..wire import Message
from ..wire.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ..wire.apis import REQUESTS
from ..wire.error_codes import Code
from ..wire.header import RequestHeader, decode_request_header, encode_response
from .peer import Conversation, PeerConnection

#: What a 4.x broker speaks, by API key: lowest and highest version.
VERSIONS_4X: Mapping[int, tuple[int, int]] = {
    0: (0, 13),  # Produce
    1: (4, 18),  # Fetch
    2: (1, 11),  # ListOffsets
    3: (0, 13),  # Metadata
    8: (2, 10),  # OffsetCommit
    9: (1, 10),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 6),  # DescribeGroups
    16: (0, 5),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 4),  # ApiVersions
    19: (2, 7),  # CreateTopics
    20: (1, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (2, 4),  # OffsetForLeaderEpoch
    24: (0, 5),  # AddPartitionsToTxn
    25: (0, 4),  # AddOffsetsToTxn
    26: (0, 5),  # EndTxn
    28: (0, 5),  # TxnOffsetCommit
    32: (1, 4),  # DescribeConfigs
    36: (0, 2),  # SaslAuthenticate
    37: (0, 3),  # CreatePartitions
    42: (0, 2),  # DeleteGroups
    60: (0, 2),  # DescribeCluster
    68: (0, 1),  # ConsumerGroupHeartbeat
}


@dataclass(frozen=True, slots=True)
class Delay:
    """Answer after ``seconds``, or as soon as ``ready()`` is true when the broker is poked. Later requests wait."""

    seconds: float
    reply: Callable[[], Message] | Message
    ready: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Never answer; what comes later on this connection is not read either."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an answer; ``reset`` breaks it off."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Raw:
    """Send these bytes instead of an answer: a frame with its size, or whatever."""

    data: bytes


Reply = Message | Delay | Silence | Disconnect | Raw
#: Called with the decoded request, its version, and the connection it came on.
Handler = Callable[[Any, int, "BrokerConnection"], Reply]


class Received(NamedTuple):
    """One request as it came in."""

    at: float  #: Virtual monotonic seconds.
    api: type[Message]
    version: int
    message: Any
    correlation_id: int
    client_id: str | None
    connection: BrokerConnection


class ScriptedBroker:
    """Implements :class:`~.peer.Peer`. Change :attr:`handlers` and :attr:`versions` at any time.

    ``handlers`` maps request classes to functions; an API without one closes the connection and is noted in
    :attr:`complaints`, like everything else a real broker would not have taken.
    """

    def __init__(
        self,
        node_id: int = 0,
        host: str = "broker",
        port: int = 9092,
        *,
        versions: Mapping[int, tuple[int, int]] = VERSIONS_4X,
        handlers: Mapping[type[Message], Handler] | None = None,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.versions = dict(versions)
        self.handlers: dict[type[Message], Handler] = {ApiVersionsRequest: self._api_versions, **(handlers or {})}
        self.requests: list[Received] = []  #: Everything that came in, ApiVersions too.
        self.complaints: list[str] = []
        self.connections: list[BrokerConnection] = []  #: Those that are open.

    def __repr__(self) -> str:
        return f"<ScriptedBroker {self.node_id} {self.host}:{self.port}>"

    def connection_made(self, connection: PeerConnection) -> Conversation:
        """Accept a connection."""
        conversation = BrokerConnection(self, connection)
        self.connections.append(conversation)
        return conversation

    def received(self, api: type[Message]) -> list[Any]:
        """Return the requests of one API, in order."""
        return [received.message for received in self.requests if received.api is api]

    def poke(self) -> None:
        """Look again whether delayed answers are ready."""
        for connection in list(self.connections):
            connection.poke()

    def answer_once(self, api: type[Message], *replies: Reply) -> None:
        """Answer the next requests of an API with these, one each; then as before."""
        before = self.handlers.get(api)
        left = deque(replies)

        def handle(request: Any, version: int, connection: BrokerConnection) -> Reply:
            if left:
                reply = left.popleft()
                if not left:
                    self._restore(api, before)
                return reply
            return Disconnect()

        self.handlers[api] = handle

    def _restore(self, api: type[Message], handler: Handler | None) -> None:
        if handler is None:
            del self.handlers[api]
        else:
            self.handlers[api] = handler

    def _api_versions(self, request: Any, version: int, connection: BrokerConnection) -> Reply:
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.versions.items()]
        )


class BrokerConnection:
    """One connection to a scripted broker: frames, order, and what is delayed."""

    def __init__(self, broker: ScriptedBroker, connection: PeerConnection) -> None:
        self.broker = broker
        self.connection = connection
        self._buffer = bytearray()
        self._waiting: deque[bytes] = deque()
        self._busy: _Pending | None = None

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.connection.now()

    def data_received(self, data: bytes) -> None:
        """Cut frames; answer them in order."""
        self._buffer += data
        while len(self._buffer) >= 4:
            stop = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < stop:
                break
            self._waiting.append(bytes(self._buffer[4:stop]))
            del self._buffer[:stop]
        self._go_on()

    def connection_lost(self) -> None:
        """Forget everything that is under way."""
        self._waiting.clear()
        self._busy = None
        if self in self.broker.connections:
            self.broker.connections.remove(self)

    def poke(self) -> None:
        """Send the delayed answer if it is ready."""
        pending = self._busy
        ready = pending.delay.ready if pending is not None and pending.delay is not None else None
        if pending is not None and ready is not None and ready():
            self._send_delayed(pending)

    def close(self, *, reset: bool = False) -> None:
        """Close from the broker's side."""
        self.connection_lost()
        if reset:
            self.connection.reset()
        else:
            self.connection.close()

    def _go_on(self) -> None:
        while self._waiting and self._busy is None and self.connection.is_open:
            self._answer(self._waiting.popleft())

    def _answer(self, frame: bytes) -> None:
        broker = self.broker
        try:
            header = decode_request_header(frame)
            refusal = self._refusal(header)
            if refusal is not None:
                self.connection.send(_framed(encode_response(refusal, 0, header.correlation_id)))
                return
            api = REQUESTS[header.api_key]
            message = api.decode(frame, header.api_version, header.body_offset)
            lowest, highest = broker.versions.get(header.api_key, (0, -1))
            handler = broker.handlers.get(api)
            if handler is None or not lowest <= header.api_version <= highest:
                raise KafkaProtocolError(f"{api.__name__} version {header.api_version} is not spoken here")
        except KafkaProtocolError as error:
            broker.complaints.append(str(error))
            self.close()
            return
        broker.requests.append(
            Received(self.now(), api, header.api_version, message, header.correlation_id, header.client_id, self)
        )
        self._carry_out(header, handler(message, header.api_version, self))

    def _refusal(self, header: RequestHeader) -> ApiVersionsResponse | None:
        """Return the answer to an ApiVersions request that is too new: version 0, with the range there is (KIP-511)."""
        key = ApiVersionsRequest.API_KEY
        lowest, highest = self.broker.versions.get(key, (0, 0))
        if header.api_key != key or lowest <= header.api_version <= highest:
            return None
        own = ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        return ApiVersionsResponse(error_code=int(Code.UNSUPPORTED_VERSION), api_keys=[own])

    def _carry_out(self, header: RequestHeader, reply: Reply) -> None:
        if isinstance(reply, Delay):
            pending = self._busy = _Pending(header, reply)
            self.connection.call_later(reply.seconds, lambda: self._send_delayed(pending))
        elif isinstance(reply, Silence):
            self._busy = _Pending(header, None)
        elif isinstance(reply, Disconnect):
            self.close(reset=reply.reset)
        elif isinstance(reply, Raw):
            self.connection.send(reply.data)
        else:
            self.connection.send(_framed(encode_response(reply, header.api_version, header.correlation_id)))

    def _send_delayed(self, pending: _Pending) -> None:
        if self._busy is not pending or pending.delay is None:
            return
        self._busy = None
        reply = pending.delay.reply
        self._carry_out(pending.header, reply() if callable(reply) else reply)
        self._go_on()


@dataclass(slots=True, eq=False)
class _Pending:
    """The request that a connection is busy with; without ``delay`` for ever."""

    header: RequestHeader
    delay: Delay | None


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
