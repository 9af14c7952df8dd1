"""Consumers that log in to the embedded broker with tokens of a server that verifies their assertions with PyJWT."""

import functools
import json
import logging
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from thinconsumer import Consumer, SaslAuthenticationFailedError, TopicPartition
from thinconsumer.broker import EmbeddedBroker
from thinconsumer.config.security_kinds import JWT_BEARER

PASSPHRASE = "passphrase-c4n4ry"
SERVER_AUDIENCE = "https://idp.example"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PATIENCE_S = 20.0


class TokenServer(HTTPServer):
    """A token endpoint on this machine, and at ``/metadata`` that of Azure's metadata service.

    It trusts the assertions of ``app``, signed with the key ES256, and signs tokens with the key RS256.
    """

    def __init__(self, keys):
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = keys
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.hostile = []  #: Bytes to answer the next requests with.
        self.seen = []  #: Assertions and tokens: what must not be shown.
        self.ids = []  #: The claim jti of each assertion.
        self.statuses = []
        self.faults = []  #: Errors of this server itself.

    def token(self, subject):
        claims = {"sub": subject, "iat": int(time.time()) - 20, "exp": int(time.time()) + 600}
        self.seen.append(jwt.encode(claims, self.keys.pem("RS256"), "RS256"))
        return {"access_token": self.seen[-1], "token_type": "Bearer", "expires_in": "600"}

    def check(self, assertion):
        """Return the claims of an assertion; raise an error of PyJWT if it is none that this server trusts."""
        self.seen.append(assertion)
        needed = {"require": ["exp", "iat", "nbf", "iss", "sub", "aud", "jti"]}
        claims = jwt.decode(
            assertion, self.keys.public("ES256"), ["ES256"], audience=SERVER_AUDIENCE, issuer="app", options=needed
        )
        assert claims["jti"] not in self.ids, "an assertion was used twice"
        self.ids.append(claims["jti"])
        return claims

    def answer_form(self, form):
        try:
            if form["grant_type"] == JWT_BEARER:
                return 200, self.token(self.check(form["assertion"])["sub"])
            assert (form["grant_type"], form["client_assertion_type"]) == ("client_credentials", ASSERTION_TYPE)
            claims = self.check(form["client_assertion"])
            assert claims["sub"] == form["client_id"] == "app"
            return 200, self.token(claims["sub"])
        except jwt.InvalidTokenError as error:
            return 401, {"error": "invalid_client", "error_description": f"{error}: {[*form.values()]}"}

    def answer_metadata(self, query, headers):
        if headers.get("Metadata") != "true" or not {"api-version", "resource"} <= query.keys():
            return 400, {"error": "invalid_request", "error_description": "Required metadata header not specified"}
        return 200, self.token(query["client_id"])


class Handler(BaseHTTPRequestHandler):
    timeout = 5

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except Exception as error:
            self.server.faults.append(error)
            raise

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer(*self.server.answer_form(dict(urllib.parse.parse_qsl(body, strict_parsing=True))))

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.answer(*self.server.answer_metadata(query, self.headers))

    def answer(self, status, parsed):
        self.server.statuses.append(status)
        if self.server.hostile:
            self.wfile.write(self.server.hostile.pop(0))
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(parsed).encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(keys):
    with TokenServer(keys) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    assert not server.faults


@pytest.fixture
def broker(keys):
    """A broker that accepts tokens which the key RS256 verifies."""
    public = keys.public("RS256").public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.key": public,
        "connection.failed.authentication.delay.ms": 1,
    }
    with EmbeddedBroker(topics={"t": 1}, security=security) as broker:
        broker.produce("t", [b"one"])
        yield broker


@pytest.fixture
def key_file(keys, tmp_path):
    path = tmp_path / "key.pem"
    path.write_bytes(keys.pem("ES256", PASSPHRASE))
    return path


@pytest.fixture
def login(request, server, key_file, keys, tmp_path):
    """The options of a login, as a configuration of Java's client or librdkafka has them."""
    prefix = "sasl.oauthbearer."
    signed = {
        f"{prefix}token.endpoint.url": f"{server.url}/token",
        f"{prefix}assertion.algorithm": "ES256",
        f"{prefix}assertion.private.key.passphrase": PASSPHRASE,
        f"{prefix}assertion.claim.aud": SERVER_AUDIENCE,
        f"{prefix}assertion.claim.jti.include": "true",
    }
    if request.param == "Java, grant":
        retriever = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
        (tmp_path / "template.json").write_text('{"payload": {"iss": "app", "sub": "alice"}}')
        files = {"private.key.file": str(key_file), "template.file": str(tmp_path / "template.json")}
        return {f"{prefix}jwt.retriever.class": retriever, **signed} | {
            f"{prefix}assertion.{name}": path for name, path in files.items()
        }
    if request.param == "Java, client assertion":
        own = {"client.credentials.client.id": "app", "assertion.claim.iss": "app", "assertion.claim.sub": "app"}
        return {**signed, **{prefix + name: value for name, value in own.items()}} | {
            f"{prefix}assertion.private.key.file": str(key_file)
        }
    if request.param == "librdkafka, grant":
        own = {"grant.type": JWT_BEARER, "assertion.claim.iss": "app", "assertion.claim.sub": "alice"}
        own |= {"method": "oidc", "assertion.private.key.pem": keys.pem("ES256", PASSPHRASE).decode()}
        return {**signed, **{prefix + name: value for name, value in own.items()}}
    assert request.param == "librdkafka, azure_imds"
    own = {"method": "oidc", "metadata.authentication.type": "azure_imds"}
    own |= {
        "config": "query=api-version=2018-02-01&resource=r&client_id=vm",
        "token.endpoint.url": f"{server.url}/metadata",
    }
    return {prefix + name: value for name, value in own.items()}


