"""What a consumer measures of itself, under Kafka's own names.

Owns the arithmetic of sensors and the table of what is told of them; ``docs/metrics.md`` is made from that table. It
knows no other room: who sees something happen calls one method here. Time is an argument, in monotonic seconds; what is
told is in milliseconds where Kafka's name has that unit.

Averages, maxima and rates are over the last 30 to 60 seconds: two samples of 30 s each, of which the older one is
dropped as a whole, as in Kafka's ``SampledStat`` with its default settings. NaN stands for what had nothing to be made
of. Follows Java's ``FetchMetricsRegistry``, ``AbstractCoordinator`` and ``KafkaConsumerMetrics``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: Seconds in one of the two samples: ``metrics.sample.window.ms``.
SAMPLE = 30.0
NAN = math.nan

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"

#: What ``Consumer.metrics()`` returns: values by name, by group.
Figures = dict[str, dict[str, float]]


class Window(NamedTuple):
    """What a sensor has seen lately."""

    seconds: float
    times: int
    sum: float
    highest: float
    lowest: float


class Sensor:
    """Something that happens again and again, with a value each time."""

    __slots__ = ("_before", "_count", "_highest", "_lowest", "_since", "_sum", "count", "last_at", "sum")

    def __init__(self) -> None:
        self.count = 0  #: Ever.
        self.sum = 0.0  #: Ever.
        self.last_at: float | None = None  #: When it happened last.
        self._since = -math.inf  #: When the sample of now began.
        self._count = 0
        self._sum = 0.0
        self._highest = -math.inf
        self._lowest = math.inf
        #: The sample before: since, count, sum, highest, lowest.
        self._before: tuple[float, int, float, float, float] | None = None

    def record(self, value: float, now: float, times: int = 1) -> None:
        """Note that it happened, ``times`` times with this value."""
        if now - self._since >= SAMPLE:
            self._roll(now)
        added = value * times
        self.count += times
        self.sum += added
        self.last_at = now
        self._count += times
        self._sum += added
        if value > self._highest:
            self._highest = value
        if value < self._lowest:
            self._lowest = value

    def window(self, now: float) -> Window:
        """Return the figures of the last two samples."""
        if now - self._since >= SAMPLE:
            self._roll(now)
        since, count, total, highest, lowest = self._before or (self._since, 0, 0.0, -math.inf, math.inf)
        # Of a consumer that has just begun, a rate over its first moments would be wildly high.
        seconds = max(now - since, SAMPLE)
        return Window(
            seconds, count + self._count, total + self._sum, max(highest, self._highest), min(lowest, self._lowest)
        )

    def _roll(self, now: float) -> None:
        recent = now - self._since < 2 * SAMPLE and self._since > -math.inf
        self._before = (self._since, self._count, self._sum, self._highest, self._lowest) if recent else None
        self._since = self._since + SAMPLE if recent else now
        self._count, self._sum, self._highest, self._lowest = 0, 0.0, -math.inf, math.inf


class Stat(enum.Enum):
    """What is told of a sensor."""

    AVG = "average"
    MAX = "highest"
    MIN = "lowest"
    RATE = "how often, per second"
    RATE_PER_HOUR = "how often, per hour"
    SUM_RATE = "sum, per second"
    TOTAL = "how often, ever"
    SUM_TOTAL = "sum, ever"
    AGE = "seconds since the last time"
    GAUGE = "at this moment"

    def of(self, sensor: Sensor, now: float) -> float:
        """Return the figure."""
        if self is Stat.TOTAL:
            return float(sensor.count)
        if self is Stat.SUM_TOTAL:
            return sensor.sum
        if self is Stat.AGE:
            return NAN if sensor.last_at is None else max(0.0, now - sensor.last_at)
        window = sensor.window(now)
        if self is Stat.RATE:
            return window.times / window.seconds
        if self is Stat.RATE_PER_HOUR:
            return 3600 * window.times / window.seconds
        if self is Stat.SUM_RATE:
            return window.sum / window.seconds
        if window.times == 0:
            return NAN
        if self is Stat.AVG:
            return window.sum / window.times
        return window.highest if self is Stat.MAX else window.lowest


class Metric(NamedTuple):
    """One figure: Kafka's group and name, what it is made of, and what it means."""

    group: str
    name: str
    sensor: str  #: Attribute of :class:`ConsumerMetrics`; empty for gauges.
    stat: Stat
    text: str


def _time(group: str, sensor: str, base: str, text: str, *stats: Stat) -> list[Metric]:
    suffix = {Stat.AVG: "avg", Stat.MAX: "max", Stat.SUM_TOTAL: "total"}
    return [Metric(group, f"{base}-{suffix[stat]}", sensor, stat, text) for stat in stats or (Stat.AVG, Stat.MAX)]


def _meter(group: str, sensor: str, base: str, text: str) -> list[Metric]:
    return [
        Metric(group, f"{base}-rate", sensor, Stat.RATE, text),
        Metric(group, f"{base}-total", sensor, Stat.TOTAL, text),
    ]


