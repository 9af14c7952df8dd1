"""The manager of logins against token providers and a token endpoint in memory, on a virtual clock."""

import json
import logging
import random
from collections import deque

import jwt
import pytest

from thinconsumer.errors import (
    IllegalArgumentError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
)
from thinconsumer.sasl.aws_msk_iam import LoadedCredentials
from thinconsumer.sasl.login_manager import LoginManager
from thinconsumer.support.agenda import NEVER, Agenda
from thinconsumer.wire.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

SECRET = "c4n4ry/s3cr3t+"
HOST = "b-1.x.abc.c2.kafka.eu-west-1.amazonaws.com"


def http(body: object = b"", status: int = 200) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} Because\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def token(value="abc", expires_in=3600):
    return http({"access_token": value, "expires_in": expires_in})


class Endpoint:
    """A token endpoint that gives each connection the next answer of a list; the last one again and again."""

    def __init__(self, stage, *answers):
        self.answers = list(answers)
        self.asked_at = []
        self.clock = stage.clock
        stage.network.names["idp.example"] = ["10.0.0.1"]
        stage.network.listen("10.0.0.1", 8080, self)

    def connection_made(self, connection):
        self.asked_at.append(self.clock.now())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer:
            connection.call_later(0.01, lambda: (connection.send(answer), connection.close()))
        else:
            connection.reset()
        return self

    def data_received(self, data):
        pass

    def connection_lost(self):
        pass


class Bench:
    """A manager and the loop around it: the driver, the engine's steps, and the shell's calls of providers."""

    def __init__(self, stage, options):
        self.stage = stage
        self.clock = stage.clock
        self.agenda = Agenda()
        self.commands = deque()
        self.manager = LoginManager(options, stage.random, stage.clock.wall_time, self.agenda, self.commands)
        self.asked = 0

    def turn(self, deadline):
        now = self.clock.now()
        call = self.manager.provider_call(now)
        if call is not None:
            self.asked += 1
            try:
                returned = call()
            except Exception as error:  # noqa: BLE001 - as the shell does
                self.manager.provider_failed(error, now)
            else:
                self.manager.provided(returned, now)
            assert self.manager.provider_call(now) is None
            deadline = now
        self.stage.driver.step(self, deadline)
        now = self.clock.now()
        if self.agenda.take(now):  # as the engine does
            assert self.manager.step(now) == []

    def resolved(self, *result):
        self.manager.resolved(*result)

    def run(self, seconds):
        """Run for so long; few turns, or the manager would keep a processor busy."""
        deadline = self.clock.now() + seconds
        turns = 0
        while self.clock.now() < deadline:
            turns += 1
            assert turns < 1000 + seconds
            self.turn(deadline)
        return self.manager

    def until(self, condition, seconds=100.0):
        began = self.clock.now()
        while not condition():
            assert self.clock.now() < began + seconds
            self.turn(began + seconds)
        return self.clock.now() - began

    def message(self, host=HOST):
        login = self.manager.new_login(host)
        handshake = login.next_request(None, 0.0)
        answer = SaslHandshakeResponse(error_code=0, mechanisms=[handshake.mechanism])
        return login.next_request(answer, 0.0).auth_bytes


@pytest.fixture
def bench(stage, make_options):
    def make(**options):
        return Bench(stage, make_options(**options))

    return make


def with_provider(bench, provider, **options):
    return bench(sasl_oauth_token_provider=provider, sasl_oauthbearer_token_endpoint_url=None, **options)


# -- without anything to fetch


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_passwords_need_no_fetch(bench, mechanism):
    one = bench(sasl_mechanism=mechanism, sasl_plain_username="me", sasl_plain_password=SECRET)
    manager = one.manager
    assert manager.may_dial() and manager.waits_for() == "" and manager.take_error() is None
    assert one.agenda.next() == NEVER and manager.provider_call(0.0) is None
    assert manager.step(0.0) == [] and not one.commands
    manager.resolved("a", 1, [], "", 0.0)
    manager.restart(0.0)
    first = one.message()
    if mechanism == "PLAIN":
        assert first == f"\0me\0{SECRET}".encode()
    else:
        assert first.startswith(b"n,,n=me,r=") and len(first) > 50
        assert one.message() != first
    assert SECRET not in repr(one.manager) + repr(one.manager.new_login(HOST))


