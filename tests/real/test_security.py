"""Logins and TLS of the client on real Kafka: every mechanism with right and wrong credentials, and time to the error.

One broker with a listener of every kind serves all tests (``realkafka.security.one_of_each``). Topics that a single
principal may read show which principal the broker gives to a connection.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from groups import Locals
from proving.proxy import Proxy
from realkafka import produce, wait_for
from realkafka.certificates import KEY_PASSWORD, STORE_PASSWORD
from realkafka.fixtures import missing
from realkafka.oidc import JWT_BEARER, unsecured_token
from realkafka.security import CLIENTS, EXPIRED_LINE, REAUTHENTICATION_LINE, SERVICE, USERS, client_certificate

from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.config import ConfigurationWarning
from thinconsumer.errors import (
    NoBrokersAvailable,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest, FetchResponse
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from thinconsumer_testing.broker.wire.requests import encode_response

SCRAMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
LOGINS = [(listener, mechanism) for listener in ("LOGIN", "SECURE") for mechanism in ("PLAIN", *SCRAMS)]
#: One round trip, Kafka's delay of 100 ms before it closes, and a busy machine.
ERROR_SECONDS = 2.0
WAIT_SECONDS = 10.0
#: How every JWT begins: base64 of '{"'.
JWT = "eyJ"
SECRETS = [*USERS.values(), *CLIENTS.values(), KEY_PASSWORD, STORE_PASSWORD, "wrong-secret", JWT, "PRIVATE KEY"]


@dataclass
class Failure:
    """The error that a poll raised, and after how long."""

    error: KafkaError
    seconds: float


@pytest.fixture(autouse=True)
def _no_secrets(caplog):
    """Search everything that is logged for what must never be."""
    caplog.set_level(logging.DEBUG, "thinconsumer")
    yield
    for when in ("setup", "call"):
        for record in caplog.get_records(when):
            if record.name.startswith("thinconsumer"):
                assert not any(secret in record.getMessage() for secret in SECRETS), record.getMessage()


@pytest.fixture
def private_topic(secured_kafka, new_topic):
    """Return a function that makes a topic with three records for one principal, and returns its name."""

    def make(principal):
        topic = new_topic(secured_kafka)
        produce.with_confluent(secured_kafka.bootstrap, topic, produce.numbered(3))
        secured_kafka.allow_only(f"User:{principal}", topic)
        return topic

    return make


def values(topic, **options):
    with Consumer(auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.read_to_end(timeout_ms=15_000)]


def reads(topic, **options):
    """Check that the topic's records are read. The broker applies a new ACL after a moment."""

    def done():
        with contextlib.suppress(TopicAuthorizationFailedError):
            return values(topic, **options)
        return []

    assert wait_for(done, WAIT_SECONDS, f"records of {topic}") == [b"0", b"1", b"2"]


def poll_for_long(consumer, seconds=WAIT_SECONDS):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        consumer.poll(1000)


def first_error(options) -> tuple[KafkaError, float]:
    """Poll until an error is raised; return it, and after how many seconds."""
    with Consumer(**options) as consumer:
        consumer.assign([TopicPartition("any", 0)])
        began = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            poll_for_long(consumer)
        return caught.value, time.monotonic() - began


def failure(record_property, *, names_broker: bool = True, **options) -> Failure:
    """Poll until an error is raised, and check what all such errors have in common."""
    error, seconds = first_error(options)
    if seconds >= ERROR_SECONDS:
        # A busy machine is slow once. A client that waits for something is slow each time.
        print(f"again, after {seconds:.1f} s: {error}")
        error, seconds = first_error(options)
    record_property("time to the error", f"{seconds * 1000:.0f} ms: {error}")
    print(f"{seconds * 1000:.0f} ms: {type(error).__name__}: {error}")
    assert seconds < ERROR_SECONDS, error
    assert not isinstance(error, NoBrokersAvailable)
    if names_broker:
        assert re.search(r"localhost:\d+|127\.0\.0\.1:\d+", str(error)), error
    chain = [error, error.__cause__, error.__context__]
    assert not any(secret in f"{each} {each!r}" for each in chain for secret in SECRETS)
    return Failure(error, seconds)


