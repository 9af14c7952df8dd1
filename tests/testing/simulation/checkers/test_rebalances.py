"""Groups settle, and the rates of joins, heartbeats and log lines are limited."""

import logging

import pytest
from lab.checkers.commits import Plans
from lab.checkers.rebalances import (
    AT_ONCE_MAX,
    EARLY_MAX,
    JOINS_MAX,
    LINES_BESIDES,
    LINES_PER_INCIDENT,
    REBALANCES_MAX,
    REBALANCES_PER_MEMBER,
    LogVolumeChecker,
    RebalanceChecker,
)

from thinconsumer.types import TopicPartition

A = TopicPartition("t", 0)


@pytest.fixture
def rounds(room):
    return room.add(RebalanceChecker, plans=room.add(Plans), now=lambda: room.now)


@pytest.fixture
def ann(room, rounds):
    return room.member()


def test_joins_beyond_the_limit_are_a_violation(room, ann):
    for _ in range(JOINS_MAX):
        room.join(ann, code=None)
    assert room.verdict() == ""
    room.join(ann, code=None)
    assert room.verdict().startswith(f"ann has sent {JOINS_MAX + 1} JoinGroups within")


def test_rebalances_after_the_faults_are_limited(room, rounds, ann):
    limit = REBALANCES_MAX + REBALANCES_PER_MEMBER
    for generation in range(1, 3 * limit):
        if generation == limit:
            room.tell("faults_ended")
            rounds.expect("g", 1)
        room.now += 10.0
        room.join(ann, generation)
        room.sync(ann, A, plan={"ann-id": [A]})
        assert (room.verdict() == "") == (generation < 2 * limit)


@pytest.mark.parametrize(("code", "at_once"), [(15, 0), (25, AT_ONCE_MAX)], ids=["NOT_AVAILABLE", "UNKNOWN_MEMBER"])
def test_repeated_joins_within_the_backoff_are_a_violation(room, ann, code, at_once):
    for _ in range(at_once + EARLY_MAX + 1):
        room.join(ann, code=code)
    assert room.verdict() == ""
    room.join(ann)
    assert room.verdict().startswith("ann joins 0.002 s after")
    room.beat(ann)
    room.join(ann, code=code)
    room.join(ann)
    assert room.verdict() == "", "a heartbeat has succeeded"


def log(lines, count):
    for n in range(count):
        lines.emit(logging.LogRecord("thinconsumer.group", logging.INFO, "", 0, "line %d", (n,), None))


def test_log_lines_per_incident_are_limited(room):
    lines = room.add(LogVolumeChecker)
    ann = room.member()
    lines.calling.append(ann)
    log(lines, LINES_BESIDES + LINES_PER_INCIDENT)
    assert room.verdict() == ""
    log(lines, 1)
    assert "lines about 1 incidents, the last: line 0" in room.verdict()
    room.join(ann)
    room.sync(ann, A)
    room.tell("connection_closed", ann, 1)
    room.callback_started(ann, "assigned", A)
    log(lines, 3 * LINES_PER_INCIDENT - 1)
    assert room.verdict() == "" and len(lines.lines[ann]) == LINES_BESIDES + 4 * LINES_PER_INCIDENT
