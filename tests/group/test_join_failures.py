"""Failed joins in a row: backoff, log lines, and the error that polls raise."""

import logging
import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.failures import Action
from thinconsumer.group.join_failures import AT_ONCE_MAX, BURST, LINES_MAX, JoinFailurePolicy
from thinconsumer.support.agenda import NEVER, Agenda
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest


@pytest.fixture
def agenda():
    return Agenda()


@pytest.fixture
def failures(caplog, agenda):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    return JoinFailurePolicy(ConsumerConfig(group_id="g"), "g", random.Random(1), agenda)


REFUSED = to_error(Code.GROUP_AUTHORIZATION_FAILED)


def test_immediate_retries_are_limited_to_a_few_in_a_row(failures, agenda):
    waits = []
    for _ in range(AT_ONCE_MAX + 3):
        failures.back_off(100.0, at_once=True)
        waits.append(agenda.next() - 100.0)
    assert waits[:AT_ONCE_MAX] == [0.0] * AT_ONCE_MAX and min(waits[AT_ONCE_MAX:]) > 0.5
    failures.heartbeat_succeeded()
    failures.back_off(100.0, at_once=True)
    assert failures.may_send(100.0)


def test_failures_back_off_and_rejections_wait_the_maximum(failures, agenda):
    failures.back_off(100.0)
    assert not failures.may_send(100.0) and 0.08 <= agenda.next() - 100.0 <= 0.12
    failures.heartbeat_succeeded()
    failures.back_off(100.0, at_maximum=True)
    assert not failures.may_send(100.9) and failures.may_send(101.0) and agenda.next() == 101.0


def test_an_error_lasts_until_the_same_api_or_a_sync_succeeds(failures):
    failures.note(Action.RAISE, REFUSED, JoinGroupRequest, 100.0)
    assert failures.error is REFUSED and not failures.is_final
    failures.recovered(100.0, HeartbeatRequest)
    assert failures.error is REFUSED
    failures.note(Action.FIND_COORDINATOR, KafkaConnectionError("x"), JoinGroupRequest, 100.0)
    assert failures.error is REFUSED, "a lost connection does not end the error"
    failures.recovered(100.0)
    assert failures.error is None
    failures.note(Action.RAISE, REFUSED, HeartbeatRequest, 100.0)
    failures.recovered(100.0, HeartbeatRequest)
    assert failures.error is None


def test_a_final_error_is_logged_as_error_and_marked_final(failures, caplog):
    failures.note(Action.GIVE_UP, to_error(Code.FENCED_INSTANCE_ID), HeartbeatRequest, 100.0)
    assert failures.is_final and caplog.records[0].levelno == logging.ERROR
    failures.recovered(100.0)
    assert failures.error is None and not failures.is_final


def test_each_error_is_logged_once_and_its_end_once(failures, caplog):
    loading = to_error(Code.COORDINATOR_LOAD_IN_PROGRESS)
    for second in range(10):
        failures.note(Action.RAISE, REFUSED, JoinGroupRequest, 100.0 + second)
        failures.note(Action.WAIT_FOR_COORDINATOR, loading, JoinGroupRequest, 100.0 + second)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    failures.recovered(110.0)
    assert [record.levelname for record in caplog.records[2:]] == ["INFO", "INFO"]


def test_coordinators_that_accept_no_join_for_the_session_timeout_are_one_warning(failures, caplog):
    error = to_error(Code.COORDINATOR_NOT_AVAILABLE)
    for second in range(600):
        failures.note(Action.FIND_COORDINATOR, error, JoinGroupRequest, float(second))
        assert len(caplog.records) == (second >= 45)
    assert caplog.records[0].levelno == logging.WARNING
    assert "COORDINATOR_NOT_AVAILABLE" in caplog.messages[0]
    failures.recovered(600.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_expulsions_and_lost_coordinators_are_not_logged_at_once(failures, caplog):
    failures.note(Action.FIND_COORDINATOR, KafkaConnectionError("x"), JoinGroupRequest, 100.0)
    failures.note(Action.RESET_MEMBER_ID, to_error(Code.UNKNOWN_MEMBER_ID), JoinGroupRequest, 100.0)
    assert caplog.records == []


def test_log_lines_of_an_incident_are_limited_and_the_rest_is_counted(failures, caplog):
    failures.back_off(0.0)
    for number in range(LINES_MAX + 4):
        failures.log_limited(logging.INFO, "line %d", number)
    failures.heartbeat_succeeded()
    failures.heartbeat_succeeded()
    expected = [f"line {number}" for number in range(LINES_MAX)]
    assert caplog.messages == [*expected, "group g: stable after failed joins; 4 log lines about them are at DEBUG"]


def test_without_an_incident_every_line_is_logged(failures, caplog):
    for number in range(20):
        failures.log_limited(logging.INFO, "line %d", number)
    assert len(caplog.messages) == 20


def test_only_a_heartbeat_that_ends_a_burst_makes_a_step_due():
    agenda = Agenda()
    failures = JoinFailurePolicy(ConsumerConfig(group_id="g"), "g", random.Random(1), agenda)
    for _ in range(BURST - 2):
        failures.heartbeat_sent(100.0)
        assert agenda.next() == NEVER and failures.may_send(100.0)
    failures.heartbeat_sent(100.0)
    failures.heartbeat_sent(100.0)
    assert 100.0 < agenda.next() < 101.0 and not failures.may_send(100.0)
