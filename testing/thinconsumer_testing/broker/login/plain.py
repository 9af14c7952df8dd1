"""The mechanism PLAIN on the broker's side (RFC 4616). Follows Kafka's ``PlainSaslServer``."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from .exchange import Exchange, LoginFailedError

REJECTED = "Authentication failed: Invalid username or password"


class PlainExchange(Exchange):
    """Compares the user name and password in the client's only message with the known users."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def evaluate(self, message: bytes, wall_time: float) -> bytes:
        """Verify the message ``authzid NUL user NUL password``; the response is empty."""
        try:
            tokens = message.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginFailedError("Invalid SASL/PLAIN response: not UTF-8") from None
        if len(tokens) != 3:
            raise LoginFailedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise LoginFailedError("Authentication failed: username not specified")
        if not password:
            raise LoginFailedError("Authentication failed: password not specified")
        expected = self._users.get(user)
        # An unknown user's password is compared as well, so that the response time does not show which users exist.
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise LoginFailedError(REJECTED)
        if authorization_id and authorization_id != user:
            raise LoginFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        self.is_complete = True
        return b""
