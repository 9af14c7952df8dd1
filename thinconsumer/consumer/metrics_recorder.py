"""Record the metrics of polls, and copy the counters of connections and the group into the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..metrics import MetricValues

if TYPE_CHECKING:
    from ..group.membership import MemberStats
    from ..metrics import ConsumerMetrics
    from ..network.client import NetworkClient
    from .core import ConsumerCore
    from .managers import ConsumerManagers


def record_returned(core: ConsumerCore) -> None:
    """Add the records and bytes of the last poll, and the lag and lead of their partitions, to the metrics."""
    if core.unrecorded is None:
        return
    (poll_result, now), core.unrecorded = core.unrecorded, None
    metrics = core.managers.metrics
    for move in poll_result.moves:
        partition, starts = move.fetched.partition, move.fetched.batches.starts
        # Bytes are counted when a batch's last record is returned: how many belong to each record is unknown.
        size = starts[move.chunk] - starts[move.begin[0]]
        topic, end, start = partition.tp.topic, partition.high_watermark, partition.log_start_offset
        if end is not None and start is not None:
            metrics.returned.record((now, max(0, end - move.offset), move.offset - start, size, move.adds, topic))
        else:
            lag = None if end is None else max(0, end - move.offset)
            metrics.record_without_lag(topic, move.adds, size, lag, None if start is None else move.offset - start, now)


def figures(managers: ConsumerManagers, now: float) -> MetricValues:
    """Return the current value of every metric."""
    metrics, network = managers.metrics, managers.engine.network
    read_off(metrics, network, None if managers.group is None else managers.group.member.stats, now)
    metrics.keep_topics(managers.partitions.topics())
    gauges = {
        "assigned-partitions": float(len(managers.partitions)),
        "connection-count": float(network.connection_counts()[1]),
    }
    return metrics.values(now, gauges) | ({} if managers.processing is None else managers.processing.metrics())


def read_off(metrics: ConsumerMetrics, network: NetworkClient, member: MemberStats | None, now: float) -> None:
    """Copy the counters of connections and of a group member into the metrics.

    Called often, or maxima would be too low: the member keeps only the latest duration of joins, syncs and so on.
    """
    opened, ready = network.connection_counts()
    metrics.update_count("connection_opened", opened, 0.0, now)
    metrics.update_count("connection_closed", opened - ready, 0.0, now)
    if member is None:
        return
    timings = {
        "heartbeat": member.heartbeat,
        "join": member.joins,
        "sync": member.syncs,
        "rebalance": member.rebalances,
    }
    for name, timing in timings.items():
        metrics.update_count(name, timing.count, timing.last, now)
    metrics.update_count("heartbeat_sent", member.heartbeats, 0.0, now)
    metrics.update_count("failed_rebalance", member.failed, 0.0, now)
