"""The route to one node: addresses side by side, names looked up again, backoff, and what happens to the queue."""

import logging
import random

import pytest

from thinconsumer.driver import Address
from thinconsumer.errors import KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError
from thinconsumer.network.route import SLOW_ATTEMPT, STABLE_AFTER
from thinconsumer.network.states import ConnectionState, RouteState
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.metadata import MetadataResponse

V4, V6 = Address(2, ("10.0.0.1", 9092)), Address(10, ("fd00::1", 9092, 0, 0))
NEW = Address(2, ("10.0.0.99", 9092))


# -- dialling


def test_no_address_is_dialled_before_a_request_waits(route_bench):
    route_bench.step(100.0)
    assert route_bench.route.state is RouteState.DISCONNECTED
    assert not route_bench.shared.commands
    assert route_bench.due() == NEVER


def test_every_address_of_a_name_is_tried_before_the_attempt_counts_as_failed(route_bench):
    """In the resolver's order, v6 and v4 alike."""
    request = route_bench.dial(V6, V4)
    assert route_bench.dialled() == [V6]
    route_bench.fail(KafkaConnectionError("kafka:9092 ([fd00::1]:9092): network unreachable, while connecting"))
    assert route_bench.dialled() == [V4]
    assert route_bench.route.failures == 0
    assert route_bench.unanswered
    route_bench.fail()
    assert route_bench.route.failures == 1
    assert route_bench.route.state is RouteState.BACKING_OFF
    assert "connection refused" in str(route_bench.answer_to(request).error)


def test_an_attempt_at_one_address_ends_with_the_setup_timeout(route_bench):
    request = route_bench.dial(V4)
    route_bench.dialled()
    route_bench.step(SLOW_ATTEMPT)
    assert route_bench.due() == 11.0
    route_bench.step(10.0)
    assert route_bench.route.state is RouteState.RESOLVING or route_bench.route.state is RouteState.BACKING_OFF
    assert "no connection within 11.0 s" in str(route_bench.answer_to(request).error)


def test_an_attempt_becomes_slow_after_a_second(route_bench):
    """Only while a request waits: an attempt without one causes no wake-up."""
    route_bench.send()
    route_bench.step()
    route = route_bench.route
    assert route_bench.due() == SLOW_ATTEMPT
    assert not route.is_slow(SLOW_ATTEMPT - 0.001)
    assert route.is_slow(SLOW_ATTEMPT)
    route_bench.resolve(V4)
    route_bench.reach()
    assert not route.is_slow(50.0)


def test_a_refused_connection_makes_the_route_due_until_the_next_step(route_bench):
    """On loopback a connection may be refused while it is dialled, in the last thing that a call does: requests that
    waited for it then stood still until the caller's deadline."""
    request = route_bench.dial(V4)
    route_bench.step()
    route_bench.dialled()
    route_bench.newest.data_to_send()
    agenda = route_bench.shared.agenda
    agenda.take(route_bench.now)
    assert not agenda.is_due(route_bench.now)
    route_bench.newest.connection_lost(KafkaConnectionError("connection refused"), route_bench.now)
    assert agenda.is_due(route_bench.now)
    agenda.take(route_bench.now)
    route_bench.step()
    assert not agenda.is_due(route_bench.now)
    assert "connection refused" in str(route_bench.answer_to(request).error)


def test_the_setup_timeout_grows_with_failures(route_bench):
    """KIP-601: 10 s, 20 s, 30 s, with a fifth of jitter."""
    seen = []
    for _ in range(4):
        route_bench.dial_unasked(V4)
        seen.append(route_bench.due() - route_bench.now)
        route_bench.fail()
        route_bench.step(5.0)
    assert seen == [11.0, 20.0, 30.0, 30.0]


def test_addresses_are_used_again_until_they_fail(route_bench):
    route_bench.connect()
    route_bench.fail(None)
    route_bench.step(1.0, wanted=True)
    assert route_bench.dialled() == [V4]
    assert not route_bench.shared.commands


