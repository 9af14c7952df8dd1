"""Logins over a connection: responses, delays, closed connections, fault rules and the principal."""

import base64

import pytest

from thinconsumer.broker import Delay, Edit, ListenerSecurity, Reply
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer_testing.broker.login.authenticator import RECEIVE_MAX

HELLO = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
ALICE = b"\0alice\0alice-secret"
METADATA = MetadataRequest(topics=[])


@pytest.fixture
def connect(new_cluster, client_of):
    """``connect(**settings)``: a client of a cluster with SASL_PLAINTEXT and PLAIN."""

    def make(**settings):
        settings = {"sasl_enabled_mechanisms": ("PLAIN",), "users": {"alice": "alice-secret", "bob": "b"}, **settings}
        return client_of(new_cluster(1, security=ListenerSecurity("SASL_PLAINTEXT", **settings)), 1)

    return make


def log_in(client, message=ALICE, mechanism="PLAIN"):
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism)).error_code == 0
    return client.ask(SaslAuthenticateRequest(auth_bytes=message))


def test_login_and_principal(connect):
    client = connect()
    assert client.ask(HELLO).error_code == 0
    assert client.connection.principal == "User:ANONYMOUS"
    answer = log_in(client)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert client.connection.principal == "User:alice"
    assert client.ask(METADATA).brokers
    assert client.ask(HELLO).api_keys
    again = client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    assert again.error_code == Code.ILLEGAL_SASL_STATE
    late = client.ask(SaslAuthenticateRequest(auth_bytes=ALICE))
    assert late.error_code == Code.ILLEGAL_SASL_STATE
    assert "after successful" in late.error_message
    assert not client.closed


def test_listener_without_sasl_rejects_logins(new_cluster, client_of):
    client = client_of(new_cluster(1), 1)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == Code.ILLEGAL_SASL_STATE
    assert client.ask(SaslAuthenticateRequest(auth_bytes=ALICE)).error_code == Code.ILLEGAL_SASL_STATE
    assert client.ask(METADATA).brokers
    assert client.connection.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("request_", [METADATA, SaslAuthenticateRequest(auth_bytes=ALICE)])
def test_request_before_the_login_closes_the_connection(connect, request_):
    client = connect()
    client.send(request_)
    assert client.closed
    assert not client.received


def test_wrong_password_is_reported_after_a_delay_and_closes_the_connection(connect):
    client = connect()
    gone = type(client)(client.cluster, 1)
    for one in (client, gone):
        one.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        one.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    gone.connection.connection_lost()
    client.send(METADATA)
    client.cluster.advance(0.09)
    assert not client.received
    assert not client.closed
    client.cluster.advance(0.1)
    (answer,) = client.answers()
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert client.closed
    assert not gone.received
    assert client.connection.principal == "User:ANONYMOUS"


def test_unsupported_mechanism_is_answered_with_the_enabled_ones(connect):
    client = connect(connection_failed_authentication_delay_ms=0)
    client.send(SaslHandshakeRequest(mechanism="GSSAPI"))
    client.cluster.advance(0.0)
    (answer,) = client.answers()
    assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN"]
    assert client.closed


def test_other_request_during_the_exchange(connect):
    client = connect()
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(SaslHandshakeRequest(mechanism="PLAIN"))
    client.cluster.advance(0.1)
    (answer,) = client.answers()
    assert answer.error_code == Code.ILLEGAL_SASL_STATE
    assert client.closed


def raw(client, token):
    client.connection.data_received(len(token).to_bytes(4, "big") + token)


def test_raw_tokens_after_version_0_of_the_handshake(connect):
    client = connect()
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert client.answers()[0].error_code == 0
    raw(client, ALICE)
    assert client.received == bytes(4)
    client.received.clear()
    assert client.connection.principal == "User:alice"
    assert client.ask(METADATA).brokers
    wrong = type(client)(client.cluster, 1)
    wrong.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    wrong.answers()
    raw(wrong, b"\0alice\0wrong")
    client.cluster.advance(0.09)
    assert not wrong.closed
    client.cluster.advance(0.1)
    assert (wrong.closed, wrong.received) == (True, b""), "closed without a response"
    assert list(client.cluster.failed_logins) == ["Authentication failed: Invalid username or password"]