def test_a_login_that_cannot_be_made_fails_within_the_login(bench):
    """``new_login`` is called within a step: an exception there would interrupt it."""
    login = bench(sasl_mechanism="SCRAM-SHA-256", sasl_plain_username="\0").manager.new_login(HOST)
    assert login.reauthenticate_after is None
    with pytest.raises(IllegalArgumentError, match="sasl_plain_username"):
        login.next_request(None, 0.0)


def test_gssapi_gets_the_brokers_name(bench, monkeypatch):
    monkeypatch.setattr("thinconsumer.sasl.gssapi.import_extra", lambda *names: None)
    chosen = {}, {"sasl_kerberos_domain_name": "d", "sasl_kerberos_service_name": "s"}
    logins = [bench(sasl_mechanism="GSSAPI", sasl_kerberos_principal="me", **options).manager for options in chosen]
    made = [repr(manager.new_login(HOST)) for manager in logins]
    assert made == [f"<SaslLogin <Gssapi kafka@{HOST} as me>>", "<SaslLogin <Gssapi s@d as me>>"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sasl_oauthbearer_client_credentials_client_secret": None}, "client_secret is empty"),
        ({"sasl_oauth_token_provider": lambda one, two: ""}, "must be callable with no or one argument"),
    ],
)
def test_options_that_no_login_is_possible_with(bench, options, words):
    with pytest.raises(KafkaConfigurationError, match=words):
        bench(**options)


# -- token providers


def test_a_provider_that_is_due_keeps_the_manager_due_until_it_was_called(bench):
    """An event loop sleeps until ``wake_at()``: a step that finds the provider due must not let it sleep."""
    one = with_provider(bench, lambda: "abc")
    one.agenda.take(one.clock.now())
    one.manager.step(one.clock.now())
    assert one.agenda.is_due(one.clock.now())
    one.turn(one.clock.now())
    assert not one.agenda.is_due(one.clock.now())


def test_a_provider_is_asked_before_the_first_dial(bench):
    one = with_provider(bench, lambda: "abc", sasl_oauthbearer_extensions={"a": "b"})
    assert not one.manager.may_dial()
    assert one.manager.waits_for() == "no OAUTHBEARER token yet"
    assert one.agenda.next() <= one.clock.now()
    one.turn(one.clock.now())
    assert one.manager.may_dial() and one.manager.waits_for() == "" and one.manager.take_error() is None
    assert one.message() == b"n,,\x01auth=Bearer abc\x01a=b\x01\x01"


def test_a_provider_is_asked_again_before_the_expiry(bench):
    one = with_provider(bench, lambda: (f"t{one.asked}", one.clock.wall_time() + 1000))
    one.run(690)
    assert one.asked == 1
    one.run(11)  # 1000 s without the buffer of 300 s
    assert one.asked == 2
    assert b"Bearer t2" in one.message()
    one.run(3600)
    assert one.asked == 2 + 5


def test_a_token_without_an_expiry_is_asked_for_again(bench):
    one = with_provider(bench, lambda: "abc")
    one.run(1000)
    assert one.asked == 5


def test_a_providers_exception_is_raised_at_once_and_the_provider_asked_again(bench, caplog):
    caplog.set_level(logging.INFO)
    cause = OSError("no route\nto it")

    def provider():
        if one.asked < 3:
            raise cause
        return "abc"

    one = with_provider(bench, provider)
    one.turn(one.clock.now())
    error = one.manager.take_error()
    assert isinstance(error, SaslAuthenticationFailedError)
    assert str(error) == "no OAUTHBEARER token: sasl_oauth_token_provider: OSError: no route to it"
    assert error.__cause__ is cause and not error.retriable
    assert one.manager.take_error() is None
    assert one.manager.waits_for() == "no OAUTHBEARER token yet: sasl_oauth_token_provider: OSError: no route to it"
    assert 0.2 < one.until(one.manager.may_dial) < 0.5
    assert one.manager.take_error() is None
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]


def test_a_value_that_is_no_token_is_an_error(bench):
    one = with_provider(bench, lambda: 5)
    one.turn(one.clock.now())
    error = one.manager.take_error()
    assert "returned int, which is no token" in str(error) and not error.retriable
    one.run(9.9)
    assert one.asked == 1
    one.run(0.2)
    assert one.asked == 2


