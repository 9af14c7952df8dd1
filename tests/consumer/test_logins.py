"""Consumers, members, producers and admins that log in: what they send, raise and keep doing."""

import base64
import contextlib
import dataclasses
import itertools
import json
import re
import socket

import pytest

from thinconsumer import (
    Consumer,
    GroupMember,
    NoBrokersAvailable,
    SaslAuthenticationFailedError,
    TopicPartition,
    UnsupportedSaslMechanismError,
)
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.driver import Address, Resolve
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer_testing.broker.faults import Reply
from thinconsumer_testing.broker.security import ListenerSecurity

PASSWORD = "hunter2-canary"
SECURITY = ListenerSecurity(
    security_protocol="SASL_PLAINTEXT",
    sasl_enabled_mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    users={"alice": PASSWORD},
)
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}
BEARER = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
T0 = TopicPartition("t", 0)

pytestmark = pytest.mark.filterwarnings("ignore::thinconsumer.config.ConfigurationWarning")


class Tokens:
    """A token provider with tokens that are valid for some seconds of the world's clock."""

    def __init__(self, world, seconds):
        self.world, self.seconds = world, seconds
        self.calls = 0
        self.error = None
        self.late = 0  #: How many seconds ago a token was issued when it is returned.

    def __call__(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        wall = self.world.clock.wall_time() - self.late
        claims = {"sub": "alice", "iat": wall, "exp": wall + self.seconds}
        parts = ({"alg": "none"}, claims)
        return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts) + "."


class Worker(GroupMember):
    def perform_assignment(self, leader_id, protocol, members):
        return dict.fromkeys(members, b"all")

    def on_join_complete(self, protocol, share):
        pass


def logins(w):
    """Return how many logins the cluster's brokers were asked for."""
    return len(w.requests(SaslHandshakeRequest))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_consumer_logs_in_with_a_password(world, read, mechanism):
    w = world(security=SECURITY)
    w.append(3)
    consumer = w.consumer(T0, **PLAIN | {"sasl_mechanism": mechanism})
    assert read(consumer, 3)[0] == [0, 1, 2]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_raised_at_once_and_not_tried_in_a_loop(world, mechanism):
    w = world(security=SECURITY)
    consumer = w.consumer(T0, **PLAIN | {"sasl_mechanism": mechanism, "sasl_plain_password": "wrong-canary"})
    began = w.clock.now()
    with pytest.raises(SaslAuthenticationFailedError, match="sasl_plain_password") as caught:
        consumer.poll(20_000)
    assert w.clock.now() - began < 1
    assert "canary" not in str(caught.value)
    for _ in range(10):
        with pytest.raises(SaslAuthenticationFailedError):
            consumer.poll(20_000)
    assert w.clock.now() - began > 4


@pytest.mark.parametrize(
    "call",
    [lambda c: c.bootstrap(), lambda c: c.topics(), lambda c: c.partitions_for_topic("t")],
    ids=["bootstrap", "topics", "partitions_for_topic"],
)
def test_a_rejected_login_ends_a_call_for_metadata_at_once(world, call):
    w = world(security=SECURITY)
    consumer = w.consumer(T0, **PLAIN | {"sasl_plain_password": "wrong"})
    consumer.assign([])
    began = w.clock.now()
    with pytest.raises(SaslAuthenticationFailedError):
        call(consumer)
    assert w.clock.now() - began < 1


def test_a_mechanism_that_the_broker_lacks_is_raised_without_credentials(world):
    w = world(security=ListenerSecurity(
        security_protocol="SASL_PLAINTEXT", sasl_enabled_mechanisms=("PLAIN",), users={"alice": PASSWORD}
    ))  # fmt: skip
    consumer = w.consumer(T0, **PLAIN | {"sasl_mechanism": "SCRAM-SHA-512"})
    with pytest.raises(UnsupportedSaslMechanismError, match="PLAIN"):
        consumer.poll(5000)
    assert not w.requests(SaslAuthenticateRequest)


