"""The interface of a SASL mechanism on the broker's side, and its failures. Java's counterpart is ``SaslServer``."""

from __future__ import annotations

import abc


class LoginFailedError(Exception):
    """A login fails. SaslAuthenticate responses carry the message; ``details``, by default the same, are logged."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details or message


class InvalidCredentialsError(Exception):
    """A login fails for a reason that is only logged: the client must not learn from it whether a user exists."""


class Exchange(abc.ABC):
    """The messages of one login with one mechanism."""

    is_complete = False  #: Whether the client has proven its identity.
    user = ""  #: The name of the user; not proven before the exchange is complete.
    #: When the client's credentials expire, in wall-clock seconds; None if they do not.
    expires_at: float | None = None

    @abc.abstractmethod
    def evaluate(self, message: bytes, wall_time: float) -> bytes:
        """Return the response to the client's next message.

        Raises:
            LoginFailedError: The client is rejected; the reason may be sent to it.
            InvalidCredentialsError: The client is rejected; the reason is only logged.
        """
