"""The log lines of an outage: one when it begins, at most one a minute, one when it ends."""

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


def test_ten_minutes_of_failures_are_one_warning_then_one_a_minute_then_one_info(outages, caplog):
    for second in range(600):
        outages.failed("Fetch", float(second), "broker 1 does not answer Fetch requests")
    outages.recovered(None, 600.0, "broker 1 answers Fetch requests again")
    levels = [level for level, _ in lines(caplog)]
    assert levels == ["WARNING"] * 10 + ["INFO"]
    assert lines(caplog)[1][1] == "broker 1 does not answer Fetch requests; 61 failed attempts in 60 s"
    assert lines(caplog)[-1][1] == "broker 1 answers Fetch requests again after 600.0 s and 600 failed attempts"


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
