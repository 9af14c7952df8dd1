"""Swarm runs are equal for equal seeds, and a failure report has all that repeats it."""

import logging

from lab.swarm import log_lines_dropped


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