def test_a_consumer_logs_in_again_before_each_session_ends(world, read):
    """KIP-368: without that, the broker closes the connection at the next request."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=10_000))
    consumer = w.consumer(T0, **PLAIN)
    consumer.poll(1000)
    began, opened = logins(w), consumer.metrics()["consumer-metrics"]["connection-creation-total"]
    for number in range(60):
        w.append(1)
        assert read(consumer, 1)[0] == [number]
        consumer.poll(1000)
    assert 5 <= logins(w) - began <= 9
    assert consumer.metrics()["consumer-metrics"]["connection-creation-total"] == opened


def test_a_token_provider_is_called_before_the_last_token_expires(world, read):
    w = world(security=SECURITY)
    tokens = Tokens(w, 1000)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=tokens)
    w.append(1)
    read(consumer, 1)
    assert tokens.calls == 1
    w.clock.advance(900)
    consumer.poll(0)
    assert tokens.calls == 2


def test_a_connection_waits_for_a_new_token_before_it_logs_in_again(world, read):
    """After a pause that is longer than the token lives, a login with the old token would close each connection."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=3_600_000))
    tokens = Tokens(w, 300)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=tokens)
    w.append(1)
    read(consumer, 1)
    opened = consumer.metrics()["consumer-metrics"]["connection-creation-total"]
    tokens.error = RuntimeError("vault is sealed")
    w.clock.advance(310)
    with pytest.raises(SaslAuthenticationFailedError, match="vault is sealed"):
        consumer.poll(5000)
    tokens.error = None
    w.append(1)
    assert read(consumer, 1)[0] == [1]
    assert consumer.metrics()["consumer-metrics"]["connection-creation-total"] == opened


@pytest.mark.parametrize("is_connected", [True, False])
def test_requests_that_wait_for_a_token_leave_once_the_provider_returns_one(world, read, is_connected):
    """Otherwise they wait for the next refresh or timeout, if the provider is called within the poll that waits."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=3_600_000))
    tokens = Tokens(w, 300)
    called_at = []

    def provider():
        called_at.append(w.clock.now())
        return tokens()

    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=provider)
    w.append(1)
    if is_connected:
        read(consumer, 1)
        w.clock.advance(310)
    tokens.error = RuntimeError("vault is sealed")
    with pytest.raises(SaslAuthenticationFailedError, match="vault is sealed") as caught:
        consumer.poll(5000)
    assert caught.value.__cause__ is tokens.error
    assert is_connected or not w.network.dials
    tokens.error = None
    w.append(1)
    assert read(consumer, 1)[0]
    assert w.clock.now() - called_at[-1] < 1.0


@pytest.mark.parametrize(("fault", "word"), [("raises", "vault is sealed"), ("expired", "the token has expired")])
def test_sessions_that_cannot_be_renewed_are_raised_and_in_health(world, read, fault, word):
    """Each connection is open, but its session has ended, and there is no token to log in again with."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=4000))
    tokens = Tokens(w, 8)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=tokens, bootstrap_timeout_ms=300_000)
    began = w.clock.now()
    while w.clock.now() < began + 10:
        consumer.poll(500)
    tokens.error, tokens.late = (RuntimeError("vault is sealed"), 0) if fault == "raises" else (None, 20)
    failed_at, raised = w.clock.now(), []
    while w.clock.now() < failed_at + 120:
        try:
            assert consumer.poll(1000) == {}
        except SaslAuthenticationFailedError as error:
            assert word in str(error)
            raised.append(w.clock.now() - failed_at)
        if w.clock.now() > failed_at + 15:
            health = consumer.health()
            assert health.state.name == "STUCK"
            assert "OAUTHBEARER token" in health.reason and word in health.reason
    assert raised[0] < 10  # the last token was valid for up to 8 s
    assert 10 <= len(raised) <= tokens.calls
    tokens.error, tokens.late = None, 0
    w.append(1)
    while True:
        try:
            assert read(consumer, 1)[0] == [0]
            break
        except SaslAuthenticationFailedError:
            continue
    assert consumer.health().state.name == "OK"


