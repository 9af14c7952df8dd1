"""The logins of a simulation: the users of its brokers, its token providers, and the faults of both.

Each client gets its options from :meth:`SimLogins.options`. All clients log in as the same user with the same
mechanism. A token provider belongs to a client's host: it goes on working when the client restarts.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from thinconsumer.wire.sasl import SaslAuthenticateRequest
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.simulation.world import World

from .knobs import OAUTHBEARER, LoginKnobs

if TYPE_CHECKING:
    from thinconsumer_testing.simulation.simulation import Simulation

    from .chaos import Chaos
    from .faults import Fault

USER, PASSWORD, OTHER_PASSWORD = "alice", "alice-secret", "another-secret"
#: Longest time in seconds for which passwords are changed, and for which token providers fail.
REJECTION_MAX_S, OUTAGE_MAX_S = 15.0, 12.0


class ProviderFailure(Exception):
    """Raised by a simulated token provider that cannot reach its token endpoint."""


class SimulatedTokenProvider:
    """The token provider of one client: returns a new token for each call, or raises."""

    def __init__(self, logins: SimLogins, client: str) -> None:
        self.client = client
        self.failures = 0
        self.expires_at = 0.0  #: When the last token expires, in seconds of the wall clock; 0 before the first token.
        self._logins = logins

    def __call__(self) -> str:
        """Return an unsecured JWT. Raises: ProviderFailure, during an outage of the providers."""
        logins = self._logins
        if logins.has_outage:
            self.failures += 1
            raise ProviderFailure("the token endpoint does not answer")
        logins.counts["tokens"] += 1
        wall = logins.wall_time()
        self.expires_at = wall + logins.knobs.token_s
        claims = {"sub": USER, "iat": wall, "exp": self.expires_at}
        if logins.are_rejected:
            claims["nbf"] = self.expires_at  # the broker rejects the token: it is not valid yet
        return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


class SimLogins:
    """The logins of one simulation. ``counts`` has the numbers of events."""

    def __init__(self, sim: Simulation, knobs: LoginKnobs) -> None:
        self.knobs = knobs
        self.has_outage = False  #: Whether token providers fail now.
        self.are_rejected = False  #: Whether brokers have another password now, or providers return invalid tokens.
        self.calm_since = 0.0  #: The time of the last call of :meth:`calm`.
        self.counts: Counter[str] = Counter()
        self.providers: dict[str, SimulatedTokenProvider] = {}
        self._sim = sim
        #: The number of faults of each kind so far: a fault ends only if no later one of its kind has begun.
        self._begun: Counter[str] = Counter()

    @staticmethod
    def security(knobs: LoginKnobs) -> ListenerSecurity:
        """Return the security settings of the brokers."""
        return ListenerSecurity(
            security_protocol="SASL_PLAINTEXT",
            sasl_enabled_mechanisms=(knobs.mechanism,),
            users={USER: PASSWORD},
            connections_max_reauth_ms=round(knobs.session_s * 1000),
        )

    def wall_time(self) -> float:
        """Return seconds since the epoch by the clock of the brokers and the token providers."""
        return self._sim.world.clock.wall_time()

    def options(self, client: str) -> dict[str, Any]:
        """Return the options with which a client logs in."""
        options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": self.knobs.mechanism}
        if self.knobs.mechanism == OAUTHBEARER:
            provider = self.providers[client] = SimulatedTokenProvider(self, client)
            return {**options, "sasl_oauth_token_provider": provider, "sasl_login_retry_backoff_max_ms": 1000}
        return {**options, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}

    def may_dial(self, client: str) -> bool:
        """Return whether a client has credentials: a password, or a token that has not expired."""
        provider = self.providers.get(client)
        return provider is None or self.wall_time() < provider.expires_at

    def reject(self, rejected: bool) -> None:
        """Let brokers reject logins from now on, or accept them again. Open sessions go on until they end."""
        if rejected != self.are_rejected:
            self.are_rejected = rejected
            self._sim.trace.add("logins", "", "rejected" if rejected else "accepted")
            if self.knobs.mechanism != OAUTHBEARER:
                self._sim.cluster.set_password(USER, OTHER_PASSWORD if rejected else PASSWORD)

    def fail_providers(self, failing: bool) -> None:
        """Let all token providers fail from now on, or return tokens again."""
        if failing != self.has_outage:
            self.has_outage = failing
            self._sim.trace.add("logins", "", "outage" if failing else "outage over")

    def for_a_while(self, chaos: Chaos, switch: Callable[[bool], None], seconds: float) -> None:
        """Call ``switch(True)``, and after ``seconds`` ``switch(False)``, unless another of its kind has begun."""
        kind = switch.__name__
        self._begun[kind] += 1
        number = self._begun[kind]
        switch(True)
        chaos.later(seconds, lambda: switch(False) if self._begun[kind] == number else None)

    def calm(self) -> None:
        """End all faults."""
        self.calm_since = self._sim.now()
        self.reject(False)
        self.fail_providers(False)


class LostCloses:
    """A fault rule that draws, for each message of a login, whether the network will lose the connection's end.

    If the broker closes such a connection, because of a rejected login or an expired session, its client does not
    notice, as with a firewall that has dropped the connection.
    """

    def __init__(self, world: World, rate: float) -> None:
        self._random = world.streams("chaos/logins/closes")
        self._rate = rate

    def __call__(self, call: ApiCall) -> None:
        """Draw whether the connection's end will be lost; the request itself is handled as usual."""
        if isinstance(call.request, SaslAuthenticateRequest) and self._random.random() < self._rate:
            for connection in call.node.connections:
                if connection.connection_id == call.connection_id:
                    setattr(connection.transport, "close", _nothing)  # noqa: B010 - it is a method of a Protocol


def _nothing() -> None:
    """Do nothing, in place of a close."""


def reject_logins(chaos: Chaos, random: Random) -> bool:
    """Change the user's password on the brokers for a while, or let token providers return invalid tokens."""
    logins = chaos.swarm.logins
    seconds = random.uniform(0.3, REJECTION_MAX_S)
    if logins is None:
        return False
    logins.for_a_while(chaos, logins.reject, seconds)
    return True


def fail_providers(chaos: Chaos, random: Random) -> bool:
    """Let token providers fail for a while; sometimes until tokens have expired."""
    logins = chaos.swarm.logins
    seconds = random.uniform(0.3, OUTAGE_MAX_S)
    if logins is None or not logins.providers:
        return False
    logins.for_a_while(chaos, logins.fail_providers, seconds)
    return True


#: The faults of logins, each by the knob of :class:`.LoginKnobs` that sets its rate.
LOGIN_FAULTS: dict[str, Fault] = {"rejections": reject_logins, "provider_outages": fail_providers}


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
