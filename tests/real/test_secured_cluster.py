"""The secured clusters that other tests log in to: other clients log in, and are rejected with wrong credentials."""

import gc
import json
import socket
import ssl
import struct
import time
import urllib.parse
import urllib.request

import pytest
from realkafka import kdc as kdc_module
from realkafka import new_cluster, wait_for
from realkafka.certificates import Authority
from realkafka.fixtures import missing
from realkafka.oidc import Issuer, unsecured_token
from realkafka.security import (
    EXPIRED_LINE,
    REAUTHENTICATION_LINE,
    REAUTHENTICATION_MS,
    Listener,
    Security,
    client_certificate,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
#: Seconds that a refused login may take; librdkafka retries until then.
REFUSED_SECONDS = 3


def librdkafka(errors=None, **options):
    """Return an admin client of librdkafka with kafka-python's options."""
    from confluent_kafka.admin import AdminClient

    names = {
        "bootstrap_servers": "bootstrap.servers",
        "ssl_cafile": "ssl.ca.location",
        "ssl_certfile": "ssl.certificate.location",
        "ssl_keyfile": "ssl.key.location",
        "sasl_plain_username": "sasl.username",
        "sasl_plain_password": "sasl.password",
        "oauth_cb": "oauth_cb",
    }
    config = {names.get(name, name.replace("_", ".")): value for name, value in options.items()}
    report = (lambda error: None) if errors is None else (lambda error: errors.append(str(error)))
    return AdminClient({**config, "log_level": 0, "error_cb": report})


def topics(**options):
    """Return the topics that librdkafka sees with kafka-python's options."""
    errors = []
    client = librdkafka(errors, **options)
    client.poll(0.1 if "oauth_cb" in options else 0)
    try:
        return set(client.list_topics(timeout=REFUSED_SECONDS).topics)
    except Exception as error:
        client.poll(0)
        raise PermissionError(f"{error} {errors}") from error


def with_kafka_python(**options):
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(**options)
    try:
        return set(client.list_topics())
    finally:
        client.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["LOGIN", "SECURE", "SHORT"])
def test_passwords(secured_kafka, listener, mechanism):
    options = secured_kafka.client_options(listener, mechanism)
    topics(**options)
    with pytest.raises(PermissionError, match="(?i)authentication"):
        topics(**{**options, "sasl_plain_password": "wrong"})


def test_server_certificates(secured_kafka):
    options = secured_kafka.client_options("TLS")
    topics(**options)
    for listener in ("ELSEWHERE", "EXPIRED"):
        with pytest.raises(PermissionError, match="certificate verify failed"):
            topics(**secured_kafka.client_options(listener))
    with pytest.raises(PermissionError, match="certificate"):
        topics(**{**options, "ssl_cafile": ""})


@pytest.mark.parametrize("listener", ["TLS12", "MUTUAL", "ASKED"])
def test_client_certificates(secured_kafka, new_topic, listener):
    topic = new_topic(secured_kafka)
    secured_kafka.allow_only("User:carol", topic, "describe")
    options = secured_kafka.client_options(listener)
    security = secured_kafka.security
    wait_for(lambda: topic in topics(**options, **client_certificate(security.certificates["carol"])), 5, "the ACL")
    if listener == "ASKED":
        topics(**options)
    else:
        with pytest.raises(PermissionError):
            topics(**options)


def test_acls_name_users_of_every_mechanism(secured_kafka, new_topic):
    topic = new_topic(secured_kafka)
    secured_kafka.allow_only("User:alice", topic, "describe")
    alice, bob = (secured_kafka.client_options("LOGIN", "SCRAM-SHA-512", user) for user in ("alice", "bob"))
    wait_for(lambda: topic in topics(**alice) and topic not in topics(**bob), 5, "the ACL")
    assert topic in topics(**secured_kafka.client_options("LOGIN", "PLAIN", "admin"))  # a super user


@pytest.mark.parametrize(
    ("listener", "kind", "accepted"),
    [
        ("UNSECURED", "unsecured", True),
        ("UNSECURED", "unsecured, expired", False),
        ("OIDC", "signed", True),
        ("OIDC", "expired", False),
        ("OIDC", "forged", False),
        ("OIDC", "unsecured", False),
    ],
)
def test_tokens(secured_kafka, new_topic, listener, kind, accepted):
    issuer = secured_kafka.security.issuer
    lifetime = -3600 if "expired" in kind else 3600
    if "unsecured" in kind:
        token = unsecured_token("billing", lifetime)
    else:
        token = issuer.token("billing", lifetime, forged=kind == "forged")
    topic = new_topic(secured_kafka)
    secured_kafka.allow_only("User:billing", topic, "describe")
    options = secured_kafka.client_options(listener)
    options["oauth_cb"] = lambda _: (token, time.time() + 3600)
    if accepted:
        wait_for(lambda: topic in topics(**options), 5, "the ACL")
    else:
        with pytest.raises(PermissionError, match="(?i)authentication"):
            topics(**options)


