"""The interface of a login: requests sent on a connection between ApiVersions and the first other request.

SASL is not implemented yet. :class:`~.connection.Connection` calls this interface, so that a login needs no change to a
state machine. Java's counterpart is ``SaslClientAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..wire import Message


class Login(Protocol):
    """One login on one connection."""

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        """Return the next request, or None when logged in.

        ``answer`` is the decoded response to the request before; None at the start. The connection does the framing,
        versions and timeouts.

        Raises:
            KafkaError: the login failed. After an ``AuthorizationError`` no other address of the host is tried.
        """
        ...


#: Makes the login of one connection to ``host``.
NewLogin = Callable[[str], Login]
