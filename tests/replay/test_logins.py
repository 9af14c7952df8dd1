"""Traces of clients that log in: the messages of logins are in none, and replays do without."""

import base64
import shutil

import pytest

from thinconsumer import TopicPartition
from thinconsumer.broker import ListenerSecurity
from thinconsumer.errors import KafkaConfigurationError, KafkaError
from thinconsumer.replay import RecordingConsumer, read_trace, replay
from thinconsumer_testing import MemoryCluster

pytestmark = pytest.mark.filterwarnings("ignore::thinconsumer.config.build.ConfigurationWarning")
PASSWORD = "s3cret-password"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture
def cluster():
    security = ListenerSecurity(
        "SASL_PLAINTEXT", sasl_enabled_mechanisms=MECHANISMS, users={"ann": PASSWORD}, connections_max_reauth_ms=2000
    )
    cluster = MemoryCluster(2, topics={"orders": 1}, security=security)
    cluster.produce("orders", [b"1"] * 100)
    return cluster


def options(cluster, mechanism, password=PASSWORD):
    return {
        "bootstrap_servers": cluster.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism, "sasl_plain_username": "ann", "sasl_plain_password": password,
        "auto_offset_reset": "earliest", "max_poll_records": 10,
    }  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_logs_in_again_and_again_replays_without_its_password(cluster, tmp_path, monkeypatch, mechanism):
    monkeypatch.setattr("thinconsumer.replay.trace_file.EVENTS_MAX", 100)
    trace = str(tmp_path / "trace")
    more = {"group_id": "g", "trace_bytes_max": 80_000, **options(cluster, mechanism)}
    with RecordingConsumer("orders", trace=trace, driver=cluster.driver(), **more) as consumer:
        for turn in range(150):
            cluster.produce("orders", [b"1"] * 10)
            consumer.poll(100)
            if turn == 40:
                cluster.kill(2)
            if turn == 60:
                cluster.start(2)
    shutil.copyfile(trace, trace + "-alone")
    for path in trace, trace + "-alone":
        done = replay(path)
        assert done.divergence is None
        assert done.requests > 10
        events = read_trace(path)
        assert done.events == len(events)
        shown = repr(events).encode()
        for form in PASSWORD.encode(), base64.b64encode(PASSWORD.encode())[:-2], PASSWORD.encode().hex().encode():
            assert form not in shown
        assert shown.count(b"r=") + shown.count(b"s=") == 0  # SCRAM's nonces and salt
    assert sum(event[0] == "login" for event, _ in read_trace(trace) if isinstance(event, list)) > 4


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_a_login_that_is_rejected_replays(cluster, tmp_path, mechanism):
    trace = str(tmp_path / "trace")
    with RecordingConsumer(
        trace=trace, driver=cluster.driver(), **options(cluster, mechanism, "s3cret-other")
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        for _ in range(3):
            with pytest.raises(KafkaError):
                consumer.position(TopicPartition("orders", 0), timeout_ms=500)
    done = replay(trace)
    assert done.divergence is None
    assert done.events == len(read_trace(trace))
    assert b"s3cret" not in repr(read_trace(trace)).encode()


def test_logins_with_tokens_are_refused(tmp_path):
    with pytest.raises(KafkaConfigurationError, match="SCRAM-SHA-512, not OAUTHBEARER"):
        RecordingConsumer(
            trace=str(tmp_path / "trace"), security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=lambda: "token", bootstrap_servers="kafka:9092",
        )  # fmt: skip
