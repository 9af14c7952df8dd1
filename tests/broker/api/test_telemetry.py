"""Clients' metrics: subscriptions, what brokers refuse, what they keep."""

import dataclasses

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.records.compression import Codec, compress
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from thinconsumer_testing.broker.client_metrics import TELEMETRY_RECEIVER
from thinconsumer_testing.broker.control import pack, unpack

RECEIVING = {"metric_reporters": TELEMETRY_RECEIVER, "telemetry_max_bytes": 100}


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(**RECEIVING)


def subscribe(client, client_instance_id=bytes(16)):
    return client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id))


def test_a_client_gets_the_subscriptions_that_match_it(cluster, client):
    cluster.set_client_metrics("a", ["x.", "y"], interval_ms=9_000)
    cluster.set_client_metrics("b", ["y", "z"], interval_ms=5_000, match={"client_id": "test.*"})
    cluster.set_client_metrics("c", ["*"], interval_ms=100, match={"client_id": "test"})
    found = subscribe(client)
    assert (found.requested_metrics, found.push_interval_ms) == (["x.", "y", "z"], 5_000)
    assert found.accepted_compression_types == [4, 3, 1, 2]
    assert (found.telemetry_max_bytes, found.delta_temporality) == (100, True)
    cluster.set_client_metrics("b", ["*"])
    again = subscribe(client, found.client_instance_id)
    assert (again.requested_metrics, again.push_interval_ms) == (["*"], 9_000)
    assert again.client_instance_id == found.client_instance_id
    assert again.subscription_id != found.subscription_id
    cluster.set_client_metrics("a", None)
    cluster.set_client_metrics("b", None)
    assert subscribe(client, found.client_instance_id).requested_metrics == []


def test_pushes_are_kept_and_those_of_another_subscription_refused(cluster, client):
    cluster.set_client_metrics("a", ["*"], interval_ms=1_000)
    found = subscribe(client)
    push = PushTelemetryRequest(
        client_instance_id=found.client_instance_id,
        subscription_id=found.subscription_id,
        compression_type=Codec.GZIP,
        metrics=compress(Codec.GZIP, b"data"),
    )
    assert client.ask(push).error_code == 0
    assert client.ask(push).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    cluster.advance(1.0)
    large = dataclasses.replace(push, metrics=bytes(101))
    assert client.ask(large).error_code == Code.TELEMETRY_TOO_LARGE
    cluster.set_client_metrics("a", ["x"])
    assert client.ask(push).error_code == Code.UNKNOWN_SUBSCRIPTION_ID
    push.subscription_id = subscribe(client, found.client_instance_id).subscription_id
    last = dataclasses.replace(push, terminating=True)
    assert [client.ask(last).error_code, client.ask(last).error_code] == [0, Code.INVALID_REQUEST]
    kept = cluster.pushed_metrics()
    assert [(one.node_id, one.client_id, one.terminating, one.data()) for one in kept] == [
        (1, "tester", False, b"data"),
        (1, "tester", True, b"data"),
    ]
    assert unpack(pack(kept)) == kept


def test_a_client_is_forgotten_with_its_connection(cluster, client_of):
    first = client_of(cluster, 1)
    found = subscribe(first)
    assert subscribe(first, found.client_instance_id).error_code == Code.THROTTLING_QUOTA_EXCEEDED
    first.connection.connection_lost()
    assert subscribe(client_of(cluster, 1), found.client_instance_id).error_code == 0


@pytest.mark.parametrize(
    "options", [{"interval_ms": 99}, {"interval_ms": 3_600_001}, {"match": {"x": "y"}}, {"match": {"client_id": "("}}]
)
def test_invalid_subscriptions(cluster, options):
    with pytest.raises(IllegalArgumentError):
        cluster.set_client_metrics("a", ["*"], **options)
