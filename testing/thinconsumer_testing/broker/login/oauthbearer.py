"""The mechanism OAUTHBEARER on the broker's side (RFC 7628, KIP-255, KIP-342). Follows ``OAuthBearerSaslServer``.

A rejected token is answered with an error in JSON. The client then sends a dummy message, after which the login fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .exchange import Exchange, InvalidCredentialsError, LoginFailedError
from .web_tokens import AcceptedToken, TokenError

DUMMY = b"\x01"
_SASL_NAME = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_INITIAL = re.compile(rf"n,(?:a=({_SASL_NAME}))?,\x01((?:{_PAIR})*)\x01")
_AUTH = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)


class OAuthBearerExchange(Exchange):
    """One login with a token. ``accept`` takes the token and the wall-clock time, and may raise TokenError."""

    def __init__(self, accept: Callable[[str, float], AcceptedToken]) -> None:
        self._accept = accept
        self._error = ""  #: The JSON error that was sent to the client.
        self._details = ""

    def evaluate(self, message: bytes, wall_time: float) -> bytes:
        """Verify the token in the client's first message. The response is empty, or an error in JSON."""
        if self._error:
            # The client's second message should be DUMMY; whatever it is, the login has failed.
            raise LoginFailedError(self._error, f"OAUTHBEARER: {self._details}")
        match = _INITIAL.fullmatch(message.decode("latin-1"))
        if match is None:
            raise InvalidCredentialsError("the client's message is malformed")
        authorization_id, pairs = match.groups()
        keys_and_values = [pair.partition("=")[::2] for pair in pairs.split("\x01")[:-1]]
        properties = dict(keys_and_values)
        auth = _AUTH.fullmatch(properties.get("auth", ""))
        if auth is None or auth[1].lower() != "bearer" or len(properties) < len(keys_and_values):
            raise InvalidCredentialsError("the client's message has no bearer token, or a key twice")
        try:
            accepted = self._accept(auth[2], wall_time)
        except TokenError as error:
            self._details = str(error)
            self._error = json.dumps({"status": error.status}, separators=(",", ":"))
            return self._error.encode()
        if authorization_id and authorization_id.replace("=2C", ",").replace("=3D", "=") != accepted.user:
            raise LoginFailedError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.user, self.expires_at = accepted
        self.is_complete = True
        return b""
