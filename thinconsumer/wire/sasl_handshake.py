"""SaslHandshake (key 17): choose the SASL mechanism of a connection. The exchange itself follows in SaslAuthenticate.

After version 0, the client sends the mechanism's messages bare, without Kafka's headers; after version 1, in
SaslAuthenticate (KIP-152). No version is flexible, see KAFKA-9577.
"""

from __future__ import annotations

from .message import Message
from .schema import array, int16, string


class SaslHandshakeResponse(Message):
    """Error code 0 if the broker accepts the mechanism; ``mechanisms`` lists those that the listener accepts."""

    API_KEY = 17
    VERSIONS = (0, 1)

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")


class SaslHandshakeRequest(Message):
    """Name the SASL mechanism with which this client is going to authenticate."""

    RESPONSE = SaslHandshakeResponse

    mechanism: str = string("0+")
