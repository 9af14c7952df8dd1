"""Decodes the requests that a client writes and the responses that it reads, at the client's sockets.

Checkers must compare a client's requests with the responses that it has read, without those still in flight.
:class:`ClientTap` sits between a driver and a stream; neither the network nor the client notices it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from thinconsumer.driver import Stream
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

from ..broker.wire.requests import REQUESTS, decode_request_header

SIZE = 4
#: The keys of the APIs by which group members find their coordinator, and use it.
GROUP_APIS: frozenset[int] = frozenset(
    api.API_KEY
    for api in (
        ConsumerGroupHeartbeatRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
    )
)
#: The keys of the APIs whose requests and responses the tap decodes.
DECODED_APIS = GROUP_APIS | {
    api.API_KEY
    for api in (
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}


class SentRequest(NamedTuple):
    """A request that the client has written; ``message`` is None if its API is not in :data:`DECODED_APIS`."""

    api_key: int
    version: int
    message: Message | None


def take_frames(data: bytearray) -> list[bytes]:
    """Remove the complete frames from the front of ``data`` and return them without the four bytes of their size."""
    frames = []
    while len(data) >= SIZE and len(data) >= (end := SIZE + int.from_bytes(data[:SIZE], "big")):
        frames.append(bytes(data[SIZE:end]))
        del data[:end]
    return frames


class ClientTap:
    """A stream that wraps a client's stream: it passes every call on, and reports requests and responses."""

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
        self.inner.connection_made(now)

    def get_buffer(self) -> memoryview:
        """Return the client's buffer, and keep it: :meth:`buffer_updated` reads the received bytes from it."""
        self._room = self.inner.get_buffer()
        return self._room

    def buffer_updated(self, size: int, now: float) -> bool:
        """Report the received responses before the client's stream acts on them, for example closes the connection."""
        self._in += self._room[:size]
        for frame in take_frames(self._in):
            self._response(frame)
        return self.inner.buffer_updated(size, now)

    def connection_lost(self, error: KafkaConnectionError | None, now: float) -> None:
        """Report the connection's end, and pass the call on to the client's stream."""
        self.closed()
        self.inner.connection_lost(error, now)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return the client's bytes, and keep them: :meth:`data_sent` reads the requests from them."""
        waiting = self.inner.data_to_send()
        if not waiting:
            return ()  # fast, since each step asks each connection, and few have bytes to send
        self._offered = b"".join(waiting)
        return [self._offered] if self._offered else ()

    def data_sent(self, size: int, now: float) -> None:
        """Pass the call on to the client's stream, and report the requests that are now sent completely."""
        self._out += self._offered[:size]
        self.inner.data_sent(size, now)
        for frame in take_frames(self._out):
            self._request(frame)

    def _request(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        message = None
        if header.api_key in DECODED_APIS:
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
