"""Brokers that answer a login wrongly, and token providers that misbehave: failures are typed, prompt and bounded."""

import base64
import dataclasses
import json

import pytest

from thinconsumer import SaslAuthenticationFailedError, TopicPartition
from thinconsumer.errors import KafkaError, KafkaProtocolError, UnsupportedVersionError
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse
from thinconsumer_testing.broker.faults import Edit, Raw, Reply
from thinconsumer_testing.broker.security import ListenerSecurity

SECRET = "hunter2-canary"
SECURITY = ListenerSecurity(
    security_protocol="SASL_PLAINTEXT",
    sasl_enabled_mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    users={"alice": SECRET},
)
SCRAM = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": SECRET,
}
BEARER = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
T0 = TopicPartition("t", 0)

pytestmark = pytest.mark.filterwarnings("ignore::thinconsumer.config.ConfigurationWarning")


def places_of(error, secret):
    """Return where an exception, those that it is chained to, or the package's frames in their tracebacks show it."""
    found, seen, waiting = [], set(), [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        found += [f"text of {type(one).__name__}"] if secret in repr(one) else []
        trace = one.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            if frame.f_globals["__name__"].startswith("thinconsumer"):
                shown = {name: repr(value) for name, value in frame.f_locals.items()}
                found += [f"{frame.f_code.co_name}.{name}" for name in shown if secret in shown[name]]
    return found


def first(text):
    """Answer SCRAM's first message with this text, in which NONCE is a valid nonce."""

    def change(call, response):
        message = bytes(call.request.auth_bytes)
        if message.startswith(b"n,,"):
            response.auth_bytes = text.replace(b"NONCE", message.split(b"r=")[1] + b"x")

    return Edit(change)


def last(text):
    """Answer SCRAM's last message with this text."""

    def change(call, response):
        if not bytes(call.request.auth_bytes).startswith(b"n,,"):
            response.auth_bytes = text

    return Edit(change)


def old_handshake(call, response):
    for api in response.api_keys:
        if api.api_key == SaslHandshakeRequest.API_KEY:
            api.max_version = 0


def no_authenticate(call, response):
    response.api_keys = [api for api in response.api_keys if api.api_key != SaslAuthenticateRequest.API_KEY]


@pytest.mark.parametrize(
    ("api", "action", "words", "cause"),
    [
        ("SaslAuthenticate", first(b"r=NONCE,s=c2FsdA==,i=2147483648"), "2147483648 iterations", KafkaProtocolError),
        ("SaslAuthenticate", first(b"r=NONCE,s=c2FsdA==,i=1"), "1 iterations", KafkaProtocolError),
        ("SaslAuthenticate", first(b"r=otherotherother,s=c2FsdA==,i=4096"), "nonce", KafkaProtocolError),
        ("SaslAuthenticate", first(b"v=AAAA"), "malformed", KafkaProtocolError),
        ("SaslAuthenticate", first(b""), "without proving", type(None)),
        ("SaslAuthenticate", last(b"v=\xff"), "not UTF-8", KafkaProtocolError),
        ("SaslAuthenticate", last(b"v=" + b"A" * 200_000), "200002 bytes", KafkaProtocolError),
        ("SaslAuthenticate", last(b"v=AAAA"), "signature is wrong", type(None)),
        ("SaslAuthenticate", Raw(b"\x7f\xff\xff\xff"), "2147483647 bytes", KafkaProtocolError),
        ("SaslAuthenticate", Raw(b"\0\0\0\x04\0\0\0\x63"), "ends inside its header", KafkaProtocolError),
        ("SaslAuthenticate", Reply(-1), "UNKNOWN_SERVER_ERROR", KafkaError),
        ("SaslHandshake", Reply(SaslHandshakeResponse(error_code=35)), "UNSUPPORTED_VERSION", UnsupportedVersionError),
        ("ApiVersions", Edit(old_handshake), "SaslHandshake versions 1 to 1", UnsupportedVersionError),
        ("ApiVersions", Edit(no_authenticate), "SaslAuthenticate", UnsupportedVersionError),
    ],
)  # fmt: skip
def test_a_wrong_answer_fails_the_poll_at_once_and_names_the_broker(world, api, action, words, cause):
    """Without that, the poll would report after a minute that no broker could be reached."""
    w = world(security=SECURITY)
    w.cluster.on(api, action)
    consumer = w.consumer(T0, **SCRAM)
    began = w.clock.now()
    with pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
        consumer.poll(20_000)
    assert w.clock.now() - began < 0.5
    assert str(caught.value).startswith("kafka1:9092 (10.0.0.1:9092): ")
    assert "sasl_" in str(caught.value) or caught.value.__cause__ is None
    assert isinstance(caught.value.__cause__, cause)
    assert places_of(caught.value, SECRET) == []
    dials = len(w.network.dials)
    while w.clock.now() - began < 10:
        with pytest.raises(SaslAuthenticationFailedError):
            consumer.poll(20_000)
    assert len(w.network.dials) - dials < 20


def test_a_hundred_thousand_mechanisms(world):
    w = world(security=SECURITY)
    names = [f"M{number}\x1b[31m" for number in range(100_000)]
    w.cluster.on("SaslHandshake", Reply(SaslHandshakeResponse(error_code=33, mechanisms=names)))
    with pytest.raises(KafkaError, match="sasl_mechanism='SCRAM-SHA-256'") as caught:
        w.consumer(T0, **SCRAM).poll(5000)
    assert len(str(caught.value)) < 600
    assert "\x1b" not in str(caught.value)
    assert not w.requests(SaslAuthenticateRequest)


@pytest.mark.parametrize("lifetime_ms", [-1, 2**63 - 1])
def test_a_lifetime_that_cannot_end_causes_no_login(world, read, lifetime_ms):
    w = world(security=SECURITY)
    w.append(1)
    w.cluster.on("SaslAuthenticate", Edit(lambda call, response: setattr(response, "session_lifetime_ms", lifetime_ms)))
    consumer = w.consumer(T0, **SCRAM)
    assert read(consumer, 1)[0] == [0]
    logins = len(w.requests(SaslHandshakeRequest))
    for _ in range(10):
        consumer.poll(5000)
    assert len(w.requests(SaslHandshakeRequest)) == logins


@pytest.mark.parametrize("lifetime_ms", [50, 900, 1200, 2000])
def test_short_sessions_leave_time_for_requests(world, read, lifetime_ms):
    """Brokers reject a login within a second of the last one: ILLEGAL_SASL_STATE, which would fail the poll."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=lifetime_ms))
    consumer = w.consumer(T0, **SCRAM)
    for number in range(5):
        w.append(1)
        assert read(consumer, 1)[0] == [number]
        consumer.poll(2000)
    assert len(w.requests(SaslHandshakeRequest)) < 60


class BrokenToken:
    expires_on = 1

    @property
    def token(self):
        raise RuntimeError("the property raised")


class BrokenText(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (lambda: BrokenToken(), "RuntimeError: the property raised"),
        (lambda: fail(BrokenText()), "BrokenText"),
        (lambda: fail(KafkaError()), "KafkaError"),
        (lambda: None, "returned NoneType"),
        (lambda: f"{SECRET}\x01auth=x", "characters that a bearer token cannot have"),
        (lambda: f"{SECRET}\nx", "characters that a bearer token cannot have"),
        (lambda: (SECRET, SECRET), "expiry of a token"),
        (lambda: ("abc", None, "p", {"a": f"{SECRET}\x01"}), "extension"),
    ],
)
def test_a_provider_that_misbehaves_fails_the_poll_with_a_typed_error(world, provider, words):
    w = world(security=SECURITY)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=provider)
    with pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
        consumer.poll(5000)
    assert places_of(caught.value, SECRET) == []
    assert not w.network.dials


def test_a_provider_of_tokens_that_expire_at_once_does_not_hold_up_the_poll(world):
    """Each call of the provider takes longer than its token lives, so that another one would be due after it."""
    w = world(security=SECURITY)
    calls = []

    def provider():
        calls.append(w.clock.now())
        assert len(calls) < 100, "called without end within one poll"
        expires_at = w.clock.wall_time() + 0.001
        w.clock.advance(0.0009)
        return "abc", expires_at

    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=provider)
    began = w.clock.now()
    while w.clock.now() - began < 10:
        consumer.poll(1000)
        w.clock.advance(0.001)
    assert len(calls) <= 11


def test_a_token_that_brokers_reject_is_replaced_even_if_it_seems_valid(world, read):
    """The clock of this machine is late by an hour, so that a token of 1000 s seems to live for 4600 s."""
    w = world(security=SECURITY)
    clock, calls = w.clock, []

    def provider():
        calls.append(clock.now())
        wall = clock.wall_time() + 3600 * (len(calls) == 1)
        claims = {"sub": "alice", "iat": clock.wall_time(), "exp": clock.wall_time() + 1000}
        parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
        return b".".join(parts).decode() + ".", wall + 1000

    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=provider)
    w.append(1)
    assert read(consumer, 1)[0] == [0]
    clock.advance(1100)
    consumer_began = clock.now()
    w.append(1)
    found = []
    while not found:
        assert clock.now() < consumer_began + 20
        try:
            found = read(consumer, 1)[0]
        except SaslAuthenticationFailedError:
            assert len(calls) < 3
    assert found == [1]
    assert len(calls) == 2
    w.cluster.invalid_requests.clear()  # the request after the end of the session
