"""Subscriptions as brokers send them, also such as no broker of Kafka's would send."""

import pytest

from thinconsumer.telemetry.subscription import TelemetrySubscription, id_text
from thinconsumer.wire.telemetry import GetTelemetrySubscriptionsResponse

NAME = "org.apache.kafka.consumer.request.total"


def subscribed(known_id=bytes(16), **fields):
    return TelemetrySubscription.of(GetTelemetrySubscriptionsResponse(**fields), known_id)


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [
        ([], False), (["*"], True), ([""], True), (["org.apache.kafka.consumer."], True), ([NAME], True),
        (["org.apache.kafka.producer", "org"], True), ([NAME + "s"], False), (["*", "x"], False), (["apache"], False),
    ],
)  # fmt: skip
def test_metrics_are_chosen_by_the_beginning_of_their_names(prefixes, wanted):
    assert subscribed(requested_metrics=prefixes).wants(NAME) is wanted


@pytest.mark.parametrize(
    ("push_interval_ms", "seconds"), [(30_000, 30), (1, 0.1), (0, 300), (-1, 300), (2**31 - 1, 2147483.647)]
)
def test_intervals(push_interval_ms, seconds):
    assert subscribed(push_interval_ms=push_interval_ms).interval_s == seconds


def test_the_id_is_kept_if_the_response_has_none():
    mine, other = b"m" * 16, b"o" * 16
    assert subscribed(mine).client_instance_id == mine
    assert subscribed(mine, client_instance_id=memoryview(other)).client_instance_id == other


def test_ids_are_shown_as_kafkas():
    assert id_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
