"""The login of one connection: which requests are admitted, and the SASL exchange, also of a re-authentication.

Owns the state machine of Kafka's ``SaslServerAuthenticator`` and the end of a login's session (KIP-368). Has no I/O and
no clock. Its connection asks :meth:`Authenticator.admit` before each request with a header. The other methods process
ApiVersions, SaslHandshake, SaslAuthenticate, and messages without a header.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from .exchange import Exchange, InvalidCredentialsError, LoginFailedError

#: The largest request before a login, in bytes: Kafka's default of ``sasl.server.max.receive.size``.
RECEIVE_MAX = 524_288
#: A client may not re-authenticate more than once in this time, as in Kafka.
REAUTHENTICATION_INTERVAL_S = 1.0
FIRST_WITHOUT_RAW_TOKENS = 1


class Admission(enum.Enum):
    """The treatment of a request, which depends on the state of the login."""

    SERVE = enum.auto()
    CLOSE = enum.auto()  #: Close the connection without a response.
    CLOSE_LATE = enum.auto()  #: Close the connection without a response, after the delay of failed logins.
    ILLEGAL_STATE = enum.auto()  #: Respond ILLEGAL_SASL_STATE and close, both after the delay of failed logins.


class _State(enum.Enum):
    INITIAL = enum.auto()  #: ApiVersions or SaslHandshake may follow.
    HANDSHAKE = enum.auto()  #: SaslHandshake must follow.
    AUTHENTICATE = (
        enum.auto()
    )  #: SaslAuthenticate must follow; after SaslHandshake version 0, a message without header.
    BAD_MECHANISM = enum.auto()  #: Re-authentication began with another mechanism: the next request fails.
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class Authenticated(NamedTuple):
    """The result of one message of an exchange: the response, and the session's lifetime. The lifetime is 0 if it is
    not limited, and while the exchange is not complete.
    """

    response: bytes
    session_lifetime_ms: int = 0


class Authenticator:
    """The login of one connection.

    Args:
        mechanisms: The enabled mechanisms.
        new_exchange: Returns a new exchange of a mechanism.
        max_session_ms: Limit of a session's lifetime; 0 for none.
        logged_in: Called with the principal after each successful login.
    """

    def __init__(
        self,
        mechanisms: Sequence[str],
        new_exchange: Callable[[str], Exchange],
        max_session_ms: int,
        logged_in: Callable[[str], None],
    ) -> None:
        self.mechanisms = mechanisms
        self.session_ends_at: float | None = None  #: The end of the session in monotonic seconds; None for no end.
        self.why_rejected: str = ""  #: The reason of the last admission other than SERVE, for the log.
        self._new_exchange = new_exchange
        self._max_session_ms = max_session_ms
        self._logged_in = logged_in
        self._state = _State.INITIAL
        self._mechanism = ""
        self._user = ""
        self._exchange: Exchange | None = None
        self._has_raw_tokens = False
        self._reauthenticated_at: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client is logged in and is not authenticating again."""
        return self._state is _State.COMPLETE

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is a message of the mechanism without a request header."""
        return self._state is _State.AUTHENTICATE and self._has_raw_tokens

    def admit(self, api_key: int, now: float) -> Admission:
        """Return what to do with a request that has arrived; may begin a re-authentication."""
        if self._state is _State.COMPLETE:
            return self._admit_after_login(api_key, now)
        if self._state is _State.AUTHENTICATE:
            if api_key == SaslAuthenticateRequest.API_KEY:
                return Admission.SERVE
            return self._rejected(Admission.ILLEGAL_STATE, f"unexpected API {api_key} during SASL authentication")
        if self._state is _State.BAD_MECHANISM:
            return self._rejected(Admission.CLOSE_LATE, "re-authentication with another SASL mechanism")
        if self._state is _State.FAILED:
            return self._rejected(Admission.CLOSE, "a request after a failed login")
        if api_key == SaslHandshakeRequest.API_KEY:
            return Admission.SERVE
        if api_key == ApiVersionsRequest.API_KEY and self._state is _State.INITIAL:
            return Admission.SERVE
        return self._rejected(Admission.CLOSE, f"unexpected API {api_key} before the login")

    def on_api_versions(self) -> None:
        """Note that ApiVersions was answered without an error: before a login, only SaslHandshake may follow."""
        if self._state is _State.INITIAL:
            self._state = _State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> bool | None:
        """Begin an exchange. Return whether the mechanism is enabled; None if no SaslHandshake is expected now."""
        if self._state not in (_State.INITIAL, _State.HANDSHAKE):
            return None
        if mechanism not in self.mechanisms:
            self._state = _State.FAILED
            return False
        self._has_raw_tokens = version < FIRST_WITHOUT_RAW_TOKENS
        if self._user and mechanism != self._mechanism:
            self._state = _State.BAD_MECHANISM
            return True
        self._mechanism = mechanism
        self._exchange = self._new_exchange(mechanism)
        self._state = _State.AUTHENTICATE
        return True

    def authenticate(self, message: bytes, now: float, wall_time: float) -> Authenticated | None:
        """Process the client's next message of the exchange; None if no SaslAuthenticate is expected now.

        Raises:
            LoginFailedError: The login has failed, for the reason in the message, which may be sent to the client.
        """
        if self._state is not _State.AUTHENTICATE or self._exchange is None:
            return None
        try:
            response = self._exchange.evaluate(message, wall_time)
            if self._exchange.is_complete:
                self._require_same_user(self._exchange.user)
        except LoginFailedError:
            self._fail()
            raise
        except InvalidCredentialsError as error:
            text = (
                f"Authentication failed during {'re-authentication' if self._user else 'authentication'} due to "
                f"invalid credentials with SASL mechanism {self._mechanism}"
            )
            self._fail()
            raise LoginFailedError(text, f"{self._mechanism}: {error}") from None
        if not self._exchange.is_complete:
            return Authenticated(response)
        return Authenticated(response, self._complete(self._exchange, now, wall_time))

    def _admit_after_login(self, api_key: int, now: float) -> Admission:
        ends_at, last = self.session_ends_at, self._reauthenticated_at
        if ends_at is None:
            return Admission.SERVE
        if api_key == SaslHandshakeRequest.API_KEY and (last is None or now - last >= REAUTHENTICATION_INTERVAL_S):
            self._reauthenticated_at = now
            self._state = _State.HANDSHAKE
            return Admission.SERVE
        if now > ends_at:
            return self._rejected(Admission.CLOSE, "the session has expired and was not re-authenticated")
        return Admission.SERVE

    def _rejected(self, admission: Admission, why: str) -> Admission:
        self._state = _State.FAILED
        self.why_rejected = why
        return admission

    def _require_same_user(self, user: str) -> None:
        if self._user and user != self._user:
            raise LoginFailedError(
                f"Cannot change principals during re-authentication from User.{self._user}: User.{user}"
            )

    def _fail(self) -> None:
        self._state = _State.FAILED
        self._exchange = None

    def _complete(self, exchange: Exchange, now: float, wall_time: float) -> int:
        """Begin the session, and return its lifetime in milliseconds, 0 if it is not limited."""
        limits = [self._max_session_ms] if self._max_session_ms else []
        if exchange.expires_at is not None:
            limits.append(max(0, int((exchange.expires_at - wall_time) * 1000)))
        lifetime_ms = min(limits, default=0)
        self.session_ends_at = now + lifetime_ms / 1000 if limits else None
        self._state = _State.COMPLETE
        self._exchange = None  # An exchange holds users' passwords or keys, which an open connection does not need.
        self._user = exchange.user
        self._logged_in(f"User:{exchange.user}")
        return lifetime_ms
