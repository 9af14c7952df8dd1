"""Metrics of a consumer at work: every figure has a source, and says what happened."""

import math

import pytest

from thinconsumer import Consumer, IllegalArgumentError, RebalanceListener, TopicPartition
from thinconsumer.engine import Engine
from thinconsumer.metrics import CONSUMER, COORDINATOR, FETCH, METRICS
from thinconsumer.testing import Simulation

T0 = TopicPartition("t", 0)

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


def test_the_lag_of_an_iteration_is_that_of_its_poll(reading):
    """While the application works on its records, the iteration steps, and a Fetch finds records that came later."""
    w, consumer = reading(5)
    for _ in range(5):
        next(consumer)
        w.append(100)
        w.clock.advance(1)
    assert consumer.highwater(T0) > 100
    assert consumer.metrics()[FETCH]["records-lag-max"] == 0


def test_the_bytes_of_an_iteration_count_though_a_step_of_it_is_interrupted(reading, monkeypatch):
    w, consumer = reading(5)
    w.append(5)
    for _ in range(7):
        next(consumer)
    w.clock.advance(1)

    def interrupted(*args):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(consumer)
    assert consumer.position(T0) == 7, "the restart has released the batches that the iteration has left"
    figures = consumer.metrics()[FETCH]
    size = w.cluster.leader(T0).log.size_bytes
    assert (figures["records-consumed-total"], figures["bytes-consumed-total"]) == (10, size)


def test_bytes_are_counted_once_when_the_last_record_of_their_batch_is_returned(reading):
    w, consumer = reading(5)
    sizes = [0, w.cluster.leader(T0).log.size_bytes]
    for _ in range(3):
        w.append(5)
        sizes.append(w.cluster.leader(T0).log.size_bytes)
    count = 0
    while count < 20:
        count += sum(map(len, consumer.poll(100, max_records=3).values()))
        assert (consumer.metrics()[FETCH]["bytes-consumed-total"] or 0) == sizes[count // 5]