def _amount(group: str, sensor: str, base: str, text: str) -> list[Metric]:
    return [
        Metric(group, f"{base}-rate", sensor, Stat.SUM_RATE, text),
        Metric(group, f"{base}-total", sensor, Stat.SUM_TOTAL, text),
    ]


#: Of each topic there are these too, under ``consumer-fetch-manager-metrics.topic-NAME``.
TOPIC_METRICS: tuple[Metric, ...] = (
    *_amount(FETCH, "bytes", "bytes-consumed", "bytes of records handed out, as they were stored"),
    *_amount(FETCH, "records", "records-consumed", "records handed out"),
)

METRICS: tuple[Metric, ...] = (
    *_amount(FETCH, "bytes", "bytes-consumed", "bytes of records handed out, as they were stored"),
    *_amount(FETCH, "records", "records-consumed", "records handed out"),
    *_time(FETCH, "fetch_size", "fetch-size", "bytes of one answer to Fetch"),
    Metric(FETCH, "records-per-request-avg", "records_per_request", Stat.AVG, "records in one answer to Fetch"),
    *_time(FETCH, "fetch_latency", "fetch-latency", "ms from asking to the answer, long polling included"),
    *_meter(FETCH, "fetch_latency", "fetch", "answers to Fetch"),
    *_time(FETCH, "fetch_throttle", "fetch-throttle-time", "ms that brokers had this consumer wait for a quota's sake"),
    Metric(FETCH, "records-lag-max", "lag", Stat.MAX, "records between a position and its partition's end"),
    Metric(FETCH, "records-lead-min", "lead", Stat.MIN, "records between a partition's start and the position"),
    *_time(COORDINATOR, "commit", "commit-latency", "ms from asking for a commit to its answer"),
    *_meter(COORDINATOR, "commit", "commit", "answers to OffsetCommit"),
    *_time(COORDINATOR, "heartbeat", "heartbeat-response-time", "ms until a heartbeat is answered", Stat.MAX),
    *_meter(COORDINATOR, "heartbeat_sent", "heartbeat", "heartbeats sent"),
    Metric(COORDINATOR, "last-heartbeat-seconds-ago", "heartbeat_sent", Stat.AGE, "since a heartbeat was sent"),
    *_time(COORDINATOR, "join", "join-time", "ms until a JoinGroup is answered: the others join meanwhile"),
    *_meter(COORDINATOR, "join", "join", "JoinGroups answered well"),
    *_time(COORDINATOR, "sync", "sync-time", "ms until a SyncGroup is answered: the leader plans meanwhile"),
    *_meter(COORDINATOR, "sync", "sync", "SyncGroups answered well"),
    *_time(
        COORDINATOR,
        "rebalance",
        "rebalance-latency",
        "ms from the beginning of a rebalance to the end of its callbacks, failed attempts included",
        Stat.AVG,
        Stat.MAX,
        Stat.SUM_TOTAL,
    ),
    Metric(COORDINATOR, "rebalance-total", "rebalance", Stat.TOTAL, "rebalances that came to an end"),
    Metric(COORDINATOR, "rebalance-rate-per-hour", "rebalance", Stat.RATE_PER_HOUR, "rebalances that came to an end"),
    Metric(COORDINATOR, "last-rebalance-seconds-ago", "rebalance", Stat.AGE, "since a rebalance came to an end"),
    Metric(COORDINATOR, "failed-rebalance-total", "failed_rebalance", Stat.TOTAL, "attempts that brought no share"),
    Metric(
        COORDINATOR,
        "failed-rebalance-rate-per-hour",
        "failed_rebalance",
        Stat.RATE_PER_HOUR,
        "attempts that brought no share",
    ),
    *_time(COORDINATOR, "revoked", "partition-revoked-latency", "ms spent in on_partitions_revoked"),
    *_time(COORDINATOR, "assigned", "partition-assigned-latency", "ms spent in on_partitions_assigned"),
    *_time(COORDINATOR, "lost", "partition-lost-latency", "ms spent in on_partitions_lost"),
    Metric(COORDINATOR, "assigned-partitions", "", Stat.GAUGE, "partitions assigned"),
    *_time(CONSUMER, "poll_gap", "time-between-poll", "ms from one poll's beginning to the next one's"),
    Metric(CONSUMER, "last-poll-seconds-ago", "poll", Stat.AGE, "since a poll began"),
    Metric(CONSUMER, "poll-idle-ratio-avg", "poll_idle", Stat.AVG, "share of time spent inside poll, from 0 to 1"),
    Metric(CONSUMER, "commit-sync-time-ns-total", "commit_sync", Stat.SUM_TOTAL, "ns spent in commit()"),
    Metric(CONSUMER, "committed-time-ns-total", "committed", Stat.SUM_TOTAL, "ns spent in committed()"),
    Metric(CONSUMER, "connection-count", "", Stat.GAUGE, "connections open"),
    *_meter(CONSUMER, "connection_opened", "connection-creation", "connections made"),
    *_meter(CONSUMER, "connection_closed", "connection-close", "connections that ended"),
    *_meter(CONSUMER, "request", "request", "requests sent"),
    *_amount(CONSUMER, "request", "outgoing-byte", "bytes of requests"),
    *_time(CONSUMER, "request", "request-size", "bytes of one request"),
    *_meter(CONSUMER, "response", "response", "responses received"),
    *_amount(CONSUMER, "response", "incoming-byte", "bytes of responses"),
    *_time(CONSUMER, "request_latency", "request-latency", "ms from asking to the answer, of all requests"),
)
_SENSORS = tuple(dict.fromkeys(metric.sensor for metric in METRICS if metric.sensor))


