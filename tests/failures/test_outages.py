"""The log lines of an outage: one when it begins, ever fewer while it lasts, one when it ends."""

import itertools
import logging

import pytest

from thinconsumer.failures import OutageLog
from thinconsumer.failures.outages import OUTAGES_MAX


@pytest.fixture
def outages(caplog):
    caplog.set_level(logging.DEBUG)
    return OutageLog(logging.getLogger("thinconsumer.test"))


def lines(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_ten_minutes_of_failures_are_four_warnings_then_one_info(outages, caplog):
    """After one, two, four minutes; the next one would come eight minutes later."""
    for second in range(600):
        outages.failed("Fetch", float(second), "broker 1 does not answer Fetch requests")
    outages.recovered(None, 600.0, "broker 1 answers Fetch requests again")
    levels = [level for level, _ in lines(caplog)]
    assert levels == ["WARNING"] * 4 + ["INFO"]
    assert lines(caplog)[1][1] == "broker 1 does not answer Fetch requests; 61 failed attempts in 60 s"
    assert lines(caplog)[-1][1] == "broker 1 answers Fetch requests again after 600.0 s and 600 failed attempts"


def test_a_failure_that_lasts_for_hours_is_logged_every_eight_minutes(outages, caplog):
    times = []
    for second in range(0, 7200, 10):
        before = len(caplog.records)
        outages.failed("Fetch", float(second), "broken")
        times += [second] * (len(caplog.records) - before)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[:4] == [60, 120, 240, 480] and set(pauses[4:]) == {480}


def test_attempts_that_another_line_covers_are_counted_and_not_logged(outages, caplog):
    outages.failed("a", 0.0, "a fails", subject="a", logs=False)
    assert outages.has("a") and not outages.is_logged("a")
    outages.failed("a", 100.0, "a fails", subject="a")
    assert outages.is_logged("a")
    outages.failed("a", 300.0, "a fails", subject="a", logs=False)
    outages.failed("a", 301.0, "a fails", subject="a")
    assert [text for _, text in lines(caplog)] == ["a fails", "a fails; 4 failed attempts in 301 s"]


def test_a_text_is_made_only_for_a_line_and_states_have_no_attempts(outages, caplog):
    made = []

    def text():
        made.append(1)
        return "no broker"

    for second in range(0, 100, 2):
        outages.failed("state", float(second), text, grace=5.0, attempts=0)
    outages.recovered(None, 100.0, "a broker answers")
    assert len(made) == 2
    expected = ["no broker", "no broker; for 66 s", "a broker answers after 100.0 s"]
    assert [line for _, line in lines(caplog)] == expected


def test_a_failure_that_passes_within_its_grace_is_not_logged(outages, caplog):
    outages.failed("move", 0.0, "orders-0 has no leader", grace=1.0)
    outages.failed("move", 0.9, "orders-0 has no leader", grace=1.0)
    outages.recovered(None, 1.5, "orders-0 has a leader")
    assert lines(caplog) == []
    outages.failed("move", 2.0, "orders-0 has no leader", grace=1.0)
    outages.failed("move", 3.0, "orders-0 has no leader", grace=1.0)
    assert [level for level, _ in lines(caplog)] == ["WARNING"]


def test_a_thousand_partitions_that_fail_together_are_one_line_and_end_with_the_last(outages, caplog):
    for second in (0.0, 0.1):
        for partition in range(1000):
            outages.failed("moved", second, f"orders-{partition} is refused", subject=partition, grace=0.1)
    assert lines(caplog) == [("WARNING", "orders-0 is refused (and 999 more)")]
    for partition in range(999):
        outages.recovered(partition, 1.0, "served again")
    outages.failed("moved", 2.0, "refused", subject=999)
    assert len(lines(caplog)) == 1  # the same outage
    outages.forget(999)
    assert len(lines(caplog)) == 1
    outages.failed("moved", 3.0, "refused again", subject=999)
    assert lines(caplog)[1:] == [("WARNING", "refused again")]


def test_the_number_of_remembered_outages_is_bounded(outages, caplog):
    for kind in range(OUTAGES_MAX + 1):
        outages.failed(kind, 0.0, "refused")
    before = len(lines(caplog))
    outages.failed(OUTAGES_MAX, 1.0, "known")
    assert len(lines(caplog)) == before
    outages.failed(0, 1.0, "forgotten")
    assert len(lines(caplog)) == before + 1


def test_what_fails_every_forty_seconds_is_logged_ever_more_rarely(outages, caplog):
    times = []
    for start in range(0, 2400, 40):
        before = len(caplog.records)
        outages.failed("broker", float(start), "connection reset")
        times += [start] * (len(caplog.records) > before)
        outages.recovered(None, start + 20.0, "connected again")
    assert times == [0, 40, 120, 240, 480, 960, 1440, 1920]
    assert sum(level == "INFO" for level, _ in lines(caplog)) == 8
    outages.failed("broker", 3000.0, "connection reset")
    assert lines(caplog)[-1] == ("WARNING", "connection reset"), "after a long time it is a new outage"


def test_failures_that_alternate_with_successes_recur_and_are_logged_after_their_grace(outages, caplog):
    for second in range(8):
        outages.failed("Fetch", float(second), "refused", grace=5.0)
        assert outages.recurring(float(second)) == ([("refused", 0.0)] if second >= 2 else [])
        outages.recovered(None, second + 0.5, "accepted")
    assert outages.recurring(16.9) and not outages.recurring(17.1)
    assert [line for line in lines(caplog) if line[0] == "WARNING"] == [("WARNING", "refused")] * 2
