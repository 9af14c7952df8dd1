"""The same security options for Spark's own Kafka connector and this source: TLS and logins on one real broker.

Only the format's name differs. Needs the PySpark version that the connector's jars fit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")
pytest.importorskip("trustme")

from realkafka import KafkaCluster, produce
from realkafka.certificates import STORE_PASSWORD
from realkafka.security import CLIENTS, MODULES, USERS

pytestmark = pytest.mark.real

OURS = "thinconsumer"
SOURCES = ("kafka", OURS)
HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"


def jaas(module: str, **options: str) -> str:
    words = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"{module} required{words};"


class Secured:
    """A cluster with a listener of every kind, and ways to connect to it with options of Java's client."""

    def __init__(self, session, cluster: KafkaCluster, trust_store) -> None:
        self.session = session
        self.cluster = cluster
        security = cluster.security
        carol = security.certificates["carol"]
        self._pem = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(security.authority.ca_file),
        }
        self._pkcs12 = {
            "kafka.ssl.truststore.type": "PKCS12",
            "kafka.ssl.truststore.location": str(trust_store),
            "kafka.ssl.truststore.password": STORE_PASSWORD,
        }
        self._pem_text = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": security.authority.ca_file.read_text(),
        }
        self.ways: dict[str, dict[str, str]] = {
            "SCRAM-SHA-512, trust store in PEM": self.login("SCRAM-SHA-512"),
            "SCRAM-SHA-256, trust store in PKCS12": self.login("SCRAM-SHA-256", trust=self._pkcs12),
            "PLAIN, certificates as PEM text": self.login("PLAIN", trust=self._pem_text),
            "client certificate in PKCS12": self._at(
                "MUTUAL",
                self._pkcs12,
                **{
                    "kafka.ssl.keystore.type": "PKCS12",
                    "kafka.ssl.keystore.location": str(carol.pkcs12_file),
                    "kafka.ssl.keystore.password": STORE_PASSWORD,
                    "kafka.ssl.key.password": STORE_PASSWORD,
                },
            ),
            "client certificate as PEM text": self._at(
                "MUTUAL",
                self._pem,
                **{
                    "kafka.ssl.keystore.type": "PEM",
                    "kafka.ssl.keystore.key": carol.key_file.read_text(),
                    "kafka.ssl.keystore.certificate.chain": carol.cert_file.read_text(),
                },
            ),
            "OAUTHBEARER with OIDC": self._at(
                "OIDC",
                self._pem,
                **{
                    "kafka.sasl.mechanism": "OAUTHBEARER",
                    "kafka.sasl.login.callback.handler.class": HANDLER,
                    "kafka.sasl.oauthbearer.token.endpoint.url": security.issuer.token_url,
                    "kafka.sasl.jaas.config": jaas(
                        MODULES["OAUTHBEARER"], clientId="billing", clientSecret=CLIENTS["billing"]
                    ),
                },
            ),
        }

    def login(self, mechanism: str, password: str = USERS["alice"], trust: dict[str, str] | None = None):
        return self._at(
            "SECURE",
            trust or self._pem,
            **{
                "kafka.sasl.mechanism": mechanism,
                "kafka.sasl.jaas.config": jaas(MODULES[mechanism], username="alice", password=password),
            },
        )

    def _at(self, listener: str, trust: dict[str, str], **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.cluster.address(listener),
            "kafka.security.protocol": self.cluster.security.listener(listener).protocol,
            "kafka.request.timeout.ms": "10000",
            "kafka.default.api.timeout.ms": "15000",
            "fetchOffset.numRetries": "1",
            **trust,
            **more,
        }

    def new_topic(self) -> str:
        return self.cluster.create_topic(f"secured-{uuid.uuid4().hex[:8]}", 2)

    def rows(self, source: str, topic: str, options: dict[str, str]) -> list[Any]:
        frame = self.session.read.format(source).options(**options, subscribe=topic).load()
        return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))

    def write(self, source: str, topic: str, options: dict[str, str], values: list[str]) -> None:
        rows = self.session.createDataFrame([(value, value) for value in values], "key string, value string")
        rows.coalesce(1).write.format(source).mode("append").options(**options).option("topic", topic).save()

    def copy(self, source: str, topic: str, to: str, options: dict[str, str], checkpoint) -> None:
        frame = self.session.readStream.format(source).options(**options, subscribe=topic)
        frame = frame.option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format(source).options(**options).option("topic", to).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()


WAYS = (
    "SCRAM-SHA-512, trust store in PEM",
    "SCRAM-SHA-256, trust store in PKCS12",
    "PLAIN, certificates as PEM text",
    "client certificate in PKCS12",
    "client certificate as PEM text",
    "OAUTHBEARER with OIDC",
)


@pytest.fixture(scope="module")
def secured(connector_jars, request, tmp_path_factory) -> Iterator[Secured]:
    if not connector_jars:
        pytest.skip("there are no jars of Spark's own connector for this PySpark")
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    cluster = request.getfixturevalue("secured_kafka")
    authority = x509.load_pem_x509_certificate(cluster.security.authority.ca_file.read_bytes())
    store = tmp_path_factory.mktemp("trust") / "truststore.p12"
    store.write_bytes(
        pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority, b"authority")],
            serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
    )
    return Secured(request.getfixturevalue("spark"), cluster, store)


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_read_and_written_with_the_same_options(secured, way):
    options, topic = secured.ways[way], secured.new_topic()
    for source in SOURCES:
        secured.write(source, topic, options, [f"{source}-{number}" for number in range(10)])
    official, ours = (secured.rows(source, topic, options) for source in SOURCES)
    assert ours == official
    assert sorted(bytes(row.value).decode() for row in ours) == sorted(
        f"{source}-{number}" for source in SOURCES for number in range(10)
    )


@pytest.mark.parametrize("way", ["SCRAM-SHA-512, trust store in PEM", "OAUTHBEARER with OIDC"])
def test_streams_read_and_write_with_the_same_options(secured, tmp_path, way):
    options, topic = secured.ways[way], secured.new_topic()
    produce.with_confluent(secured.cluster.bootstrap, topic, produce.numbered(50))
    for source in SOURCES:
        to = secured.new_topic()
        secured.copy(source, topic, to, options, tmp_path / source)
        values = sorted(bytes(row.value) for row in secured.rows(OURS, to, options))
        assert values == sorted(b"%d" % number for number in range(50))


def test_both_refuse_a_wrong_password(secured):
    topic = secured.new_topic()
    options = secured.login("SCRAM-SHA-512", password="wrong-secret")
    more = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "3000"}
    for source in SOURCES:
        with pytest.raises(Exception, match=r"(?i)authentication|credentials") as error:
            secured.rows(source, topic, {**options, **more})
        assert "wrong-secret" not in str(error.value)
