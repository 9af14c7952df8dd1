"""Logins in the wrong order, re-authentications at the wrong time, and what follows a rejection are violations."""

from types import SimpleNamespace

import pytest
from lab.checkers.logins import EXPIRED, LoginChecker

from thinconsumer import SaslAuthenticationFailedError
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from thinconsumer_testing.simulation.client_tap import SentRequest

SECRET = b"\0alice\0secret"
FAILED = SaslAuthenticationFailedError("rejected", code=58, name="SASL_AUTHENTICATION_FAILED")


class Bench:
    """A court for logins, with a clock that a test sets, and one connection of ann."""

    def __init__(self, new_court):
        self.now = 0.0
        self.wall = 5000.0
        self.logins = SimpleNamespace(
            providers={}, may_dial=lambda client: self.has_token, wall_time=lambda: self.wall + self.now
        )
        self.has_token = True
        self.court = new_court(lambda *sources: LoginChecker(*sources, self.logins, now=lambda: self.now))
        self.checker, self.ann = self.court.checker, self.court.reader
        self.open()

    def open(self):
        self.checker.connection_opened(self.ann, 1, "kafka1", 9092)

    def write(self, message, api=None):
        sent = SentRequest(type(message).API_KEY if api is None else api, 1, message)
        self.checker.request_written(self.ann, 1, sent, ())
        return sent

    def handshake(self, mechanism="PLAIN", error=0):
        sent = self.write(SaslHandshakeRequest(mechanism=mechanism))
        self.read(sent, SaslHandshakeResponse(error_code=error))

    def read(self, sent, response):
        self.checker.response_received(self.ann, 1, sent, response)

    def authenticate(self, message=SECRET, **answer):
        sent = self.write(SaslAuthenticateRequest(auth_bytes=message))
        self.read(sent, SaslAuthenticateResponse(**answer))

    def log_in(self, mechanism="PLAIN", message=SECRET, seconds=10):
        self.handshake(mechanism)
        self.authenticate(message, session_lifetime_ms=seconds * 1000)

    def ask(self):
        self.write(None, HeartbeatRequest.API_KEY)

    def verdict(self):
        return self.court.verdict()


@pytest.fixture
def bench(new_court):
    return Bench(new_court)


def test_requests_follow_a_login_of_one_message(bench):
    bench.write(None, ApiVersionsRequest.API_KEY)
    bench.log_in()
    bench.ask()
    assert bench.verdict() == "" and bench.checker.counts == {"logins": 1}


def test_requests_before_a_login_are_a_violation(bench):
    bench.ask()
    assert bench.verdict() == "ann on connection 1 writes API 12 while it is not logged in"


def test_api_versions_comes_first(bench):
    bench.log_in()
    bench.write(None, ApiVersionsRequest.API_KEY)
    assert "during or after its login" in bench.verdict()


def test_a_login_is_not_begun_within_another(bench):
    bench.handshake()
    bench.write(SaslHandshakeRequest(mechanism="PLAIN"))
    assert "writes SaslHandshake during a login" in bench.verdict()


@pytest.mark.parametrize(("age", "why"), [(8.4, "authenticates again after 8.400 s"), (8.6, ""), (9.4, ""), (30, "")])
def test_a_reauthentication_begins_after_85_percent_of_the_lifetime(bench, age, why):
    """Later is allowed, if no request was due."""
    bench.log_in()
    bench.now = age
    bench.log_in()
    bench.ask()
    assert why in bench.verdict() and bench.checker.counts["reauthentications"] == 1


def test_login_errors_need_a_failure(bench):
    bench.checker.raised(bench.ann, ValueError())
    assert bench.verdict() == ""
    bench.checker.raised(bench.ann, FAILED)
    assert "no login and no token provider has failed" in bench.verdict()
    bench.logins.providers["ann"] = SimpleNamespace(failures=1)
    bench.checker.raised(bench.ann, FAILED)
    assert bench.verdict() == ""


def test_sessions_may_expire_on_brokers_during_faults_only(bench):
    bench.checker.closed_by_broker(f"{EXPIRED} and was not re-authenticated")
    assert bench.verdict() == ""
    bench.checker.closed_by_broker("unexpected API 3 before the login")
    assert bench.verdict() == "a broker has closed a connection: unexpected API 3 before the login"
    bench.checker.is_calm = True
    bench.checker.closed_by_broker(f"{EXPIRED} and was not re-authenticated")
    assert "expired" in bench.verdict()
    assert bench.checker.counts == {"expired_sessions": 2, "invalid_requests": 1}


def test_credentials_wait_for_the_handshakes_response(bench):
    bench.write(SaslHandshakeRequest(mechanism="PLAIN"))
    bench.write(SaslAuthenticateRequest(auth_bytes=SECRET))
    assert "sends credentials before SaslHandshake is answered" in bench.verdict()


@pytest.mark.parametrize(("age", "why"), [(9.4, ""), (9.6, "should have authenticated again")])
def test_no_request_is_written_after_95_percent_of_the_lifetime(bench, age, why):
    bench.log_in()
    bench.now = age
    bench.ask()
    assert why in bench.verdict()


def test_requests_during_a_reauthentication_are_a_violation(bench):
    bench.log_in()
    bench.now = 9.0
    bench.handshake()
    bench.ask()
    assert "not logged in" in bench.verdict()


def test_a_dial_without_a_token_is_a_violation(bench):
    bench.has_token = False
    bench.open()
    assert bench.verdict() == "ann dials kafka1:9092 without a valid token"
