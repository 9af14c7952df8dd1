"""The swarm of readers builds the world of its knobs, and every reader must reach the end."""

import pytest
from lab import ReaderSwarm, reader_swarm, swarm
from lab.faults import FAULTS

from thinconsumer_testing.simulation import Violation


def test_run_without_faults_reads_all_records(calm_knobs):
    run = ReaderSwarm(1, knobs=calm_knobs)
    counts = run.run()
    assert counts["written"] > 0 and counts["records"] > 0 and counts["events"] > 100
    faults = (*FAULTS, "drops", "half_open", "refused", "held", "mishandled")
    assert {name: counts[name] for name in faults if counts[name]} == {}
    assert run.sim.now() >= 1000 + swarm.FAULTS_S
    assert run.actors[0].position(run.tps[0], 0) == run.sim.cluster.leader(run.tps[0]).log.end_offset


def test_reader_that_never_reaches_the_end_fails_the_run(calm_knobs, monkeypatch):
    monkeypatch.setattr(swarm, "FAULTS_S", 1.0)
    monkeypatch.setattr(ReaderSwarm, "PEACE_S", 5.0)
    monkeypatch.setattr(reader_swarm, "A_RECORD_S", 0.0)
    run = ReaderSwarm(1, knobs=calm_knobs)
    monkeypatch.setattr(run, "is_at_end", lambda consumer, tp: False)
    run.safety()
    run.sim.run_until(run.log_writer.finish, 100)
    with pytest.raises(Violation, match=r"5 virtual seconds after the faults: not at the end: \{'consumer-1'"):
        run.liveness()