def test_client_credentials(secured_kafka):
    """Librdkafka's own OIDC client gets its tokens from the issuer's endpoint."""
    issuer = secured_kafka.security.issuer
    options = secured_kafka.client_options("OIDC")
    seen = len(issuer.requests)
    topics(
        **options,
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_client_id="billing",
        sasl_oauthbearer_client_secret="billing-secret",
        sasl_oauthbearer_token_endpoint_url=issuer.token_url,
    )
    assert [request.status for request in issuer.requests[seen:]] == [200]


def test_kerberos(secured_kafka, kdc, new_topic, monkeypatch):
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        missing(str(error))
    topic = new_topic(secured_kafka)
    secured_kafka.allow_only("User:dave", topic, "describe")
    for name, value in kdc.client_environment(kdc.keytab("dave")).items():
        monkeypatch.setenv(name, value)
    options = {**secured_kafka.client_options("KERBEROS"), "sasl_kerberos_domain_name": "localhost"}
    wait_for(lambda: topic in with_kafka_python(**options), 5, "the ACL")
    gc.collect()


def request(stream, api, version, body):
    """Send a request by hand, and return the response without its correlation id; b"" if there is none."""
    message = struct.pack(">hhih", api, version, 7, -1) + body
    stream.sendall(struct.pack(">i", len(message)) + message)
    with stream.makefile("rb") as file:
        size = file.read(4)
        return file.read(int.from_bytes(size, "big"))[4:]


def test_expired_sessions_and_reauthentications_are_in_the_log(secured_kafka):
    """Librdkafka logs in again; a connection that does not is closed. Other tests search the broker's log for both."""
    options = secured_kafka.client_options("SHORT", "PLAIN")
    before = len(secured_kafka.log(1))
    host, port = options["bootstrap_servers"].split(":")
    context = ssl.create_default_context(cafile=options["ssl_cafile"])
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, False, True, True, host) as stream,
    ):
        assert request(stream, SASL_HANDSHAKE, 1, b"\0\5PLAIN")[:2] == b"\0\0"
        token = f"\0alice\0{options['sasl_plain_password']}".encode()
        answer = request(stream, SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token)
        assert answer[:2] == b"\0\0"
        assert int.from_bytes(answer[-8:], "big") == REAUTHENTICATION_MS
        client = librdkafka(**options)
        until = time.monotonic() + REAUTHENTICATION_MS / 1000 + 0.5
        while time.monotonic() < until:
            client.list_topics(timeout=5)
            time.sleep(0.5)
        log = secured_kafka.log(1)[before:]
        assert REAUTHENTICATION_LINE in log
        assert EXPIRED_LINE not in log
        assert request(stream, API_VERSIONS, 0, b"") == b""
        wait_for(lambda: EXPIRED_LINE in secured_kafka.log(1)[before:], 5, "the line in the log")


def test_three_secured_brokers(tmp_path):
    """All brokers know the credentials that were made while formatting, and clients find every secured port."""
    authority = Authority(tmp_path)
    security = Security(
        [Listener("SECURE", "SASL_SSL", ("SCRAM-SHA-512",))],
        authority=authority,
        certificates={"broker": authority.issue("broker", "localhost")},
        authorizes=True,
    )
    with new_cluster(brokers=3, security=security) as cluster:
        cluster.create_topic("a", 3)
        ports = {ports["SECURE"] for ports in cluster.listener_ports.values()}
        assert len(ports) == 3
        for port in ports:
            options = cluster.client_options("SECURE") | {"bootstrap_servers": f"localhost:{port}"}
            assert "a" in topics(**options)


def test_without_a_kdc_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(kdc_module, "_which", lambda name: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(kdc_module.NoKdc, match="no krb5kdc and no .*apt-get"):
        kdc_module.programs()
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(kdc_module.NoKdc, match="no apt-get"):
        kdc_module.programs()


def test_the_issuer_answers_as_rfc_6749_asks():
    """The token endpoint rejects wrong secrets; no broker is needed."""
    with Issuer({"id+1": "sec ret/"}) as issuer:

        def ask(form, **headers):
            data = urllib.parse.urlencode(form).encode()
            request = urllib.request.Request(issuer.token_url, data, headers)
            with urllib.request.urlopen(request, timeout=5) as response:
                return json.load(response)

        form = {"grant_type": "client_credentials", "client_id": "id+1", "client_secret": "sec ret/", "scope": "a"}
        assert ask(form)["scope"] == "a"
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask({**form, "client_secret": "x"})
        assert caught.value.code == 401
        caught.value.close()
        assert [each.status for each in issuer.requests] == [200, 401]