# -- TLS


def test_tls(secured_kafka, private_topic):
    topic = private_topic("ANONYMOUS")
    reads(topic, **secured_kafka.client_options("TLS"))
    reads(topic, **secured_kafka.client_options("ASKED"))


def test_an_authority_as_text(secured_kafka, private_topic):
    options = secured_kafka.client_options("TLS")
    with open(options.pop("ssl_cafile")) as file:
        options["ssl_truststore_certificates"] = file.read()
    reads(private_topic("ANONYMOUS"), **options, ssl_truststore_type="PEM")


def test_an_untrusted_certificate(secured_kafka, record_property):
    """The system's own authorities are the default, and have not signed it."""
    options = secured_kafka.client_options("TLS")
    del options["ssl_cafile"]
    found = failure(record_property, **options)
    assert isinstance(found.error, SslAuthenticationFailedError)
    assert "ssl_cafile" in str(found.error)


def test_a_wrong_host_name(secured_kafka, record_property):
    options = secured_kafka.client_options("ELSEWHERE")
    found = failure(record_property, **options)
    assert isinstance(found.error, SslAuthenticationFailedError)
    assert "bootstrap_servers" in str(found.error)
    with pytest.warns(ConfigurationWarning, match="ssl_check_hostname"):
        assert connects(options, ssl_check_hostname=False)
    with pytest.warns(ConfigurationWarning):
        assert connects(options, ssl_endpoint_identification_algorithm="")


def connects(options, **more):
    with Consumer(**options, **more) as consumer:
        consumer.bootstrap(timeout_ms=10_000)
        return consumer.bootstrap_connected()


def test_an_expired_certificate(secured_kafka, record_property):
    found = failure(record_property, **secured_kafka.client_options("EXPIRED"))
    assert isinstance(found.error, SslAuthenticationFailedError)
    assert "expired" in str(found.error)


@pytest.mark.parametrize("listener", ["TLS12", "MUTUAL", "ASKED"])
def test_mutual_tls(secured_kafka, private_topic, listener):
    carol = secured_kafka.security.certificates["carol"]
    reads(private_topic("carol"), **secured_kafka.client_options(listener), **client_certificate(carol))


def test_keys_in_every_form(secured_kafka, private_topic):
    """An encrypted key, PKCS #12 and PEM text do the same as a plain key in a file."""
    topic, carol = private_topic("carol"), secured_kafka.security.certificates["carol"]
    options = secured_kafka.client_options("MUTUAL")
    encrypted = {"ssl_keyfile": str(carol.encrypted_key_file), "ssl_password": KEY_PASSWORD}
    reads(topic, **options, ssl_certfile=str(carol.cert_file), **encrypted)
    pkcs12 = {"ssl_keystore_type": "PKCS12", "ssl_keystore_password": STORE_PASSWORD}
    reads(topic, **options, ssl_keystore_location=str(carol.pkcs12_file), **pkcs12)
    text = {"ssl_keystore_key": carol.key_file.read_text(), "ssl_keystore_type": "PEM"}
    reads(topic, **options, ssl_keystore_certificate_chain=carol.cert_file.read_text(), **text)


@pytest.mark.parametrize("listener", ["TLS12", "MUTUAL"])
def test_a_missing_client_certificate(secured_kafka, listener, record_property):
    """Under TLS 1.3 the client's part of the handshake succeeds: the alert comes with the first read."""
    found = failure(record_property, **secured_kafka.client_options(listener))
    assert isinstance(found.error, SslAuthenticationFailedError)
    assert "ssl_certfile" in str(found.error)


def test_no_protocol_in_common(secured_kafka, record_property):
    carol = client_certificate(secured_kafka.security.certificates["carol"])
    options = {**secured_kafka.client_options("TLS12"), **carol, "ssl_enabled_protocols": "TLSv1.3"}
    found = failure(record_property, **options)
    assert isinstance(found.error, SslAuthenticationFailedError)


