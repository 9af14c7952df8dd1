"""Failures in a row: pauses, lines, and the error that every poll raises."""

from __future__ import annotations

import logging
import random

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.group.classic.join_failures import AT_ONCE_MAX, LINES_MAX, JoinFailurePolicy
from thinconsumer.group.classic.verdicts import Verdict
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest


@pytest.fixture
def troubles(caplog, options):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    return JoinFailurePolicy(options, "g", random.Random(1))


REFUSED = to_error(Code.GROUP_AUTHORIZATION_FAILED)


def test_what_may_go_at_once_does_so_a_few_times_in_a_row(troubles):
    waits = []
    for _ in range(AT_ONCE_MAX + 3):
        troubles.pace(100.0, at_once=True)
        waits.append(troubles.not_before - 100.0)
    assert waits[:AT_ONCE_MAX] == [0.0] * AT_ONCE_MAX and min(waits[AT_ONCE_MAX:]) > 0.5
    troubles.over()
    troubles.pace(100.0, at_once=True)
    assert troubles.not_before == 100.0


def test_the_rest_backs_off_and_what_others_have_to_cure_waits_longest(troubles):
    troubles.pace(100.0)
    assert 0.08 <= troubles.not_before - 100.0 <= 0.12
    troubles.over()
    troubles.pace(100.0, at_leisure=True)
    assert troubles.not_before == 101.0


def test_an_error_stays_until_the_same_api_or_a_sync_cures_it(troubles):
    troubles.note(Verdict.REFUSED, REFUSED, JoinGroupRequest)
    assert troubles.error is REFUSED and not troubles.is_final
    troubles.cured(HeartbeatRequest)
    assert troubles.error is REFUSED
    troubles.note(Verdict.NOT_THERE, KafkaConnectionError("x"), JoinGroupRequest)
    assert troubles.error is REFUSED, "a lost connection has not cured it"
    troubles.cured()
    assert troubles.error is None
    troubles.note(Verdict.REFUSED, REFUSED, HeartbeatRequest)
    troubles.cured(HeartbeatRequest)
    assert troubles.error is None


def test_a_final_one_says_so(troubles, caplog):
    troubles.note(Verdict.FATAL, to_error(Code.FENCED_INSTANCE_ID), HeartbeatRequest)
    assert troubles.is_final and caplog.records[0].levelno == logging.ERROR
    troubles.cured()
    assert troubles.error is None and not troubles.is_final


def test_the_same_reason_is_one_line_and_another_is_another(troubles, caplog):
    for _ in range(5):
        troubles.pace(0.0)
        troubles.note(Verdict.REFUSED, REFUSED, JoinGroupRequest)
    troubles.note(Verdict.LOADING, to_error(Code.COORDINATOR_LOAD_IN_PROGRESS), JoinGroupRequest)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_what_others_log_is_not_logged_here(troubles, caplog):
    troubles.note(Verdict.NOT_THERE, KafkaConnectionError("x"), JoinGroupRequest)
    troubles.note(Verdict.FORGOTTEN, to_error(Code.UNKNOWN_MEMBER_ID), JoinGroupRequest)
    assert caplog.records == []


def test_an_incident_fills_a_few_lines_and_one_that_says_how_many_there_were(troubles, caplog):
    troubles.pace(0.0)
    for number in range(LINES_MAX + 4):
        troubles.say(logging.INFO, "line %d", number)
    troubles.over()
    troubles.over()
    expected = [f"line {number}" for number in range(LINES_MAX)]
    assert caplog.messages == [*expected, "group g: in order again; lines left out here: 4"]


def test_without_an_incident_every_line_counts(troubles, caplog):
    for number in range(20):
        troubles.say(logging.INFO, "line %d", number)
    assert len(caplog.messages) == 20
