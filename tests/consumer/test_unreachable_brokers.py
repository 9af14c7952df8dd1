"""Brokers that cannot be reached, or not at once: what poll raises, how soon, and how many lines are logged."""

import contextlib
import logging

import pytest

from thinconsumer import Consumer, NoBrokersAvailable
from thinconsumer.broker import Disconnect, Reply
from thinconsumer.errors import SaslAuthenticationFailedError, SslAuthenticationFailedError
from thinconsumer.testing import MemoryCluster, ScriptedPeer
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import MetadataResponse, MetadataResponseBroker


@pytest.mark.parametrize("advertised", [("kafka", 29092), ("10.9.9.9", 9092)], ids=["unknown name", "drops packets"])
def test_an_advertised_address_that_cannot_be_reached_is_named_although_the_bootstrap_server_answers(world, advertised):
    """The usual mistake with containers: advertised.listeners names a host that only the broker's network has."""
    w = world()
    w.network.black_hole("10.9.9.9", 9092)
    node = MetadataResponseBroker(node_id=1, host=advertised[0], port=advertised[1])
    seed = MemoryCluster(network=w.network, hosts=[("localhost", 9092)])
    seed.on("Metadata", Reply(MetadataResponse(brokers=[node])))
    consumer = w.consumer(bootstrap_servers="localhost:9092", bootstrap_timeout_ms=5000)
    began = w.clock.now()
    with pytest.raises(NoBrokersAvailable, match="check advertised.listeners") as caught:
        consumer.poll(20_000)
    assert w.clock.now() - began < 5.5
    causes = caught.value.causes
    assert causes["localhost:9092"] == "answers, but no address that its metadata names can be reached"
    assert "node 1 advertises this address" in causes["{}:{}".format(*advertised)]


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.end_offsets([("t", 0)]),
        lambda consumer: list(consumer.read_to_end()),
        lambda consumer: consumer.topics(),
    ],
    ids=["end_offsets", "read_to_end", "topics"],
)
def test_a_refused_metadata_request_is_raised_by_a_call_that_waits(world, call):
    """A rejected login is such a refusal: waiting for the timeout would hide it."""
    w = world()
    w.cluster.on("Metadata", Reply(MetadataResponse(error_code=Code.SASL_AUTHENTICATION_FAILED)))
    consumer = w.consumer()
    began = w.clock.now()
    with pytest.raises(SaslAuthenticationFailedError):
        call(consumer)
    assert w.clock.now() - began < 1


@pytest.mark.parametrize("call", [lambda c: c.poll(20_000), lambda c: next(c.read_to_end(20_000))])
def test_a_listener_that_requires_a_login_is_named_within_the_bootstrap_timeout(world, call):
    """It answers ApiVersions and closes at the next request: each connection is ready for a moment."""
    w = world()
    w.cluster.on("Metadata", Disconnect())
    consumer = w.consumer(bootstrap_timeout_ms=5000)
    began = w.clock.now()
    with pytest.raises(NoBrokersAvailable) as caught:
        call(consumer)
    assert w.clock.now() - began < 5.5
    cause = caught.value.causes["kafka1:9092"]
    assert "closed the connection after ApiVersions, without an answer to Metadata" in cause
    assert "may require a login (security_protocol='SASL_PLAINTEXT' or 'SASL_SSL')" in cause
    assert len(w.network.dials) < 15


def test_a_tls_port_that_answers_a_plaintext_client_is_raised_at_once_and_not_dialled_in_a_loop(world):
    w = world()
    w.network.listen("kafka1", 9092, ScriptedPeer(b"\x15\x03\x03\0\2\2F", then_close=True))
    consumer = w.consumer()
    began = w.clock.now()
    with pytest.raises(SslAuthenticationFailedError, match=r"kafka1:9092 .*set security_protocol='SSL'"):
        consumer.poll(20_000)
    assert w.clock.now() - began < 1
    while w.clock.now() < began + 10:
        with pytest.raises(SslAuthenticationFailedError):
            consumer.poll(20_000)
    assert len(w.network.dials) < 20


@pytest.mark.parametrize(
    ("peer", "cause"),
    [
        (ScriptedPeer(then_close=True), "(set security_protocol='SSL') or is not a Kafka listener"),
        (ScriptedPeer(b"HTTP/1.1 400 Bad Request\r\n\r\n", then_close=True), "not Kafka: an HTTP server"),
    ],
    ids=["closes", "HTTP"],
)
def test_a_listener_of_another_protocol_is_named_and_logged_once_and_then_with_all_brokers(world, lines, peer, cause):
    w = world()
    w.network.listen("kafka1", 9092, peer)
    consumer = w.consumer(bootstrap_timeout_ms=59_000)
    with pytest.raises(NoBrokersAvailable, match="no broker could be reached") as caught:
        consumer.poll(100_000)
    assert cause in caught.value.causes["kafka1:9092"]
    assert len([line for line in lines(logging.WARNING) if line.startswith("kafka1:9092: ")]) == 1
    consumer.poll(55_000)
    assert len([line for line in lines(logging.WARNING) if line.startswith("kafka1:9092: ")]) == 1
    warnings = [line for line in lines(logging.WARNING) if line.startswith("no broker can be reached: kafka1:9092: ")]
    assert len(warnings) == 2
    assert all(cause in warning for warning in warnings)
    assert "; for 6" in warnings[1]


