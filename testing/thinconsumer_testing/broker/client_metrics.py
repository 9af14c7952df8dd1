"""Client metrics (KIP-714): the subscriptions of a cluster, the clients that each broker knows, and what they push.

Follows ``ClientMetricsManager``, ``ClientMetricsConfigs`` and ``ClientMetricsInstance``. A broker knows a client for as
long as the connection lasts over which the client has asked it.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.records.compression import Codec, decompress
from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire.error_codes import Code

if TYPE_CHECKING:
    from .call import ApiCall

DEFAULT_INTERVAL_MS = 300_000
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
ALL_METRICS = "*"
#: The value of ``metric.reporters`` with which brokers receive metrics. In Kafka, it is the name of a class.
TELEMETRY_RECEIVER = "ClientTelemetryReceiver"
MATCH_PARAMETERS = ("client_instance_id", "client_id", "client_source_address")
#: The cluster keeps so many pushes, the latest ones.
PUSHES_KEPT = 1_000


class PushedMetrics(NamedTuple):
    """One push of a client's metrics that a broker has accepted."""

    node_id: int
    client_instance_id: bytes
    client_id: str
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes  #: As sent: compressed.

    def data(self) -> bytes:
        """Return the metrics decompressed: a ``MetricsData`` message of OTLP."""
        return decompress(self.compression_type, memoryview(self.metrics)) if self.compression_type else self.metrics

    def decode(self) -> Any:
        """Return the metrics as the class ``MetricsData`` of opentelemetry-proto, which has to be installed."""
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

        return MetricsData.FromString(self.data())


class ClientMetricsSubscription(NamedTuple):
    """A resource of the type client-metrics: which clients push which metrics, and how often."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    def matches(self, about: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(about[name]) for name, pattern in self.match.items())


def subscription(metrics: Iterable[str], interval_ms: int, match: Mapping[str, str]) -> ClientMetricsSubscription:
    """Return a checked subscription. Raises: IllegalArgumentError."""
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise IllegalArgumentError(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    patterns = {}
    for name, text in match.items():
        try:
            patterns[name] = re.compile(text)
        except re.error:
            name = ""
        if name not in MATCH_PARAMETERS:
            raise IllegalArgumentError(f"Illegal client matching pattern: {name or text}")
    return ClientMetricsSubscription(tuple(metrics), interval_ms, patterns)


class ClientMetrics:
    """The subscriptions of a cluster, and what its clients have pushed."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, ClientMetricsSubscription] = {}
        self.version: int = 0  #: Number of changes of the subscriptions.
        self.pushes: deque[PushedMetrics] = deque(maxlen=PUSHES_KEPT)
        #: The form in which brokers ask for metrics. Kafka's always ask for deltas, and accept these codecs in order.
        self.delta_temporality: bool = True
        self.accepted: tuple[int, ...] = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)

    def set(self, name: str, subscription: ClientMetricsSubscription | None) -> None:
        """Replace the subscription with this name, or remove it."""
        self.subscriptions.pop(name, None)
        if subscription is not None:
            self.subscriptions[name] = subscription
        self.version += 1


@dataclass
class ClientInstance:
    """What a broker knows of one client."""

    connection_id: int
    version: int  #: :attr:`ClientMetrics.version` when the instance was made.
    metrics: list[str]
    interval_ms: int
    subscription_id: int
    asked_at_ms: float = -math.inf
    pushed_at_ms: float = -math.inf
    terminating: bool = False
    last_error: int = 0

    def may_ask(self, now_ms: int) -> bool:
        if now_ms - max(self.asked_at_ms, self.pushed_at_ms) >= self.interval_ms:
            self.asked_at_ms = now_ms
            return True
        return self.last_error in (Code.UNKNOWN_SUBSCRIPTION_ID, Code.UNSUPPORTED_COMPRESSION_TYPE)

    def may_push(self, now_ms: int) -> bool:
        """A first push after a subscription may come early, as clients draw its time at random."""
        may = self.asked_at_ms > self.pushed_at_ms or now_ms - self.pushed_at_ms >= self.interval_ms
        if may:
            self.pushed_at_ms = now_ms
        return may


class ClientInstances:
    """The clients that one broker knows, by their ids."""

    def __init__(self) -> None:
        self._known: dict[bytes, ClientInstance] = {}

    def get(self, call: ApiCall, client_instance_id: bytes) -> ClientInstance:
        """Return the instance, a new one if the client is not known or the subscriptions have changed."""
        connected = {one.connection_id for one in call.node.connections}
        self._known = {key: one for key, one in self._known.items() if one.connection_id in connected}
        found, version = self._known.get(client_instance_id), call.node.cluster.client_metrics.version
        if found is None or found.version < version:
            found = self._known[client_instance_id] = _instance(call, client_instance_id)
        return found


def _instance(call: ApiCall, client_instance_id: bytes) -> ClientInstance:
    found = call.node.cluster.client_metrics
    text = base64.urlsafe_b64encode(client_instance_id).decode().rstrip("=")
    values = (text, call.client_id, call.client_host.lstrip("/"))
    about = dict(zip(MATCH_PARAMETERS, values))
    matching = [one for one in found.subscriptions.values() if one.matches(about)]
    metrics = list(dict.fromkeys(name for one in matching for name in one.metrics))
    if ALL_METRICS in metrics:
        metrics = [ALL_METRICS]
    interval_ms = min([DEFAULT_INTERVAL_MS, *(one.interval_ms for one in matching)])
    checksum = zlib.crc32(f"{sorted(metrics)}{interval_ms}".encode()) ^ zlib.crc32(client_instance_id)
    subscription_id = checksum - (1 << 32) if checksum >= 1 << 31 else checksum
    return ClientInstance(call.connection_id, found.version, metrics, interval_ms, subscription_id)


def push_error(call: ApiCall, instance: ClientInstance) -> Code:
    """Return the error of a push, or NONE."""
    request = call.request
    if instance.terminating:
        return Code.INVALID_REQUEST
    if not instance.may_push(call.node.schedule.wall_ms()) and not request.terminating:
        return Code.THROTTLING_QUOTA_EXCEEDED
    if request.subscription_id != instance.subscription_id:
        return Code.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in iter(Codec):
        return Code.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > call.node.config.telemetry_max_bytes:
        return Code.TELEMETRY_TOO_LARGE
    return Code.NONE


#: Kafka's ``Uuid.RESERVED``: no id of a client.
RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\1")
