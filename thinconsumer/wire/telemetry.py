"""GetTelemetrySubscriptions (key 71) and PushTelemetry (key 72): a client's metrics, pushed to brokers (KIP-714)."""

from .message import Message
from .schema import array, binary, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsResponse(Message, key=71, versions=(0, 0), flexible=0):
    """The metrics to push, as prefixes of their names ("*" or "": all), how often, and in which form."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array(int8, "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array(string, "0+")


class GetTelemetrySubscriptionsRequest(Message, response=GetTelemetrySubscriptionsResponse):
    """Ask which metrics to push. The first request has the id 0, and the response the one to use from then on."""

    client_instance_id: bytes = uuid("0+")


class PushTelemetryResponse(Message, key=72, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class PushTelemetryRequest(Message, response=PushTelemetryResponse):
    """Push metrics: a compressed ``MetricsData`` message of OTLP. After a ``terminating`` push none is accepted."""

    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")
