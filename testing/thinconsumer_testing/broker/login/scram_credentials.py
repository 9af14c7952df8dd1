"""SCRAM credentials as the cluster stores them, and the rules for changing them (KIP-554, RFC 5802).

A credential verifies a password without containing it. The metadata image of every broker has all credentials; changes
go through the controller. Follows Kafka's ``ScramControlManager``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from thinconsumer.wire.error_codes import Code

from ..wire.scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
#: Limit of a salt or a salted password in bytes. Kafka has none; without it, each user could take up megabytes.
SALT_MAX = 1_024


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism: its SASL name, its number in Kafka's protocol, and the hash function."""

    name: str
    number: int
    hash_name: str


_ALL = (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
BY_NAME: Mapping[str, ScramMechanism] = {one.name: one for one in _ALL}
BY_NUMBER: Mapping[int, ScramMechanism] = {one.number: one for one in _ALL}


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The values that a broker stores in place of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"<ScramCredential of {self.iterations} iterations>"

    @classmethod
    def of_salted(cls, mechanism: str, salt: bytes, iterations: int, salted_password: bytes) -> ScramCredential:
        """Build a credential from the result of PBKDF2."""
        name = BY_NAME[mechanism].hash_name
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, iterations, hashlib.new(name, client_key).digest(), server_key)

    @classmethod
    def of_password(cls, mechanism: str, password: str, salt: bytes) -> ScramCredential:
        """Build a credential from a password, with the lowest number of iterations."""
        salted = hashlib.pbkdf2_hmac(BY_NAME[mechanism].hash_name, password.encode(), salt, ITERATIONS_MIN)
        return cls.of_salted(mechanism, salt, ITERATIONS_MIN, salted)


#: Credentials by mechanism name and user.
ScramCredentials = dict[tuple[str, str], ScramCredential]


class ScramError(NamedTuple):
    """An error for one user of an AlterUserScramCredentials request."""

    code: Code
    message: str


class ScramControlManager:
    """Validates and makes changes of the controller's credentials.

    Args:
        credentials: The controller's credentials.
        commit: Publishes a change: a function that is applied to the credentials of the controller and all brokers.
    """

    def __init__(
        self, credentials: ScramCredentials, commit: Callable[[Callable[[ScramCredentials], None]], None]
    ) -> None:
        self._credentials = credentials
        self._commit = commit

    def alter(
        self, deletions: Iterable[ScramCredentialDeletion], upsertions: Iterable[ScramCredentialUpsertion]
    ) -> dict[str, ScramError | None]:
        """Delete and set credentials; return the error of each user, None for success.

        As in Kafka, no user may occur twice, and the changes of a user with an error are not made.
        """
        removed, added = list(deletions), list(upsertions)
        results: dict[str, ScramError | None] = {}
        changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*removed, *added]
        for one in changes:
            error = self._error_of(one)
            if one.name in results:
                text = "A user credential cannot be altered twice in the same request"
                error = results[one.name] or ScramError(Code.DUPLICATE_RESOURCE, text)
            results[one.name] = error
        gone = [_key(one) for one in removed if results[one.name] is None]
        new = {_key(one): _credential(one) for one in added if results[one.name] is None}

        def change(credentials: ScramCredentials) -> None:
            for key in gone:
                credentials.pop(key, None)
            credentials.update(new)

        if gone or new:
            self._commit(change)
        return results

    def replace(self, user: str, credentials: ScramCredentials) -> None:
        """Replace all credentials of a user by ``credentials``, which may be empty."""

        def change(target: ScramCredentials) -> None:
            for mechanism in BY_NAME:
                target.pop((mechanism, user), None)
            target.update(credentials)

        self._commit(change)

    def _error_of(self, one: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramError | None:
        if not one.name:
            return ScramError(Code.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if one.mechanism not in BY_NUMBER:
            return ScramError(Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(one, ScramCredentialDeletion):
            if _key(one) not in self._credentials:
                return ScramError(Code.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        elif one.iterations < ITERATIONS_MIN:
            return ScramError(Code.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        elif one.iterations > ITERATIONS_MAX:
            return ScramError(Code.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        elif not one.salt or not one.salted_password:
            return ScramError(Code.UNACCEPTABLE_CREDENTIAL, "The salt and the salted password must not be empty")
        elif max(len(one.salt), len(one.salted_password)) > SALT_MAX:
            return ScramError(Code.UNACCEPTABLE_CREDENTIAL, f"A salt or salted password exceeds {SALT_MAX} bytes")
        return None


def credential_to_json(key: tuple[str, str], credential: ScramCredential) -> dict[str, Any]:
    return {
        "mechanism": key[0],
        "user": key[1],
        "salt": credential.salt.hex(),
        "iterations": credential.iterations,
        "stored_key": credential.stored_key.hex(),
        "server_key": credential.server_key.hex(),
    }


def credential_from_json(row: Mapping[str, Any]) -> tuple[tuple[str, str], ScramCredential]:
    """Return the key and credential in a row of :func:`credential_to_json`. Raises: ValueError, KeyError, TypeError."""
    if row["mechanism"] not in BY_NAME:
        raise ValueError(f"unknown SCRAM mechanism {row['mechanism']!r}")
    salt, stored_key, server_key = (bytes.fromhex(row[name]) for name in ("salt", "stored_key", "server_key"))
    key = (str(row["mechanism"]), str(row["user"]))
    return key, ScramCredential(salt, int(row["iterations"]), stored_key, server_key)


def _key(one: ScramCredentialDeletion | ScramCredentialUpsertion) -> tuple[str, str]:
    return BY_NUMBER[one.mechanism].name, one.name


def _credential(one: ScramCredentialUpsertion) -> ScramCredential:
    name = BY_NUMBER[one.mechanism].name
    return ScramCredential.of_salted(name, bytes(one.salt), one.iterations, bytes(one.salted_password))