def test_names_are_looked_up_again_once_known_addresses_failed(route_bench):
    """KAFKA-12193: all addresses of a cluster change. Within the same attempt, without an error."""
    route_bench.connect()
    route_bench.fail(None)
    route_bench.step(1.0)
    request = route_bench.send()
    route_bench.step()
    assert route_bench.dialled() == [V4]
    route_bench.fail()
    assert route_bench.route.state is RouteState.RESOLVING
    assert route_bench.unanswered
    route_bench.resolve(V4, NEW)
    assert route_bench.dialled() == [NEW]  # V4 has just failed
    route_bench.reach()
    route_bench.reply_to(request)


def test_a_lookup_without_new_addresses_fails_the_attempt(route_bench):
    route_bench.connect()
    route_bench.fail(None)
    route_bench.step(1.0, wanted=True)
    route_bench.fail()
    route_bench.resolve(V4)
    assert route_bench.route.state is RouteState.BACKING_OFF
    assert "connection refused" in route_bench.route.cause
    route_bench.step(5.0, wanted=True)
    assert route_bench.route.state is RouteState.RESOLVING  # the next attempt asks again


def test_the_address_that_worked_is_tried_first_next_time(route_bench):
    route_bench.dial_unasked(V6, V4)
    route_bench.fail()
    route_bench.reach()
    route_bench.dialled()
    route_bench.fail(None)
    route_bench.step(1.0, wanted=True)
    assert route_bench.dialled() == [V4]


# -- backoff


def test_backoff_doubles_to_its_maximum_and_starts_anew_when_a_request_was_answered(route_bench):
    """Java's reconnect.backoff.ms, 50 ms to 1 s."""
    waits = []
    for _ in range(7):
        route_bench.dial_unasked(V4)
        route_bench.fail()
        waits.append(round(route_bench.route._backoff.at - route_bench.now, 6))
        route_bench.step(waits[-1])
        assert route_bench.route.state is RouteState.DISCONNECTED
    assert waits == [0.055, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    route_bench.connect()
    assert route_bench.route.failures == 7
    route_bench.answer()
    assert (route_bench.route.failures, route_bench.route.cause) == (0, "")
    route_bench.fail(None)
    assert route_bench.route._backoff.at - route_bench.now == pytest.approx(0.055)


def test_jitter_lengthens_the_first_backoff_by_up_to_a_fifth(make_route_bench):
    waits = set()
    for seed in range(200):
        route_bench = make_route_bench(rng=random.Random(seed))
        route_bench.dial_unasked(error="no")
        waits.add(route_bench.route._backoff.at)
    assert 0.05 <= min(waits) < 0.0502
    assert 0.0598 < max(waits) <= 0.06


def test_a_request_sent_during_the_backoff_waits_for_the_next_attempt(route_bench):
    """A retry must not cause a busy loop, and a queued request gets one answer."""
    first = route_bench.send()
    route_bench.step()
    route_bench.resolve(V4)
    route_bench.fail()
    assert route_bench.answer_to(first).error
    second = route_bench.send()
    route_bench.step()
    assert route_bench.route.state is RouteState.BACKING_OFF
    assert route_bench.due() == route_bench.route._backoff.at
    assert len(route_bench.shared.answers) == 1
    route_bench.step(0.06)
    route_bench.resolve(V4)
    route_bench.reach()
    route_bench.reply_to(second)


def test_a_broken_connection_keeps_the_queue_and_dials_after_a_moment(route_bench):
    route_bench.connect()
    written = [route_bench.send() for _ in range(5)]
    route_bench.step()
    queued = route_bench.send()
    route_bench.step()
    route_bench.fail(None)
    for request in written:
        assert isinstance(route_bench.answer_to(request).error, KafkaConnectionError)
    assert route_bench.route.state is RouteState.BACKING_OFF
    route_bench.step(0.06)
    route_bench.reach()
    route_bench.reply_to(queued)


def test_a_rejected_reauthentication_fails_the_queued_requests(make_route_bench, refused_login):
    """The broker would reject the login on a new connection, too."""

    class Once:
        reauthenticate_after = 10.0

        def next_request(self, answer, now):
            return None

    logins = iter([Once(), refused_login("kafka")])
    bench = make_route_bench(new_login=lambda host: next(logins)).connect()
    request = bench.send()
    bench.step(10.0)
    bench.step()
    assert isinstance(bench.answer_to(request).error, SaslAuthenticationFailedError)
    assert isinstance(bench.route.login_error, SaslAuthenticationFailedError)


# -- the queue


def test_requests_in_flight_are_limited(make_route_bench):
    route_bench = make_route_bench(in_flight=2).connect()
    requests = [route_bench.send() for _ in range(3)]
    route_bench.step()
    assert len(route_bench.read_requests()) == 2
    assert route_bench.route.load == 3
    route_bench.reply(MetadataResponse())
    route_bench.step()
    assert len(route_bench.read_requests()) == 2
    route_bench.reply(MetadataResponse())
    route_bench.reply(MetadataResponse())
    assert [route_bench.answer_to(request).response is not None for request in requests] == [True] * 3


def test_a_queued_request_that_expires_fails_alone(route_bench):
    short, long = route_bench.send(allowance=3.0), route_bench.send(allowance=30.0)
    route_bench.step()
    route_bench.step(SLOW_ATTEMPT)
    assert route_bench.due() == 3.0
    route_bench.resolve(V4)
    route_bench.step(3.0)
    error = route_bench.answer_to(short).error
    assert isinstance(error, KafkaTimeoutError)
    assert "could not be sent within 3.0 s (connecting)" in str(error)
    assert route_bench.newest.state is ConnectionState.CONNECTING
    route_bench.reach()
    route_bench.reply_to(long)


def test_a_request_that_is_overdue_is_not_written(route_bench):
    """Sent, it would be overdue at once and end the connection."""
    route_bench.dial_unasked(V4)
    request = route_bench.send(allowance=1.0)
    route_bench.newest.connection_made(route_bench.now)
    route_bench.read_requests()
    route_bench.now += 2.0
    route_bench.reply(ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=13)]))
    route_bench.shared.polls.horizon = 0.5
    route_bench.route.step(route_bench.now)
    assert isinstance(route_bench.answer_to(request).error, KafkaTimeoutError)
    assert route_bench.route.is_ready