def test_large_requests_need_a_login(connect):
    client = connect()
    client.connection.data_received((RECEIVE_MAX + 1).to_bytes(4, "big"))
    assert client.closed
    other = type(client)(client.cluster, 1)
    log_in(other)
    other.connection.data_received((RECEIVE_MAX + 1).to_bytes(4, "big"))
    assert not other.closed


def test_session_ends_and_is_extended(connect):
    client = connect(connections_max_reauth_ms=5000)
    assert log_in(client).session_lifetime_ms == 5000
    client.cluster.advance(4.0)
    assert log_in(client).session_lifetime_ms == 5000
    client.cluster.advance(9.0)
    assert client.ask(METADATA).brokers
    client.cluster.advance(9.001)
    client.send(METADATA)
    assert client.closed
    assert "expired" in client.cluster.invalid_requests[-1]


def test_reauthentication_as_another_user_fails(connect):
    client = connect(connections_max_reauth_ms=5000)
    log_in(client)
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b"))
    client.cluster.advance(0.1)
    (answer,) = client.answers()
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in answer.error_message
    assert client.closed


def test_reauthentication_with_another_mechanism_fails(connect):
    client = connect(connections_max_reauth_ms=5000, sasl_enabled_mechanisms=("PLAIN", "OAUTHBEARER"))
    log_in(client)
    assert client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER")).error_code == 0
    client.send(SaslAuthenticateRequest(auth_bytes=ALICE))
    client.cluster.advance(0.1)
    assert not client.answers()
    assert client.closed


def test_fault_rules_apply_to_logins(connect):
    client = connect()
    cluster = client.cluster
    cluster.on("SaslHandshake", Reply(Code.ILLEGAL_SASL_STATE), times=1)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code == Code.ILLEGAL_SASL_STATE
    cluster.on("SaslAuthenticate", Edit(lambda call, response: setattr(response, "auth_bytes", b"odd")), times=1)
    cluster.on("SaslAuthenticate", Delay(1.0), times=1)
    assert log_in(client).auth_bytes == b"odd"
    other = type(client)(cluster, 1)
    other.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    other.send(SaslAuthenticateRequest(auth_bytes=ALICE))
    assert not other.received
    cluster.advance(1.0)
    assert other.answers()[0].error_code == 0


def test_mechanisms_of_a_failed_api_versions_may_be_asked_again(connect):
    client = connect()
    assert client.ask(ApiVersionsRequest(client_software_name="-")).error_code == Code.INVALID_REQUEST
    assert client.ask(HELLO).api_keys
    client.send(HELLO)
    assert client.closed


def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=")


def bearer(expires_at):
    token = encoded('{"alg":"none"}') + b"." + encoded(f'{{"sub":"alice","exp":{expires_at}}}') + b"."
    return b"n,,\x01auth=Bearer " + token + b"\x01\x01"


def test_tokens_limit_the_session_and_are_rejected_in_two_steps(connect):
    client = connect(sasl_enabled_mechanisms=("OAUTHBEARER",))
    assert log_in(client, bearer(1_700_000_007), "OAUTHBEARER").session_lifetime_ms == 7000
    assert client.connection.principal == "User:alice"
    client.cluster.advance(6.0)
    assert log_in(client, bearer(1_700_000_009), "OAUTHBEARER").session_lifetime_ms == 3000
    client.cluster.advance(9.1)
    other = type(client)(client.cluster, 1)
    rejected = log_in(other, bearer(1_700_000_009), "OAUTHBEARER")
    assert (rejected.error_code, rejected.auth_bytes) == (0, b'{"status":"invalid_token"}')
    other.send(SaslAuthenticateRequest(auth_bytes=b"\x01"))
    client.cluster.advance(9.2)
    assert other.answers()[0].error_message == '{"status":"invalid_token"}'
    assert other.closed
    assert list(client.cluster.failed_logins) == ["OAUTHBEARER: the token has expired"]
