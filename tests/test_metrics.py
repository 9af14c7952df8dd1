"""Metrics: the arithmetic of windows, each figure from what was noted, and Kafka's own names."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.consumer.fetcher import FetchManagerMetrics
from kafka.coordinator.base import GroupCoordinatorMetrics
from kafka.metrics import Metrics as PeerMetrics

from thinconsumer.metrics import (
    CONSUMER,
    COORDINATOR,
    FETCH,
    METRICS,
    SAMPLE,
    TOPIC_METRICS,
    ConsumerMetrics,
    Sensor,
    Stat,
)

NOW = 1000.0


def nan(value: float) -> bool:
    """Whether there is nothing to tell."""
    return math.isnan(value)


@pytest.fixture
def metrics() -> ConsumerMetrics:
    return ConsumerMetrics()


# -- sensors


@given(
    st.lists(st.tuples(st.floats(0.0, 50.0), st.integers(-100, 100)), max_size=50),
    st.floats(0.0, 100.0),
)
def test_window_holds_what_is_recent_and_nothing_old(steps, rest):
    """All of the last 30 s is in it, nothing older than 60 s, and figures are those of what is in it."""
    sensor = Sensor()
    now, seen = NOW, []
    for pause, value in steps:
        now += pause
        sensor.record(value, now)
        seen.append((now, value))
    now += rest
    window = sensor.window(now)
    recent = [value for at, value in seen if now - at < SAMPLE]
    possible = [value for at, value in seen if now - at <= 2 * SAMPLE]
    assert len(recent) <= window.times <= len(possible)
    held = [value for _, value in seen][len(seen) - window.times :]
    assert window.sum == sum(held)
    if held:
        assert (window.highest, window.lowest) == (max(held), min(held))
    assert SAMPLE <= window.seconds <= 2 * SAMPLE + 1e-6
    assert (sensor.count, sensor.sum) == (len(seen), sum(value for _, value in seen))


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
def test_each_figure_of_a_sensor(stat, expected):
    """Rates of one that has just begun are over a whole sample: three in ten seconds are not thousands per hour."""
    sensor = Sensor()
    for value in (2.0, 4.0, 6.0):
        sensor.record(value, NOW)
    assert stat.of(sensor, NOW + 10) == pytest.approx(expected)


@pytest.mark.parametrize("stat", [stat for stat in Stat if stat is not Stat.GAUGE])
def test_what_never_happened_is_nan_and_its_rates_and_totals_are_zero(stat):
    """A maximum of minus infinity, as some clients have it, breaks dashboards."""
    value = stat.of(Sensor(), NOW)
    if stat in (Stat.AVG, Stat.MAX, Stat.MIN, Stat.AGE):
        assert nan(value)
    else:
        assert value == 0.0


def test_old_figures_go_but_totals_stay():
    """After a minute of silence there is no average any more."""
    sensor = Sensor()
    sensor.record(5.0, NOW)
    assert Stat.MAX.of(sensor, NOW + 59) == 5.0
    assert nan(Stat.MAX.of(sensor, NOW + 61))
    assert Stat.RATE.of(sensor, NOW + 61) == 0.0
    assert Stat.TOTAL.of(sensor, NOW + 61) == 1.0
    assert Stat.AGE.of(sensor, NOW + 61) == 61.0


# -- figures


def test_fetching(metrics):
    """Per answer, and per record handed out."""
    metrics.fetched(0.2, 1000, 10, 0, NOW)
    metrics.fetched(0.4, 3000, 20, 50, NOW)
    metrics.consumed("t", 5, 500, NOW)
    metrics.consumed("u", 1, 100, NOW)
    metrics.positioned(7, 100, NOW)
    metrics.positioned(3, 50, NOW)
    metrics.positioned(None, None, NOW)
    figures = metrics.figures(NOW, {})
    told = figures[FETCH]
    assert (told["fetch-latency-avg"], told["fetch-latency-max"]) == (pytest.approx(300), 400)
    assert (told["fetch-size-avg"], told["fetch-size-max"]) == (2000, 3000)
    assert (told["fetch-total"], told["fetch-throttle-time-max"], told["records-per-request-avg"]) == (2, 50, 15)
    assert (told["records-consumed-total"], told["bytes-consumed-total"]) == (6, 600)
    assert (told["records-lag-max"], told["records-lead-min"]) == (7, 50)
    assert figures[f"{FETCH}.topic-t"]["records-consumed-total"] == 5
    assert figures[f"{FETCH}.topic-u"]["bytes-consumed-rate"] == pytest.approx(100 / 30)


def test_topics_that_are_not_read_any_more_are_forgotten(metrics):
    """A pattern's come and go."""
    for topic in ("t", "u"):
        metrics.consumed(topic, 1, 1, NOW)
    metrics.keep_topics(["u", "v"])
    assert [group for group in metrics.figures(NOW, {}) if "topic-" in group] == [f"{FETCH}.topic-u"]


