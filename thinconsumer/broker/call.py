"""One request on its way through a broker, and what an API is: its versions, its handler, its way to refuse.

A handler gets a :class:`Call` and returns the answer, or ``None`` after it has parked the call: kept it somewhere, to
be given :meth:`Call.reply` later, exactly once. A connection works on one call at a time, so answers leave in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire import Message

if TYPE_CHECKING:
    from .node import BrokerNode


class ApiCall:
    """A request that a node is working on.

    ``request`` is decoded, and read-only. ``client_host`` is what DescribeGroups shows. ``connection_id`` is unique in
    the cluster, for state that belongs to a connection.
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
        #: Set by whoever parks it and has something to clean up when the client goes before the answer.
        self.on_cancel: Callable[[], None] | None = None
        self._done = done
        self._close_connection = close_connection
        self._answered = False

    def __repr__(self) -> str:
        return f"<Call {type(self.request).__name__} v{self.version} at {self.node}>"

    @property
    def is_open(self) -> bool:
        """Whether it still waits for its answer; no more once the connection is gone or the node was killed."""
        return not self._answered

    def reply(self, message: Message) -> None:
        """Answer. On a call that is not open any more it does nothing: nobody is left to hear it."""
        self._finish(message)

    def finish_without_reply(self) -> None:
        """Be done without an answer, which Produce with ``acks=0`` asks for."""
        self._finish(None)

    def cancel(self) -> None:
        """The connection is gone: whoever parked this need not answer any more."""
        if not self._answered:
            self._answered = True
            if self.on_cancel is not None:
                self.on_cancel()

    def close_connection(self) -> None:
        """Close the connection: the only way to say no to who wants no answer (Produce with ``acks=0``)."""
        if not self._answered:
            self._answered = True
            if self._close_connection is not None:
                self._close_connection()

    def _finish(self, message: Message | None) -> None:
        if not self._answered:
            self._answered = True
            self._done(message)


#: Returns the answer, or None when the call was parked or wants none (:meth:`Call.no_reply`).
Handler = Callable[[ApiCall], "Message | None"]
#: Returns the answer that refuses a whole request with one error code, in the given version.
ErrorResponse = Callable[[Any, int, int], Message]


class Api(NamedTuple):
    """What a broker knows of one API; each module in ``api/`` has one."""

    request: type[Message]
    lowest: int
    highest: int
    handle: Handler
    refuse: ErrorResponse
