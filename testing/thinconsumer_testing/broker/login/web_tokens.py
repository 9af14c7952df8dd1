"""JSON Web Tokens: unsecured ones, and those that a key verifies (RFC 7515, RFC 7518, RFC 7519).

The kind of the configured key decides about the algorithm, never the token: otherwise a token could name HS256 and be
signed with the public key as the secret. Follows Kafka's ``OAuthBearerUnsecuredJws`` and ``BrokerJwtValidator``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import importlib
import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from thinconsumer.errors import IllegalArgumentError

from ..security import ListenerSecurity

PEM = "-----BEGIN "
INVALID_TOKEN, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"
ES256_SIZE = 32  #: Bytes of each of the two numbers of an ES256 signature.


class TokenError(Exception):
    """A token is rejected. ``status`` is sent to the client, the message only logged."""

    def __init__(self, message: str, status: str = INVALID_TOKEN) -> None:
        super().__init__(message)
        self.status = status


class AcceptedToken(NamedTuple):
    """The user and the expiry (in wall-clock seconds) of an accepted token."""

    user: str
    expires_at: float


class TokenKey(Protocol):
    """Verifies the signatures of tokens. ``algorithm`` is the value of ``alg`` that a token's header must have."""

    algorithm: str

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        """Return whether ``signature`` is the signature of ``data`` by this key."""


class _NoKey:
    algorithm = "none"

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        return not signature


class _SecretKey:
    algorithm = "HS256"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(self._secret, data, "sha256"), signature)


class _PublicKey:
    """An RSA or P-256 key; ``cryptography`` does the computation."""

    def __init__(self, pem: bytes) -> None:
        key = _loaded(pem)
        self._asymmetric = "cryptography.hazmat.primitives.asymmetric"
        self._hash = _module("cryptography.hazmat.primitives.hashes").SHA256()
        self._invalid: type[Exception] = _module("cryptography.exceptions").InvalidSignature
        curve = getattr(key, "curve", None)
        if isinstance(key, _module(f"{self._asymmetric}.rsa").RSAPublicKey):
            self.algorithm = "RS256"
        elif curve is not None and curve.name == "secp256r1":
            self.algorithm = "ES256"
        else:
            raise IllegalArgumentError("sasl_oauthbearer_key is neither an RSA nor a P-256 key")
        self._key: Any = key

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        try:
            if self.algorithm == "RS256":
                padding = _module(f"{self._asymmetric}.padding").PKCS1v15()
                self._key.verify(signature, data, padding, self._hash)
            else:
                self._verify_es256(data, signature)
        except self._invalid:
            return False
        return True

    def _verify_es256(self, data: bytes, signature: bytes) -> None:
        if len(signature) != 2 * ES256_SIZE:
            raise self._invalid
        numbers = (int.from_bytes(signature[:ES256_SIZE], "big"), int.from_bytes(signature[ES256_SIZE:], "big"))
        encoded = _module(f"{self._asymmetric}.utils").encode_dss_signature(*numbers)
        self._key.verify(encoded, data, _module(f"{self._asymmetric}.ec").ECDSA(self._hash))