def test_kip_219_requests_queued_during_throttling_get_more_time(route_bench):
    """Queued before or during it."""
    route_bench.connect()
    route_bench.answer(MetadataResponse(throttle_time_ms=20_000))
    during = route_bench.send(allowance=5.0)
    route_bench.step()
    assert route_bench.read_requests() == []
    assert route_bench.due() == 20.0
    route_bench.step(19.0)
    later = route_bench.send(allowance=1.5)
    route_bench.step()
    assert route_bench.due() == 20.0
    route_bench.step(1.0)
    assert len(route_bench.read_requests()) == 2
    route_bench.reply(MetadataResponse())
    route_bench.reply_to(during)
    assert route_bench.answer_to(later).response is not None


def test_kip_219_throttling_extends_the_deadlines_of_queued_requests(make_route_bench):
    route_bench = make_route_bench(in_flight=1).connect()
    route_bench.send()
    waiting = route_bench.send(allowance=5.0)
    route_bench.step()
    route_bench.reply(MetadataResponse(throttle_time_ms=20_000))
    route_bench.step()
    route_bench.step(19.0)
    assert len(route_bench.shared.answers) == 1
    route_bench.step(1.0)
    route_bench.reply_to(waiting)


# -- leaving, moving


@pytest.mark.parametrize("stage", ["nothing", "resolving", "connecting", "ready", "backing off"])
def test_a_leaving_route_without_requests_in_flight_closes_at_once(route_bench, stage):
    if stage != "nothing":
        route_bench.step(wanted=True)
    if stage in ("connecting", "ready", "backing off"):
        route_bench.resolve(V4)
    if stage == "ready":
        route_bench.reach()
    if stage == "backing off":
        route_bench.fail()
    route_bench.route.leave("gone")
    assert route_bench.route.has_left()
    assert route_bench.route.state is RouteState.DISCONNECTED
    assert route_bench.route.connection is None


def test_moving_ends_the_connection_and_keeps_the_queue(route_bench):
    route_bench.connect()
    in_flight = route_bench.send()
    route_bench.step()
    queued = route_bench.send()
    route_bench.route.move_to("elsewhere", 9092, "node 1 moved")
    assert "node 1 moved" in str(route_bench.answer_to(in_flight).error)
    route_bench.step()
    route_bench.resolve(NEW)
    assert route_bench.dialled() == [NEW]
    route_bench.reach()
    route_bench.reply_to(queued)


