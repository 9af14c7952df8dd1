"""Metrics of a consumer at work: every figure has a source, and says what happened."""

import math

import pytest

from thinconsumer import Consumer, IllegalArgumentError, RebalanceListener
from thinconsumer.metrics import CONSUMER, COORDINATOR, FETCH, METRICS
from thinconsumer.testing import Simulation

#: Metrics without a sample in a run without rebalances.
QUIET = {"partition-lost-latency-avg", "partition-lost-latency-max"}


@pytest.fixture
def figures():
    """Those of a member that read ten records, committed, and joined twice."""
    sim = Simulation(seed=1, brokers=3, topics={"t": 2})
    options = {"group_id": "g", "auto_offset_reset": "earliest", "driver": sim.driver()}
    with Consumer(bootstrap_servers=sim.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["t"], listener=RebalanceListener())
        for partition in (0, 1):
            sim.produce("t", partition, [b"x" * 10] * 5)
        count = 0
        while count < 10:
            count += sum(map(len, consumer.poll(100).values()))
        consumer.commit()
        consumer.committed(("t", 0))
        consumer.enforce_rebalance()
        for _ in range(100):
            consumer.poll(100)
        sim.move_leader(("t", 0))
        yield consumer.metrics()


def test_every_figure_has_a_source(figures):
    silent = {
        f"{metric.group}/{metric.name}"
        for metric in METRICS
        if metric.name not in QUIET and (math.isnan(figures[metric.group][metric.name]))
    }
    assert silent == set()


def test_they_say_what_happened(figures):
    assert figures[FETCH]["records-consumed-total"] == 10
    assert figures[f"{FETCH}.topic-t"]["records-consumed-total"] == 10
    assert figures[f"{FETCH}.topic-t"]["bytes-consumed-total"] == figures[FETCH]["bytes-consumed-total"] > 100
    assert figures[FETCH]["records-lag-max"] >= 0 and figures[FETCH]["records-lead-min"] >= 0
    assert figures[COORDINATOR]["rebalance-total"] == figures[COORDINATOR]["join-total"] == 2
    assert figures[COORDINATOR]["commit-total"] >= 1
    assert figures[COORDINATOR]["heartbeat-total"] >= 3
    assert figures[COORDINATOR]["assigned-partitions"] == 2
    assert 0 <= figures[COORDINATOR]["last-rebalance-seconds-ago"] < 15
    assert figures[CONSUMER]["connection-count"] >= 3
    assert figures[CONSUMER]["request-total"] == figures[CONSUMER]["response-total"] > 10
    assert 0 < figures[CONSUMER]["poll-idle-ratio-avg"] <= 1


def test_asking_does_no_io_and_raw_objects_do_not_exist():
    sim = Simulation(seed=1)
    with Consumer(bootstrap_servers=sim.bootstrap_servers, driver=sim.driver()) as consumer:
        assert consumer.metrics()[CONSUMER]["connection-count"] == 0
        assert not consumer._shell.engine.network.any_open()
        with pytest.raises(IllegalArgumentError, match="raw"):
            consumer.metrics(raw=True)
