"""Record the messages of logins by their lengths only, and stand in for them in a replay.

A recorded login could be attacked: salt, iterations and signature of SCRAM are enough to guess a password.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import KafkaError, KafkaProtocolError
from ..sasl.login_manager import LoginManager
from ..sasl.mechanism import Mechanism, authentication_failed
from .replay_driver import Events
from .trace_file import TraceError, TraceWriter

#: Those without credentials that are fetched, which other code of the user's, or other connections, would do.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: What a replay has in place of the options with credentials.
STAND_INS = {"sasl_plain_username": "-", "sasl_plain_password": "-"}
#: A longer message of a client is no part of a login.
MESSAGE_MAX = 1 << 16


class RecordingMechanism:
    """A mechanism whose messages are recorded by their lengths."""

    def __init__(self, mechanism: Mechanism, trace: TraceWriter) -> None:
        self.name, self.options = mechanism.name, mechanism.options
        self.credentials_expire_at = mechanism.credentials_expire_at
        self.shown = mechanism.shown
        self._mechanism = mechanism
        self._trace = trace

    def start(self) -> bytes:
        message: bytes = self._recorded(self._mechanism.start)
        return message

    def respond(self, challenge: bytes) -> bytes | None:
        message: bytes | None = self._recorded(self._mechanism.respond, challenge)
        return message

    def _recorded(self, call: Callable[..., bytes | None], *given: bytes) -> Any:
        try:
            message = call(*given)
        except KafkaError as error:
            self._trace.add(["login", type(error).__name__])
            raise
        self._trace.add(["login", None if message is None else len(message)])
        return message


class ReplayedMechanism(Mechanism):
    """Sends zeros, as many as the mechanism of the trace has sent bytes."""

    def __init__(self, name: str, options: tuple[str, ...], events: Events) -> None:
        self.name, self.options = name, options
        self._events = events

    def start(self) -> bytes:
        return self._next() or b""

    def respond(self, challenge: bytes) -> bytes | None:
        return self._next()

    def _next(self) -> bytes | None:
        size = self._events.take("login")[1]
        if isinstance(size, str):
            is_rejected = size == "SaslAuthenticationFailedError"
            raise authentication_failed("as in the trace") if is_rejected else KafkaProtocolError("as in the trace")
        if size is not None and not 0 <= size <= MESSAGE_MAX:
            raise TraceError(f"a trace has a login's message of {size} bytes")
        return None if size is None else bytes(size)


def record_logins(logins: LoginManager, trace: TraceWriter) -> None:
    """Record the logins that are begun from now on."""
    make = logins._mechanism
    logins._mechanism = lambda host: RecordingMechanism(make(host), trace)  # type: ignore[method-assign, assignment, return-value]


def replay_logins(logins: LoginManager, events: Events) -> None:
    """Let logins do what those of a trace have done."""
    make = logins._mechanism

    def made(host: str) -> Mechanism:
        mechanism = make(host)  # draws the same random numbers
        return ReplayedMechanism(mechanism.name, mechanism.options, events)

    logins._mechanism = made  # type: ignore[method-assign]