def test_describe_names_state_and_last_failure(route_bench, make_route_bench):
    assert route_bench.route.describe(0.0) == "disconnected, 0 queued"
    route_bench.send()
    route_bench.step()
    assert route_bench.route.describe(2.0) == "resolving for 2.0 s, 1 queued"
    route_bench.resolve(V4)
    assert route_bench.route.describe(2.0) == "connecting for 2.0 s, 1 queued"
    route_bench.fail()
    words = route_bench.route.describe(0.0)
    assert words.startswith("backing off for 0.06 s, 0 queued, failed 1 times: connection refused")
    route_bench.step(1.0)
    route_bench.connect()
    route_bench.answer(MetadataResponse(throttle_time_ms=2000))
    assert route_bench.route.describe(route_bench.now) == "ready, 0 in flight, 0 queued, throttled for 2.0 s"
    assert route_bench.route.name == "kafka:9092"
    assert make_route_bench("::1").route.name == "[::1]:9092"


# -- log lines


def lines(caplog):
    return [(record.levelname, record.getMessage().split(" after")[0]) for record in caplog.records]


CLOSED = ("WARNING", "kafka:9092: the peer closed the connection (10.0.0.1:9092)")
REFUSED = ("WARNING", "kafka:9092: connection refused, while connecting (10.0.0.1:9092)")
CONNECTED = ("INFO", "kafka:9092: connected again")


def lose_and_reconnect(route_bench):
    route_bench.fail(None)
    route_bench.step(1.0, wanted=True)
    route_bench.reach()
    route_bench.answer()


def test_a_connection_that_breaks_again_and_again_is_one_outage(route_bench, caplog):
    """A broker that closes each connection after one answer must not cause two log lines per second."""
    caplog.set_level(logging.INFO, "thinconsumer")
    route_bench.connect().answer()
    for _ in range(59):
        lose_and_reconnect(route_bench)
    assert lines(caplog) == [CLOSED]
    for _ in range(30):
        lose_and_reconnect(route_bench)
    assert len(lines(caplog)) == 2
    assert caplog.records[1].getMessage().endswith("61 failed attempts in 60 s")
    route_bench.step(STABLE_AFTER)
    assert lines(caplog)[2:] == [CONNECTED]
    assert caplog.records[2].getMessage().endswith("after 89.0 s and 89 failed attempts")
    lose_and_reconnect(route_bench)
    assert lines(caplog)[3:] == [CLOSED]


def test_an_outage_of_a_route_is_one_warning_a_minute_and_one_line_at_its_end(route_bench, caplog):
    caplog.set_level(logging.INFO, "thinconsumer")
    while route_bench.now < 119.0:
        route_bench.step(1.0, wanted=True)
        if route_bench.route.state is RouteState.RESOLVING:
            route_bench.resolve(V4)
        if route_bench.route.connections():
            route_bench.fail()
    assert lines(caplog)[0] == REFUSED
    assert len(lines(caplog)) == 2
    while not route_bench.route.connections():
        route_bench.step(1.0, wanted=True)
        if route_bench.route.state is RouteState.RESOLVING:
            route_bench.resolve(V4)
    route_bench.reach()
    route_bench.step(STABLE_AFTER)
    assert len(lines(caplog)) == 2, "no request was answered yet"
    route_bench.answer()
    assert lines(caplog)[2:] == [CONNECTED]


def test_a_connection_that_ends_before_it_answers_a_request_counts_as_a_failed_attempt(route_bench):
    """A listener that requires a login answers ApiVersions, and closes the connection at the next request."""
    for failures in range(1, 4):
        request = route_bench.send()
        while not route_bench.route.connections():
            route_bench.step(1.0)
            if route_bench.route.state is RouteState.RESOLVING:
                route_bench.resolve(V4)
        route_bench.reach()
        route_bench.read_requests()
        route_bench.written.clear()
        route_bench.fail(None)
        assert (route_bench.route.failures, route_bench.route.unreachable) == (failures, True)
        for text in (route_bench.route.cause, str(route_bench.answer_to(request).error)):
            assert "after ApiVersions, without an answer to Metadata: the listener may require a login" in text
            assert "security_protocol='SASL_PLAINTEXT'" in text
