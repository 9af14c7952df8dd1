"""SaslAuthenticate (key 36): carry the tokens of a SASL exchange (KIP-152).

Version 1 says how long the session will last before the broker closes it (KIP-368), version 2 is flexible.
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import binary, int16, int64, string


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateResponse(Message):
    """The server's next token, or why it refuses, which is all a client ever learns of the reason."""

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateRequest(Message):
    """The client's next token."""

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    RESPONSE = SaslAuthenticateResponse

    auth_bytes: bytes = binary("0+")
