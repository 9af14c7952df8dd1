"""Logins of a connection: after ApiVersions, again before the session ends, and without credentials."""

import pytest

from thinconsumer.errors import (
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
)
from thinconsumer.network.authenticate import NoLogins, is_logged_out
from thinconsumer.network.connection import LOGIN_INTERVAL
from thinconsumer.network.states import ConnectionState
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from thinconsumer.wire.find_coordinator import FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.heartbeat import HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupResponse
from thinconsumer.wire.list_offsets import ListOffsetsResponse
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse

READY = ConnectionState.READY


def test_a_client_without_sasl_never_waits_for_credentials():
    logins = NoLogins()
    assert (logins.new_login, logins.may_dial(), logins.waits_for(), logins.take_error()) == (None, True, "", None)


class Password:
    """Two requests, like SASL's handshake and authenticate; refused when told so."""

    def __init__(self, refuse=False, reauthenticate_after=None):
        self.refuse = refuse
        self.reauthenticate_after = reauthenticate_after
        self.answers = []

    def next_request(self, answer, now):
        self.answers.append(answer)
        if self.refuse and answer is not None:
            raise SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")
        return MetadataRequest() if len(self.answers) < 3 else None


def test_the_login_follows_apiversions_and_precedes_ready(bench, metadata):
    login = Password()
    made = bench(new_login=lambda host: login)
    made.connection.connection_made(0.0)
    made.reply(made.api_versions())
    assert made.connection.state is ConnectionState.AUTHENTICATING
    made.reply(metadata)
    assert made.connection.state is ConnectionState.AUTHENTICATING
    made.reply(metadata)
    assert made.connection.state is READY
    assert [answer is None for answer in login.answers] == [True, False, False]


def test_a_failed_login_ends_the_connection_with_its_error(bench, metadata):
    made = bench(new_login=lambda host: Password(refuse=True))
    made.connection.connection_made(0.0)
    made.reply(made.api_versions())
    made.reply(metadata)
    assert made.connection.has_ended
    assert not made.connection.was_ready
    assert str(made.connection.error) == "kafka:9092 (10.0.0.1:9092): wrong password"
    assert isinstance(made.connection.error, SaslAuthenticationFailedError)


def log_in_if_due(connection, now):
    if connection.is_login_due(now) and connection.can_send(now):
        connection.reauthenticate(now)


def logged_in(bench, metadata, *later):
    """Return a bench that is logged in for 100 s, and makes the ``later`` logins after that."""
    logins = iter([Password(reauthenticate_after=100.0), *later])
    made = bench(new_login=lambda host: next(logins))
    made.connection.connection_made(0.0)
    made.reply(made.api_versions())
    made.reply(metadata)
    made.reply(metadata)
    assert made.connection.state is READY
    return made


def test_a_connection_logs_in_again_before_its_session_ends(bench, metadata):
    """Requests wait meanwhile; the responses to earlier ones, which come first, are delivered (KAFKA-7352)."""
    made = logged_in(bench, metadata, Password(reauthenticate_after=100.0))
    connection = made.connection
    log_in_if_due(connection, 99.9)
    assert connection.state is READY
    earlier = made.send()
    made.now = 100.0
    log_in_if_due(connection, 100.0)
    assert connection.state is ConnectionState.REAUTHENTICATING
    assert connection.is_ready
    assert not connection.can_send(100.0)
    made.reply(metadata)
    assert made.answer_to(earlier).response == metadata
    made.reply(metadata)
    made.reply(metadata)
    assert connection.can_send(100.0)
    log_in_if_due(connection, 199.9)
    assert connection.state is READY
    made.send()


def test_a_rejected_reauthentication_closes_the_connection_with_its_error(bench, metadata):
    made = logged_in(bench, metadata, Password(refuse=True))
    earlier = made.send()
    made.now = 100.0
    log_in_if_due(made.connection, 100.0)
    made.reply(metadata)
    made.reply(metadata)
    assert made.answer_to(earlier).response == metadata
    assert isinstance(made.connection.error, SaslAuthenticationFailedError)
    assert made.hangups == [made.connection]