@pytest.mark.parametrize(
    ("listener", "protocol"), [("TLS", "PLAINTEXT"), ("SECURE", "SASL_PLAINTEXT"), ("LOGIN", "SASL_SSL")]
)
def test_tls_and_plaintext_confused(secured_kafka, listener, protocol, record_property):
    """Plaintext to a TLS port and TLS to a plaintext port: the text names the option."""
    options = {**secured_kafka.client_options(listener), "security_protocol": protocol}
    if not protocol.endswith("SSL"):
        del options["ssl_cafile"]
    elif "ssl_cafile" not in options:
        options["ssl_cafile"] = str(secured_kafka.security.authority.ca_file)
    found = failure(record_property, **options)
    assert isinstance(found.error, SslAuthenticationFailedError)
    assert "security_protocol" in str(found.error)


# -- passwords


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_passwords(secured_kafka, private_topic, listener, mechanism):
    reads(private_topic("bob"), **secured_kafka.client_options(listener, mechanism, "bob"))


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_a_wrong_password(secured_kafka, listener, mechanism, record_property):
    options = secured_kafka.client_options(listener, mechanism) | {"sasl_plain_password": "wrong-secret"}
    found = failure(record_property, **options)
    assert isinstance(found.error, SaslAuthenticationFailedError)
    assert "sasl_plain_password" in str(found.error)


def test_users_that_have_to_be_escaped(secured_kafka, private_topic):
    """SCRAM escapes commas and equals signs of names. Kafka accepts ASCII names only, and hashes passwords as UTF-8."""
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    user, password = "a,b=c", "pässwörd"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    admin = AdminClient({"bootstrap.servers": secured_kafka.bootstrap, "log_level": 0})
    futures = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, password.encode())])
    for future in futures.values():
        future.result(10)
    options = secured_kafka.client_options("LOGIN", "SCRAM-SHA-256")
    reads(private_topic(user), **{**options, "sasl_plain_username": user, "sasl_plain_password": password})


def test_a_mechanism_that_the_listener_lacks(secured_kafka, record_property):
    options = {**secured_kafka.client_options("PLAINONLY"), "sasl_mechanism": "SCRAM-SHA-512"}
    found = failure(record_property, **options)
    assert isinstance(found.error, UnsupportedSaslMechanismError)
    assert "PLAIN" in str(found.error)


def test_refused_logins_are_not_repeated_in_a_tight_loop(secured_kafka):
    """Every rejected login counts towards a lock-out."""
    options = secured_kafka.client_options("SECURE", "SCRAM-SHA-512") | {"sasl_plain_password": "wrong-secret"}
    before = len(secured_kafka.log(1))
    with Consumer(**options) as consumer:
        consumer.assign([TopicPartition("any", 0)])
        until = time.monotonic() + 3
        raised = 0
        while time.monotonic() < until:
            try:
                consumer.poll(100)
            except SaslAuthenticationFailedError:
                raised += 1
    refused = secured_kafka.log(1)[before:].count("Failed authentication with")
    assert 1 <= refused <= 8
    assert 1 <= raised <= refused


def test_options_of_java(secured_kafka, private_topic):
    """A configuration for Java's client, with JAAS and dotted names, works as it is."""
    config = {
        "bootstrap.servers": secured_kafka.address("SECURE"),
        "auto.offset.reset": "earliest",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="alice" password="{USERS["alice"]}";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured_kafka.security.authority.ca_file),
    }
    topic = private_topic("alice")

    def done():
        with Consumer.from_config(config) as consumer, contextlib.suppress(TopicAuthorizationFailedError):
            consumer.assign([TopicPartition(topic, 0)])
            return [record.value for record in consumer.read_to_end(timeout_ms=15_000)]
        return []

    assert wait_for(done, WAIT_SECONDS, f"records of {topic}") == [b"0", b"1", b"2"]


# -- tokens


def token_options(secured_kafka, listener, token):
    return {**secured_kafka.client_options(listener, "OAUTHBEARER"), "sasl_oauth_token_provider": lambda: token}


