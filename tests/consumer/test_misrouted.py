"""Consumers whose brokers' addresses were given to other brokers (KIP-1242)."""

import pytest

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest
from thinconsumer_testing.broker.faults import Reply
from thinconsumer_testing.broker.security import ListenerSecurity

SECURITY = ListenerSecurity(
    security_protocol="SASL_PLAINTEXT", sasl_enabled_mechanisms=("PLAIN",), users={"alice": "c4nary"}
)
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "c4nary",
}

pytestmark = pytest.mark.filterwarnings("ignore::thinconsumer.config.ConfigurationWarning")


@pytest.fixture(params=["plaintext", "sasl"])
def swapped(request, world):
    """A consumer of two brokers' partitions, with a name service that gives each broker the other's address."""
    is_sasl = request.param == "sasl"
    w = world(nodes=2, topics={"t": 2}, **({"security": SECURITY} if is_sasl else {}))
    w.cluster.set_versions(ApiVersionsRequest, (0, 5))
    names = w.network.names
    names["seed"] = [*names["kafka1"], *names["kafka2"]]
    for partition in (0, 1):
        w.append(3, partition)

    def swap():
        names["kafka1"], names["kafka2"] = names["kafka2"], names["kafka1"]

    swap()
    options = PLAIN if is_sasl else {}
    consumer = w.consumer(("t", 0), ("t", 1), bootstrap_servers="seed:9092", reconnect_backoff_ms=10, **options)
    return w, consumer, swap


def test_a_consumer_reads_once_its_brokers_have_their_addresses_again(swapped, read, lines):
    w, consumer, swap = swapped
    began = w.clock.now()
    assert consumer.poll(10_000) == {}
    assert w.clock.now() - began == pytest.approx(10, abs=0.1)
    asked = w.requests(ApiVersionsRequest)
    assert {one.node_id for one in asked if one.message.node_id == 1} == {2}
    assert len(asked) < 150, "paced by retry_backoff_max_ms"
    assert "starting from the bootstrap servers again" in lines()
    assert w.fetches() == []
    swap()
    assert read(consumer, 6, timeout_ms=2000) == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert {(one.node_id, one.message.node_id) for one in w.requests(ApiVersionsRequest)} >= {(1, 1), (2, 2)}


def test_cluster_and_node_are_named_after_the_login_and_only_once(world, read):
    """Kafka compares them only in requests of clients that have logged in."""
    w = world(security=SECURITY)
    w.cluster.set_versions(ApiVersionsRequest, (0, 5))
    w.append(3)
    read(w.consumer(**PLAIN), 3)
    conversations = {}
    for one in [*w.requests(ApiVersionsRequest), *w.requests(SaslAuthenticateRequest)]:
        word = "login" if isinstance(one.message, SaslAuthenticateRequest) else one.message.cluster_id
        conversations.setdefault(one.connection_id, []).append((one.at, word))
    words = [tuple(word for _, word in sorted(found, key=lambda pair: pair[0])) for found in conversations.values()]
    assert set(words) == {(None, "login"), (None, "login", w.cluster.cluster_id)}


def test_an_error_of_the_second_request_is_no_failed_login(world, read):
    w = world(security=SECURITY)
    w.cluster.set_versions(ApiVersionsRequest, (0, 5))
    w.append(3)
    consumer = w.consumer(**PLAIN)
    w.cluster.on("ApiVersions", Reply(42), where=lambda call: call.request.cluster_id is not None, times=2)
    assert read(consumer, 3)[0] == [0, 1, 2]
