"""One API request while the broker serves it, and the description of an API: versions, handler, error response.

A handler gets an :class:`ApiCall` and returns the response. A handler that cannot respond yet returns ``None`` and
keeps (parks) the call, like Kafka's purgatory, to call :meth:`ApiCall.reply` later. A connection serves one call at a
time, so its responses are in the order of its requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from thinconsumer.wire import Message

from .security import ANONYMOUS

if TYPE_CHECKING:
    from .acl.authorizer import Authorizer
    from .login.authenticator import Authenticator
    from .node import BrokerNode


@dataclass(slots=True, eq=False, repr=False)
class ApiCall:
    """A request that a broker is serving. ``request`` is decoded, and read-only; ``done`` sends the response, if any.
    DescribeGroups shows ``client_host``. ``connection_id`` is unique in the cluster.
    """

    node: BrokerNode
    request: Any
    version: int
    done: Callable[[Message | None], None]
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    connection_id: int = 0
    disconnect: Callable[[], None] | None = None
    principal: str = ANONYMOUS  #: The authenticated user: ``User:alice``.
    authorizer: Authorizer | None = None  #: Decides what the principal may do; None: everything.
    authenticator: Authenticator | None = None  #: The login of the connection; None if the listener has no SASL.
    #: Set by a handler that replies later: a function that frees the handler's state for this call, called by
    #: :meth:`cancel`.
    on_cancel: Callable[[], None] | None = None
    #: Whether no response was sent yet; False also after the connection is gone or the broker was killed.
    is_open: bool = field(default=True, init=False)

    def __repr__(self) -> str:
        return f"<ApiCall {type(self.request).__name__} v{self.version} at {self.node}>"

    def reply(self, message: Message | None) -> None:
        """Send ``message``, or end the call without a response for None (acks=0); no effect if the call is not open."""
        if self.is_open:
            self.is_open = False
            self.done(message)

    def cancel(self) -> None:
        """End the call without a response, and call ``on_cancel``: the connection is gone, or a :class:`.faults.Raw`
        sends bytes in place of the response.
        """
        if self.is_open:
            self.is_open = False
            if self.on_cancel is not None:
                self.on_cancel()

    def close_connection(self) -> None:
        """Close the connection without a response, as Kafka does for requests that it cannot parse, and for errors of a
        Produce request with ``acks=0``, which expects no response.
        """
        if self.is_open:
            self.is_open = False
            if self.disconnect is not None:
                self.disconnect()

    def reply_and_close_later(self, message: Message) -> None:
        """Send ``message`` and close the connection, both after ``connection.failed.authentication.delay.ms``.

        As in Kafka, the delay slows down clients that guess passwords, and the client reads the error before the end of
        the stream.
        """

        def end() -> None:
            if self.is_open:
                self.reply(message)
                if self.disconnect is not None:
                    self.disconnect()

        self.node.call_later(self.node.security.connection_failed_authentication_delay_ms / 1000, end)


#: Serves a call: returns the response, or None if it has replied or closed the connection, or will reply later.
Handler = Callable[[ApiCall], "Message | None"]
#: Takes (request, version, error code) and returns the response that fails the whole request with that code.
ErrorResponse = Callable[[Any, int, int], Message]


def error_code_in(response: Callable[..., Message]) -> ErrorResponse:
    """Return the :data:`ErrorResponse` function of an API with one ``error_code`` for the whole response."""
    return lambda request, version, code: response(error_code=int(code))


class Api(NamedTuple):
    """One API of the broker: request class, supported versions, handler, and the error response."""

    request: type[Message]
    lowest: int
    highest: int
    handle: Handler
    refuse: ErrorResponse
