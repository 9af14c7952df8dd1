"""Record the metrics of polls, and copy the counters of connections and the group into the metrics.

The computation of rates, averages and maxima is in :mod:`thinconsumer.metrics`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..group.classic.states import MemberState
from ..metrics import MetricValues

if TYPE_CHECKING:
    from ..fetch.collector import PollResult
    from ..group.classic.stats import Timing
    from .managers import ConsumerManagers

#: The listener callback that runs in each of these states of the member, by its name in the metrics.
CALLBACKS = {
    MemberState.REVOKING_BEFORE_JOIN: "revoked",
    MemberState.REVOKING_AFTER_SYNC: "revoked",
    MemberState.ASSIGNING: "assigned",
    MemberState.LOSING: "lost",
}


def handed_out(managers: ConsumerManagers, poll_result: PollResult, now: float) -> None:
    """Record the records and bytes that a poll returns, and the lag and lead of their partitions after it."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for move in poll_result.moves:
        partition, topic = move.fetched.partition, move.fetched.partition.tp.topic
        counts[topic] += move.adds
        # Bytes are counted when a batch's last record is returned: how many belong to each record is unknown.
        done = move.fetched.batches[move.begin[0] : move.chunk]
        sizes[topic] += sum(batch.size for batch in done if batch is not None)
        end, start = partition.high_watermark, partition.log_start_offset
        managers.metrics.record_position(
            None if end is None else max(0, end - move.offset), None if start is None else move.offset - start, now
        )
    for topic, count in counts.items():
        managers.metrics.record_consumed(topic, count, sizes[topic], now)


def figures(managers: ConsumerManagers, now: float) -> MetricValues:
    """Return the current value of every metric."""
    metrics = managers.metrics
    read_off(managers, now)
    metrics.keep_topics(managers.partitions.topics())
    gauges = {
        "assigned-partitions": float(len(managers.partitions)),
        "connection-count": float(managers.engine.network.connection_counts()[1]),
    }
    return metrics.values(now, gauges)


def read_off(managers: ConsumerManagers, now: float) -> None:
    """Copy the counters of connections and the group into the metrics.

    Of joins, syncs, heartbeats and rebalances, the group keeps only the latest duration. It must be copied often, or
    the metrics' maximum misses longer durations in between.
    """
    metrics = managers.metrics
    opened, ready = managers.engine.network.connection_counts()
    metrics.update_count("connection_opened", opened, 0.0, now)
    metrics.update_count("connection_closed", opened - ready, 0.0, now)
    if managers.group is None:
        return
    stats = managers.group.member.stats
    timings: dict[str, Timing] = {
        "heartbeat": stats.heartbeat,
        "join": stats.joins,
        "sync": stats.syncs,
        "rebalance": stats.rebalances,
    }
    for name, timing in timings.items():
        metrics.update_count(name, timing.count, timing.last, now)
    metrics.update_count("heartbeat_sent", stats.heartbeats, 0.0, now)
    metrics.update_count("failed_rebalance", stats.failed, 0.0, now)
