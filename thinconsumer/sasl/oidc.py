"""Token requests of OAuth without sockets: a request's bytes, and its response.

Here for the client credentials grant with a secret (RFC 6749, section 4.4), after Java's
``ClientCredentialsJwtRetriever``; :mod:`.assertions` and :mod:`.azure_imds` have the others. HTTP/1.1 comes from h11
(the extra ``oidc``). The token endpoint is not trusted: sizes are bounded, and error texts hide secrets, assertions and
tokens. Redirects are not followed: a redirect could send them to another host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from .._version import __version__
from ..config import SecurityOptions
from ..config.security_kinds import CLIENT_CREDENTIALS
from ..errors import IllegalArgumentError, KafkaConfigurationError, KafkaError
from ..support.server_text import shown
from ..support.timers import Random
from .mechanism import NotPickled, import_extra, json_object
from .tokens import Token, as_seconds, as_token, claims_of

#: Maximum size of a response's body.
BODY_BYTES_MAX = 64 * 1024
#: Maximum size of a response's status line and headers, and of a chunk's header.
HEADERS_BYTES_MAX = 16 * 1024
#: Maximum number of bytes of a response, with headers and the framing of chunks. h11 decodes chunks of one byte slowly:
#: 64 KiB of them take 1.5 s.
RESPONSE_BYTES_MAX = 128 * 1024
URL_OPTION = "sasl_oauthbearer_token_endpoint_url"
ID_OPTION = "sasl_oauthbearer_client_credentials_client_id"
SECRET_OPTION = "sasl_oauthbearer_client_credentials_client_secret"
_PORTS = {"http": 80, "https": 443}
#: HTTP statuses that the same request would get again, so that a retry is useless. Java has the same list.
FINAL_STATUSES = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
#: What to do about an error code of the server.
GRANT_REMEDIES = {
    "unauthorized_client": "allow this grant for this client",
    "unsupported_grant_type": "allow this grant on the server",
    "invalid_scope": "check sasl_oauthbearer_scope",
    "not_found": f"check {URL_OPTION}",
}
#: The error code whose remedy an HTTP status without a known code gets.
_CODES_OF_STATUSES = {401: "invalid_client", 403: "invalid_client", 404: "not_found"}


class TokenEndpointError(KafkaError):
    """The token endpoint sent no usable token. ``status``: the HTTP status of a response with an error, else 0."""

    def __init__(self, message: str, *, retriable: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.retriable = retriable
        self.status = status


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The parts of ``sasl_oauthbearer_token_endpoint_url``."""

    scheme: str  #: "http" or "https".
    host: str  #: A name or an IP address, without brackets.
    port: int
    target: str  #: Path and query.

    @classmethod
    def parse(cls, url: str) -> TokenEndpoint:
        """Split a URL that the option has accepted."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        return cls(parts.scheme, parts.hostname or "", port, target)

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if it is the default of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        # Without the query, in which some servers take an API key.
        return f"token endpoint {self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    def error(self, text: str, *, retriable: bool = False, status: int = 0) -> TokenEndpointError:
        return TokenEndpointError(f"{self}: {text}", retriable=retriable, status=status)


class HttpResponse(NamedTuple):
    """A complete response of the token endpoint."""

    status: int
    body: bytes


class TokenSource(NotPickled, ABC):
    """Makes the requests for tokens, and reads the tokens from the responses. A subclass for each kind of request.

    Args:
        url: the token endpoint.
        user: the option that needs HTTP, for the error.

    Raises:
        KafkaConfigurationError: the extra ``oidc`` is not installed.
    """

    principal = ""  #: The user of tokens that do not name one; for log lines.
    token_fields: tuple[str, ...] = ("access_token",)  #: The members of a response with the token, the first one found.
    final_statuses: Collection[int] = FINAL_STATUSES
    remedies: Mapping[str, str] = {}  #: What to do about an error code of the server.
    _secrets: tuple[str, ...] = ()  #: Every form of the sent secrets that a server could repeat in an error.

    def __init__(self, options: SecurityOptions, url: str, user: str = URL_OPTION) -> None:
        self.endpoint = TokenEndpoint.parse(url)
        self._h11 = import_extra("h11", user, "oidc")
        self._sub_claim = options.sasl_oauthbearer_sub_claim_name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.principal!r} at {self.endpoint}>"

    @abstractmethod
    def exchange(self, wall: float, random: Random) -> HttpExchange:
        """Return a new HTTP exchange that requests a token. ``wall`` is the present (wall clock).

        Raises:
            KafkaConfigurationError: the request cannot be made, as a file with a key or an assertion cannot be used.
        """

    def _post(self, form: Mapping[str, str], *headers: tuple[str, str]) -> HttpExchange:
        body = urlencode(form).encode()
        return self._exchange("POST", *headers, ("Content-Type", "application/x-www-form-urlencoded"), body=body)

    def _exchange(self, method: str, *headers: tuple[str, str], body: bytes = b"") -> HttpExchange:
        common = [
            ("Host", self.endpoint.authority),
            ("User-Agent", f"thinconsumer/{__version__}"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("Cache-Control", "no-cache"),
            ("Connection", "close"),
        ]
        length = [("Content-Length", str(len(body)))] if body else []
        return HttpExchange(self._h11, self.endpoint, method, [*common, *headers, *length], body)

    def token(self, response: HttpResponse, sent_at: float, wall: float) -> Token:
        """Return the token of a response. The request was sent at ``sent_at``; ``wall`` is the present (wall clock).

        The response's ``expires_in`` counts from ``sent_at``. It takes precedence over the token's ``exp``, which is
        wrong here by the difference between the clocks of the server and of this machine.

        Raises:
            TokenEndpointError: the response is an error, or has no token, or one that has expired.
        """
        parsed = json_object(response.body)
        if response.status not in (200, 201):
            raise self._rejection(response.status, parsed or {})
        if parsed is None:
            raise self.endpoint.error(
                "the response is not a JSON object; check whether the URL is that of the token endpoint"
            )
        value = next((parsed[name] for name in self.token_fields if parsed.get(name)), None)
        if not isinstance(value, str) or not value:
            if "error" in parsed:
                raise self._rejection(response.status, parsed)
            raise self.endpoint.error(f"the response has no {' or '.join(self.token_fields)}")
        expires_in = _expires_in(parsed.get("expires_in"))
        if expires_in is not None and expires_in <= 0:
            raise self.endpoint.error(f"the token has expired already: expires_in is {expires_in:g}", retriable=True)
        reason = ""
        try:
            principal = "" if self._sub_claim in claims_of(value) else self.principal
            expires_at = None if expires_in is None else sent_at + expires_in
            return as_token((value, expires_at, principal), wall, self._sub_claim)
        except IllegalArgumentError as error:
            reason = str(error)
        raise self.endpoint.error(reason, retriable=True)

    def _rejection(self, status: int, parsed: dict[str, Any]) -> TokenEndpointError:
        # "errorCode" and "errorSummary" are Okta's.
        code = parsed.get("error", parsed.get("errorCode"))
        words = [self._shown(code), self._shown(parsed.get("error_description", parsed.get("errorSummary")))]
        said = ": ".join(word for word in words if word)
        if 300 <= status < 400:
            remedy = f"redirects are not followed, as they could lead credentials elsewhere; check {URL_OPTION}"
        else:
            known = self.remedies.get(code) if isinstance(code, str) else None
            remedy = known or self.remedies.get(_CODES_OF_STATUSES.get(status, ""), "")
        text = f"HTTP status {status}" + (f", {said}" if said else "") + (f" ({remedy})" if remedy else "")
        is_final = status in self.final_statuses or 200 <= status < 400
        return self.endpoint.error(text, retriable=not is_final, status=status)

    def _shown(self, value: object) -> str:
        return shown(value, *self._secrets) if isinstance(value, str) else ""


class ClientCredentials(TokenSource):
    """The client credentials grant, with a client id and a secret.

    Raises:
        KafkaConfigurationError: as the base class; or the client id or secret is malformed.
    """

    def __init__(self, options: SecurityOptions) -> None:
        super().__init__(options, options.sasl_oauthbearer_token_endpoint_url or "")
        client_id = (options.sasl_oauthbearer_client_credentials_client_id or "").strip()
        client_secret = (options.sasl_oauthbearer_client_credentials_client_secret or "").strip()
        # By RFC 6749, section 2.3.1, id and secret are form-encoded. Few servers expect that; Java's default is not to.
        url_encode = options.sasl_oauthbearer_header_urlencode
        if not client_id or not client_secret:
            raise KafkaConfigurationError(f"{ID_OPTION if not client_id else SECRET_OPTION} is empty")
        if ":" in client_id and not url_encode:
            raise KafkaConfigurationError(
                f"{ID_OPTION} has a colon, where HTTP's Basic authorization ends the id: set "
                "sasl_oauthbearer_header_urlencode=True"
            )
        self.principal = client_id
        encoded = (quote_plus(client_id), quote_plus(client_secret))
        pair = encoded if url_encode else (client_id, client_secret)
        basic = b64encode(":".join(pair).encode()).decode("ascii")
        self._authorization = f"Basic {basic}"
        self._secrets = (basic, client_secret, encoded[1])
        self._form = {"grant_type": CLIENT_CREDENTIALS, **scope_of(options)}
        check = f"check {ID_OPTION} and {SECRET_OPTION}"
        if encoded != pair:
            check += "; the server may want them encoded (sasl_oauthbearer_header_urlencode=True)"
        self.remedies = {**GRANT_REMEDIES, "invalid_client": check}

    def exchange(self, wall: float, random: Random) -> HttpExchange:
        return self._post(self._form, ("Authorization", self._authorization))


class HttpExchange:
    """One HTTP request and its response, without a socket."""

    def __init__(
        self, h11: Any, endpoint: TokenEndpoint, method: str, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self._h11 = h11
        self._endpoint = endpoint
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADERS_BYTES_MAX)
        request = h11.Request(method=method, target=endpoint.target, headers=headers)
        events = request, h11.Data(data=body), h11.EndOfMessage()
        self.request = b"".join(self._connection.send(event) for event in events)  #: The bytes to send.
        self._status = 0
        self._body = bytearray()
        self._received = 0

    def receive(self, data: bytes) -> HttpResponse | None:
        """Pass received bytes, or ``b""`` for the end of the connection; return the response once it is complete.

        Raises:
            TokenEndpointError: the bytes are not HTTP, the response is too large, or the connection ended too early.
        """
        self._received += len(data)
        if self._received > RESPONSE_BYTES_MAX:
            raise self._endpoint.error(f"the response has more than {RESPONSE_BYTES_MAX} bytes")
        reason = ""
        try:
            self._connection.receive_data(data)
            return self._take_events()
        except self._h11.RemoteProtocolError:
            # h11's error is neither shown nor chained: it repeats received bytes, which may contain the sent secret.
            reason = "the connection ended within the response" if not data else "the response is not valid HTTP"
        raise self._endpoint.error(reason, retriable=not data)

    def _take_events(self) -> HttpResponse | None:
        h11 = self._h11
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                if len(self._body) + len(event.data) > BODY_BYTES_MAX:
                    raise self._endpoint.error(f"the response's body has more than {BODY_BYTES_MAX} bytes")
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return HttpResponse(self._status, bytes(self._body))
            elif not isinstance(event, h11.InformationalResponse):  # ConnectionClosed, or PAUSED after an upgrade
                raise self._endpoint.error("the connection ended without a response", retriable=True)


def scope_of(options: SecurityOptions) -> dict[str, str]:
    """Return the form's field with the scope to request, if there is one."""
    scope = (options.sasl_oauthbearer_scope or "").strip()
    return {"scope": scope} if scope else {}


def token_source(options: SecurityOptions) -> TokenSource:
    """Return the source of tokens that the options choose; their rules hold.

    Raises:
        KafkaConfigurationError: a package is missing, or an option cannot be used.
    """
    if options.sasl_oauthbearer_metadata_authentication_type != "none":
        from .azure_imds import ManagedIdentity

        return ManagedIdentity(options)
    from .assertions import AssertionGrant, has_assertions

    return AssertionGrant(options) if has_assertions(options) else ClientCredentials(options)


def _expires_in(value: object) -> float | None:
    """Return ``expires_in`` in seconds, 0 if it is negative; None if it is unknown."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 12:
        value = int(value)  # Microsoft's endpoint of version 1 sends a string
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value <= 0:
        return 0.0
    return as_seconds(value)
