"""The enabled SASL mechanisms of a cluster: a new exchange for each login, and the users' first SCRAM credentials."""

from __future__ import annotations

from functools import partial

from thinconsumer.support.timers import Random

from ..security import ListenerSecurity
from .exchange import Exchange
from .oauthbearer import OAuthBearerExchange
from .plain import PlainExchange
from .scram import ScramExchange
from .scram_credentials import BY_NAME, ScramCredential, ScramCredentials
from .web_tokens import TokenVerifier

SALT_SIZE = 16
NONCE_SIZE = 24


class Mechanisms:
    """Makes the exchanges of all brokers' connections. ``random`` is the source of nonces and salts."""

    def __init__(self, security: ListenerSecurity, random: Random) -> None:
        self._security = security
        self._users = dict(security.users)
        self._random = random
        # The verifier is made even if OAUTHBEARER is not enabled, so that an invalid key is always reported.
        self._tokens = TokenVerifier(security)

    def new_exchange(self, name: str, credentials: ScramCredentials) -> Exchange:
        """Return a new exchange of an enabled mechanism. ``credentials`` are the SCRAM credentials of all users."""
        if name in BY_NAME:
            return ScramExchange(name, partial(_credential_of, credentials, name), self._bytes(NONCE_SIZE).hex())
        if name == "OAUTHBEARER":
            return OAuthBearerExchange(self._tokens.accept)
        return PlainExchange(self._users)

    def first_credentials(self, stored: ScramCredentials) -> ScramCredentials:
        """Return the stored credentials, with a new one for each configured user and enabled SCRAM mechanism that has
        none stored.
        """
        credentials = dict(stored)
        for user, password in self._users.items():
            credentials.update(self._new_credentials(user, password, stored))
        return credentials

    def set_password(self, user: str, password: str | None) -> ScramCredentials:
        """Set a user's password for PLAIN, and return new credentials for the enabled SCRAM mechanisms. Without a
        password the user is removed, and no credentials are returned.
        """
        if password is None:
            self._users.pop(user, None)
            return {}
        self._users[user] = password
        return self._new_credentials(user, password, {})

    def _new_credentials(self, user: str, password: str, known: ScramCredentials) -> ScramCredentials:
        return {
            (name, user): ScramCredential.of_password(name, password, self._bytes(SALT_SIZE))
            for name in self._security.sasl_enabled_mechanisms
            if name in BY_NAME and (name, user) not in known
        }

    def _bytes(self, size: int) -> bytes:
        return bytes(self._random.randrange(256) for _ in range(size))


def _credential_of(credentials: ScramCredentials, mechanism: str, user: str) -> ScramCredential | None:
    return credentials.get((mechanism, user))