class TokenVerifier:
    """Accepts or rejects tokens as the settings ``sasl_oauthbearer_...`` say.

    Raises:
        IllegalArgumentError: The PEM key cannot be read or is neither RSA nor P-256, or it needs the package
            ``cryptography``, which is missing.
    """

    def __init__(self, security: ListenerSecurity) -> None:
        self._security = security
        self._key: TokenKey
        if not security.sasl_oauthbearer_key:
            self._key = _NoKey()
        elif PEM in security.sasl_oauthbearer_key:
            self._key = _PublicKey(security.sasl_oauthbearer_key.encode())
        else:
            self._key = _SecretKey(security.sasl_oauthbearer_key.encode())

    def accept(self, token: str, wall_time: float) -> AcceptedToken:
        """Return the token's user and expiry. Raises: TokenError."""
        header_text, _, rest = token.partition(".")
        claims_text, dot, signature_text = rest.partition(".")
        if not dot or "." in signature_text:
            raise TokenError("the token does not have three parts")
        algorithm = _object(header_text).get("alg")
        if algorithm != self._key.algorithm:
            raise TokenError(f"the token's algorithm is not {self._key.algorithm}")
        if not self._key.is_signed(f"{header_text}.{claims_text}".encode(), _decoded(signature_text)):
            raise TokenError("the token's signature is wrong")
        claims = _object(claims_text)
        expires_at = self._check_times(claims, wall_time)
        self._check_origin(claims)
        self._check_scope(claims)
        user = claims.get(self._security.sasl_oauthbearer_sub_claim_name)
        if not isinstance(user, str) or not user.strip():
            raise TokenError(f"the token has no claim {self._security.sasl_oauthbearer_sub_claim_name!r} with a name")
        return AcceptedToken(user, expires_at)

    def _check_times(self, claims: Mapping[str, Any], wall_time: float) -> float:
        skew = 0 if isinstance(self._key, _NoKey) else self._security.sasl_oauthbearer_clock_skew_seconds
        expires_at = _time(claims, "exp")
        if expires_at is None:
            raise TokenError("the token has no claim 'exp'")
        if wall_time - skew >= expires_at:
            raise TokenError("the token has expired")
        for name in ("iat", "nbf"):
            begins_at = _time(claims, name)
            if begins_at is not None and begins_at > wall_time + skew:
                raise TokenError(f"the token's claim {name!r} is in the future")
        return expires_at

    def _check_origin(self, claims: Mapping[str, Any]) -> None:
        audiences = self._security.sasl_oauthbearer_expected_audience
        if audiences and not set(audiences) & set(_words(claims.get("aud"), splitting=False)):
            raise TokenError("the token is for another audience")
        issuer = self._security.sasl_oauthbearer_expected_issuer
        if issuer and claims.get("iss") != issuer:
            raise TokenError("the token is of another issuer")

    def _check_scope(self, claims: Mapping[str, Any]) -> None:
        scope = _words(claims.get(self._security.sasl_oauthbearer_scope_claim_name), splitting=True)
        if not set(self._security.sasl_oauthbearer_required_scope) <= set(scope):
            raise TokenError("the token's scope is insufficient", INSUFFICIENT_SCOPE)


def _decoded(text: str) -> bytes:
    try:
        # Padding is not allowed in tokens. Without this check, several texts would decode to the same signature.
        if "=" in text:
            raise TokenError("a part of the token is padded")
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("a part of the token is not base64url") from None


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_decoded(text))
    except (ValueError, RecursionError):
        raise TokenError("a part of the token is not JSON") from None
    if not isinstance(found, dict):
        raise TokenError("a part of the token is not a JSON object")
    return found


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # JSON may contain NaN, which would pass every check of a time, and integers that are too large for a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -(2.0**53) < value < 2.0**53:
        raise TokenError(f"the token's claim {name!r} is not a time")
    return float(value)


def _words(value: Any, *, splitting: bool) -> Collection[str]:
    if isinstance(value, str):
        return value.split() if splitting else [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _module(name: str) -> Any:
    """Import a module of the optional package ``cryptography``."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise IllegalArgumentError(
            "sasl_oauthbearer_key is a PEM key, which needs the package 'cryptography': install it, or use a secret "
            "for HS256"
        ) from None


def _loaded(pem: bytes) -> Any:
    """Return the public key of a PEM public key or certificate."""
    serialization, x509 = _module("cryptography.hazmat.primitives.serialization"), _module("cryptography.x509")
    try:
        if b"-----BEGIN CERTIFICATE" in pem:
            return x509.load_pem_x509_certificate(pem).public_key()
        return serialization.load_pem_public_key(pem)
    except (ValueError, TypeError):
        # The text of the original error may contain parts of the key.
        raise IllegalArgumentError("sasl_oauthbearer_key is not a PEM public key or certificate") from None
