"""OAUTHBEARER (RFC 7628): a bearer token in one message, with Kafka's extensions (KIP-342). Use it only over TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from ..errors import IllegalArgumentError, KafkaProtocolError
from .mechanism import NotPickled, authentication_failed, shown

#: The grammar of tokens in RFC 6750, and of names and values in RFC 7628 and KIP-342.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_SEPARATOR = b"\x01"
#: The answer to a server's error message, after which the server ends the exchange (RFC 7628, section 3.2.3).
_DUMMY_ANSWER = b"\x01"
#: Longest error message in bytes that is read as JSON.
_ERROR_BYTES_MAX = 16_384


class BearerToken(Protocol):
    """The attributes of a token that this mechanism uses; :class:`.tokens.Token` has them."""

    @property
    def value(self) -> str:
        """The token itself, a secret."""

    @property
    def expires_at(self) -> float | None:
        """Seconds since the epoch; None if unknown."""

    @property
    def principal(self) -> str:
        """The token's principal, for log lines."""

    @property
    def extensions(self) -> Mapping[str, str]:
        """Further names and values for the broker (KIP-342)."""


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise IllegalArgumentError if a name or value violates the grammar of KIP-342; ``auth`` is reserved."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            raise IllegalArgumentError(
                f"SASL extension name {name!r} is invalid: names consist of the letters A to Z and a to z, and "
                "'auth' is reserved"
            )
        if not _EXTENSION_VALUE.fullmatch(value):
            raise IllegalArgumentError(
                f"the value of SASL extension {name!r} is invalid: it must be printable ASCII and not empty"
            )


def bearer_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's message.

    Raises:
        IllegalArgumentError: the token or an extension contains a character that it cannot have. Such a character
            could end the field, and add others in its place.
    """
    if not _TOKEN.fullmatch(token):
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
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(fields, dict):
        return text
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

    def __init__(self, token: BearerToken) -> None:
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
