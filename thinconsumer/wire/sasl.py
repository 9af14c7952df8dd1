"""The APIs of a login with SASL.

SaslHandshake (key 17): choose the SASL mechanism of a connection. The exchange of the mechanism's messages follows.
After a SaslHandshake of version 0, the client sends these messages bare, without Kafka's headers; after one of version
1, in SaslAuthenticate (KIP-152). No version is flexible, see KAFKA-9577.

SaslAuthenticate (key 36): one message of the SASL mechanism, and the server's answer to it (KIP-152). Version 1 adds
the session lifetime, after which the broker expects a new login (KIP-368); version 2 is flexible.
"""

from .message import Message
from .schema import array, binary, int16, int64, string


class SaslHandshakeResponse(Message, key=17, versions=(0, 1)):
    """Error code 0 if the broker accepts the mechanism; ``mechanisms`` lists those that the listener accepts."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")


class SaslHandshakeRequest(Message, response=SaslHandshakeResponse):
    mechanism: str = string("0+")


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible=2):
    """The server's message, or an error. A session lifetime of 0 means that the session does not end."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+", is_secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)


class SaslAuthenticateRequest(Message, response=SaslAuthenticateResponse):
    """The client's message, which may contain a password or a token."""

    auth_bytes: bytes = binary("0+", is_secret=True)
