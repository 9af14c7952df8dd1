"""SaslAuthenticate (key 36): one message of the SASL mechanism, and the server's answer to it (KIP-152).

Version 1 adds the session lifetime, after which the broker expects a new login (KIP-368); version 2 is flexible.
"""

from __future__ import annotations

from .message import Message
from .schema import binary, int16, int64, string


class SaslAuthenticateResponse(Message):
    """The server's message, or an error. A session lifetime of 0 means that the session does not end."""

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+", is_secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)


class SaslAuthenticateRequest(Message):
    """The client's message, which may contain a password or a token."""

    RESPONSE = SaslAuthenticateResponse

    auth_bytes: bytes = binary("0+", is_secret=True)
