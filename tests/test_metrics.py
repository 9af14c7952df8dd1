"""Metrics: the windows of sensors, each metric from recorded events, and Kafka's names."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.consumer.fetcher import FetchManagerMetrics
from kafka.coordinator.base import GroupCoordinatorMetrics
from kafka.metrics import Metrics as PeerMetrics

from tests.pages import load
from thinconsumer.metrics import (
    CONSUMER,
    COORDINATOR,
    FETCH,
    METRICS,
    PENDING_MAX,
    SAMPLE_S,
    TOPIC_METRICS,
    ConsumerMetrics,
    EventSensors,
    Sensor,
    Stat,
)

NOW = 1000.0


def nan(value: float) -> bool:
    return math.isnan(value)


@pytest.fixture
def metrics() -> ConsumerMetrics:
    return ConsumerMetrics()


# -- sensors


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.integers(-100, 100)), max_size=50), st.floats(0.0, 100.0))
def test_window_holds_all_values_of_the_last_30_s_and_none_older_than_60_s(steps, rest):
    sensor = Sensor()
    now, seen = NOW, []
    for pause, value in steps:
        now += pause
        sensor.record(value, now)
        seen.append((now, value))
    now += rest
    window = sensor.window(now)
    recent = [value for at, value in seen if now - at < SAMPLE_S]
    possible = [value for at, value in seen if now - at <= 2 * SAMPLE_S]
    assert len(recent) <= window.events <= len(possible)
    held = [value for _, value in seen][len(seen) - window.events :]
    assert window.sum == sum(held)
    if held:
        assert (window.max, window.min) == (max(held), min(held))
    assert SAMPLE_S <= window.seconds <= 2 * SAMPLE_S + 1e-6
    assert (sensor.count, sensor.sum) == (len(seen), sum(value for _, value in seen))


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.5, 29.0, 31.0, 95.0]), st.integers(-100, 100)), max_size=700),
    st.floats(0.0, 100.0),
)
def test_events_added_later_count_as_if_recorded_at_once(steps, rest):
    """Also across the ends of samples, and if more come than are kept."""
    alone, one, other = Sensor(), Sensor(), Sensor()
    events = EventSensors(one, other)
    now = NOW
    for pause, value in steps:
        now += pause
        alone.record(value, now)
        events.record((now, value, 1))
        if len(events.pending) >= PENDING_MAX:
            events.flush()
    events.flush()
    assert one.window(now + rest) == alone.window(now + rest)
    assert (one.count, one.sum, one.last_at) == (alone.count, alone.sum, alone.last_at)
    assert (other.count, other.sum) == (len(steps), len(steps))


def test_a_thousand_polls_are_not_kept(metrics):
    for number in range(1000):
        metrics.record_poll_start(NOW + number * 1e-3)
        metrics.poll_ended = NOW + (number + 0.5) * 1e-3
    assert metrics._sensors["poll"].count >= 1000 - PENDING_MAX


def test_of_a_thousand_events_between_two_polls_only_some_are_kept(metrics):
    """A poll that waits for long, or a loop of ``drive``."""
    for number in range(1000):
        metrics.exchanges.record((NOW + number * 1e-3, 100, 200, 1.0))
        metrics.bound()
    assert metrics._sensors["request"].count >= 1000 - PENDING_MAX


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        (Stat.AVG, 4.0),
        (Stat.MAX, 6.0),
        (Stat.MIN, 2.0),
        (Stat.RATE, 3 / 30),
        (Stat.RATE_PER_HOUR, 360.0),
        (Stat.SUM_RATE, 12 / 30),
        (Stat.TOTAL, 3.0),
        (Stat.SUM_TOTAL, 12.0),
        (Stat.AGE, 10.0),
    ],
)
def test_each_statistic_of_a_sensor(stat, expected):
    """A rate covers at least one whole sample, so that three events in the first ten seconds are no 1080 per hour."""
    sensor = Sensor()
    for value in (2.0, 4.0, 6.0):
        sensor.record(value, NOW)
    assert stat.of(sensor, NOW + 10) == pytest.approx(expected)


@pytest.mark.parametrize("stat", [stat for stat in Stat if stat is not Stat.GAUGE])
def test_without_events_rates_and_totals_are_zero_and_all_else_is_nan(stat):
    """Some clients return a maximum of minus infinity, which breaks dashboards."""
    value = stat.of(Sensor(), NOW)
    if stat in (Stat.AVG, Stat.MAX, Stat.MIN, Stat.AGE):
        assert nan(value)
    else:
        assert value == 0.0


def test_values_older_than_a_minute_expire_but_totals_stay():
    sensor = Sensor()
    sensor.record(5.0, NOW)
    assert Stat.MAX.of(sensor, NOW + 59) == 5.0
    assert nan(Stat.MAX.of(sensor, NOW + 61))
    assert Stat.RATE.of(sensor, NOW + 61) == 0.0
    assert Stat.TOTAL.of(sensor, NOW + 61) == 1.0
    assert Stat.AGE.of(sensor, NOW + 61) == 61.0


# -- metrics of recorded events


def test_fetch_metrics(metrics):
    metrics.fetches.record((NOW, 200.0, 1000, 10, 0))
    metrics.fetches.record((NOW, 400.0, 3000, 20, 50))
    metrics.returned.record((NOW, 7, 100, 500, 5, "t"))
    metrics.record_without_lag("u", 1, 100, 3, 50, NOW)
    metrics.record_without_lag("u", 0, 0, None, None, NOW)
    values = metrics.values(NOW, {})
    row = values[FETCH]
    assert (row["fetch-latency-avg"], row["fetch-latency-max"]) == (pytest.approx(300), 400)
    assert (row["fetch-size-avg"], row["fetch-size-max"]) == (2000, 3000)
    assert (row["fetch-total"], row["fetch-throttle-time-max"], row["records-per-request-avg"]) == (2, 50, 15)
    assert (row["records-consumed-total"], row["bytes-consumed-total"]) == (6, 600)
    assert (row["records-lag-max"], row["records-lead-min"]) == (7, 50)
    assert values[f"{FETCH}.topic-t"]["records-consumed-total"] == 5
    assert values[f"{FETCH}.topic-u"]["bytes-consumed-rate"] == pytest.approx(100 / 30)


def test_ctrl_c_does_not_count_records_twice(metrics, monkeypatch):
    metrics.returned.record((NOW, 0, 0, 100, 10, "t"))
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Sensor, "record", lambda *about: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            metrics.values(NOW, {})
    metrics.returned.record((NOW, 0, 0, 100, 10, "t"))
    values = metrics.values(NOW, {})
    assert values[FETCH]["records-consumed-total"] == values[f"{FETCH}.topic-t"]["records-consumed-total"] == 10


def test_metrics_of_topics_no_longer_subscribed_are_dropped(metrics):
    for topic in ("t", "u"):
        metrics.returned.record((NOW, 0, 0, 1, 1, topic))
    metrics.keep_topics(["u", "v"])
    assert [group for group in metrics.values(NOW, {}) if "topic-" in group] == [f"{FETCH}.topic-u"]


def test_group_metrics_from_counts(metrics):
    """Events between two calls of update_count are recorded with the duration of the last one."""
    metrics.record_commit(0.01, NOW)
    metrics.update_count("heartbeat_sent", 2, 0.0, NOW)
    metrics.update_count("heartbeat_sent", 2, 0.0, NOW + 5)
    metrics.update_count("heartbeat", 1, 0.003, NOW)
    metrics.update_count("join", 1, 0.5, NOW)
    metrics.update_count("rebalance", 1, 2.0, NOW)
    metrics.update_count("rebalance", 3, 1.0, NOW + 1)
    metrics.update_count("failed_rebalance", 0, 0.0, NOW)
    metrics.record_callback("revoked", 0.25, NOW)
    row = metrics.values(NOW + 6, {"assigned-partitions": 4})[COORDINATOR]
    assert (row["commit-total"], row["commit-latency-max"]) == (1, 10)
    assert (row["heartbeat-total"], row["last-heartbeat-seconds-ago"]) == (2, 6)
    assert row["heartbeat-response-time-max"] == pytest.approx(3)
    assert (row["join-total"], row["join-time-max"], row["sync-total"]) == (1, 500, 0)
    assert (row["rebalance-total"], row["rebalance-latency-total"], row["rebalance-latency-max"]) == (3, 4000, 2000)
    assert row["last-rebalance-seconds-ago"] == 5
    assert row["failed-rebalance-total"] == 0
    assert row["partition-revoked-latency-max"] == 250
    assert nan(row["partition-lost-latency-max"])
    assert row["assigned-partitions"] == 4


def test_poll_metrics(metrics):
    assert nan(metrics.values(NOW, {})[CONSUMER]["poll-idle-ratio-avg"])
    metrics.record_poll_start(NOW)
    metrics.poll_ended = NOW + 1
    metrics.record_poll_start(NOW + 4)
    row = metrics.values(NOW + 5, {})[CONSUMER]
    assert row["poll-idle-ratio-avg"] == 0.25
    assert (row["time-between-poll-avg"], row["time-between-poll-max"]) == (4000, 4000)
    assert row["last-poll-seconds-ago"] == 1
    metrics.record_poll_start(NOW + 4)  # a second poll at the same time, although the first has not ended
    metrics.record_call_time("commit_sync", 0.5, NOW)
    assert metrics.values(NOW + 5, {})[CONSUMER]["commit-sync-time-ns-total"] == 5e8


def test_connection_metrics(metrics):
    metrics.update_count("connection_opened", 1, 0.0, NOW)
    metrics.exchanges.record((NOW, 100, 4000, 5.0))
    metrics.exchanges.record((NOW, 300, 1000, 10.0))
    metrics.update_count("connection_closed", 1, 0.0, NOW)
    row = metrics.values(NOW, {"connection-count": 2})[CONSUMER]
    assert (row["connection-creation-total"], row["connection-close-total"], row["connection-count"]) == (1, 1, 2)
    assert (row["request-total"], row["outgoing-byte-total"], row["request-size-avg"]) == (2, 400, 200)
    assert (row["response-total"], row["incoming-byte-total"]) == (2, 5000)
    assert row["request-latency-max"] == pytest.approx(10)


# -- names


def test_every_metric_is_present_once_even_before_any_event(metrics):
    """Dashboards can be built before the consumer has run."""
    names = [(metric.group, metric.name) for metric in METRICS]
    assert len(names) == len(set(names))
    values = metrics.values(NOW, {})
    assert [(group, name) for group, row in values.items() for name in row] == sorted(names, key=names.index)
    assert {metric.name for metric in TOPIC_METRICS} <= {metric.name for metric in METRICS}


def test_every_metric_of_kafka_python_in_these_groups_exists():
    """Dashboards made for kafka-python keep working."""
    peer = PeerMetrics()
    try:
        FetchManagerMetrics(peer, "consumer")
        GroupCoordinatorMetrics(None, peer, "consumer")
        theirs = {(name.group, name.name) for name in peer.metrics}
    finally:
        peer.close()
    ours = {(metric.group, metric.name) for metric in METRICS}
    assert {(group, name) for group, name in theirs if group.startswith("consumer-")} <= ours
    assert len(theirs) > 15


def test_docs_metrics_md_is_up_to_date():
    """``python docs/generate_metrics.py`` was run after the last change of the table."""
    module = load("generate_metrics")
    assert module.PAGE.read_text(encoding="utf-8") == module.page()
