"""What a broker asks a client to push: which metrics, how often, in which form."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import NamedTuple

from ..wire import ZERO_UUID
from ..wire.telemetry import GetTelemetrySubscriptionsResponse

#: Seconds between two requests if no subscription says otherwise, as in Java.
DEFAULT_INTERVAL_S = 300.0
#: The least interval that Kafka's brokers can be configured to. A shorter one, from a faulty broker, would keep the
#: client busy with pushes.
INTERVAL_S_MIN = 0.1
ALL_METRICS = "*"


class TelemetrySubscription(NamedTuple):
    """A response to GetTelemetrySubscriptions."""

    client_instance_id: bytes
    subscription_id: int
    interval_s: float
    codecs: tuple[int, ...]  #: Those that the broker accepts, the preferred one first.
    max_bytes: int  #: Of a push as it is sent; 0 or less: no limit.
    is_delta: bool  #: Whether counters are pushed as their growth since the last push.
    prefixes: tuple[str, ...]  #: Of the names of the metrics to push. None of them: nothing is pushed.

    @classmethod
    def of(cls, response: GetTelemetrySubscriptionsResponse, known_id: bytes) -> TelemetrySubscription:
        """Return the subscription in a response. ``known_id`` is the client's id, or 0 if it has none yet."""
        given = bytes(response.client_instance_id)
        interval_s = response.push_interval_ms / 1000
        return cls(
            client_instance_id=known_id if given == ZERO_UUID else given,
            subscription_id=response.subscription_id,
            interval_s=max(INTERVAL_S_MIN, interval_s) if interval_s > 0 else DEFAULT_INTERVAL_S,
            codecs=tuple(response.accepted_compression_types),
            max_bytes=response.telemetry_max_bytes,
            is_delta=response.delta_temporality,
            prefixes=tuple(response.requested_metrics),
        )

    def wants(self, name: str) -> bool:
        """Return whether the metric with this name is to be pushed."""
        return self.prefixes == (ALL_METRICS,) or name.startswith(self.prefixes)


def id_text(client_instance_id: bytes) -> str:
    """Return an id as Kafka's tools show it."""
    return urlsafe_b64encode(client_instance_id).decode().rstrip("=")