def test_an_interrupted_provider_remains_due(bench):
    one = with_provider(bench, lambda: "abc")
    assert one.manager.provider_call(0.0) is not None
    assert one.manager.provider_call(0.0) is not None


def test_a_failed_refresh_keeps_the_token_until_it_expires(bench, caplog):
    def provider():
        if one.asked > 1:
            raise ValueError
        return "abc", one.clock.wall_time() + 100

    one = with_provider(bench, provider)
    one.run(99)
    assert one.asked > 2
    assert one.manager.may_dial() and one.manager.take_error() is None
    assert b"abc" in one.message()
    one.run(2)
    assert not one.manager.may_dial()
    assert one.manager.waits_for() == "the last OAUTHBEARER token expired: sasl_oauth_token_provider: ValueError"
    with pytest.raises(KafkaConnectionError, match="cannot log in: the last OAUTHBEARER token expired"):
        one.manager.new_login(HOST).next_request(None, 0.0)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "the old one is still used" in warning.message
    with pytest.raises(SaslAuthenticationFailedError, match="no OAUTHBEARER token: .*ValueError"):
        raise one.manager.take_error()


def test_a_token_that_a_broker_rejects_is_replaced_unless_another_one_was_obtained(bench):
    """It may have been revoked, or expire earlier than the clock of this machine says."""
    one = with_provider(bench, lambda: (f"t{one.asked}", one.clock.wall_time() + 3600))
    one.run(100)
    logins = [one.manager.new_login(HOST) for _ in range(2)]
    for login in logins:
        login.next_request(None, 0.0)
        login.next_request(SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]), 0.0)
    assert one.asked == 1
    for login in logins:
        with pytest.raises(SaslAuthenticationFailedError):
            login.next_request(SaslAuthenticateResponse(error_code=58), one.clock.now())
        one.run(100)
        assert one.asked == 2


def test_a_token_that_expired_while_the_machine_slept_is_replaced_at_once(bench):
    one = with_provider(bench, lambda: ("abc", one.clock.wall_time() + 3600))
    one.run(1)
    one.clock.set_wall_time(one.clock.wall_time() + 7200)
    assert not one.manager.may_dial()
    one.turn(one.clock.now())
    assert one.manager.may_dial() and one.asked == 2


def test_a_token_that_has_expired_names_the_clocks(bench):
    one = with_provider(bench, lambda: jwt.encode({"exp": one.clock.wall_time() - 5}, "k" * 32))
    one.turn(one.clock.now())
    assert "expired 5 s ago" in str(one.manager.take_error())


# -- the token endpoint


def test_a_token_is_fetched_and_replaced(stage, bench, caplog):
    caplog.set_level(logging.DEBUG)
    value = jwt.encode({"scope": "a b", "sub": "me"}, "k" * 32)
    endpoint = Endpoint(stage, token(value), token("second"))
    one = bench()
    assert one.until(one.manager.may_dial) < 0.1
    assert value.encode() in one.message()
    one.run(3600)
    assert b"second" in one.message()
    assert len(endpoint.asked_at) == 2
    assert 0.8 * 3600 <= endpoint.asked_at[1] - endpoint.asked_at[0] <= 0.85 * 3600 + 1
    assert stage.driver.streams == []
    assert "'me'" in caplog.text and "scope 'a b'" in caplog.text
    assert value not in caplog.text


def test_a_server_error_is_retried_with_backoff(stage, bench):
    endpoint = Endpoint(stage, http(b"", 500), b"", http(b"", 503), token())
    one = bench()
    assert 0.5 < one.until(one.manager.may_dial) < 1.2  # 100 + 200 + 400 ms
    assert len(endpoint.asked_at) == 4
    assert one.manager.take_error() is None


def test_rejected_credentials_are_raised_at_once_and_seldom_repeated(stage, bench):
    endpoint = Endpoint(stage, http({"error": "invalid_client", "error_description": SECRET}, 401))
    one = bench()
    one.run(0.1)
    error = one.manager.take_error()
    assert isinstance(error, SaslAuthenticationFailedError) and not error.retriable
    assert "401, invalid_client: <hidden>" in str(error) and SECRET not in str(error)
    one.run(60)
    assert len(endpoint.asked_at) == 6 or len(endpoint.asked_at) == 7
    assert one.manager.take_error() is not None


