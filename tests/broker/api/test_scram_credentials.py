"""SCRAM credentials are changed by the controller, described by every broker, used by logins, and stored."""

import base64
import hashlib
import hmac
import random

import pytest

from thinconsumer.broker import ListenerSecurity
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.directory import ClusterDirectory
from thinconsumer_testing.broker.wire.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SECURITY = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=MECHANISMS, users={"alice": "alice-secret"})


def salted(password):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 5000)


def set_password(name, password):
    row = ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=5000, salt=b"salt", salted_password=salted(password)
    )
    return AlterUserScramCredentialsRequest(upsertions=[row])


def log_in(client, user, password, mechanism="SCRAM-SHA-256"):
    """Log in, and return the error code."""
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    client.ask(SaslHandshakeRequest(mechanism=mechanism))
    bare = f"n={user},r=client".encode()
    client.send(SaslAuthenticateRequest(auth_bytes=b"n,," + bare))
    client.cluster.advance(client.cluster.schedule.now + 0.1)
    (answer,) = client.answers()
    if answer.error_code:
        return answer.error_code
    first = bytes(answer.auth_bytes)
    nonce, salt, count = (part[2:] for part in first.split(b","))
    key = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(salt), int(count))
    client_key = hmac.digest(key, b"Client Key", digest)
    final = b"c=biws,r=" + nonce
    stored_key = hashlib.new(digest, client_key).digest()
    signature = hmac.digest(stored_key, b",".join((bare, first, final)), digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature)))
    client.send(SaslAuthenticateRequest(auth_bytes=final + b",p=" + proof))
    client.cluster.advance(client.cluster.schedule.now + 0.1)
    (answer,) = client.answers()
    return answer.error_code


def described(client, *users):
    names = [UserName(name=user) for user in users] if users else None
    answer = client.ask(DescribeUserScramCredentialsRequest(users=names))
    return {
        one.user: one.error_code or [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in answer.results
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_configured_users_log_in(new_cluster, client_of, mechanism):
    cluster = new_cluster(1, security=SECURITY)
    client = client_of(cluster, 1)
    assert log_in(client, "alice", "alice-secret", mechanism) == 0
    assert client.connection.principal == "User:alice"
    assert log_in(client_of(cluster, 1), "alice", "wrong", mechanism) == Code.SASL_AUTHENTICATION_FAILED
    assert log_in(client_of(cluster, 1), "nobody", "x", mechanism) == Code.SASL_AUTHENTICATION_FAILED


def test_altered_credentials_count_on_every_broker_once_they_arrive(new_cluster, client_of):
    cluster = new_cluster(2, security=SECURITY, metadata_lag_s=1.0)
    cluster.advance(10.0)
    one = client_of(cluster, 1)
    log_in(one, "alice", "alice-secret")
    cluster.cut(2)
    assert one.ask(set_password("bob", "b1")).results[0].error_code == 0
    cluster.advance(10.5)
    assert log_in(client_of(cluster, 2), "bob", "b1") == Code.SASL_AUTHENTICATION_FAILED
    cluster.heal()
    cluster.advance(12.0)
    assert [log_in(client_of(cluster, node), "bob", "b1") for node in (1, 2)] == [0, 0]
    one.ask(set_password("bob", "b2"))
    cluster.advance(14.0)
    assert log_in(client_of(cluster, 2), "bob", "b1") == Code.SASL_AUTHENTICATION_FAILED
    assert log_in(client_of(cluster, 2), "bob", "b2") == 0
    deletion = ScramCredentialDeletion(name="bob", mechanism=1)
    assert one.ask(AlterUserScramCredentialsRequest(deletions=[deletion])).results[0].error_code == 0
    again = one.ask(AlterUserScramCredentialsRequest(deletions=[deletion])).results[0]
    assert again.error_code == Code.RESOURCE_NOT_FOUND
    assert "does not exist" in again.error_message
    cluster.kill(2)
    cluster.start(2)
    assert log_in(client_of(cluster, 2), "bob", "b2") == Code.SASL_AUTHENTICATION_FAILED
    assert log_in(client_of(cluster, 2), "alice", "alice-secret") == 0


def test_descriptions(new_cluster, client_of):
    client = client_of(new_cluster(1, security=SECURITY), 1)
    log_in(client, "alice", "alice-secret")
    client.ask(set_password("bob", "b"))
    alice, bob = [(1, 4096), (2, 4096)], [(1, 5000)]
    assert described(client) == {"alice": alice, "bob": bob}
    missing, twice = Code.RESOURCE_NOT_FOUND, Code.DUPLICATE_RESOURCE
    assert described(client, "bob", "eve", "alice", "alice") == {"bob": bob, "eve": missing, "alice": twice}


def test_credentials_are_stored_in_the_directory(tmp_path, client_of):
    def start():
        storage = ClusterDirectory(tmp_path, 1)
        return storage, Cluster(1, random=random.Random(1), storage=storage, security=SECURITY)

    storage, cluster = start()
    client = client_of(cluster, 1)
    log_in(client, "alice", "alice-secret")
    client.ask(set_password("alice", "changed"))
    client.ask(set_password("bob", "b"))
    storage.close()
    storage, cluster = start()
    assert log_in(client_of(cluster, 1), "bob", "b") == 0
    assert log_in(client_of(cluster, 1), "alice", "changed") == 0
    assert log_in(client_of(cluster, 1), "alice", "alice-secret", "SCRAM-SHA-512") == 0
    storage.close()


def test_passwords_are_changed_for_every_mechanism(new_cluster, client_of):
    security = ListenerSecurity("SASL_PLAINTEXT", sasl_enabled_mechanisms=(*MECHANISMS, "PLAIN"), users={"alice": "a"})
    cluster = new_cluster(1, security=security)

    def codes(password):
        found = [log_in(client_of(cluster, 1), "alice", password, mechanism) for mechanism in MECHANISMS]
        client = client_of(cluster, 1)
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()))
        cluster.advance(cluster.schedule.now + 0.1)
        return [*found, client.answers()[0].error_code]

    failed = [Code.SASL_AUTHENTICATION_FAILED] * 3
    cluster.set_password("alice", "b")
    assert (codes("a"), codes("b")) == (failed, [0, 0, 0])
    assert cluster.failed_logins[0] == "SCRAM-SHA-256: the client's proof is wrong"
    cluster.set_password("alice", None)
    assert codes("b") == failed
