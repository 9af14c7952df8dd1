"""The consumer's metrics, under Kafka's own names: sensors, and the table of the metrics computed from them.

``docs/metrics.md`` is generated from the table. Other modules report events to :class:`ConsumerMetrics`. Time is an
argument, in monotonic seconds; the value of a metric is in milliseconds if Kafka's metric is.

Averages, minima, maxima and rates cover the last 30 to 60 seconds: two samples of 30 s each, of which the older one
is dropped as a whole, as in Kafka's ``SampledStat`` with default settings. Without an event, rates and totals are 0,
and other metrics of events are NaN. Follows Java's ``FetchMetricsRegistry``, ``AbstractCoordinator`` and
``KafkaConsumerMetrics``.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: The length of one of the two samples, in seconds (Kafka's ``metrics.sample.window.ms``).
SAMPLE_S = 30.0
#: From this many pending events on, :meth:`ConsumerMetrics.bound` adds them to their sensors.
PENDING_MAX = 200
NAN = math.nan

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"

#: The result of ``Consumer.metrics()``: by group, then by metric name, the metrics' values.
MetricValues = dict[str, dict[str, float]]


class Window(NamedTuple):
    """The values of the last two samples, and totals since the start; ``max``, ``min``, ``age``: NaN without events."""

    seconds: float  #: The time that rates are computed over: that of the two samples, at least :data:`SAMPLE_S`.
    events: int
    sum: float
    max: float
    min: float
    total_events: int
    total_sum: float
    age: float  #: Seconds since the last event.


class Sensor:
    """Records the values of one kind of event: in two samples of :data:`SAMPLE_S`, and totals since the start."""

    __slots__ = ("_count", "_max", "_min", "_previous", "_since", "_sum", "count", "last_at", "sum")

    def __init__(self) -> None:
        self.count = 0  #: Events since the start.
        self.sum = 0.0  #: Sum of all values since the start.
        self.last_at: float | None = None  #: The time of the last event.
        self._since = -math.inf  #: The start of the current sample.
        self._count = 0
        self._sum = 0.0
        self._max = -math.inf
        self._min = math.inf
        #: The sample before the current one: its start, and the count, sum, maximum and minimum of its values.
        self._previous: tuple[float, int, float, float, float] | None = None

    def record(self, value: float, now: float, times: int = 1) -> None:
        """Record ``times`` events with this value."""
        if now - self._since >= SAMPLE_S:
            self._roll(now)
        added = value * times
        self.count += times
        self.sum += added
        self.last_at = now
        self._count += times
        self._sum += added
        if value > self._max:
            self._max = value
        if value < self._min:
            self._min = value

    def add(self, values: Sequence[float], last_at: float) -> None:
        """Record one event for each of ``values``, all of the current sample; ``last_at`` is the time of the last."""
        total = sum(values)
        self.count += len(values)
        self.sum += total
        self.last_at = last_at
        self._count += len(values)
        self._sum += total
        self._max = max(self._max, *values)
        self._min = min(self._min, *values)

    @property
    def sample_ends_at(self) -> float:
        """The end of the current sample; -inf before the first event."""
        return self._since + SAMPLE_S

    def window(self, now: float) -> Window:
        """Return what the metrics are computed from."""
        if now - self._since >= SAMPLE_S:
            self._roll(now)
        since, count, total, highest, lowest = self._previous or (self._since, 0, 0.0, -math.inf, math.inf)
        # A rate is computed over at least one sample's length: over the few seconds since the start alone, one burst of
        # events would give a rate that is far too high.
        seconds = max(now - since, SAMPLE_S)
        events = count + self._count
        highest, lowest = (max(highest, self._max), min(lowest, self._min)) if events else (NAN, NAN)
        age = NAN if self.last_at is None else max(0.0, now - self.last_at)
        return Window(seconds, events, total + self._sum, highest, lowest, self.count, self.sum, age)

    def _roll(self, now: float) -> None:
        recent = now - self._since < 2 * SAMPLE_S and self._since > -math.inf
        self._previous = (self._since, self._count, self._sum, self._max, self._min) if recent else None
        self._since = self._since + SAMPLE_S if recent else now
        self._count, self._sum, self._max, self._min = 0, 0.0, -math.inf, math.inf


class EventSensors:
    """The sensors of one kind of event that has several values, for example the latency and size of a response.

    Events are kept in a list, and added to the sensors many at a time: a call of :meth:`Sensor.record` for each value
    would cost a tenth of a poll that returns one record.
    """

    def __init__(self, *sensors: Sensor) -> None:
        self._sensors = sensors
        self.pending: list[tuple[Any, ...]] = []  #: The time and the values of each event that is not added yet.
        #: Records an event: a tuple of its time, a value for each sensor, and further values of a subclass.
        self.record: Callable[[tuple[Any, ...]], None] = self.pending.append
        self._add_at = -math.inf  #: Events before this time belong to the current sample of every sensor.

    def flush(self) -> None:
        """Add the pending events to the sensors. Call this before a sensor is read, or is given a value directly."""
        events = self.pending[:]
        self.pending.clear()
        if events:
            self._add(events)

    def _add(self, events: list[tuple[Any, ...]]) -> None:
        while events:
            within = bisect_left(events, (self._add_at,))
            if within:
                times, *columns = zip(*events[:within])
                for sensor, values in zip(self._sensors, columns):
                    sensor.add(values, times[-1])
            else:  # the first event of another sample
                within = 1
                now, *first = events[0]
                for sensor, value in zip(self._sensors, first):
                    sensor.record(value, now)
                self._add_at = min(sensor.sample_ends_at for sensor in self._sensors)
            del events[:within]


class ReturnedRecords(EventSensors):
    """The sensors of records that polls return, and those of each topic.

    An event has six items: the time; the lag (from the position after the records to the partition's end); the lead
    (from the partition's start to that position); the bytes and the number of the records; their topic.
    """

    def __init__(self, lag: Sensor, lead: Sensor, size: Sensor, records: Sensor) -> None:
        super().__init__(lag, lead, size, records)
        self.topics: dict[str, dict[str, Sensor]] = {}  #: By topic: the sensors of its bytes and records.

    def _add(self, events: list[tuple[Any, ...]]) -> None:
        for now, _, _, size, records, topic in events:
            self.add_to_topic(topic, size, records, now)
        super()._add(events)

    def add_to_topic(self, topic: str, size: int, records: int, now: float) -> None:
        sensors = self.topics.get(topic)
        if sensors is None:
            sensors = self.topics[topic] = {"bytes": Sensor(), "records": Sensor()}
        sensors["bytes"].record(size, now)
        sensors["records"].record(records, now)


class Stat(enum.Enum):
    """How a metric is computed from the window of a sensor; ``text`` describes the result in docs/metrics.md."""

    def __init__(self, text: str, compute: Callable[[Window], float]) -> None:
        self.text = text
        self._compute = compute

    AVG = "average", lambda window: window.sum / window.events if window.events else NAN
    MAX = "maximum", lambda window: window.max
    MIN = "minimum", lambda window: window.min
    RATE = "events per second", lambda window: window.events / window.seconds
    RATE_PER_HOUR = "events per hour", lambda window: 3600 * window.events / window.seconds
    SUM_RATE = "sum per second", lambda window: window.sum / window.seconds
    TOTAL = "events since the start", lambda window: float(window.total_events)
    SUM_TOTAL = "sum since the start", lambda window: window.total_sum
    AGE = "seconds since the last event", lambda window: window.age
    GAUGE = "current value", lambda window: NAN

    def of(self, sensor: Sensor, now: float) -> float:
        """Return this statistic of the sensor's events; of two samples or since the start, as its ``text`` says."""
        return self._compute(sensor.window(now))


class Metric(NamedTuple):
    """One metric: Kafka's group and name, its sensor and statistic, and a description of the measured event."""

    group: str
    name: str
    sensor: str  #: The name of the sensor; empty for gauges.
    stat: Stat
    text: str


def _time(group: str, sensor: str, base: str, text: str) -> list[Metric]:
    return [Metric(group, f"{base}-avg", sensor, Stat.AVG, text), Metric(group, f"{base}-max", sensor, Stat.MAX, text)]


def _meter(
    group: str, sensor: str, base: str, text: str, rate: Stat = Stat.RATE, total: Stat = Stat.TOTAL
) -> list[Metric]:
    return [Metric(group, f"{base}-rate", sensor, rate, text), Metric(group, f"{base}-total", sensor, total, text)]


def _amount(group: str, sensor: str, base: str, text: str) -> list[Metric]:
    return _meter(group, sensor, base, text, Stat.SUM_RATE, Stat.SUM_TOTAL)


#: Also computed for each topic, in the group ``consumer-fetch-manager-metrics.topic-NAME``.
TOPIC_METRICS: tuple[Metric, ...] = (
    *_amount(FETCH, "bytes", "bytes-consumed", "bytes of returned records, as stored by the broker"),
    *_amount(FETCH, "records", "records-consumed", "returned records"),
)

_REBALANCE = "ms from a rebalance's start to the end of its callbacks, failed attempts included"
METRICS: tuple[Metric, ...] = (
    *TOPIC_METRICS,
    *_time(FETCH, "fetch_size", "fetch-size", "bytes of one Fetch response"),
    Metric(FETCH, "records-per-request-avg", "records_per_request", Stat.AVG, "records in one Fetch response"),
    *_time(FETCH, "fetch_latency", "fetch-latency", "ms from Fetch request to response, long polling included"),
    *_meter(FETCH, "fetch_latency", "fetch", "Fetch responses"),
    *_time(FETCH, "fetch_throttle", "fetch-throttle-time", "ms of throttling by a broker's quota"),
    Metric(FETCH, "records-lag-max", "lag", Stat.MAX, "records from a position to its partition's end"),
    Metric(FETCH, "records-lead-min", "lead", Stat.MIN, "records from a partition's start to the position"),
    *_time(COORDINATOR, "commit", "commit-latency", "ms from OffsetCommit request to response"),
    *_meter(COORDINATOR, "commit", "commit", "OffsetCommit responses"),
    Metric(COORDINATOR, "heartbeat-response-time-max", "heartbeat", Stat.MAX, "ms from heartbeat to response"),
    *_meter(COORDINATOR, "heartbeat_sent", "heartbeat", "heartbeats sent"),
    Metric(COORDINATOR, "last-heartbeat-seconds-ago", "heartbeat_sent", Stat.AGE, "heartbeats sent"),
    *_time(COORDINATOR, "join", "join-time", "ms from JoinGroup to response, which comes when all members have joined"),
    *_meter(COORDINATOR, "join", "join", "successful JoinGroup responses"),
    *_time(COORDINATOR, "sync", "sync-time", "ms from SyncGroup to response, which comes when the leader has assigned"),
    *_meter(COORDINATOR, "sync", "sync", "successful SyncGroup responses"),
    *_time(COORDINATOR, "rebalance", "rebalance-latency", _REBALANCE),
    Metric(COORDINATOR, "rebalance-latency-total", "rebalance", Stat.SUM_TOTAL, _REBALANCE),
    Metric(COORDINATOR, "rebalance-total", "rebalance", Stat.TOTAL, "completed rebalances"),
    Metric(COORDINATOR, "rebalance-rate-per-hour", "rebalance", Stat.RATE_PER_HOUR, "completed rebalances"),
    Metric(COORDINATOR, "last-rebalance-seconds-ago", "rebalance", Stat.AGE, "completed rebalances"),
    Metric(COORDINATOR, "failed-rebalance-total", "failed_rebalance", Stat.TOTAL, "failed rebalances"),
    Metric(COORDINATOR, "failed-rebalance-rate-per-hour", "failed_rebalance", Stat.RATE_PER_HOUR, "failed rebalances"),
    *_time(COORDINATOR, "revoked", "partition-revoked-latency", "ms spent in on_partitions_revoked"),
    *_time(COORDINATOR, "assigned", "partition-assigned-latency", "ms spent in on_partitions_assigned"),
    *_time(COORDINATOR, "lost", "partition-lost-latency", "ms spent in on_partitions_lost"),
    Metric(COORDINATOR, "assigned-partitions", "", Stat.GAUGE, "partitions assigned"),
    *_time(CONSUMER, "poll_gap", "time-between-poll", "ms from one poll's start to the next one's"),
    Metric(CONSUMER, "last-poll-seconds-ago", "poll", Stat.AGE, "starts of polls"),
    Metric(CONSUMER, "poll-idle-ratio-avg", "poll_idle", Stat.AVG, "fraction of time spent inside poll"),
    Metric(CONSUMER, "commit-sync-time-ns-total", "commit_sync", Stat.SUM_TOTAL, "ns spent in commit()"),
    Metric(CONSUMER, "committed-time-ns-total", "committed", Stat.SUM_TOTAL, "ns spent in committed()"),
    Metric(CONSUMER, "connection-count", "", Stat.GAUGE, "open connections"),
    *_meter(CONSUMER, "connection_opened", "connection-creation", "connections opened"),
    *_meter(CONSUMER, "connection_closed", "connection-close", "connections closed"),
    *_meter(CONSUMER, "request", "request", "requests sent"),
    *_amount(CONSUMER, "request", "outgoing-byte", "bytes of requests"),
    *_time(CONSUMER, "request", "request-size", "bytes of one request"),
    *_meter(CONSUMER, "response", "response", "responses received"),
    *_amount(CONSUMER, "response", "incoming-byte", "bytes of responses"),
    *_time(CONSUMER, "request_latency", "request-latency", "ms from request to response, of all requests"),
)
_SENSORS = tuple(dict.fromkeys(metric.sensor for metric in METRICS if metric.sensor))


class ConsumerMetrics:
    """The sensors of one consumer, fed by the methods below and by :meth:`EventSensors.record`."""

    def __init__(self) -> None:
        self._sensors = {name: Sensor() for name in _SENSORS}
        #: A Fetch response: its latency in ms, bytes, number of records, and throttle time in ms.
        self.fetches = self._events("fetch_latency", "fetch_size", "records_per_request", "fetch_throttle")
        self.returned = ReturnedRecords(*(self._sensors[name] for name in ("lag", "lead", "bytes", "records")))
        self._polls = self._events("poll", "poll_gap")
        self._idle = self._events("poll_idle")
        #: A request and its response: the bytes of both, and the latency in ms.
        self.exchanges = self._events("request", "response", "request_latency")
        self._all_events = (self.fetches, self.returned, self._polls, self._idle, self.exchanges)
        self._counts: dict[str, int] = {}
        self._poll_began: float | None = None
        self.poll_ended: float | None = None  #: When the last ``poll`` has ended; None within one and before the first.

    def record_without_lag(
        self, topic: str, records: int, size: int, lag: int | None, lead: int | None, now: float
    ) -> None:
        """Record that ``poll`` returns records while lag or lead is unknown (None); otherwise use :attr:`returned`.

        ``size`` is in bytes as stored by the broker.
        """
        self.returned.flush()
        for name, value in {"lag": lag, "lead": lead, "bytes": size, "records": records}.items():
            if value is not None:
                self._sensors[name].record(value, now)
        self.returned.add_to_topic(topic, size, records, now)

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Drop the sensors of all other topics, which would accumulate with a pattern subscription."""
        self.returned.flush()
        for topic in self.returned.topics.keys() - set(topics):
            del self.returned.topics[topic]

    def record_commit(self, seconds: float, now: float) -> None:
        """Record an OffsetCommit response and its latency."""
        self._sensors["commit"].record(seconds * 1000, now)

    def update_count(self, name: str, count: int, last_seconds: float, now: float) -> None:
        """Record the events since the last call, given the ``count`` of all so far, and the last event's duration.

        ``name`` is a sensor, for example "heartbeat", "join" or "connection_opened".
        """
        new = count - self._counts.get(name, 0)
        self._counts[name] = count
        if new > 0:
            self._sensors[name].record(last_seconds * 1000, now, new)

    def record_callback(self, name: str, seconds: float, now: float) -> None:
        """Record the duration of a listener's callback; ``name`` is "revoked", "assigned" or "lost"."""
        self._sensors[name].record(seconds * 1000, now)

    def record_poll_start(self, now: float) -> None:
        began, ended = self._poll_began, self.poll_ended
        self._poll_began, self.poll_ended = now, None
        if len(self._polls.pending) >= PENDING_MAX:
            self.bound()
        if began is None:
            self._sensors["poll"].record(0.0, now)
            return
        gap = now - began
        self._polls.record((now, 0.0, gap * 1000))
        if ended is not None and gap > 0:
            self._idle.record((now, (ended - began) / gap if ended > began else 0.0))

    def record_call_time(self, name: str, seconds: float, now: float) -> None:
        """Record the duration of a call; ``name`` is "commit_sync" or "committed"."""
        self._sensors[name].record(seconds * 1e9, now)

    def bound(self) -> None:
        """Add events to their sensors if many are kept. Called once or twice a second, and when 200 polls are kept."""
        for events in self._all_events:
            if len(events.pending) >= PENDING_MAX:
                events.flush()

    def values(self, now: float, gauges: Mapping[str, float]) -> MetricValues:
        """Return all metrics by group and name; ``gauges`` are the current values of the gauges, by name."""
        for events in self._all_events:
            events.flush()
        values: MetricValues = {}
        for metric in METRICS:
            value = gauges.get(metric.name, NAN)
            if metric.sensor:
                value = metric.stat.of(self._sensors[metric.sensor], now)
            values.setdefault(metric.group, {})[metric.name] = value
        for topic, sensors in self.returned.topics.items():
            values[f"{FETCH}.topic-{topic}"] = {
                metric.name: metric.stat.of(sensors[metric.sensor], now) for metric in TOPIC_METRICS
            }
        return values

    def _events(self, *names: str) -> EventSensors:
        return EventSensors(*(self._sensors[name] for name in names))


_TEXTS = {(metric.group, metric.name): f"{metric.stat.text}: {metric.text}" for metric in METRICS}


class LabelledValue(NamedTuple):
    """A metric without the topic or partition in its group's name."""

    group: str  #: Kafka's group, or that of workers.
    name: str  #: Kafka's name.
    scope: str  #: "topic" or "partition" for a value of one; else empty.
    labels: dict[str, str]
    value: float
    text: str

    @property
    def is_counter(self) -> bool:
        """Whether the value only grows, from 0 on."""
        return self.name.endswith("-total")

    @property
    def words(self) -> list[str]:
        """The words of a name for exporters: ``kafka consumer records lag max``."""
        of = "consumer" if self.group in (CONSUMER, COORDINATOR, FETCH) else self.group.removesuffix("-metrics")
        return ["kafka", *of.split("-"), *([self.scope] if self.scope else []), *self.name.split("-")]


def labelled(values: MetricValues, client_id: str) -> Iterator[LabelledValue]:
    """Yield the values of ``metrics()`` one by one."""
    for full_group, metrics in values.items():
        group, _, of = full_group.partition(".")
        scope, _, place = of.partition("-")
        labels = {"client-id": client_id}
        if scope == "topic":
            labels["topic"] = place
        elif scope == "partition":
            labels["topic"], _, labels["partition"] = place.rpartition("-")
        for name, value in metrics.items():
            yield LabelledValue(group, name, scope, labels, value, _TEXTS.get((group, name), ""))
