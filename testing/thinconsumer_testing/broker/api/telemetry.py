"""GetTelemetrySubscriptions and PushTelemetry version 0: clients push their metrics (KIP-714).

Follows ``ClientMetricsManager``. Brokers list the two only if ``metric.reporters`` names a receiver of what is pushed.
"""

from __future__ import annotations

from thinconsumer.wire import ZERO_UUID, Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

from ..call import Api, ApiCall, error_code_in
from ..client_metrics import RESERVED_IDS, PushedMetrics, push_error


def _subscriptions(call: ApiCall) -> Message:
    request: GetTelemetrySubscriptionsRequest = call.request
    cluster = call.node.cluster
    client_id = bytes(request.client_instance_id)
    client_id = cluster.new_id() if client_id == ZERO_UUID else client_id
    instance = call.node.client_instances.get(call, client_id)
    if not instance.may_ask(call.node.schedule.wall_ms()):
        return GetTelemetrySubscriptionsResponse(error_code=int(Code.THROTTLING_QUOTA_EXCEEDED))
    instance.last_error = 0
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(cluster.client_metrics.accepted),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=call.node.config.telemetry_max_bytes,
        delta_temporality=cluster.client_metrics.delta_temporality,
        requested_metrics=instance.metrics,
    )


def _push(call: ApiCall) -> Message:
    request: PushTelemetryRequest = call.request
    client_id = bytes(request.client_instance_id)
    if client_id in RESERVED_IDS:
        return PushTelemetryResponse(error_code=int(Code.INVALID_REQUEST))
    instance = call.node.client_instances.get(call, client_id)
    instance.last_error = int(push_error(call, instance))
    instance.terminating = request.terminating
    if not instance.last_error and len(request.metrics):
        about = call.node.node_id, client_id, call.client_id, request.subscription_id
        pushed = PushedMetrics(*about, request.terminating, request.compression_type, bytes(request.metrics))
        call.node.cluster.client_metrics.pushes.append(pushed)
    return PushTelemetryResponse(error_code=instance.last_error)


APIS = (
    Api(GetTelemetrySubscriptionsRequest, 0, 0, _subscriptions, error_code_in(GetTelemetrySubscriptionsResponse)),
    Api(PushTelemetryRequest, 0, 0, _push, error_code_in(PushTelemetryResponse)),
)