def test_a_fetch_that_breaks_each_connection_is_logged_once_a_minute(reading, lines):
    w, consumer = reading(5)
    assert consumer.poll(1000)
    w.cluster.on("Fetch", Disconnect())
    before = len(lines(logging.WARNING))
    consumer.poll(55_000)
    warnings = lines(logging.WARNING)[before:]
    assert len([line for line in warnings if line.startswith("kafka1:9092 (fetch): ")]) == 1


@pytest.mark.parametrize("fault", ["black_hole", "pause"])
def test_an_address_that_does_not_answer_costs_a_moment_and_not_a_timeout(world, fault):
    """It drops packets, or accepts the connection and does not answer ApiVersions. The name has another address."""
    w = world()
    w.network.names["kafka1"] = ["10.0.0.99", "10.0.0.1"]
    w.cluster.listen(1, "10.0.0.99")
    getattr(w.network, fault)("10.0.0.99", 9092)
    w.append(1)
    consumer = w.consumer()
    elapsed, found = w.elapsed(lambda: consumer.poll(60_000))
    assert found and elapsed < 1.5
    for _ in range(3):
        w.append(1)
        w.network.reset("10.0.0.1", 9092)
        elapsed, found = w.elapsed(lambda: consumer.poll(60_000))
        assert found and elapsed < 0.5, "the address that worked last is dialled first"
    w.network.kill("10.0.0.1", 9092)
    assert not consumer.poll(15_000)
    w.cluster.listen(1, "10.0.0.1")
    w.append(1)
    elapsed, found = w.elapsed(lambda: consumer.poll(60_000))
    assert found and elapsed < 2.5


def in_group(w, **options):
    servers = w.cluster.bootstrap_servers
    return Consumer("t", driver=w.cluster.driver(), bootstrap_servers=servers, auto_offset_reset="earliest", **options)


def poll_for(w, consumer, seconds):
    until = w.clock.now() + seconds
    while w.clock.now() < until:
        with contextlib.suppress(NoBrokersAvailable):
            consumer.poll(5000)


@pytest.mark.parametrize(("protocol", "outage"), [("classic", "pause"), ("consumer", "kill")])
def test_ten_minutes_without_any_broker_are_few_lines_of_which_one_names_all(world, caplog, protocol, outage):
    w = world(3, {"t": 6})
    options = {"group_id": "g", "group_protocol": protocol, "auto_commit_interval_ms": 1000}
    options |= {"reconnect_backoff_max_ms": 5000}  # fewer attempts, which take most of this test's time
    caplog.set_level(logging.INFO, "thinconsumer")
    with in_group(w, **options) as consumer:
        w.append(5)
        poll_for(w, consumer, 10)
        w.append(5)
        assert consumer.poll(1000)
        for node in (1, 2, 3):
            getattr(w.cluster, outage)(node)
        caplog.clear()
        poll_for(w, consumer, 600)
        warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) <= 20
        together = [text for text in warnings if text.startswith("no broker can be reached")]
        assert 3 <= len(together) <= 5
        assert all(f"kafka{node}:9092" in text for text in together for node in (1, 2, 3))
        own = [text.split(": ")[0] for text in warnings if text.startswith("kafka")]
        assert len(own) == len(set(own))
        assert len([text for text in warnings if text.startswith("auto-commit")]) <= 1
        for node in (1, 2, 3):
            w.cluster.start(node) if outage == "kill" else w.cluster.resume(node)
        caplog.clear()
        poll_for(w, consumer, 60)
        assert any(record.getMessage().startswith("a broker answers again") for record in caplog.records)
    w.cluster.requests.clear()


@pytest.mark.parametrize(("protocol", "api"), [("classic", "JoinGroup"), ("consumer", "ConsumerGroupHeartbeat")])
def test_joins_refused_for_ten_minutes_are_one_warning_after_the_session_timeout(world, caplog, protocol, api):
    w = world()
    w.cluster.on(api, Reply(Code.COORDINATOR_NOT_AVAILABLE))
    with in_group(w, group_id="g", group_protocol=protocol) as consumer:
        poll_for(w, consumer, 40)
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
        poll_for(w, consumer, 560)
        (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert "COORDINATOR_NOT_AVAILABLE" in warning and "session_timeout_ms" in warning
    w.cluster.requests.clear()