def test_an_endpoint_that_cannot_be_reached_is_raised_after_a_while(stage, bench):
    stage.network.names["idp.example"] = "no such host"
    one = bench()
    one.run(9.9)
    assert one.manager.take_error() is None
    assert "no such host" in one.manager.waits_for()
    one.run(11)
    error = one.manager.take_error()
    assert "cannot resolve the name" in str(error) and not error.retriable
    assert len(stage.network.lookups) < 15


def test_timeouts_are_those_of_the_options(stage, bench):
    stage.network.names["idp.example"] = ["10.0.0.1"]
    stage.network.black_hole("10.0.0.1", 8080)
    one = bench(sasl_login_connect_timeout_ms=3000)
    assert one.manager.waits_for() == "no OAUTHBEARER token yet"
    one.run(0.1)
    assert one.manager.waits_for().endswith(
        "yet: token endpoint http://idp.example:8080/token: connecting to 10.0.0.1:8080"
    )
    one.run(2.95)
    assert "within 3.0 s (sasl_login_connect_timeout_ms)" in one.manager.waits_for()
    one = bench(socket_connection_setup_timeout_ms=2000, request_timeout_ms=4000)
    one.run(2.05)
    assert "within 2.0 s" in one.manager.waits_for()
    stage.network.resume("10.0.0.1", 8080)
    stage.serve(then_close=False)
    one.run(5)
    assert "within 4.0 s (sasl_login_read_timeout_ms)" in one.manager.waits_for()


def test_a_rejected_certificate_is_raised_at_once(stage, bench):
    one = bench(sasl_oauthbearer_token_endpoint_url="https://10.0.0.1/")
    now = one.clock.now()
    one.manager.step(now)
    one.commands.clear()
    one.manager.resolved("10.0.0.1", 443, stage.network.resolve("10.0.0.1", 443)[0], "", now)
    one.manager.step(now)
    (dial,) = one.commands
    assert dial.purpose == "https"
    dial.stream.connection_lost(KafkaConnectionError("untrusted", is_certificate_rejected=True), now)
    assert one.agenda.take(now)
    one.manager.step(now)
    error = one.manager.take_error()
    assert "untrusted" in str(error) and not error.retriable
    assert one.agenda.next() == now + 10


def test_a_fetched_token_that_cannot_be_sent_is_an_error(stage, bench):
    Endpoint(stage, token())
    one = bench(sasl_oauthbearer_extensions={"auth": SECRET})
    one.run(0.1)
    error = one.manager.take_error()
    assert "the reserved name auth" in str(error) and SECRET not in str(error)


def test_a_restart_begins_the_fetch_anew(stage, bench):
    endpoint = Endpoint(stage, token())
    one = bench()
    one.manager.step(one.clock.now())
    one.turn(one.clock.now())
    stage.driver.hang_up_all()
    one.manager.restart(one.clock.now())
    one.agenda.touch()  # as the engine does
    assert one.until(one.manager.may_dial) < 0.1
    assert endpoint.asked_at


def test_short_lived_tokens_are_not_fetched_in_a_loop(stage, bench):
    endpoint = Endpoint(stage, token(expires_in=0.5))
    bench().run(20)
    assert len(endpoint.asked_at) <= 20


class Moody(Endpoint):
    """A token endpoint that draws what it does with each connection."""

    def __init__(self, stage, seed):
        super().__init__(stage, b"")
        self.random = random.Random(seed)
        self.is_well = False

    def connection_made(self, connection):
        good = token(expires_in=5000 if self.is_well else self.random.choice([1, 30, 500, 5000]))
        cut = good[: self.random.randrange(len(good))]
        answer = good if self.is_well else self.random.choice([good, cut, cut + b"\0", http(b"", 503), b"", None])
        self.asked_at.append(self.clock.now())
        if answer is not None:
            connection.call_later(self.random.random(), lambda: connection.send(answer))
            connection.call_later(2.0 * self.random.random(), connection.close)
        return self


@pytest.mark.parametrize("seed", range(10))
def test_a_moody_endpoint_is_asked_until_it_gives_a_token(stage, bench, seed):
    endpoint = Moody(stage, seed)
    stage.network.chunk = 1 + seed
    one = bench(sasl_login_read_timeout_ms=5000)
    one.run(2000)
    for earlier, later in zip(endpoint.asked_at, endpoint.asked_at[1:]):
        assert later - earlier > 0.05
    endpoint.is_well = True
    asked = len(endpoint.asked_at)
    one.run(10_000)
    assert one.manager.may_dial()
    assert stage.driver.streams == []
    assert len(endpoint.asked_at) <= asked + 4