def oidc_options(secured_kafka, listener="OIDC", secret=CLIENTS["billing"]):
    """Return the options with which the client gets tokens from the issuer's endpoint."""
    return {
        **secured_kafka.client_options(listener, "OAUTHBEARER"),
        "sasl_oauthbearer_token_endpoint_url": secured_kafka.security.issuer.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "billing",
        "sasl_oauthbearer_client_credentials_client_secret": secret,
    }


def test_unsecured_tokens(secured_kafka, private_topic):
    reads(private_topic("billing"), **token_options(secured_kafka, "UNSECURED", unsecured_token("billing")))


def test_signed_tokens(secured_kafka, private_topic):
    token = secured_kafka.security.issuer.token("billing")
    reads(private_topic("billing"), **token_options(secured_kafka, "OIDC", token))


@pytest.mark.parametrize("kind", ["expired", "forged", "unsecured"])
def test_tokens_that_the_broker_refuses(secured_kafka, kind, record_property):
    issuer = secured_kafka.security.issuer
    if kind == "unsecured":
        token = unsecured_token("billing")
    else:
        token = issuer.token("billing", -3600 if kind == "expired" else 3600, forged=kind == "forged")
    # The client reads the expiry, and need not send an expired token to a broker.
    names_broker = kind != "expired"
    found = failure(record_property, names_broker=names_broker, **token_options(secured_kafka, "OIDC", token))
    assert isinstance(found.error, SaslAuthenticationFailedError)
    assert token not in str(found.error)


def test_client_credentials(secured_kafka, private_topic):
    issuer = secured_kafka.security.issuer
    seen = len(issuer.requests)
    reads(private_topic("billing"), **oidc_options(secured_kafka), sasl_oauthbearer_scope="kafka records")
    assert {request.status for request in issuer.requests[seen:]} == {200}
    assert issuer.requests[seen].form["scope"] == "kafka records"


def test_a_wrong_client_secret(secured_kafka, record_property):
    """No broker is named: the token endpoint refused, and no connection was opened."""
    options = oidc_options(secured_kafka, secret="wrong-secret")
    found = failure(record_property, names_broker=False, **options)
    assert isinstance(found.error, SaslAuthenticationFailedError)
    assert "invalid_client" in str(found.error)


def without_secret(secured_kafka, login, key):
    """Return the options of a login by an assertion that ``key`` signs, or as an Azure machine."""
    issuer = secured_kafka.security.issuer
    if login == "azure_imds":
        config = "query=api-version=2018-02-01&resource=kafka&client_id=billing"
        own = {"metadata_authentication_type": login, "token_endpoint_url": issuer.metadata_url, "config": config}
    else:
        password = BestAvailableEncryption(KEY_PASSWORD.encode())
        own = {
            "token_endpoint_url": issuer.token_url,
            "assertion_private_key_pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password).decode(),
            "assertion_private_key_passphrase": KEY_PASSWORD,
            "assertion_algorithm": "ES256",
            "assertion_claim_aud": issuer.url,
            "assertion_claim_jti_include": True,
        }
        if login == "grant":
            own |= {"grant_type": JWT_BEARER, "assertion_claim_iss": "billing", "assertion_claim_sub": "alice"}
        else:
            own["client_credentials_client_id"] = "billing"
    options = {f"sasl_oauthbearer_{name}": value for name, value in own.items()}
    return secured_kafka.client_options("OIDC", "OAUTHBEARER") | options


@pytest.mark.parametrize("login", ["grant", "client assertion", "azure_imds"])
def test_logins_without_a_secret(secured_kafka, private_topic, record_property, login):
    """KIP-1139: the issuer gives a token for the assertion's subject. KIP-1258: the assertion replaces the secret."""
    issuer, key = secured_kafka.security.issuer, ec.generate_private_key(ec.SECP256R1())
    options = without_secret(secured_kafka, login, key)
    if login != "azure_imds":
        found = failure(record_property, names_broker=False, **options)
        assert isinstance(found.error, SaslAuthenticationFailedError)
        assert "invalid_client" in str(found.error), "the issuer does not know this key"
    issuer.keys["billing"] = key.public_key()
    seen = len(issuer.requests)
    reads(private_topic("alice" if login == "grant" else "billing"), **options)
    assert {request.status for request in issuer.requests[seen:]} == {200}


