"""Checks logins (KIP-43, KIP-152) and re-authentications (KIP-368): their order, their times, and failures.

The checker compares what clients write and read at their sockets. A session's lifetime counts from the time at which
the client has written the login's last request, and ends no later than the token that the client has sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from thinconsumer.errors import SaslAuthenticationFailedError
from thinconsumer.network.negotiate import FIRST_WITH_CLUSTER
from thinconsumer.sasl.tokens import claims_of
from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from thinconsumer_testing.simulation.checkers.base import Checker, SimReader
from thinconsumer_testing.simulation.client_tap import SentRequest

from ..logins import SimLogins

#: A re-authentication begins after 85 % to 95 % of the session's lifetime.
EARLIEST, LATEST = 0.85, 0.95
#: Tolerance in seconds for the rounding of times.
TOLERANCE_S = 0.01
#: How many polls of the same client may return before a connection is closed after a rejected login.
POLLS_MAX = 1
#: The beginning of a broker's reason for closing a connection after the session has expired.
EXPIRED = "the session has expired"
BEARER = b"auth=Bearer "


@dataclass(slots=True)
class _Session:
    """The state of one connection, as far as its client knows it."""

    mechanism: str = ""  #: The mechanism of the last SaslHandshake.
    is_agreed: bool = False  #: Whether the last SaslHandshake was answered without an error.
    messages: int = 0  #: Number of SaslAuthenticate requests since the last SaslHandshake.
    expires_at: float | None = None  #: Wall-clock time at which the token expires that was sent last.
    has_session: bool = False  #: Whether the client is logged in, and does not authenticate again now.
    began_at: float = 0.0  #: When the last SaslAuthenticate request was written.
    lifetime: float | None = None  #: Seconds from the login to the session's end; None if it does not end.
    polls_since_rejected: int | None = None  #: None if no login was rejected.


@dataclass(eq=False)
class LoginChecker(Checker):
    """Checks the logins of all clients. ``counts`` has the numbers of logins, re-authentications and rejections."""

    logins: SimLogins
    #: Whether brokers and clients are so fast that no session may expire: no fault is active.
    is_calm: bool = field(default=False, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    _sessions: dict[tuple[SimReader, int], _Session] = field(default_factory=dict, init=False)
    _rejections: Counter[str] = field(default_factory=Counter, init=False)  #: Rejected logins by the client's name.

    def connection_opened(self, member: SimReader, line: int, host: str, port: int) -> None:
        self._sessions[member, line] = _Session()
        if not self.logins.may_dial(member.name):
            self.accuse(f"{member} dials {host}:{port} without a valid token")

    def connection_closed(self, member: SimReader, line: int) -> None:
        self._sessions.pop((member, line), None)

    def request_written(self, member: SimReader, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        session, client = self._sessions[member, line], f"{member} on connection {line}"
        age = self.now() - session.began_at
        if session.polls_since_rejected is not None:
            self.accuse(f"{client} writes API {sent.api_key} after a rejected login")
        elif isinstance(sent.message, SaslHandshakeRequest):
            self._begin(client, session, sent.message, age)
        elif isinstance(sent.message, SaslAuthenticateRequest):
            if not session.is_agreed or session.has_session:
                self.accuse(f"{client} sends credentials before SaslHandshake is answered without an error")
            session.messages += 1
            session.began_at = self.now()
            session.expires_at = _expiry_in(bytes(sent.message.auth_bytes)) or session.expires_at
        elif sent.api_key == ApiVersionsRequest.API_KEY:
            # After a login, another one names the cluster and node (KIP-1242).
            if session.mechanism and (not session.has_session or sent.version < FIRST_WITH_CLUSTER):
                self.accuse(f"{client} writes ApiVersions {sent.version} during or after its login")
        elif not session.has_session:
            self.accuse(f"{client} writes API {sent.api_key} while it is not logged in")
        elif session.lifetime is not None and age > LATEST * session.lifetime + TOLERANCE_S:
            self.accuse(
                f"{client} writes API {sent.api_key} {age:.3f} s after its login, with a session of "
                f"{session.lifetime:.3f} s: it should have authenticated again"
            )

    def response_received(self, member: SimReader, line: int, sent: SentRequest, response: Message) -> None:
        session = self._sessions.get((member, line))
        if session is None:
            return  # the client has closed the connection, and no response changes its state any more
        if isinstance(response, SaslHandshakeResponse):
            if response.error_code:
                self._reject(member, session)
            session.is_agreed = not response.error_code
        elif isinstance(response, SaslAuthenticateResponse):
            if response.error_code:
                self._reject(member, session)
            elif _is_last(session, response):
                self._log_in(session, response.session_lifetime_ms / 1000)

    def polled(self, reader: SimReader, buffered: int) -> None:
        for (member, line), session in self._sessions.items():
            if session.polls_since_rejected is not None and member.name == reader.name:
                session.polls_since_rejected += 1
                if session.polls_since_rejected > POLLS_MAX:
                    self.accuse(f"{member} keeps connection {line} open after a rejected login")

    def ended(self, reader: SimReader) -> None:
        self._sessions = {key: session for key, session in self._sessions.items() if key[0].name != reader.name}

    def raised(self, reader: SimReader, error: Exception) -> None:
        provider = self.logins.providers.get(reader.name)
        failures = self._rejections[reader.name] + (0 if provider is None else provider.failures)
        if isinstance(error, SaslAuthenticationFailedError) and not failures:
            self.accuse(f"{reader} raised {error!r}, but no login and no token provider has failed")

    def closed_by_broker(self, why: str) -> None:
        is_expired = why.startswith(EXPIRED)
        self.counts["expired_sessions" if is_expired else "invalid_requests"] += 1
        if self.is_calm or not is_expired:
            self.accuse(f"a broker has closed a connection: {why}")

    def _begin(self, client: str, session: _Session, request: SaslHandshakeRequest, age: float) -> None:
        if session.mechanism and not session.has_session:
            self.accuse(f"{client} writes SaslHandshake during a login")
        if session.has_session:
            self.counts["reauthentications"] += 1
            if session.lifetime is None or age < EARLIEST * session.lifetime - TOLERANCE_S:
                self.accuse(f"{client} authenticates again after {age:.3f} s of a session of {session.lifetime} s")
        session.mechanism = request.mechanism
        session.is_agreed = session.has_session = False
        session.messages, session.expires_at = 0, None

    def _log_in(self, session: _Session, lifetime: float) -> None:
        self.counts["logins"] += 1
        session.has_session = True
        session.lifetime = lifetime or None
        if lifetime and session.expires_at is not None:
            left = session.expires_at - self.logins.wall_time()
            session.lifetime = min(lifetime, left) if left > 0 else lifetime

    def _reject(self, member: SimReader, session: _Session) -> None:
        self.counts["rejected_logins"] += 1
        self._rejections[member.name] += 1
        session.polls_since_rejected = 0


def _is_last(session: _Session, response: SaslAuthenticateResponse) -> bool:
    """Return whether a response without an error completes the login."""
    if session.mechanism.startswith("SCRAM-"):
        return session.messages == 2
    return not response.auth_bytes  # a broker that rejects a token first answers with a description of the error


def _expiry_in(message: bytes) -> float | None:
    """Return the expiry of the token in a client's message of OAUTHBEARER; None if there is no token."""
    _, found, rest = message.partition(BEARER)
    return claims_of(rest.partition(b"\x01")[0].decode("latin-1")).get("exp") if found else None
