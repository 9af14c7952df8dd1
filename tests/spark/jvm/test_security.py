"""TLS and logins with Spark on an embedded broker, and that no secret of the options can be read afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("trustme")

from realkafka.certificates import STORE_PASSWORD, Authority

from thinconsumer.testing import BrokerProcess

PROGRAM = Path(__file__).with_name("canary.py")
#: Part of every secret, so that one search finds all of them.
CANARY = "canary-7f3a"
PASSWORD = f"{CANARY}-password"
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
LOG4J = """\
rootLogger.level = debug
rootLogger.appenderRef.file.ref = File
appender.file.type = File
appender.file.name = File
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""
#: Logging of every Python process. PySpark's own logger py4j has each call of the JVM with its arguments at this level,
#: also options: docs/spark.md warns of it.
SITE = """\
import logging, os
logging.basicConfig(filename=os.path.join({!r}, f"python-{{os.getpid()}}.log"), level=logging.DEBUG)
logging.getLogger("py4j").setLevel(logging.INFO)
"""


class Cluster(NamedTuple):
    """A broker with SASL_SSL, and the files that a client may need."""

    broker: BrokerProcess
    base: dict[str, str]  #: Options to connect, without those to log in.
    key: str  #: The client's private key, as PEM text.
    chain: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    authority = Authority(tmp_path_factory.mktemp("pki"))
    server, client = authority.issue("broker", "localhost", "127.0.0.1"), authority.issue("alice", "alice.test")
    security = {
        "security.protocol": "SASL_SSL",
        "ssl.keystore.location": str(server.keystore_file),
        "ssl.truststore.location": str(authority.ca_file),
        "ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "users": {"alice": PASSWORD},
        "connections.max.reauth.ms": "2000",
    }
    with BrokerProcess(topics={"in": 2, "out": 1}, security=security) as broker:
        base = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.location": str(authority.ca_file),
            "kafka.ssl.truststore.type": "PEM",
            "subscribe": "in",
        }
        for partition in (0, 1):
            broker.produce("in", [b"v"] * 5, partition)
        yield Cluster(broker, base, client.key_file.read_text(), client.cert_file.read_text())