def test_a_reauthentication_without_an_answer_times_out_after_the_requests_before_it(bench, metadata):
    """Brokers answer in order, so a Fetch that is held back delays the login's response."""
    made = logged_in(bench, metadata, Password())
    made.now = 90.0
    made.send(allowance=30.0)  # until 120
    log_in_if_due(made.connection, 100.0)
    made.now = 119.0
    made.reply(metadata)
    assert made.due() == 130.0
    made.now = 130.0
    made.step()
    assert made.connection.has_ended


def test_a_throttled_connection_logs_in_again_after_its_throttling(bench, metadata):
    made = logged_in(bench, metadata, Password())
    made.now = 99.0
    made.send()
    made.reply(MetadataResponse(throttle_time_ms=5000))
    log_in_if_due(made.connection, 101.0)
    assert made.connection.state is READY
    log_in_if_due(made.connection, 104.0)
    assert made.connection.state is ConnectionState.REAUTHENTICATING


def test_the_login_has_the_setup_timeout(bench):
    made = bench(new_login=lambda host: Password())
    made.connection.connection_made(0.0)
    made.reply(made.api_versions())
    made.now = 10.0
    made.step()
    assert "the login did not end within 10.0 s" in str(made.connection.error)


def test_a_session_counts_from_the_request_that_began_it(bench, metadata):
    """An application that polls rarely reads the response late, and the broker has counted since."""
    made = bench(new_login=lambda host: Password(reauthenticate_after=50.0))
    made.connection.connection_made(0.0)
    made.reply(made.api_versions())
    made.reply(metadata)
    made.now = 9.0
    made.reply(metadata)
    assert not made.connection.is_login_due(49.0)
    assert made.connection.is_login_due(50.0)


def test_requests_wait_between_the_end_of_a_short_session_and_the_next_login(make_route_bench):
    """Brokers close the connection at a request without a session, and reject a login within a second of the last."""

    class Short:
        reauthenticate_after = 0.5

        def next_request(self, answer, now):
            return None

    bench = make_route_bench(new_login=lambda host: Short()).connect()
    bench.answer()
    waiting = bench.send()
    bench.step(0.6)
    assert bench.read_requests() == []
    assert bench.due() == LOGIN_INTERVAL
    bench.step(0.6)
    bench.reply_to(waiting)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaProtocolError("malformed"), SaslAuthenticationFailedError),
        (KafkaConfigurationError("no package gssapi"), SaslAuthenticationFailedError),
        (KafkaConnectionError("no token"), KafkaConnectionError),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_only_errors_that_a_retry_may_heal_are_retried(bench, metadata, error, kind, again):
    class Failing(Password):
        def next_request(self, answer, now):
            raise error

    made = logged_in(bench, metadata, Failing()) if again else bench(new_login=lambda host: Failing())
    if again:
        log_in_if_due(made.connection, 100.0)
    else:
        made.connection.connection_made(0.0)
        made.reply(made.api_versions())
    assert made.connection.has_ended
    assert type(made.connection.error) is kind
    assert str(error) in str(made.connection.error)


STATE = int(Code.ILLEGAL_SASL_STATE)


def fetched(code):
    partition = PartitionData(partition_index=0, error_code=code)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda code: FetchResponse(error_code=code), 7),
        (fetched, 4),
        (lambda code: JoinGroupResponse(error_code=code), 5),
        (lambda code: HeartbeatResponse(error_code=code), 0),
        (lambda code: FindCoordinatorResponse(error_code=code), 3),
        (lambda code: FindCoordinatorResponse(coordinators=[FindCoordinatorResult(error_code=code)]), 4),
    ],
)
def test_the_code_is_found_where_the_version_has_it(make, version):
    assert is_logged_out(make(STATE), version)
    assert not is_logged_out(make(0), version)
    assert not is_logged_out(make(int(Code.NOT_COORDINATOR)), version)


def test_responses_without_entries_or_codes_say_nothing():
    assert not is_logged_out(ListOffsetsResponse(topics=[]), 5)
    assert not is_logged_out(fetched(STATE), 7)  # the code of one partition concerns no connection
