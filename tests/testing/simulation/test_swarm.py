"""Swarm runs are equal for equal seeds, and a failure report has all that repeats it."""

import logging

import pytest
from lab import ReaderSwarm
from lab.swarm import log_lines_dropped

from thinconsumer_testing.simulation import Violation


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not(calm_knobs):
    def trace(seed):
        run = ReaderSwarm(seed, traced=True, knobs=calm_knobs)
        run.sim.run_for(5)
        return run.sim.trace.digest()

    assert trace(1) == trace(1) != trace(2)


def test_log_lines_are_dropped_for_as_long_as_a_run_lasts(caplog):
    """Loggers that have logged before the run are silent in it, and those that log first in it are heard after it."""
    before, within = logging.getLogger(f"{__name__}.before"), logging.getLogger(f"{__name__}.within")
    before.warning("one")
    with log_lines_dropped():
        before.warning("two")
        within.warning("three")
    before.warning("four")
    within.warning("five")
    assert caplog.messages == ["one", "four", "five"]


def test_failures_show_seed_knobs_trace_and_the_command_that_repeats_them(calm_knobs, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = ReaderSwarm(77, traced=True, knobs=calm_knobs)
    run.sim.world.call_later(2.0, lambda: run.sim.world.accuse("pigs flew"))
    before = logging.root.manager.disable
    with pytest.raises(Violation) as caught:
        run.run()
    words = str(caught.value)
    assert words.startswith(f"seed 77\n{calm_knobs}\n\nat 1002.000000: pigs flew\n")
    assert "PYTHONPATH=testing:tests/swarm python -m lab --seed 77" in words and "all of the trace: " in words
    assert logging.root.manager.disable == before
