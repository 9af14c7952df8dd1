"""The SCRAM mechanisms on the broker's side (RFC 5802, RFC 7677). Follows Kafka's ``ScramSaslServer``.

Channel binding and delegation tokens are not supported. A user without a credential is rejected after the client's
first message, as by Kafka.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable

from .exchange import Exchange, InvalidCredentialsError, LoginFailedError
from .scram_credentials import BY_NAME, ScramCredential

_SASL_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]=[^,\x00]*)*"
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_SASL_NAME}))?,)(n=({_SASL_NAME}),r=({_PRINTABLE}){_EXTENSIONS})")
_CLIENT_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]*),r=({_PRINTABLE}){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)")


class ScramExchange(Exchange):
    """One login with SCRAM.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        credential_of: Returns the credential of a user, or None if the user has none.
        nonce: The server's part of the nonce: printable ASCII characters without a comma, different for each login.
    """

    def __init__(self, mechanism: str, credential_of: Callable[[str], ScramCredential | None], nonce: str) -> None:
        self._hash = BY_NAME[mechanism].hash_name
        self._credential_of = credential_of
        self._server_nonce = nonce
        self._credential: ScramCredential | None = None
        self._gs2_header = self._client_first_bare = self._nonce = self._server_first = ""

    def evaluate(self, message: bytes, wall_time: float) -> bytes:
        """Return the server's first message, then the server's final message with its signature."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise InvalidCredentialsError("the client's message is not UTF-8") from None
        if self._credential is None:
            return self._first(text).encode()
        return self._final(text, self._credential).encode()

    def _first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentialsError("the client's first message is malformed")
        self._gs2_header, authorization_id, self._client_first_bare, user, client_nonce = match.groups()
        self.user = _unescaped(user)
        credential = self._credential_of(self.user)
        if credential is None:
            raise InvalidCredentialsError(f"the user has no credential for {self._hash}")
        if authorization_id and _unescaped(authorization_id) != self.user:
            raise LoginFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._credential = credential
        self._nonce = client_nonce + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _final(self, text: str, credential: ScramCredential) -> str:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or self.is_complete:
            raise InvalidCredentialsError("the client's final message is malformed, or repeated")
        without_proof, binding, nonce, proof_text = match.groups()
        if nonce != self._nonce:
            raise InvalidCredentialsError("the client's final message has another nonce")
        if _decoded(binding) != self._gs2_header.encode():
            raise InvalidCredentialsError("the client's final message has another channel binding")
        auth_message = f"{self._client_first_bare},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise InvalidCredentialsError("the client's proof has a wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            raise InvalidCredentialsError("the client's proof is wrong")
        self.is_complete = True
        return f"v={base64.b64encode(hmac.digest(credential.server_key, auth_message, self._hash)).decode()}"


def _unescaped(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidCredentialsError("the client's final message is not base64") from None
