"""The swarm of readers builds the world of its knobs, and every reader must reach the end."""

import pytest
from lab import ReaderSwarm, reader_swarm, swarm

from thinconsumer_testing.simulation import Violation


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