def test_a_group_member_whose_sessions_cannot_be_renewed_says_so(world):
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=4000))
    tokens = Tokens(w, 8)
    options = {"bootstrap_servers": w.cluster.bootstrap_servers, "sasl_oauth_token_provider": tokens, **BEARER}
    with Worker("work", driver=w.cluster.driver(), group_id="g", **options) as member:
        member.poll(10_000)
        tokens.error = RuntimeError("vault is sealed")
        began = w.clock.now()
        with pytest.raises(SaslAuthenticationFailedError, match="vault is sealed"):
            member.poll(30_000)
        assert w.clock.now() - began < 15  # the token is valid for up to 8 s, and heartbeats come every 3 s
        assert "vault is sealed" in member.health().reason
        tokens.error = None
        w.clock.advance(10)
        while member.health().state.name != "OK":
            with contextlib.suppress(SaslAuthenticationFailedError):
                member.poll(1000)
        metrics = member.metrics()
        assert metrics["member-metrics"]["connection-count"] >= 1
    w.cluster.requests.clear()


CONSUMERS = itertools.product(["classic", "consumer"], ["close", "unsubscribe"], [False, True])


@pytest.mark.parametrize(("protocol", "call", "has_read"), [*CONSUMERS, ("member", "close", False)])
def test_a_member_without_valid_credentials_ends_at_once(world, read, protocol, call, has_read):
    """No request could be written before the timeout: neither a commit nor the one to leave."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=4000))
    tokens = Tokens(w, 8)
    options = {"bootstrap_servers": w.cluster.bootstrap_servers, "sasl_oauth_token_provider": tokens, **BEARER}
    options |= {"group_id": "g", "driver": w.cluster.driver()}
    if protocol == "member":
        member = Worker("work", **options)
        member.poll(10_000)
    else:
        member = Consumer("t", **options, group_protocol=protocol, auto_offset_reset="earliest")
        w.append(1)
        read(member, 1)
        if not has_read:
            member.commit()
    tokens.error = RuntimeError("vault is sealed")
    w.clock.advance(10)
    for _ in range(3):
        with contextlib.suppress(SaslAuthenticationFailedError):
            member.poll(1000)
    assert "vault is sealed" in member.health().reason
    began = w.clock.now()
    getattr(member, call)()
    assert w.clock.now() - began < 0.5
    if call == "unsubscribe":
        member.close()
        assert w.clock.now() - began < 0.5
    w.cluster.requests.clear()


def test_missing_credentials_for_one_broker_are_raised_although_another_one_answers(world, read):
    """The session with the first broker lasts longer than the newest token, without which the second is not dialled."""
    w = world(2, {"t": 2}, security=SECURITY)
    by_leader = {w.cluster.leader(TopicPartition("t", number)).node.node_id: number for number in (0, 1)}
    first, second = by_leader.values()
    tokens = Tokens(w, 4000)
    renewal = {"sasl_login_refresh_window_factor": 0.5, "sasl_login_refresh_window_jitter": 0.0}
    options = {"sasl_oauth_token_provider": tokens, "connections_max_idle_ms": 3_600_000}
    consumer = w.consumer(("t", first), **BEARER, **renewal, **options)
    w.append(1, first)
    read(consumer, 1)
    tokens.seconds = 50
    w.clock.advance(2001)
    consumer.poll(0)
    tokens.error = RuntimeError("vault is sealed")
    w.clock.advance(60)
    w.append(1, first)
    assert read(consumer, 1) == {first: [1]}
    assert consumer.health().state.name == "OK"
    consumer.assign([TopicPartition("t", first), TopicPartition("t", second)])
    with pytest.raises(SaslAuthenticationFailedError, match="vault is sealed"):
        consumer.poll(10_000)
    w.append(1, first)
    assert read(consumer, 1) == {first: [2]}
    assert "vault is sealed" in consumer.health().reason


@pytest.mark.parametrize("api", ["Fetch", "JoinGroup", "Heartbeat", "OffsetCommit", "SaslHandshake"])
def test_a_connection_that_the_broker_no_longer_counts_as_logged_in_is_closed(world, read, api):
    """The poll raises, dials follow at the pace of the backoff, and a new connection logs in and works."""
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=5000))
    options = {"bootstrap_servers": w.cluster.bootstrap_servers, "auto_offset_reset": "earliest", **PLAIN}
    groups = {"group_id": "g", "auto_commit_interval_ms": 1000, "group_protocol": "classic"}
    with Consumer("t", driver=w.cluster.driver(), **options, **groups) as consumer:
        if api != "JoinGroup":
            w.append(1)
            read(consumer, 1)
        w.cluster.on(api, Reply(Code.ILLEGAL_SASL_STATE), times=8)
        w.append(1)
        began, dials, begun = w.clock.now(), len(w.network.dials), logins(w)
        health, errors, offsets = "", 0, []
        while w.clock.now() < began + 60:
            try:
                for records in consumer.poll(1000).values():
                    offsets += [record.offset for record in records]
            except SaslAuthenticationFailedError:
                errors += 1
                health += consumer.health().reason
        assert offsets == [int(api != "JoinGroup")]
        assert "ILLEGAL_SASL_STATE" in health or api == "OffsetCommit"
        assert 6 <= len(w.network.dials) - dials <= 24
        assert logins(w) - begun >= len(w.network.dials) - dials
        assert errors or api == "OffsetCommit"  # failed automatic commits are logged
    w.cluster.requests.clear()


def test_a_token_provider_cannot_call_the_consumer(world):
    """It runs between two steps of a call; a call inside it would change what that call waits for."""
    w = world(security=SECURITY)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=lambda: consumer.poll(0))
    with pytest.raises(SaslAuthenticationFailedError, match="a token provider"):
        consumer.poll(1000)


def test_producer_admin_and_member_log_in(world, read):
    w = world(security=SECURITY)
    servers = w.cluster.bootstrap_servers
    with Admin(ClientOptions.from_options(bootstrap_servers=servers, **PLAIN), driver=w.cluster.driver()) as admin:
        assert "t" in admin.list_topics()
    settings = ProducerSettings.from_options(bootstrap_servers=servers, **PLAIN)
    with Producer(settings, driver=w.cluster.driver()) as producer:
        sent = producer.send("t", b"v")
        producer.flush()
        assert sent.error is None
    assert read(w.consumer(T0, **PLAIN), 1)[0] == [0]


def test_secrets_are_in_no_repr(world):
    w = world(security=SECURITY)
    consumer = w.consumer(T0, **PLAIN)
    consumer.poll(0)
    shown = f"{consumer!r} {consumer.config!r} {consumer.health()} {consumer._reader.managers.engine.network!r}"
    assert PASSWORD not in shown
    assert Consumer.__name__ in shown


def test_a_token_provider_is_called_before_a_kept_alive_block_but_not_in_it(world, read, tick):
    w = world(security=SECURITY)
    tokens = Tokens(w, 1000)
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=tokens)
    w.append(1)
    read(consumer, 1)
    with consumer.keep_alive():
        assert tokens.calls == 1, "the token is fresh"
    w.clock.advance(100)
    with consumer.keep_alive():
        assert tokens.calls == 2, "the block begins with a fresh token"
        for _ in range(90):
            w.clock.advance(10)
            tick()
        assert tokens.calls == 2
        assert re.search(r"the OAUTHBEARER token ends in 100 s; the next call", consumer.health().reason)
        consumer.poll(0)
        assert tokens.calls == 3 and consumer.health().reason == ""


def test_a_kept_alive_block_that_lasts_longer_than_its_token_ends_in_a_consumer_that_works(world, read, tick):
    w = world(security=dataclasses.replace(SECURITY, connections_max_reauth_ms=3_600_000))
    consumer = w.consumer(T0, **BEARER, sasl_oauth_token_provider=Tokens(w, 300))
    w.append(1)
    read(consumer, 1)
    with consumer.keep_alive():
        for _ in range(60):
            w.clock.advance(10)
            tick()
        w.append(1)
    with pytest.raises(NoBrokersAvailable):
        consumer.poll(0)
    assert read(consumer, 1)[0] == [1]


def test_a_resolver_of_the_program_waits_for_the_end_of_a_kept_alive_block():
    calls = []

    def resolver(host, port):
        calls.append(host)
        return [Address(socket.AF_INET, ("127.0.0.1", 1))]

    with Consumer(bootstrap_servers="some.where:1", resolver=resolver) as consumer:
        consumer.assign([T0])
        with consumer.keep_alive():
            assert calls
            calls.clear()
            shell = consumer._shell
            with shell.guard:
                shell.guard.refuse_user_code()
                shell.driver.endpoint.commands.append(Resolve("some.where", 1))
                for _ in range(3):
                    shell.run_due(shell.driver.now())
            assert not calls