# -- Kerberos


@pytest.fixture
def kerberos(kdc, monkeypatch):
    """Return a function that lets this process use the KDC, with the principal's keytab as the default one."""
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        missing(str(error))

    def use(principal=None):
        keytab = None if principal is None else kdc.keytab(principal)
        monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
        for name, value in kdc.client_environment(keytab).items():
            monkeypatch.setenv(name, value)
        return keytab

    return use


def test_kerberos_with_the_default_keytab(secured_kafka, private_topic, kerberos):
    kerberos("dave")
    reads(private_topic("dave"), **secured_kafka.client_options("KERBEROS"))


def test_kerberos_with_a_keytab_of_its_own(secured_kafka, private_topic, kdc, kerberos):
    kerberos()
    keytab = str(kdc.keytab("erin"))
    options = secured_kafka.client_options("KERBEROS")
    reads(
        private_topic("erin"),
        **options,
        sasl_kerberos_principal=f"erin@{kdc.realm}",
        sasl_kerberos_keytab=keytab,
        sasl_kerberos_domain_name="localhost",
    )


@pytest.mark.parametrize("wrong", ["service", "no credentials"])
def test_kerberos_refused(secured_kafka, kerberos, wrong, record_property):
    kerberos(None if wrong == "no credentials" else "dave")
    options = secured_kafka.client_options("KERBEROS")
    if wrong == "service":
        options["sasl_kerberos_service_name"] = f"not-{SERVICE}"
    found = failure(record_property, **options)
    assert isinstance(found.error, SaslAuthenticationFailedError)


# -- sessions that end


@pytest.mark.soak(120)
def test_a_group_is_not_disturbed_by_reauthentication(
    request, secured_kafka, new_topic, soak_seconds, record_property, caplog
):
    """With connections.max.reauth.ms=10000 no record is lost or read twice, no member rebalances or is disconnected.

    One member each with SCRAM, PLAIN and tokens that expire after 12 s, and with Kerberos if there is a KDC.
    """
    seconds = soak_seconds if request.config.getoption("--soak") else 25.0
    topic = new_topic(secured_kafka, 6)
    issuer = secured_kafka.security.issuer
    members = [
        secured_kafka.client_options("SHORT", "SCRAM-SHA-512"),
        secured_kafka.client_options("SHORT", "PLAIN", "bob"),
        {
            **oidc_options(secured_kafka, "SHORT"),
            "sasl_login_refresh_min_period_seconds": 1,
            "sasl_login_refresh_buffer_seconds": 2,
        },
    ]
    if secured_kafka.security.kdc is not None:
        request.getfixturevalue("kerberos")("dave")
        members.append(secured_kafka.client_options("SHORT", "GSSAPI"))
    crew = Locals(secured_kafka.address("SHORT"), topic, topic, 6)
    issuer.lifetime, issued = 12.0, len(issuer.requests)
    try:
        for options in members:
            del options["bootstrap_servers"]
            crew.join(**options)
        crew.poll_until(crew.is_stable, 30, "the first assignment")
        generation = {member.generation for member in crew.members}
        before = len(secured_kafka.log(1))
        caplog.clear()
        with produce.SteadyProducer(secured_kafka.bootstrap, topic, 6, records_per_second=300) as producer:
            crew.poll_for(seconds)
            written = producer.stop()
        crew.poll_until(lambda: len(found_by(crew)) >= sum(written.values()), 20, "all records")
        log = secured_kafka.log(1)[before:]
        assert found_by(crew) == Counter((number, offset) for number, end in written.items() for offset in range(end))
        assert {member.generation for member in crew.members} == generation
        assert crew.is_stable(time.monotonic() - 10)
        assert [event for member in crew.members for event in member.events if event.what == "trouble"] == []
        warnings = [each for each in caplog.get_records("call") if each.name.startswith("thin")]
        assert [each.getMessage() for each in warnings if each.levelno >= logging.WARNING] == []
        closed = [member.consumer.metrics()["consumer-metrics"]["connection-close-total"] for member in crew.members]
        assert closed == [0] * len(crew.members)
        assert EXPIRED_LINE not in log
        # Each member has at least two connections: for the coordinator, and for fetching.
        again = log.count(REAUTHENTICATION_LINE)
        assert again >= 2 * len(members) * int(seconds / 10 - 1)
        said = f"{again} logins in {seconds:.0f} s on open connections, {sum(written.values())} records"
        record_property("logged in again", said)
        print(said)
        if seconds > issuer.lifetime:
            assert len(issuer.requests) > issued + 1
    finally:
        issuer.lifetime = 3600.0
        crew.close()


