"""OAUTHBEARER (RFC 7628): a bearer token in one message, with Kafka's extensions (KIP-342). Use it only over TLS."""

from __future__ import annotations

from .mechanism import Mechanism, authentication_failed, json_object
from .tokens import Token

#: The answer to a server's error message, after which the server ends the exchange (RFC 7628, section 3.2.3).
_DUMMY_ANSWER = b"\x01"
#: Longest error message in bytes that is read as JSON.
_ERROR_BYTES_MAX = 16_384


def bearer_message(token: Token) -> bytes:
    """Return the client's message. No character of a checked token or extension can end its field."""
    fields = ["n,,", f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in token.extensions.items())]
    return "\x01".join([*fields, "", ""]).encode()


def describe_error(challenge: bytes) -> str:
    """Return the server's error message as text: its status, scope and configuration URL if it is JSON."""
    if len(challenge) > _ERROR_BYTES_MAX:
        return f"an error message of {len(challenge)} bytes"
    text = challenge.decode(errors="replace")
    fields = json_object(text) or {}
    known = ("status", "scope", "openid-configuration")
    return ", ".join(f"{name}: {fields[name]}" for name in known if isinstance(fields.get(name), str)) or text


class OAuthBearer(Mechanism):
    name = "OAUTHBEARER"
    options = (
        "sasl_oauth_token_provider",
        "sasl_oauthbearer_token_endpoint_url",
        "sasl_oauthbearer_scope",
        "sasl_oauthbearer_extensions",
    )

    def __init__(self, token: Token) -> None:
        self._token = token
        self._secrets = (token.value,)
        self._error = ""
        self.credentials_expire_at = token.expires_at

    def __repr__(self) -> str:
        return f"<OAuthBearer {self._token.principal!r}>"

    def start(self) -> bytes:
        return bearer_message(self._token)

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None for an empty message: success. Answer an error message; the call after that raises the error."""
        if self._error:
            raise authentication_failed(f"the broker rejected the token: {self._error}")
        if not challenge:
            return None
        self._error = self.shown(describe_error(challenge)) or "no reason given"
        return _DUMMY_ANSWER
