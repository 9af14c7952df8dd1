"""One API request while the broker serves it, and the table row that describes an API: versions, handler, error
response.

A handler gets an :class:`ApiCall` and returns the response, or ``None`` after it has parked the call (purgatory) to
call :meth:`ApiCall.reply` later, exactly once. A connection serves one call at a time, so responses keep request order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire import Message

if TYPE_CHECKING:
    from .node import BrokerNode


class ApiCall:
    """A request that a broker is serving.

    ``request`` is decoded, and read-only. ``client_host`` is shown by DescribeGroups. ``connection_id`` is unique in
    the cluster and identifies state that belongs to a connection.
    """

    __slots__ = (
        "_answered",
        "_close_connection",
        "_done",
        "client_host",
        "client_id",
        "connection_id",
        "node",
        "on_cancel",
        "request",
        "version",
    )

    def __init__(
        self,
        node: BrokerNode,
        request: Any,
        version: int,
        done: Callable[[Message | None], None],
        *,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        connection_id: int = 0,
        close_connection: Callable[[], None] | None = None,
    ) -> None:
        self.node = node
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.connection_id = connection_id
        #: Set by code that parks the call: frees what it holds when the client disconnects before the response.
        self.on_cancel: Callable[[], None] | None = None
        self._done = done
        self._close_connection = close_connection
        self._answered = False

    def __repr__(self) -> str:
        return f"<ApiCall {type(self.request).__name__} v{self.version} at {self.node}>"

    @property
    def is_open(self) -> bool:
        """Whether no response was sent yet; False also after the connection is gone or the broker was killed."""
        return not self._answered

    def reply(self, message: Message) -> None:
        """Send the response; does nothing once the call is no longer open."""
        self._finish(message)

    def finish_without_reply(self) -> None:
        """Finish without a response, as Produce with ``acks=0`` requires."""
        self._finish(None)

    def cancel(self) -> None:
        """Free what the parked call holds: its connection is gone."""
        if not self._answered:
            self._answered = True
            if self.on_cancel is not None:
                self.on_cancel()

    def close_connection(self) -> None:
        """Close the connection: the only way to report an error to a Produce with ``acks=0``, which has no response."""
        if not self._answered:
            self._answered = True
            if self._close_connection is not None:
                self._close_connection()

    def _finish(self, message: Message | None) -> None:
        if not self._answered:
            self._answered = True
            self._done(message)


#: Returns the response, or None when the call was parked or has none (:meth:`ApiCall.finish_without_reply`).
Handler = Callable[[ApiCall], "Message | None"]
#: Takes (request, version, error code) and returns the response that fails the whole request with that code.
ErrorResponse = Callable[[Any, int, int], Message]


class Api(NamedTuple):
    """One API of the broker: request class, supported versions, handler, and the error response. Each module in
    ``api/`` has one.
    """

    request: type[Message]
    lowest: int
    highest: int
    handle: Handler
    refuse: ErrorResponse