def test_the_group_with_what_others_count(metrics):
    """The member counts by itself; several between two looks are noted with the latest duration."""
    metrics.commit_answered(0.01, NOW)
    metrics.counted("heartbeat_sent", 2, 0.0, NOW)
    metrics.counted("heartbeat_sent", 2, 0.0, NOW + 5)
    metrics.counted("heartbeat", 1, 0.003, NOW)
    metrics.counted("join", 1, 0.5, NOW)
    metrics.counted("rebalance", 1, 2.0, NOW)
    metrics.counted("rebalance", 3, 1.0, NOW + 1)
    metrics.counted("failed_rebalance", 0, 0.0, NOW)
    metrics.called_back("revoked", 0.25, NOW)
    told = metrics.figures(NOW + 6, {"assigned-partitions": 4})[COORDINATOR]
    assert (told["commit-total"], told["commit-latency-max"]) == (1, 10)
    assert (told["heartbeat-total"], told["last-heartbeat-seconds-ago"]) == (2, 6)
    assert told["heartbeat-response-time-max"] == pytest.approx(3)
    assert (told["join-total"], told["join-time-max"], told["sync-total"]) == (1, 500, 0)
    assert (told["rebalance-total"], told["rebalance-latency-total"], told["rebalance-latency-max"]) == (3, 4000, 2000)
    assert told["last-rebalance-seconds-ago"] == 5
    assert told["failed-rebalance-total"] == 0
    assert told["partition-revoked-latency-max"] == 250
    assert nan(told["partition-lost-latency-max"])
    assert told["assigned-partitions"] == 4


def test_polls_and_how_much_of_the_time_they_take(metrics):
    """A consumer that is always inside poll has nothing to do; one that never is cannot keep up."""
    assert nan(metrics.figures(NOW, {})[CONSUMER]["poll-idle-ratio-avg"])
    metrics.poll_begins(NOW)
    metrics.poll_ends(NOW + 1)
    metrics.poll_begins(NOW + 4)
    told = metrics.figures(NOW + 5, {})[CONSUMER]
    assert told["poll-idle-ratio-avg"] == 0.25
    assert (told["time-between-poll-avg"], told["time-between-poll-max"]) == (4000, 4000)
    assert told["last-poll-seconds-ago"] == 1
    metrics.poll_begins(NOW + 4)  # a second one at the same moment, the first never ended
    metrics.waited("commit_sync", 0.5, NOW)
    assert metrics.figures(NOW + 5, {})[CONSUMER]["commit-sync-time-ns-total"] == 5e8


def test_connections(metrics):
    """Bytes and numbers of requests and responses."""
    metrics.connected(NOW)
    metrics.sent(100, NOW)
    metrics.sent(300, NOW)
    metrics.received(5000, 0.01, NOW)
    metrics.disconnected(NOW)
    told = metrics.figures(NOW, {"connection-count": 2})[CONSUMER]
    assert (told["connection-creation-total"], told["connection-close-total"], told["connection-count"]) == (1, 1, 2)
    assert (told["request-total"], told["outgoing-byte-total"], told["request-size-avg"]) == (2, 400, 200)
    assert (told["response-total"], told["incoming-byte-total"]) == (1, 5000)
    assert told["request-latency-max"] == pytest.approx(10)


# -- names


def test_every_name_is_there_once_and_always(metrics):
    """Also before anything has happened, so that dashboards can be built."""
    names = [(metric.group, metric.name) for metric in METRICS]
    assert len(names) == len(set(names))
    figures = metrics.figures(NOW, {})
    assert [(group, name) for group, told in figures.items() for name in told] == sorted(names, key=names.index)
    assert {metric.name for metric in TOPIC_METRICS} <= {metric.name for metric in METRICS}


def test_kafka_python_has_no_name_in_these_groups_that_is_missing_here():
    """Whoever changes over keeps the dashboards."""
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


def test_the_page_is_what_the_table_says():
    """``python docs/generate_metrics.py`` was run after the last change of the table."""
    path = Path(__file__).parents[1] / "docs" / "generate_metrics.py"
    spec = importlib.util.spec_from_file_location("generate_metrics", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page()