def consumer_of(broker, login, **more):
    """Return a consumer, and the function to poll it with while the broker works."""
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "auto.offset.reset": "earliest"}
    consumer = Consumer.from_config({"bootstrap.servers": broker.bootstrap_servers, **common, **login, **more})
    consumer.assign([TopicPartition("t", 0)])

    def values(at_least=1):
        deadline, found = time.monotonic() + PATIENCE_S, []
        while len(found) < at_least:
            assert time.monotonic() < deadline, consumer.health()
            found += [record.value for records in consumer.poll(timeout_ms=0).values() for record in records]
            broker.step(0.01)
        return found

    return consumer, values


LOGINS = ("Java, grant", "Java, client assertion", "librdkafka, grant", "librdkafka, azure_imds")


@pytest.mark.parametrize("login", LOGINS, indirect=True)
def test_a_consumer_reads(broker, server, login, caplog):
    caplog.set_level(logging.DEBUG)
    consumer, values = consumer_of(broker, login)
    assert values() == [b"one"]
    shown = f"{caplog.text} {consumer!r} {consumer.health()!r} {consumer.config!r}"
    consumer.close(timeout_ms=0)
    assert server.statuses == [200] and "new OAUTHBEARER token" in caplog.text
    secrets = [part for value in server.seen for part in (value, value.rpartition(".")[2])]
    assert secrets and not [secret for secret in (PASSPHRASE, "PRIVATE KEY", *secrets) if secret in shown]


#: One for each login; tests/sasl/test_token_fetch.py has each answer for each kind of request.
HOSTILE = (
    (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "redirects are not followed"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"c4n4ry" * 20_000, "more than 65536 bytes"),
    (b"\x00c4n4ry\r\n\r\n", "not valid HTTP"),
    (b'HTTP/1.1 200 OK\r\n\r\n{"access_token": "a.b.c4n4ry", "expires_in": "-1"', "not a JSON object"),
)


@pytest.mark.parametrize(
    ("login", "answer", "words"),
    [pytest.param(login, *hostile, id=login) for login, hostile in zip(LOGINS, HOSTILE, strict=True)],
    indirect=["login"],
)
def test_hostile_answers_are_errors_and_the_next_attempt_succeeds(broker, server, login, answer, words, caplog):
    """No assertion is sent twice: each attempt makes its own, or servers that remember ``jti`` refuse it."""
    caplog.set_level(logging.DEBUG)
    server.hostile = [answer]
    backoff = {"sasl.login.retry.backoff.ms": 1, "sasl.login.retry.backoff.max.ms": 1}
    consumer, values = consumer_of(broker, login, **backoff)
    with pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
        values()
    assert words in consumer.health().reason
    assert values() == [b"one"]
    shown = f"{caught.value} {caught.value.__cause__} {caplog.text} {consumer.health()!r}"
    consumer.close(timeout_ms=0)
    assert server.statuses == [200, 200] and len(server.ids) in (0, 2)
    assert not [secret for secret in (*server.seen, "c4n4ry") if secret in shown]


@pytest.mark.parametrize("login", ["Java, client assertion"], indirect=True)
def test_a_rejected_assertion_and_a_lost_key_are_raised_until_they_are_repaired(broker, server, login, keys, key_file):
    """The key is read anew for each attempt. The server's error repeats the assertion, which is hidden."""
    key_file.write_bytes(keys.pem("P-384", PASSPHRASE))
    backoff = {"sasl.login.retry.backoff.ms": 1, "sasl.login.retry.backoff.max.ms": 1}
    consumer, values = consumer_of(broker, login, **backoff)
    with pytest.raises(SaslAuthenticationFailedError, match="it is not a P-256 key"):
        values()
    key_file.unlink()
    with pytest.raises(SaslAuthenticationFailedError, match=r"key\.pem: No such file"):
        values()
    assert not server.statuses
    server.keys = type(keys)()
    key_file.write_bytes(keys.pem("ES256", PASSPHRASE))
    with pytest.raises(SaslAuthenticationFailedError, match="Signature verification failed.*<hidden>") as caught:
        values()
    assert "check the assertion's key or file" in str(caught.value) and "eyJ" not in str(caught.value)
    server.keys = keys
    assert values() == [b"one"]
    consumer.close(timeout_ms=0)
    assert server.statuses[0] == 401 and server.statuses[-1] == 200
