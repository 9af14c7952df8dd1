"""The interface of a login: the requests sent between ApiVersions and the connection's first other request.

SASL is not implemented yet: only tests implement this interface. Java's counterpart is ``SaslClientAuthenticator``.
"""

from collections.abc import Callable
from typing import Protocol

from ..wire import Message


class Login(Protocol):
    """The authentication of one connection."""

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        """Return the next request, or None when logged in.

        ``answer`` is the decoded response to the login's previous request; None for the first call. The connection, not
        the login, does the framing, versions and timeouts.

        Raises:
            KafkaError: the login failed. After an ``AuthorizationError`` no other address of the host is tried.
        """


#: A function that takes the host name of a new connection and returns the login for it.
NewLogin = Callable[[str], Login]
