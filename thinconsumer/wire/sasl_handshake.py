"""SaslHandshake (key 17): agree on a SASL mechanism before authenticating.

After version 0 the tokens follow as bare length-prefixed bytes; after version 1 as SaslAuthenticate requests (KIP-152).
It never became flexible, because clients before 2.4 would have chosen a version they do not speak (KAFKA-9577).
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import array, int16, string


@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse(Message):
    """Whether the mechanism will do, and which ones would."""

    API_KEY = 17
    VERSIONS = (0, 1)

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")


@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest(Message):
    """Propose a mechanism, for instance ``SCRAM-SHA-256``."""

    API_KEY = 17
    VERSIONS = (0, 1)
    RESPONSE = SaslHandshakeResponse

    mechanism: str = string("0+")