def test_no_secret_is_logged(stage, bench, caplog):
    caplog.set_level(logging.DEBUG)
    answers = [
        http(SECRET.encode(), 500),
        SECRET.encode() + b"\r\n\r\n",
        b"",
        http({"error": SECRET}, 400),
        token(SECRET),
    ]
    Endpoint(stage, *answers)
    one = bench()
    one.until(one.manager.may_dial)
    one.run(5)
    assert caplog.records
    logged = caplog.text + "".join(repr(record.__dict__) for record in caplog.records)
    assert SECRET not in logged + repr(vars(one.manager)) and "s3cr3t" not in logged


# -- AWS


class AwsSession:
    """Botocore's session, with credentials of a role."""

    loads = 0

    def __init__(self, profile):
        type(self).loads += 1

    def get_config_variable(self, name):
        return "us-east-2"

    def get_credentials(self):
        return self

    def get_frozen_credentials(self):
        return LoadedCredentials("AK", SECRET, "T")


@pytest.fixture
def aws(bench, monkeypatch):
    monkeypatch.setattr("thinconsumer.sasl.aws_msk_iam.session_maker", lambda: AwsSession)
    monkeypatch.setattr(AwsSession, "loads", 0)
    return bench(sasl_mechanism="AWS_MSK_IAM")


def signed_region(message):
    return json.loads(message)["x-amz-credential"].split("/")[2]


def test_aws_credentials_are_loaded_before_the_first_dial_and_again(aws):
    assert aws.manager.waits_for() == "no AWS credentials yet"
    aws.run(1)
    assert json.loads(aws.message())["x-amz-security-token"] == "T"
    aws.run(1800)
    assert AwsSession.loads == 3


def test_the_region_is_the_options_the_hosts_or_botocores(aws, bench):
    aws.run(1)
    assert signed_region(aws.message()) == "eu-west-1"
    assert signed_region(aws.message("kafka.internal")) == "us-east-2"
    named = bench(sasl_mechanism="AWS_MSK_IAM", sasl_aws_msk_iam_region="eu-north-1")
    named.run(1)
    assert signed_region(named.message()) == "eu-north-1"


def test_an_unexpected_error_of_a_package_fails_the_login_only(aws):
    """Within a step, it would close all connections, again in each poll."""
    aws.run(1)
    aws.manager.provided(LoadedCredentials(b"bytes", SECRET.encode()), aws.clock.now())
    with pytest.raises(KafkaError, match="cannot begin the AWS_MSK_IAM login: TypeError") as caught:
        aws.manager.new_login(HOST).next_request(None, 0.0)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__.__traceback__ is None


def test_missing_and_expired_aws_credentials(aws, monkeypatch):
    monkeypatch.setattr(AwsSession, "get_credentials", lambda self: None)
    aws.turn(aws.clock.now())
    assert "no AWS credentials: botocore has found no AWS credentials" in str(aws.manager.take_error())
    aws.manager.provided(LoadedCredentials("AK", SECRET, "T", aws.clock.wall_time()), aws.clock.now())
    assert "have expired" in str(aws.manager.take_error())
    aws.manager.provider_failed(TimeoutError(), aws.clock.now())
    assert str(aws.manager.take_error()) == "no AWS credentials: AWS credentials: TimeoutError"


def test_temporary_aws_credentials_end_the_session(aws):
    now, wall = aws.clock.now(), aws.clock.wall_time()
    aws.manager.provided(LoadedCredentials("AK", SECRET, "T", wall + 3600), now)
    assert aws.agenda.next() < now + 3600
    assert aws.manager.new_login(HOST)._mechanism.credentials_expire_at == wall + 3600


# -- one login to the end


def test_a_session_is_renewed_before_its_end(bench):
    one = with_provider(bench, lambda: ("abc", one.clock.wall_time() + 3600))
    one.run(1)
    login = one.manager.new_login(HOST)
    login.next_request(None, 0.0)
    login.next_request(SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"]), 0.0)
    answer = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=100_000)
    assert login.next_request(answer, 0.0) is None
    assert 85 <= login.reauthenticate_after <= 95
