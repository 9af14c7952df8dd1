"""Counts what is under way on each connection, by looking at frames as they pass: size, API, and nothing else."""

from __future__ import annotations

from collections import deque

from ...wire.fetch import FetchRequest
from ...wire.header import decode_request_header
from .checkers import Jury
from .network import SimConnection, Tap

SIZE = 4


def is_goodbye(api_key: int, frame: bytes) -> bool:
    """Return whether a frame ends a fetch session (KIP-227): a closing client sends it behind an unanswered Fetch."""
    if api_key != FetchRequest.API_KEY:
        return False
    header = decode_request_header(frame)
    request = FetchRequest.decode(frame, header.api_version, header.body_offset)
    return request.session_id != 0 and request.session_epoch == -1


class FrameTap(Tap):
    """Tells the jury how many requests of an API are unanswered on a connection."""

    def __init__(self, jury: Jury) -> None:
        self._jury = jury
        self._rest: dict[SimConnection, bytes] = {}
        self._waiting: dict[SimConnection, deque[int]] = {}

    def opened(self, connection: SimConnection) -> None:
        """A node has accepted a connection."""
        self._rest[connection] = b""
        self._waiting[connection] = deque()

    def reached_node(self, connection: SimConnection, data: bytes) -> None:
        """Bytes have arrived at the node."""
        data = self._rest[connection] + data
        waiting = self._waiting[connection]
        while len(data) >= SIZE + 2:
            end = SIZE + int.from_bytes(data[:SIZE], "big")
            if len(data) < end:
                break
            api_key = int.from_bytes(data[SIZE : SIZE + 2], "big")
            waiting.append(api_key)
            count = waiting.count(api_key)
            if count == 1 or not is_goodbye(api_key, data[SIZE:end]):
                self._jury.tell("in_flight", connection.client, connection.label, api_key, count)
            data = data[end:]
        self._rest[connection] = data

    def left_node(self, connection: SimConnection, data: bytes) -> None:
        """The node has written: one frame, the answer to the oldest request."""
        waiting = self._waiting[connection]
        if waiting:
            waiting.popleft()

    def closed(self, connection: SimConnection) -> None:
        """The node's end is no more."""
        self._rest.pop(connection, None)
        self._waiting.pop(connection, None)
