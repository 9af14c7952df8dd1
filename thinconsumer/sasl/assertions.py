"""Token requests with an assertion (RFC 7523): a JWT that the client signs, or that another program keeps in a file.

After Java's KIP-1139 and KIP-1258 and librdkafka. Each request gets a new assertion, and files are read anew for it, so
that a renewed key or assertion is used at once. No error contains a key, a passphrase, an assertion or a claim.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

from ..config import SecurityOptions
from ..config.security_kinds import ASSERTION, ASSERTION_SOURCES, CLIENT_CREDENTIALS, JWT_BEARER
from ..errors import KafkaConfigurationError
from ..support.files import read_file
from ..support.imports import import_uninterrupted
from ..support.timers import Random
from .mechanism import NotPickled, import_extra, json_object
from .oidc import GRANT_REMEDIES, HttpExchange, TokenSource, scope_of
from .tokens import as_seconds, claims_of

#: Maximum size of a file with a key, an assertion or a template. Servers take requests of a few dozen kilobytes.
FILE_BYTES_MAX = 64 * 1024
_FILE, _TEMPLATE_FILE, _PASSPHRASE = (
    f"{ASSERTION}{name}" for name in ("file", "template_file", "private_key_passphrase")
)
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_ASYMMETRIC = "hazmat.primitives.asymmetric"
_RSA, _EC, _PADDING, _UTILS = (f"{_ASYMMETRIC}.{name}" for name in ("rsa", "ec", "padding", "utils"))
_HASHES, _SERIALIZATION = "hazmat.primitives.hashes", "hazmat.primitives.serialization"
#: The modules of the package ``cryptography`` that sign.
_MODULES = (_SERIALIZATION, _HASHES, _RSA, _EC, _PADDING, _UTILS)


def has_assertions(options: SecurityOptions) -> bool:
    """Return whether tokens are requested with assertions."""
    return any(getattr(options, name) is not None for name in ASSERTION_SOURCES)


class AssertionGrant(TokenSource):
    """Requests with an assertion: as a grant of its own, or in place of the secret of the client credentials grant.

    Raises:
        KafkaConfigurationError: an extra is not installed.
    """

    def __init__(self, options: SecurityOptions) -> None:
        super().__init__(options, options.sasl_oauthbearer_token_endpoint_url or "")
        self._is_grant = options.sasl_oauthbearer_grant_type == JWT_BEARER
        if self._is_grant:
            self.token_fields = ("access_token", "id_token")  # Google sends an id_token if a claim target_audience asks
        else:
            self.principal = (options.sasl_oauthbearer_client_credentials_client_id or "").strip()
        self._scope = scope_of(options)
        self._assertions = Assertions(options, self.principal)
        check = "check the assertion's key or file, its claims, and this machine's clock"
        self.remedies = {**GRANT_REMEDIES, "invalid_client": check, "invalid_grant": check}

    def exchange(self, wall: float, random: Random) -> HttpExchange:
        assertion = self._assertions.make(wall, random)
        self._secrets = (assertion, assertion.rpartition(".")[2])
        if self._is_grant:
            return self._post({"grant_type": JWT_BEARER, "assertion": assertion, **self._scope})
        form = {
            "grant_type": CLIENT_CREDENTIALS,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion,
        }
        return self._post(form | ({"client_id": self.principal} if self.principal else {}) | self._scope)


class Assertions(NotPickled):
    """Makes an assertion for each request. ``client_id`` is the default of its claims ``iss`` and ``sub``.

    Raises:
        KafkaConfigurationError: the package ``cryptography`` is missing, which signs.
    """

    def __init__(self, options: SecurityOptions, client_id: str = "") -> None:
        self._options = options
        self._client_id = client_id
        self._source = next(name for name in ASSERTION_SOURCES if getattr(options, name) is not None)
        #: Imported here: a signal handler that drives the client must not import.
        self._modules: dict[str, Any] = {}
        if self._source != _FILE:
            with suppress(ImportError):  # which import_extra explains
                import_uninterrupted(f"cryptography.{_SERIALIZATION}")
            for name in _MODULES:
                self._modules[name] = import_extra(f"cryptography.{name}", self._source, "oidc,pkcs12")

    def __repr__(self) -> str:
        return f"<Assertions of {self._source}>"

    def make(self, wall: float, random: Random) -> str:
        """Return a new assertion. ``wall`` is the present (wall clock).

        Raises:
            KafkaConfigurationError: a file cannot be used, or a claim is missing or malformed.
        """
        if self._source == _FILE:
            return self._from_file(wall)
        header, claims = self._template()
        header.update(alg=self._options.sasl_oauthbearer_assertion_algorithm, typ="JWT")
        self._add_claims(claims, int(wall), random)
        if problem := _problem_of(claims, needs_subject=self._options.sasl_oauthbearer_grant_type != JWT_BEARER):
            raise KafkaConfigurationError(f"assertion: {problem}")
        content = f"{_encoded(_json(header))}.{_encoded(_json(claims))}"
        return f"{content}.{_encoded(self._sign(content.encode()))}"

    def _read(self, option: str) -> bytes:
        path = getattr(self._options, option)
        return read_file(path, f"{option}: {path}", FILE_BYTES_MAX)

    def _from_file(self, wall: float) -> str:
        found = self._read(_FILE).decode("latin-1").strip()
        if not _JWT.fullmatch(found):
            raise self._error(_FILE, "it has no signed JWT, whose three parts are separated by dots")
        expires_at = as_seconds(claims_of(found).get("exp"))
        if expires_at is not None and expires_at <= wall:
            raise self._error(_FILE, f"the assertion has expired {wall - expires_at:.0f} s ago by this machine's clock")
        return found

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the header and the claims of the template file, or two empty ones."""
        if self._options.sasl_oauthbearer_assertion_template_file is None:
            return {}, {}
        template = json_object(self._read(_TEMPLATE_FILE))
        if template is None or not template.keys() <= {"header", "payload"}:
            raise self._error(_TEMPLATE_FILE, "it must be a JSON object with header and payload, and nothing else")
        header, claims = template.get("header", {}), template.get("payload", {})
        if not isinstance(header, dict) or not isinstance(claims, dict):
            raise self._error(_TEMPLATE_FILE, "its header and its payload must be JSON objects")
        return header, claims

    def _add_claims(self, claims: dict[str, Any], now: int, random: Random) -> None:
        options = self._options
        for name in ("aud", "iss", "sub"):
            given = getattr(options, f"{ASSERTION}claim_{name}")
            # Java takes the template's value, librdkafka that of the option.
            if given is not None and claims.setdefault(name, given) != given:
                raise self._error(
                    _TEMPLATE_FILE, f"its {name} is not that of {ASSERTION}claim_{name}: give one of them"
                )
        if self._client_id:  # by RFC 7523, section 3, these two are the client's id
            claims.setdefault("iss", self._client_id)
            claims.setdefault("sub", self._client_id)
        claims["iat"] = now
        claims["exp"] = now + options.sasl_oauthbearer_assertion_claim_exp_seconds
        claims["nbf"] = now - options.sasl_oauthbearer_assertion_claim_nbf_seconds
        if options.sasl_oauthbearer_assertion_claim_jti_include:
            claims["jti"] = f"{random.randrange(2**128):032x}"

    def _sign(self, content: bytes) -> bytes:
        """Return the signature by the private key (RFC 7518, sections 3.3 and 3.4)."""
        algorithm = self._options.sasl_oauthbearer_assertion_algorithm
        key, modules, ec = self._private_key(), self._modules, self._modules[_EC]
        sha256 = modules[_HASHES].SHA256()
        reason = f"it is not {'an RSA' if algorithm == 'RS256' else 'a P-256'} key, which {algorithm} needs"
        try:
            if algorithm == "RS256" and isinstance(key, modules[_RSA].RSAPrivateKey):
                signature: bytes = key.sign(content, modules[_PADDING].PKCS1v15(), sha256)
                return signature
            if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1":
                numbers = modules[_UTILS].decode_dss_signature(key.sign(content, ec.ECDSA(sha256)))
                return b"".join(number.to_bytes(32, "big") for number in numbers)
        except Exception:  # noqa: BLE001 - of cryptography: it must not end a step in the middle
            reason = "it cannot sign: it is too short, or damaged"
        raise self._error(self._source, reason)

    def _private_key(self) -> Any:
        options = self._options
        text = options.sasl_oauthbearer_assertion_private_key_pem
        pem = self._read(self._source) if text is None else text.encode()
        passphrase = options.sasl_oauthbearer_assertion_private_key_passphrase
        load = self._modules[_SERIALIZATION].load_pem_private_key
        try:
            # Without validation, which tests whether the numbers of an RSA key are prime: it would stop the client for
            # 0.1 s, with 4096 bits for a second. The key is the user's own; TLS does not validate it either.
            return load(pem, passphrase.encode() if passphrase else None, unsafe_skip_rsa_key_validation=True)
        except TypeError:
            is_set = passphrase is not None
            reason = f"it is {'not ' if is_set else ''}encrypted: {'leave out' if is_set else 'set'} {_PASSPHRASE}"
        except Exception:  # noqa: BLE001 - as above
            or_wrong = f", or {_PASSPHRASE} is wrong" if passphrase else ""
            reason = f"it has no private key in PEM form that can be used{or_wrong}"
        raise self._error(self._source, reason)  # here, as errors of cryptography may show a part of the file

    def _error(self, option: str, text: str) -> KafkaConfigurationError:
        path = f"{getattr(self._options, option)}: " if option.endswith("_file") else ""
        return KafkaConfigurationError(f"{option}: {path}{text}")


def _problem_of(claims: dict[str, Any], *, needs_subject: bool) -> str:
    """Return what is wrong with the claims; an empty text if nothing is."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not audiences or not all(isinstance(one, str) and one for one in audiences):
        return f"its aud must be a text or a list of texts: set {ASSERTION}claim_aud"
    for name in ("iss", "sub", "jti"):
        is_needed = name == "iss" or (name == "sub" and needs_subject) or name in claims
        if is_needed and not (isinstance(claims.get(name), str) and claims[name]):
            return f"its {name} must be a text, not empty" + (f": set {ASSERTION}claim_{name}" if name != "jti" else "")
    return ""


def _json(value: dict[str, Any]) -> bytes:
    # A template may have NaN, which Python's json reads and writes, but which is not JSON.
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError):
        pass
    raise KafkaConfigurationError(f"{_TEMPLATE_FILE}: it has a value that is not JSON")


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
