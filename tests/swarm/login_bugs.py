"""Deliberate bugs in logins, each of which a swarm has to notice; see ``planting.py``."""

import functools

from lab import GroupSwarm, ReaderSwarm
from lab.knobs import OAUTHBEARER, Knobs
from planting import Plant, bug, returns

from thinconsumer.errors import KafkaError
from thinconsumer.network.connection import Connection
from thinconsumer.network.route import BrokerRoute
from thinconsumer.network.states import ConnectionState
from thinconsumer.sasl import login
from thinconsumer.sasl.login import SaslLogin
from thinconsumer.sasl.login_manager import LoginManager
from thinconsumer.sasl.refresh import Refresh

reading = functools.partial(bug, ReaderSwarm)


def logins(knobs: Knobs) -> object:
    """Clients log in."""
    return knobs.logins


def tokens(knobs: Knobs) -> object:
    """Clients log in with tokens, and token providers fail for a while."""
    return knobs.logins and knobs.logins.mechanism == OAUTHBEARER and knobs.logins.provider_outages


def rejections(knobs: Knobs) -> object:
    """Logins are rejected for a while."""
    return knobs.logins and knobs.logins.rejections


def can_send_always(can_send, self, now):
    return self.state is ConnectionState.REAUTHENTICATING or can_send(self, now)


def send_always(send, self, *args):
    before = self.state
    if before is ConnectionState.REAUTHENTICATING:
        self.state = ConnectionState.READY
    send(self, *args)
    if self.state is ConnectionState.READY:
        self.state = before


def is_login_due_when_ready(is_login_due, self, now):
    return self.state is ConnectionState.READY and is_login_due(self, now)


def flush_and_drop(flush, self, connection, now):
    flush(self, connection, now)
    if connection.state is ConnectionState.REAUTHENTICATING:
        self.queue.clear()


def flush_and_drop_of_groups(flush, self, connection, now):
    if self.channel:
        flush_and_drop(flush, self, connection, now)
    else:
        flush(self, connection, now)


def log_in_anyhow(log_in, self, answer, *times):
    try:
        log_in(self, answer, *times)
    except KafkaError:
        if answer is None:
            raise


def next_request_with_credentials(next_request, self, answer, now):
    return self._send(self._mechanism.start()) if answer is None else next_request(self, answer, now)


LOGIN_BUGS = (
    reading(
        "re-authentication never begins",
        "Connections never log in again (KIP-368), so the broker closes each of them when its session ends.",
        returns(Connection, "is_login_due", False),
        needs=logins,
    ),
    reading(
        "requests during a re-authentication",
        "Requests are written between SaslHandshake and the end of the login; the broker closes the connection.",
        Plant(Connection, "can_send", can_send_always),
        Plant(Connection, "send", send_always),
        Plant(Connection, "is_login_due", is_login_due_when_ready),
        needs=logins,
    ),
    reading(
        "queue dropped at a re-authentication",
        "Requests that wait for a re-authentication are dropped without an answer; their managers wait for ever.",
        Plant(BrokerRoute, "_flush", flush_and_drop),
        needs=logins,
    ),
    reading(
        "rejected login keeps the connection",
        "A connection stays open after its login was rejected, and blocks the requests to its broker.",
        Plant(Connection, "_log_in", log_in_anyhow),
        needs=rejections,
    ),
    reading(
        "dials without a token",
        "Brokers are dialled while there is no token or the last one has expired; the login cannot succeed.",
        returns(LoginManager, "may_dial", True),
        needs=tokens,
    ),
    reading(
        "re-authentication too late",
        "The next login begins after the session's end, so the broker closes the connection before it.",
        Plant(login, "REAUTHENTICATE_FROM", lambda share: 1.0),
        needs=logins,
    ),
    reading(
        "credentials before the handshake",
        "The first message of a login has the credentials, before the broker has agreed to the mechanism.",
        Plant(SaslLogin, "next_request", next_request_with_credentials),
        needs=logins,
    ),
    reading(
        "first token kept",
        "A token is not replaced before it expires, so no connection can log in again.",
        Plant(Refresh, "is_due", lambda is_due, self, *times: not self.is_obtained and is_due(self, *times)),
        needs=tokens,
    ),
    bug(
        GroupSwarm,
        "heartbeats dropped at a re-authentication",
        "Membership requests that wait for a re-authentication are dropped, so the coordinator expels the member.",
        Plant(BrokerRoute, "_flush", flush_and_drop_of_groups),
        needs=logins,
    ),
)
