"""Stored credentials: derivation, the rules for changes, and their stored form."""

import random

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.login.mechanisms import Mechanisms
from thinconsumer_testing.broker.login.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_MAX,
    ScramControlManager,
    ScramCredential,
    credential_from_json,
    credential_to_json,
)
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.broker.wire.scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion


def upsertion(name="alice", mechanism=1, iterations=ITERATIONS_MIN, salt=b"salt", salted_password=b"s" * 32):
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def deletion(name="alice", mechanism=1):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


@pytest.fixture
def credentials():
    return {}


@pytest.fixture
def manager(credentials):
    return ScramControlManager(credentials, lambda change: change(credentials))


def codes(results):
    return {user: 0 if error is None else error.code for user, error in results.items()}


def test_credentials_are_set_replaced_and_deleted(manager, credentials):
    assert codes(manager.alter([], [upsertion(), upsertion("bob", 2, ITERATIONS_MAX)])) == {"alice": 0, "bob": 0}
    assert list(credentials) == [("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "bob")]
    assert (len(credentials["SCRAM-SHA-512", "bob"].stored_key), credentials["SCRAM-SHA-512", "bob"].iterations) == (
        64,
        ITERATIONS_MAX,
    )
    manager.alter([], [upsertion(salt=b"other")])
    assert credentials["SCRAM-SHA-256", "alice"].salt == b"other"
    assert codes(manager.alter([deletion("bob", 2)], [])) == {"bob": 0}
    assert list(credentials) == [("SCRAM-SHA-256", "alice")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (deletion(), Code.RESOURCE_NOT_FOUND),
        (deletion(""), Code.UNACCEPTABLE_CREDENTIAL),
        (deletion(mechanism=0), Code.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(""), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=3), Code.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=ITERATIONS_MIN - 1), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=ITERATIONS_MAX + 1), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=bytes(SALT_MAX + 1)), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b""), Code.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_invalid_changes_do_not_prevent_valid_ones(manager, credentials, change, code):
    deletions, upsertions = ([change], []) if isinstance(change, ScramCredentialDeletion) else ([], [change])
    assert codes(manager.alter(deletions, [*upsertions, upsertion("carol")])) == {change.name: code, "carol": 0}
    assert list(credentials) == [("SCRAM-SHA-256", "carol")]


def test_user_may_occur_only_once(manager, credentials):
    assert codes(manager.alter([], [upsertion(), upsertion(mechanism=2)])) == {"alice": Code.DUPLICATE_RESOURCE}
    manager.alter([], [upsertion()])
    assert codes(manager.alter([deletion()], [upsertion()])) == {"alice": Code.DUPLICATE_RESOURCE}
    assert len(credentials) == 1


def test_stored_form_and_repr():
    key = ("SCRAM-SHA-512", "alice")
    credential = ScramCredential.of_password("SCRAM-SHA-512", "pässword", b"salt")
    stored = credential_to_json(key, credential)
    assert credential_from_json(stored) == (key, credential)
    assert repr(credential) == "<ScramCredential of 4096 iterations>"
    with pytest.raises(ValueError, match="unknown SCRAM mechanism 'MD5'"):
        credential_from_json({**stored, "mechanism": "MD5"})


def test_configured_users_get_scram_credentials_unless_they_have_stored_ones():
    enabled = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    security = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=enabled, users={"alice": "a"})
    mechanisms = Mechanisms(security, random.Random(1))
    first = mechanisms.first_credentials({})
    assert list(first) == [("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "alice")]
    stored = {("SCRAM-SHA-256", "alice"): "kept", ("SCRAM-SHA-256", "bob"): "kept"}
    assert {key for key, value in mechanisms.first_credentials(stored).items() if value == "kept"} == set(stored)
    first_messages = {mechanisms.new_exchange(enabled[1], first).evaluate(b"n,,n=alice,r=c", 0.0) for _ in range(2)}
    assert len(first_messages) == 2, "each login has a nonce of its own"
