"""Other Kafka clients on secured listeners: kafka-python, aiokafka and confluent-kafka over SSL, SASL_PLAINTEXT and
SASL_SSL, with every mechanism.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import aiokafka.abc
import aiokafka.errors
import kafka
import kafka.errors
import kafka.net.sasl.oauth
import pytest

from thinconsumer_testing.broker.process import BrokerProcess

try:
    import confluent_kafka as confluent
except ImportError:
    confluent = None

trustme = pytest.importorskip("trustme")

#: These libraries do not always close broken sockets. No socket of this project is open in this process.
pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("leftovers_forgiven"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(300),
]

PATIENCE_S = 30.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
VALUES = [b"one", b"two"]


class Login(NamedTuple):
    """The options of a client. ``files`` has ``ca.pem``, ``client.pem`` and ``client.key`` if it uses TLS."""

    servers: str
    protocol: str
    mechanism: str = ""
    password: str = "alice-secret"
    files: Path | None = None
    certificate: bool = False
    patience_s: float = PATIENCE_S  #: How long kafka-python retries, also after its password was rejected.

    def token(self) -> str:
        """Return an unsecured token; the password ``wrong`` makes it an expired one."""
        expiry = time.time() + (-10 if self.password == "wrong" else 3600)
        parts = ({"alg": "none"}, {"sub": "alice", "iat": time.time() - 20, "exp": expiry})
        encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
        return ".".join((*encoded, ""))


class KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    """A token provider of kafka-python."""

    def __init__(self, login: Login) -> None:
        super().__init__()
        self.login = login

    def token(self) -> str:
        return self.login.token()


class AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):
    """A token provider of aiokafka."""

    def __init__(self, login: Login) -> None:
        self.login = login

    async def token(self) -> str:
        return self.login.token()


def kafka_python(login: Login) -> list[bytes]:
    """Log in with kafka-python, and return the values of the topic."""
    options: dict[str, Any] = {
        "security_protocol": login.protocol,
        "fetch_max_wait_ms": 20,
        "bootstrap_timeout_ms": login.patience_s * 1000,
    }
    if login.files is not None:
        options["ssl_cafile"] = str(login.files / "ca.pem")
    if login.certificate:
        options |= {"ssl_certfile": str(login.files / "client.pem"), "ssl_keyfile": str(login.files / "client.key")}
    if login.mechanism == "OAUTHBEARER":
        options |= {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": KafkaPythonTokens(login)}
    elif login.mechanism:
        options |= {"sasl_mechanism": login.mechanism, "sasl_plain_username": "alice"}
        options["sasl_plain_password"] = login.password
    consumer = kafka.KafkaConsumer(bootstrap_servers=login.servers, **options)
    partition = kafka.TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < len(VALUES) and time.monotonic() < deadline:
        values += [one.value for records in consumer.poll(timeout_ms=100).values() for one in records]
    consumer.close()
    return values


def aiokafka_(login: Login) -> list[bytes]:
    """Log in with aiokafka, and return the values of the topic."""
    options: dict[str, Any] = {"security_protocol": login.protocol, "fetch_max_wait_ms": 20}
    if login.files is not None:
        context = ssl.create_default_context(cafile=str(login.files / "ca.pem"))
        if login.certificate:
            context.load_cert_chain(login.files / "client.pem", login.files / "client.key")
        options["ssl_context"] = context
    if login.mechanism == "OAUTHBEARER":
        options |= {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": AiokafkaTokens(login)}
    elif login.mechanism:
        options |= {"sasl_mechanism": login.mechanism, "sasl_plain_username": "alice"}
        options["sasl_plain_password"] = login.password

    async def main() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=login.servers, **options)
        try:
            await consumer.start()
            partition = aiokafka.TopicPartition("t", 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(main())


def confluent_kafka(login: Login) -> list[bytes]:
    """Log in with confluent-kafka, and return the values of the topic."""
    failures: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": login.servers,
        "security.protocol": login.protocol,
        "group.id": "g",
        "error_cb": lambda error: failures.append(error),
    }
    if login.files is not None:
        options["ssl.ca.location"] = str(login.files / "ca.pem")
    if login.certificate:
        options["ssl.certificate.location"] = str(login.files / "client.pem")
        options["ssl.key.location"] = str(login.files / "client.key")
    if login.mechanism:
        options["sasl.mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        options["oauth_cb"] = lambda config: (login.token(), time.time() + 3600)
    elif login.mechanism:
        options |= {"sasl.username": "alice", "sasl.password": login.password}
    consumer = confluent.Consumer(options)
    consumer.assign([confluent.TopicPartition("t", 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    fatal = (confluent.KafkaError._AUTHENTICATION, confluent.KafkaError._SSL, confluent.KafkaError._ALL_BROKERS_DOWN)
    while len(values) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            values.append(message.value())
        if any(error.code() in fatal for error in failures):
            consumer.close()
            raise confluent.KafkaException(failures[0])
    consumer.close()
    return values


CLIENTS = [kafka_python, aiokafka_, *([confluent_kafka] if confluent else [])]
FAILURES = (kafka.errors.KafkaError, aiokafka.errors.KafkaError, *([confluent.KafkaException] if confluent else []))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of the server and a client."""
    folder = tmp_path_factory.mktemp("certificates")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    client = ca.issue_cert("alice@example.org", common_name="alice")
    client.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    client.private_key_pem.write_to_path(str(folder / "client.key"))
    return folder


@pytest.fixture(scope="module")
def login(files: Path) -> Iterator[Callable[..., Login]]:
    """``login(protocol, ...)``: a login at a broker with that protocol, which runs until the end of this module."""
    brokers: dict[str, BrokerProcess] = {}

    def make(protocol: str, **details: Any) -> Login:
        uses_tls = protocol.endswith("SSL")
        if protocol not in brokers:
            security: dict[str, Any] = {"security.protocol": protocol}
            if uses_tls:
                security["ssl.keystore.location"] = str(files / "server.pem")
            if protocol == "SSL":
                security |= {"ssl.client.auth": "required", "ssl.truststore.location": str(files / "ca.pem")}
            else:
                security |= {"sasl.enabled.mechanisms": MECHANISMS, "users": {"alice": "alice-secret"}}
                security["connection.failed.authentication.delay.ms"] = 10
            brokers[protocol] = BrokerProcess(topics={"t": 1}, security=security)
            brokers[protocol].produce("t", VALUES)
        return Login(brokers[protocol].bootstrap_servers, protocol, files=files if uses_tls else None, **details)

    yield make
    for broker in brokers.values():
        assert broker.bugs() == []
        broker.close()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl(login, client, mechanism, protocol):
    assert client(login(protocol, mechanism=mechanism)) == VALUES


@pytest.mark.parametrize("client", CLIENTS)
def test_mutual_tls(login, client):
    assert client(login("SSL", certificate=True)) == VALUES


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["", "PLAIN", "SCRAM-SHA-256"])
def test_failed_logins(login, client, mechanism):
    """With a wrong password, or without a certificate."""
    protocol = "SASL_PLAINTEXT" if mechanism else "SSL"
    with pytest.raises(FAILURES):
        client(login(protocol, mechanism=mechanism, password="wrong", patience_s=0.3))


@pytest.mark.skipif(confluent is None, reason="confluent-kafka is not installed")
def test_expired_token(login):
    """aiokafka ignores the server's error message and sends other requests; confluent-kafka reports the failure."""
    with pytest.raises(FAILURES):
        confluent_kafka(login("SASL_PLAINTEXT", mechanism="OAUTHBEARER", password="wrong"))
