"""The login of one connection: SaslHandshake, then the messages of a mechanism in SaslAuthenticate (KIP-43, KIP-152).

Java's counterpart is ``SaslClientAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..errors import BrokerResponseError, KafkaProtocolError
from ..support.server_text import shown
from ..wire import Message
from ..wire.error_codes import Code, to_error
from ..wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse
from .mechanism import Mechanism, authentication_failed

#: Maximum number of messages that the client sends. Kerberos needs at most five; a hostile server could go on forever,
#: because each message begins a new timeout.
MESSAGES_MAX = 16
#: Maximum bytes of one message of the server. Kerberos tokens can have 64 KiB.
SERVER_MESSAGE_BYTES_MAX = 128 * 1024
#: Maximum number of mechanisms that an error names.
OFFERS_SHOWN_MAX = 12
#: Re-authentication begins after 85 % to 95 % of the session's lifetime, as in Java's client (KIP-368), early enough to
#: end before the broker closes the connection. The range spreads connections that were made together.
REAUTHENTICATE_FROM, REAUTHENTICATE_WITHIN = 0.85, 0.10


class SaslLogin:
    """One login, or one re-authentication; implements :class:`thinconsumer.network.authenticate.Login`."""

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        jitter: float = 0.0,
        wall_time: Callable[[], float] | None = None,
        rejected: Callable[[float], None] = lambda now: None,
    ) -> None:
        """``jitter`` chooses when re-authentication begins: 0 as early, 1 as late as allowed.

        ``wall_time`` returns seconds since the epoch: if the credentials expire before the session, re-authentication
        begins before they do. None: their expiry is ignored. ``rejected`` is called with the monotonic time if the
        broker rejects the credentials.
        """
        self._mechanism = mechanism
        self._jitter = jitter
        self._wall_time = wall_time
        self._rejected = rejected
        self._messages = 0
        self._is_over = False
        #: Seconds after the login at which the broker closes the connection; None if it never does.
        self.session_lifetime: float | None = None
        #: Seconds after the login's last request at which the connection has to log in again; None: never.
        self.reauthenticate_after: float | None = None

    def __repr__(self) -> str:
        return f"<SaslLogin {self._mechanism!r}>"

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        """Return the next request, or None when logged in. Nothing secret is sent before the handshake has succeeded.

        Raises:
            UnsupportedSaslMechanismError: the broker does not accept the mechanism on this listener.
            SaslAuthenticationFailedError: the broker rejects the login, or has not proved its identity.
            BrokerResponseError: another error code of the broker.
            KafkaProtocolError: the broker's message is malformed.
        """
        if answer is None:
            return SaslHandshakeRequest(mechanism=self._mechanism.name)
        if isinstance(answer, SaslHandshakeResponse):
            self._check_handshake(answer)
            return self._send(self._mechanism.start())
        if isinstance(answer, SaslAuthenticateResponse):
            return self._continue(answer, now)
        raise KafkaProtocolError(f"{type(answer).__name__} is no response to a login")

    def _check_handshake(self, answer: SaslHandshakeResponse) -> None:
        if self._messages:
            raise KafkaProtocolError("the broker answered SaslHandshake twice")
        name = self._mechanism.name
        if answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
            self._reject_mechanism(answer)
        if answer.error_code:
            detail = f"for sasl_mechanism={name!r}"
            if answer.error_code == Code.ILLEGAL_SASL_STATE:
                detail = "the listener may not use SASL: check security_protocol and the port"
            raise to_error(answer.error_code, api="SaslHandshake", detail=detail)
        # A broker that returns no error code, but a list without the mechanism, gets no credentials either.
        if answer.mechanisms and name not in answer.mechanisms:
            self._reject_mechanism(answer)

    def _reject_mechanism(self, answer: SaslHandshakeResponse) -> NoReturn:
        offers = ", ".join(shown(offer) for offer in sorted(answer.mechanisms)[:OFFERS_SHOWN_MAX]) or "none"
        more = "" if len(answer.mechanisms) <= OFFERS_SHOWN_MAX else ", ..."
        raise to_error(
            Code.UNSUPPORTED_SASL_MECHANISM,
            api="SaslHandshake",
            detail=f"sasl_mechanism={self._mechanism.name!r}, but this listener offers: {offers}{more}",
        )

    def _continue(self, answer: SaslAuthenticateResponse, now: float) -> Message | None:
        if not self._messages or self._is_over:
            raise KafkaProtocolError("the broker sent a SaslAuthenticate response that no request of the login expects")
        if answer.error_code:
            if answer.error_code == Code.SASL_AUTHENTICATION_FAILED:
                self._rejected(now)
            raise self._rejection(answer)
        if len(answer.auth_bytes) > SERVER_MESSAGE_BYTES_MAX:
            raise KafkaProtocolError(f"the broker's {self._mechanism.name} message has {len(answer.auth_bytes)} bytes")
        self._is_over = True  # also if the mechanism raises: a failed login never becomes a success
        message = self._mechanism.respond(answer.auth_bytes)
        if message is not None:
            self._is_over = False
            return self._send(message)
        if answer.session_lifetime_ms > 0:
            self.session_lifetime = answer.session_lifetime_ms / 1000
            self.reauthenticate_after = self._lifetime(self.session_lifetime) * (
                REAUTHENTICATE_FROM + REAUTHENTICATE_WITHIN * self._jitter
            )
        return None

    def _send(self, message: bytes) -> SaslAuthenticateRequest:
        self._messages += 1
        if self._messages > MESSAGES_MAX:
            raise authentication_failed(
                f"the {self._mechanism.name} login did not end after {MESSAGES_MAX} messages of this client"
            )
        return SaslAuthenticateRequest(auth_bytes=message)

    def _rejection(self, answer: SaslAuthenticateResponse) -> BrokerResponseError:
        detail = f"{self._mechanism.name}, check {', '.join(self._mechanism.options)}"
        if answer.error_message:
            detail = f"{self._mechanism.shown(answer.error_message)}; {detail}"
        return to_error(answer.error_code, api="SaslAuthenticate", detail=detail)

    def _lifetime(self, session: float) -> float:
        """Return the session's lifetime in seconds, or the time until the credentials expire if that is shorter."""
        expire_at = self._mechanism.credentials_expire_at
        if expire_at is None or self._wall_time is None:
            return session
        left = expire_at - self._wall_time()
        # The broker has just accepted the credentials, so an expiry in the past is due to a wrong clock here.
        return min(session, left) if left > 0 else session