class ConsumerMetrics:
    """The sensors of one consumer. Each method is called by who sees the thing happen; all are cheap."""

    def __init__(self) -> None:
        self._sensors = {name: Sensor() for name in _SENSORS}
        self._topics: dict[str, dict[str, Sensor]] = {}
        self._counts: dict[str, int] = {}
        self._poll_began: float | None = None
        self._poll_ended: float | None = None

    # -- fetching

    def fetched(self, seconds: float, size: int, records: int, throttle_ms: int, now: float) -> None:
        """Note an answer to Fetch: how long it took, its bytes, the records in it."""
        self._record("fetch_latency", seconds * 1000, now)
        self._record("fetch_size", size, now)
        self._record("records_per_request", records, now)
        self._record("fetch_throttle", throttle_ms, now)

    def consumed(self, topic: str, records: int, size: int, now: float) -> None:
        """Note that records of a topic were handed out."""
        sensors = self._topics.get(topic)
        if sensors is None:
            sensors = self._topics[topic] = {"bytes": Sensor(), "records": Sensor()}
        for name, value in (("bytes", size), ("records", records)):
            sensors[name].record(value, now)
            self._record(name, value, now)

    def positioned(self, lag: int | None, lead: int | None, now: float) -> None:
        """Note how far a partition's position is from its end and from its start, where that is known."""
        if lag is not None:
            self._record("lag", lag, now)
        if lead is not None:
            self._record("lead", lead, now)

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Forget all other topics; else a pattern's would pile up as they come and go."""
        wanted = set(topics)
        self._topics = {topic: sensors for topic, sensors in self._topics.items() if topic in wanted}

    # -- the group

    def commit_answered(self, seconds: float, now: float) -> None:
        """Note an answer to OffsetCommit; fits ``Commits.on_answer``."""
        self._record("commit", seconds * 1000, now)

    def counted(self, name: str, count: int, last_seconds: float, now: float) -> None:
        """Note what somebody else counts: ``count`` is how often it has happened ever, ``last_seconds`` how long last.

        ``name`` is "heartbeat", "heartbeat_sent", "join", "sync", "rebalance" or "failed_rebalance".
        """
        new = count - self._counts.get(name, 0)
        self._counts[name] = count
        if new > 0:
            self._sensors[name].record(last_seconds * 1000, now, new)

    def called_back(self, name: str, seconds: float, now: float) -> None:
        """Note how long a listener took: ``name`` is "revoked", "assigned" or "lost"."""
        self._record(name, seconds * 1000, now)

    # -- calls

    def poll_begins(self, now: float) -> None:
        """Note that the user polls."""
        self._record("poll", 0.0, now)
        began, ended = self._poll_began, self._poll_ended
        if began is not None:
            self._record("poll_gap", (now - began) * 1000, now)
            if ended is not None and now > began:
                self._record("poll_idle", max(0.0, ended - began) / (now - began), now)
        self._poll_began, self._poll_ended = now, None

    def poll_ends(self, now: float) -> None:
        """Note that the poll is over, by whatever way."""
        self._poll_ended = now

    def waited(self, name: str, seconds: float, now: float) -> None:
        """Note how long a call took: ``name`` is "commit_sync" or "committed"."""
        self._record(name, seconds * 1e9, now)

    # -- connections

    def connected(self, now: float) -> None:
        """Note that a connection was made."""
        self._record("connection_opened", 1, now)

    def disconnected(self, now: float) -> None:
        """Note that a connection ended."""
        self._record("connection_closed", 1, now)

    def sent(self, size: int, now: float) -> None:
        """Note a request that was written."""
        self._record("request", size, now)

    def received(self, size: int, seconds: float, now: float) -> None:
        """Note a response, and how long it took."""
        self._record("response", size, now)
        self._record("request_latency", seconds * 1000, now)

    # -- what is told

    def figures(self, now: float, gauges: Mapping[str, float]) -> Figures:
        """Return every figure, by group and name; ``gauges`` are those that only their owners know, by name."""
        figures: Figures = {}
        for metric in METRICS:
            value = gauges.get(metric.name, NAN)
            if metric.sensor:
                value = metric.stat.of(self._sensors[metric.sensor], now)
            figures.setdefault(metric.group, {})[metric.name] = value
        for topic, sensors in self._topics.items():
            told = figures[f"{FETCH}.topic-{topic}"] = {}
            for metric in TOPIC_METRICS:
                told[metric.name] = metric.stat.of(sensors[metric.sensor], now)
        return figures

    def _record(self, name: str, value: float, now: float) -> None:
        self._sensors[name].record(value, now)