def scram(cluster: Cluster, password: str = PASSWORD, **more: str) -> dict[str, str]:
    login = {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": JAAS.format(password)}
    return {**cluster.base, **login, **more}


def test_a_query_outlives_its_logins(spark, cluster, tmp_path):
    """Connections that tasks and planning keep are idle for longer than a login lasts, between two micro-batches."""
    options = scram(cluster)
    cluster.broker.create_topic("lasting", 1)
    given = {**options, "subscribe": "lasting", "startingOffsets": "earliest"}
    frame = spark.readStream.format("thinconsumer").options(**given).load().select("value")
    writer = frame.writeStream.format("thinconsumer").options(**options).option("topic", "lasted")
    cluster.broker.create_topic("lasted", 1)
    query = writer.trigger(processingTime="3 seconds").option("checkpointLocation", str(tmp_path)).start()
    try:
        for number in range(3):
            cluster.broker.produce("lasting", [b"%d" % number])
            query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    written = spark.read.format("thinconsumer").options(**{**options, "subscribe": "lasted"}).load()
    assert sorted(bytes(row.value) for row in written.collect()) == [b"0", b"1", b"2"]


def cases(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return options by name of the case; together they have every option that can hold a secret."""
    names = {**cluster.base, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "alice"}
    right = {**names, "kafka.sasl.password": PASSWORD}
    quick = {"kafka.default.api.timeout.ms": "1000", "fetchOffset.numRetries": "1", "kafka.delivery.timeout.ms": "3000"}
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.security.protocol": "SASL_SSL", "subscribe": "in"}
    return {
        "JAAS and PEM text": scram(
            cluster, **{"kafka.ssl.keystore.key": cluster.key, "kafka.ssl.keystore.certificate.chain": cluster.chain}
        ),
        "names of librdkafka": {
            **right, "kafka.ssl.key.pem": cluster.key, "kafka.ssl.certificate.pem": cluster.chain,
        },
        "without effect": {
            **right,
            "kafka.sasl.aws.msk.iam.role.external.id": CANARY,
            "kafka.sasl.oauthbearer.extensions": f"a={CANARY}",
            "kafka.ssl.key.password": CANARY,
        },
        "wrong password": {**scram(cluster, f"{CANARY}-wrong"), **quick},
        "wrong password of a store": {
            **right,
            **quick,
            "kafka.ssl.keystore.location": cluster.base["kafka.ssl.truststore.location"].replace(
                "authority.pem", "alice.p12"
            ),
            "kafka.ssl.keystore.password": f"{CANARY}-{STORE_PASSWORD}",
        },
        "no token": {
            **nobody,
            **quick,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"https://127.0.0.1:1/token?key={CANARY}",
            "kafka.sasl.oauthbearer.client.credentials.client.id": "billing",
            "kafka.sasl.oauthbearer.client.credentials.client.secret": CANARY,
        },
        "misspelt and refused": {
            **right,
            "kafka.sasl.jass.config": JAAS.format(CANARY),
            "kafka.ssl.context": CANARY,
            "kafka.ssl.keystore.kye": cluster.key,
            "sasl.password": CANARY,
        },
    }  # fmt: skip


def test_no_secret_is_in_plans_progress_errors_event_log_or_debug_logs(cluster, tmp_path):
    events, site = tmp_path / "events", tmp_path / "site"
    events.mkdir()
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE.format(str(tmp_path)))
    (tmp_path / "log4j2.properties").write_text(LOG4J.format(tmp_path / "jvm.log"))
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{tmp_path}/log4j2.properties "
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.debug.maxToStringFields": "1000",
        "spark.sql.maxPlanStringLength": "1000000",
    }
    plan = tmp_path / "secret" / "plan.json"
    plan.parent.mkdir()
    plan.write_text(json.dumps({"conf": conf, "cases": cases(cluster)}))
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(plan), str(tmp_path)],
        env={**bare, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    plan.unlink()
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    check_that_all_was_recorded(shown, tmp_path)

    key = cluster.key.splitlines()[1]
    found = {what for what, text in shown if CANARY in text or key in text}
    for file in (file for file in tmp_path.rglob("*") if file.is_file()):
        data = file.read_bytes()
        if CANARY.encode() in data or key.encode() in data:
            found.add(str(file.relative_to(tmp_path)))
    assert found == set()
    assert CANARY not in done.stderr
    assert key not in done.stderr


def check_that_all_was_recorded(shown: list[list[str]], folder: Path) -> None:
    """Check that each case ended as it should, and that there are logs to search."""
    ends = {what: text for what, text in shown if ": " in what}
    for name in ("JAAS and PEM text", "names of librdkafka", "without effect"):
        assert ends.get(f"{name}: read") == "10 rows", ends
        assert ends.get(f"{name}: copy") == "ended", ends
        assert ends.get(f"{name}: write") == "written", ends
    words = {
        "wrong password": "sasl_plain_password|no result within",
        "wrong password of a store": "ssl_keystore_password is wrong",
        "no token": "token|reached|no result within",
        "misspelt and refused": "unknown option",
    }
    for name, expected in words.items():
        for what in ("read", "copy", "write"):
            text = ends[f"{name}: {what}: error"]
            assert any(word in text for word in expected.split("|")), text
    logs = [file.read_text() for file in folder.glob("python-*.log")]
    assert any("DEBUG:thinconsumer" in text for text in logs)
    assert "DEBUG org.apache.spark" in (folder / "jvm.log").read_text()
    recorded = "".join(file.read_text() for file in (folder / "events").rglob("*") if file.is_file())
    assert "thinconsumer" in recorded
    assert "SparkListenerSQLExecutionStart" in recorded
