"""OAUTHBEARER (RFC 7628): a bearer token in one message, with Kafka's extensions (KIP-342). Use it only over TLS."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import IllegalArgumentError, KafkaProtocolError
from .mechanism import NotPickled, authentication_failed, json_object, shown
from .tokens import B64TOKEN, Token, check_extensions

_SEPARATOR = b"\x01"
#: The answer to a server's error message, after which the server ends the exchange (RFC 7628, section 3.2.3).
_DUMMY_ANSWER = b"\x01"
#: Longest error message in bytes that is read as JSON.
_ERROR_BYTES_MAX = 16_384


def bearer_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's message.

    Raises:
        IllegalArgumentError: the token or an extension contains a character that it cannot have. Such a character
            could end the field, and add others in its place.
    """
    if not B64TOKEN.fullmatch(token):
        raise IllegalArgumentError("the bearer token is empty, or contains characters that RFC 6750 does not allow")
    check_extensions(extensions)
    fields = [b"n,,", b"auth=Bearer " + token.encode()]
    fields += [f"{name}={value}".encode() for name, value in extensions.items()]
    return _SEPARATOR.join(fields) + _SEPARATOR * 2


def describe_error(challenge: bytes) -> str:
    """Return the server's error message as text: its status, scope and configuration URL if it is JSON."""
    if len(challenge) > _ERROR_BYTES_MAX:
        return f"an error message of {len(challenge)} bytes"
    text = challenge.decode(errors="replace")
    fields = json_object(text) or {}
    known = ("status", "scope", "openid-configuration")
    return ", ".join(f"{name}: {fields[name]}" for name in known if isinstance(fields.get(name), str)) or text


class OAuthBearer(NotPickled):
    """The client's side of OAUTHBEARER."""

    name = "OAUTHBEARER"
    options = (
        "sasl_oauth_token_provider",
        "sasl_oauthbearer_token_endpoint_url",
        "sasl_oauthbearer_scope",
        "sasl_oauthbearer_extensions",
    )

    def __init__(self, token: Token) -> None:
        """Raises IllegalArgumentError if the token or an extension cannot be sent."""
        self._token = token
        self._message = bearer_message(token.value, token.extensions)
        self._error = ""
        self._is_complete = False

    def __repr__(self) -> str:
        return f"<OAuthBearer {self._token.principal!r}>"

    @property
    def credentials_expire_at(self) -> float | None:
        """When the token expires."""
        return self._token.expires_at

    def start(self) -> bytes:
        """Return the message with the token."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None for an empty message. Any other is an error, which the broker repeats after the answer."""
        if self._error:
            raise authentication_failed(f"the broker rejected the token: {self._error}")
        if self._is_complete:
            raise KafkaProtocolError("OAUTHBEARER: the server sent a message after the end of the login")
        if challenge:
            self._error = self.shown(describe_error(challenge)) or "no reason given"
            return _DUMMY_ANSWER
        self._is_complete = True
        return None

    def shown(self, text: str) -> str:
        """Return a server's text without the token."""
        return shown(text, self._token.value)
