"""An OpenID Connect provider for tests: signs JWTs, publishes its key as JWKS, and answers requests for tokens: with a
client's secret, with an assertion (RFC 7523), or as Azure's metadata service.

Owns one HTTP server on 127.0.0.1 in a thread of the test process. Knows nothing of Kafka.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from .certificates import Certificate

HOST = "127.0.0.1"
KEY_ID = "key-1"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
BODY_MAX = 1 << 16
SECONDS = 10


@dataclass
class TokenRequest:
    """One request that the token endpoint has received."""

    client_id: str
    form: dict[str, str]
    status: int
    at: float = field(default_factory=time.monotonic)


class Issuer:
    """The provider, from entering the ``with`` block to its end.

    ``clients`` are secrets by client id, ``keys`` the public keys that verify assertions. ``lifetime`` is that of
    tokens from the endpoint, in seconds. While ``outage`` is set, the token endpoint answers with this HTTP status.
    ``certificate`` makes the endpoints HTTPS.
    """

    def __init__(self, clients: Mapping[str, str], certificate: Certificate | None = None) -> None:
        import jwt
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._jwt = jwt
        self.clients = dict(clients)
        self.keys: dict[str, Any] = {}
        self.assertion_ids: list[str] = []  #: The claim ``jti`` of each assertion that was accepted.
        self.lifetime = 3600.0
        self.outage = 0
        self.requests: list[TokenRequest] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.cert_file, certificate.key_file)
            # The handshake belongs to the connection's thread: in accept(), one slow client would stop all others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Issuer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The issuer's URL, which is also the claim ``iss``."""
        return f"{self._scheme}://{HOST}:{self._server.server_address[1]}"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata service of an Azure machine, whose managed identities are the clients."""
        return f"{self.url}/metadata"

    def token(self, subject: str, lifetime: float = 3600.0, *, forged: bool = False, **claims: Any) -> str:
        """Return a signed JWT. A negative lifetime is one that has expired; ``forged`` signs with an unknown key."""
        now = time.time()
        # An expired token was issued before it expired: the broker rejects others as malformed.
        issued = now + min(0.0, lifetime) - 60
        payload = {"iss": self.url, "sub": subject, "scope": "kafka", "iat": int(issued), "exp": int(now + lifetime)}
        return _signed(self._stranger if forged else self._key, {**payload, **claims})

    def answer(self, client_id: str, secret: str, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        """Return status and body of a response of the token endpoint."""
        if self.outage:
            status, body = self.outage, {"error": "temporarily_unavailable", "error_description": "an outage"}
        elif form.get("grant_type") not in ("client_credentials", JWT_BEARER):
            status, body = 400, {"error": "unsupported_grant_type"}
        elif (subject := self._subject(client_id, secret, form)) is None:
            status, body = 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
        else:
            scope = form.get("scope", "kafka")
            token = self.token(subject, self.lifetime, scope=scope)
            body = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime), "scope": scope}
            status = 200
        self.requests.append(TokenRequest(client_id, form, status))
        return status, dict(body)

    def _subject(self, client_id: str, secret: str, form: dict[str, str]) -> str | None:
        """Return the subject that a secret or an assertion proves; None if it proves none."""
        is_grant = form["grant_type"] == JWT_BEARER
        if not is_grant and "client_assertion_type" not in form:
            return client_id if client_id in self.clients and self.clients[client_id] == secret else None
        jwt = self._jwt
        try:
            assertion = form["assertion" if is_grant else "client_assertion"]
            issuer = jwt.decode(assertion, options={"verify_signature": False})["iss"]
            needed = {"require": ["exp", "iat", "nbf", "sub", "aud", "jti"]}
            claims = jwt.decode(
                assertion, self.keys[issuer], ["RS256", "ES256"], audience=self.url, issuer=issuer, options=needed
            )
        except (KeyError, jwt.InvalidTokenError):
            return None
        is_own = form.get("client_assertion_type") == ASSERTION_TYPE and claims["sub"] == issuer == client_id
        if claims["jti"] in self.assertion_ids or not (is_grant or is_own):
            return None
        self.assertion_ids.append(claims["jti"])
        return str(claims["sub"])

    def jwks(self) -> dict[str, object]:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
        return {"keys": [{**key, "n": _number(numbers.n), "e": _number(numbers.e)}]}


def unsecured_token(subject: str, lifetime: float = 3600.0) -> str:
    """Return a JWT without a signature, which only Kafka's default validator accepts."""
    now = time.time()
    payload = {"sub": subject, "iat": int(now + min(0.0, lifetime) - 60), "exp": int(now + lifetime)}
    return ".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "none"}, payload)) + "."


def _signed(key: Any, payload: dict[str, Any]) -> str:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
    text = ".".join(_base64url(json.dumps(part).encode()) for part in (head, payload))
    return f"{text}.{_base64url(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _credentials(header: str, form: dict[str, str]) -> tuple[str, str]:
    """Return client id and secret, from the header (RFC 6749 2.3.1: each is URL-encoded) or else from the form."""
    kind, _, value = header.partition(" ")
    if kind.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    client_id, _, secret = base64.b64decode(value).decode().partition(":")
    return urllib.parse.unquote_plus(client_id), urllib.parse.unquote_plus(secret)


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = SECONDS

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            identity = dict(urllib.parse.parse_qsl(query))
            if path == "/jwks":
                self._send(200, issuer.jwks())
            elif path == "/metadata" and self.headers.get("Metadata") == "true" and "resource" in identity:
                client_id = identity.get("client_id", "")
                form = {"grant_type": "client_credentials", **identity}
                self._send(*issuer.answer(client_id, issuer.clients.get(client_id, ""), form))
            else:
                self._send(404, {"error": "not_found"})

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            if self.path != "/token" or size > BODY_MAX:
                self.close_connection = True
                self._send(404, {"error": "not_found"})
                return
            form = dict(urllib.parse.parse_qsl(self.rfile.read(size).decode()))
            client_id, secret = _credentials(self.headers.get("Authorization", ""), form)
            self._send(*issuer.answer(client_id, secret, form))

        def log_message(self, *_: object) -> None:
            """Keep requests out of the output of tests."""

        def _send(self, status: int, body: dict[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
