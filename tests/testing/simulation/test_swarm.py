"""A swarm run: the same for the same seed, two phases, and a failure that shows all it takes to repeat it."""

from __future__ import annotations

import logging

import pytest

from thinconsumer.testing.simulation import Swarm, Violation, swarm
from thinconsumer.testing.simulation.chaos import FAULTS
from thinconsumer.testing.simulation.knobs import Knobs


@pytest.fixture
def knobs():
    """A world as small as can be, where nothing goes wrong."""
    knobs = Knobs.draw(1)
    rates = ("split_rate", "reset_rate", "refuse_rate", "swallow_rate", "dns_failure_rate")
    requests = ("error_rate", "delay_rate", "silence_rate", "disconnect_rate")
    for name in (*FAULTS, *rates, *requests):
        setattr(knobs, name, 0.0)
    knobs.brokers = knobs.consumers = knobs.topics = knobs.partitions = knobs.replication = 1
    knobs.min_insync_replicas, knobs.producers, knobs.racks, knobs.writes = 1, 0, 1, 12
    knobs.clients = knobs.clients[:1] or Knobs.draw(2).clients[:1]
    knobs.clients[0].auto_offset_reset, knobs.clients[0].odd_rate = "earliest", 0.0
    return knobs


def test_a_run_without_faults_reads_what_is_written_and_ends_well(knobs):
    run = Swarm(1, knobs=knobs)
    counts = run.run()
    assert counts["written"] > 0 and counts["records"] > 0 and counts["events"] > 100
    faults = (*FAULTS, "drops", "half_open", "refused", "held", "mishandled")
    assert {name: counts[name] for name in faults if counts[name]} == {}
    assert run.sim.now() >= 1000 + swarm.FAULTS_S
    assert run.consumers[0].position(run.tps[0], 0) == run.sim.cluster.leader(run.tps[0]).log.end_offset


def test_the_same_seed_runs_the_same_way_and_another_another(knobs):
    def trace(seed):
        run = Swarm(seed, traced=True, knobs=knobs)
        run.sim.run_for(5)
        return run.sim.trace.digest()

    assert trace(1) == trace(1) != trace(2)


def test_the_world_is_the_one_that_the_knobs_describe():
    drawn = Knobs.draw(11)
    run = Swarm(11)
    assert str(run.knobs) == str(drawn)
    assert len(run.sim.cluster.nodes) == drawn.brokers and len(run.producers) == drawn.producers
    assert [actor.name for actor in run.consumers] == [f"consumer-{n + 1}" for n in range(drawn.consumers)]
    assert len({tp.topic for tp in run.tps}) == drawn.topics
    assert all(actor.assigned and set(actor.assigned) <= set(run.tps) for actor in run.consumers)
    faults = run.sim.network.faults
    assert (faults.latency_max_s, faults.jitter_s, faults.reset_rate, run.sim.network.chunk) == (
        drawn.latency_max_s, drawn.jitter_s, drawn.reset_rate, drawn.chunk,
    )  # fmt: skip
    for actor, client in zip(run.consumers, drawn.clients):
        assert actor.consumer.raw.config.isolation_level == client.isolation_level
        assert actor.driver.wall_skew == client.wall_skew_s and actor.behaviour.odd_rate == client.odd_rate


def test_failures_show_seed_knobs_trace_and_the_command_that_repeats_them(knobs, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = Swarm(77, traced=True, knobs=knobs)
    run.sim.world.call_later(2.0, lambda: run.sim.world.accuse("pigs flew"))
    before = logging.root.manager.disable
    with pytest.raises(Violation) as caught:
        run.run()
    words = str(caught.value)
    assert words.startswith(f"seed 77\n{knobs}\n\nat 1002.000000: pigs flew\n")
    assert "python -m thinconsumer.testing.simulation --seed 77" in words and "all of the trace: " in words
    assert logging.root.manager.disable == before


def test_a_reader_that_does_not_arrive_in_peace_fails_the_run_by_name(knobs, monkeypatch):
    monkeypatch.setattr(swarm, "FAULTS_S", 1.0)
    monkeypatch.setattr(swarm, "PEACE_S", 5.0)
    monkeypatch.setattr(swarm, "A_RECORD_S", 0.0)
    run = Swarm(1, knobs=knobs)
    monkeypatch.setattr(run, "_is_at_end", lambda consumer, tp: False)
    run.safety()
    run.sim.run_until(run.log_writer.finish, 100)
    with pytest.raises(Violation, match=r"after 5 virtual seconds of peace not at the end: \{'consumer-1'"):
        run.liveness()
