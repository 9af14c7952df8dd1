"""Trace lines have time, actor and event, are formatted late, and give equal digests for equal runs."""

import pytest

from thinconsumer_testing.clock import VirtualClock
from thinconsumer_testing.simulation.trace import COLUMNS, Trace


def filled(**changes):
    """Return a trace of two lines, with changes to the second."""
    clock = VirtualClock(10.0)
    trace = Trace(clock)
    trace.add("ann", "up", "poll", "%s-%d", "t", 0)
    clock.advance(changes.pop("seconds", 0.25))
    line = {"actor": "node 1", "state": "", "event": "killed", "why": "100%", "args": ()} | changes
    trace.add(line["actor"], line["state"], line["event"], line["why"], *line["args"])
    return trace


def test_line_has_the_columns_of_the_heading():
    heading, first, second = filled().text().split("\n")
    assert heading == COLUMNS
    assert first == "   10.000000 ann           up                  poll             t-0"
    assert second == "   10.250000 node 1                            killed           100%"
    for word, column in (("ann", "actor"), ("up", "state"), ("poll", "event"), ("t-0", "why")):
        assert first.index(word) == heading.index(column)


def test_the_tail_is_the_last_lines_below_the_heading():
    trace = filled()
    assert len(trace) == 2
    assert [line.event for line in trace] == ["poll", "killed"]
    assert trace.text(last=1) == f"{COLUMNS}\n{trace.lines[1]}"
    assert trace.text(last=5) == trace.text()


@pytest.mark.parametrize(
    "change",
    [{"seconds": 0.250001}, {"actor": "node 2"}, {"state": "up"}, {"event": "started"}, {"why": "99%"}],
    ids=str,
)
def test_digest_changes_with_any_column(change):
    assert filled(**change).digest() != filled().digest()
