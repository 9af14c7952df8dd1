"""Groups settle, and the rates of joins, heartbeats and log lines are limited."""

import logging

import pytest
from lab.checkers.commits import Plans
from lab.checkers.rebalances import (
    AT_ONCE_MAX,
    BEATS_MAX,
    EARLY_MAX,
    JOINS_MAX,
    LINES_BESIDES,
    LINES_PER_INCIDENT,
    REBALANCES_MAX,
    REBALANCES_PER_MEMBER,
    WINDOW_S,
    LogVolumeChecker,
    RebalanceChecker,
)

from thinconsumer.types import TopicPartition
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer_testing.simulation.client_tap import SentRequest

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


def test_next_window_starts_a_new_count(room, ann):
    for _ in range(3 * JOINS_MAX):
        room.now += 1.1 * WINDOW_S / JOINS_MAX
        room.join(ann, code=None)
    assert room.verdict() == ""


def test_heartbeats_beyond_the_limit_are_a_violation(room, ann):
    for _ in range(BEATS_MAX + 1):
        room.says(ann, HeartbeatRequest(group_id="g", generation_id=1, member_id="ann-id"))
    assert "Heartbeats" in room.verdict()


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


def test_join_without_a_reason_is_a_violation(room, rounds, ann):
    room.join(ann, code=None)
    assert room.verdict() == ""
    rounds.is_quiet = True
    room.join(ann, code=None)
    assert "joins again without a cause" in room.verdict()


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


@pytest.mark.parametrize("line", [1, 2])
def test_join_in_the_step_that_reads_the_failure_is_a_violation(room, ann, line):
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="")
    for _ in range(EARLY_MAX + 1):
        failed, again = (SentRequest(request.API_KEY, 0, request) for _ in range(2))
        room.tell("request_written", ann, line, failed, [])
        room.now += 1.0
        room.tell("request_written", ann, 1, again, [])
        room.tell("response_read", ann, line, failed, JoinGroupResponse(error_code=15))
        room.now += 1.0
    assert bool(room.verdict()) == (line == 1), "a response on an older connection does not count"


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


def test_log_lines_outside_of_calls_are_not_counted(room):
    lines = room.add(LogVolumeChecker)
    log(lines, 1000)
    assert room.verdict() == ""


def test_warnings_of_enforced_rebalances_count_for_the_member_that_was_called(room):
    """Seed 6127 of the swarm: their calls run while another member's call waits."""
    lines = room.add(LogVolumeChecker)
    ann, bob = room.member("ann"), room.member("bob")
    lines.calling = [ann]
    for _ in range(LINES_BESIDES + LINES_PER_INCIDENT + 1):
        with lines.enforcing(bob):
            log(lines, 1)
    assert lines.calling == [ann] and not lines.lines[ann] and room.verdict() == ""