def test_a_session_that_cannot_be_renewed_is_raised(secured_kafka, private_topic, record_property):
    """The connections are open, but their sessions of 8 s end, and the provider has no token to log in again with."""
    topic = private_topic("billing")
    faults = []

    def provider():
        for fault in faults:
            raise fault
        return secured_kafka.security.issuer.token("billing", 8)

    options = {**secured_kafka.client_options("SHORT", "OAUTHBEARER"), "sasl_oauth_token_provider": provider}
    reads(topic, **options)
    with Consumer(auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert sum(map(len, consumer.poll(10_000).values())) == 3
        faults.append(RuntimeError("vault is sealed"))
        began = time.monotonic()
        with pytest.raises(SaslAuthenticationFailedError, match="vault is sealed"):
            poll_for_long(consumer, 30)
        record_property("time to the error", f"{time.monotonic() - began:.1f} s")
        assert "OAUTHBEARER token" in consumer.health().reason
        faults.clear()
        produce.with_confluent(secured_kafka.bootstrap, topic, produce.numbered(1))
        found = []

        def read():
            with contextlib.suppress(SaslAuthenticationFailedError):
                found.extend(record.value for records in consumer.poll(1000).values() for record in records)
            return found

        assert wait_for(read, 20, "a record with a new token") == [b"0"]


def test_a_connection_that_is_no_longer_logged_in_is_closed(secured_kafka, private_topic):
    """A proxy answers three Fetches with ILLEGAL_SASL_STATE, and lets two logins seem to end after 2 s.

    The broker limits no session, and so refuses to let the connection log in again, with the same error code.
    """
    topic, refusals, sessions = private_topic("alice"), [1] * 3, [2000] * 2

    def edit(api, version, correlation_id, frame):
        if api == FetchRequest.API_KEY and refusals:
            refusals.pop()
            return encode_response(FetchResponse(error_code=int(Code.ILLEGAL_SASL_STATE)), version, correlation_id)
        if api == SaslAuthenticateRequest.API_KEY and sessions and not refusals:
            return encode_response(
                SaslAuthenticateResponse(session_lifetime_ms=sessions.pop()), version, correlation_id
            )
        return frame

    options = secured_kafka.client_options("LOGIN", "PLAIN", "alice")
    reads(topic, **options)
    host, _, port = options["bootstrap_servers"].rpartition(":")
    with (
        Proxy((host, int(port)), edit) as proxy,
        Consumer(auto_offset_reset="earliest", resolver=proxy.resolve, **options) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        health, found, until = "", [], time.monotonic() + 20
        while time.monotonic() < until and (sessions or len(found) < 4):
            try:
                found += [record.value for records in consumer.poll(500).values() for record in records]
            except SaslAuthenticationFailedError:
                health += consumer.health().reason
            if len(found) == 3 and not sessions:
                produce.with_confluent(secured_kafka.bootstrap, topic, produce.numbered(1))
        assert found == [b"0", b"1", b"2", b"0"]
        assert "ILLEGAL_SASL_STATE to Fetch" in health and "ILLEGAL_SASL_STATE to SaslHandshake" in health
        assert 6 <= proxy.accepted <= 16


def found_by(crew):
    """Return how often each record was returned, by partition and offset."""
    found = Counter()
    for member in crew.members:
        for event in member.events:
            if event.what == "records":
                partition, *offsets = event.numbers
                found.update((partition, offset) for offset in offsets)
    return found
