"""The route to one node: addresses side by side, names looked up again, backoff, and what happens to the queue."""

from __future__ import annotations

import logging
import random

import pytest

from thinconsumer.connection.address_race import ANSWER_DELAY, CONNECT_DELAY
from thinconsumer.connection.request import Answer
from thinconsumer.connection.route import SLOW_ATTEMPT, STABLE_AFTER
from thinconsumer.connection.states import ConnectionState, RouteState
from thinconsumer.driver import Address, Hangup
from thinconsumer.errors import KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError
from thinconsumer.timers import NEVER
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.metadata import MetadataResponse

V4, V6 = Address(2, ("10.0.0.1", 9092)), Address(10, ("fd00::1", 9092, 0, 0))
NEW = Address(2, ("10.0.0.99", 9092))


# -- dialling


def test_nothing_is_dialled_before_something_is_wanted(road):
    road.step(100.0)
    assert road.route.state is RouteState.DISCONNECTED
    assert road.shared.book.take_command() is None
    assert road.route.wake_at() == NEVER


def test_pain_B7_every_address_of_a_name_is_tried_before_the_attempt_counts_as_failed(road):
    """In the resolver's order, v6 and v4 alike."""
    request = road.send()
    road.step()
    road.resolve(V6, V4)
    assert road.dialled() == [V6]
    road.fail(KafkaConnectionError("kafka:9092 ([fd00::1]:9092): network unreachable, while connecting"))
    assert road.dialled() == [V4]
    assert road.route.failures == 0
    assert road.unanswered
    road.fail()
    assert road.route.failures == 1
    assert road.route.state is RouteState.BACKING_OFF
    assert "connection refused" in str(road.answer_to(request).error)


def test_an_attempt_at_one_address_ends_with_the_setup_timeout(road):
    request = road.send()
    road.step()
    road.resolve(V4)
    road.dialled()
    road.step(SLOW_ATTEMPT)
    assert road.route.wake_at() == 10.0
    road.step(9.0)
    assert road.route.state is RouteState.RESOLVING or road.route.state is RouteState.BACKING_OFF
    assert "no connection within 10.0 s" in str(road.answer_to(request).error)


def test_a_name_whose_first_address_drops_packets_costs_a_quarter_of_a_second(road):
    """RFC 8305: the next address is dialled beside it, and the loser is hung up."""
    road.send()
    road.step()
    road.resolve(V6, V4)
    assert road.dialled() == [V6]
    assert road.route.wake_at() == CONNECT_DELAY
    road.step(CONNECT_DELAY)
    assert road.dialled() == [V4]
    first = road.route.connections()[0]
    road.reach()
    assert road.route.connection.address == V4
    assert Hangup(first) in road.shared.commands


def test_a_name_whose_first_address_is_mute_costs_a_second(road):
    """A stopped broker's system accepts connections; ApiVersions stays without an answer."""
    road.send()
    road.step()
    road.resolve(V6, V4)
    road.newest.connection_made(road.now)
    road.dialled()
    road.step(CONNECT_DELAY)
    assert road.dialled() == []
    assert road.route.wake_at() == ANSWER_DELAY
    road.step(ANSWER_DELAY - CONNECT_DELAY)
    assert road.dialled() == [V4]
    road.reach()
    assert road.route.connection.address == V4


def test_an_attempt_becomes_slow_and_says_when(road):
    """Only while a request waits: an attempt without one causes no wake-up."""
    road.send()
    road.step()
    assert (road.route.wake_at(), road.route.is_slow(SLOW_ATTEMPT - 0.001), road.route.is_slow(SLOW_ATTEMPT)) == (
        SLOW_ATTEMPT,
        False,
        True,
    )
    road.resolve(V4)
    road.reach()
    assert not road.route.is_slow(50.0)


def test_the_driver_is_wanted_until_it_has_looked(road):
    """What is written holds no write interest yet: until the driver has seen it, nothing but wake_at() can call it."""
    road.send()
    road.step()
    road.resolve(V4)
    road.reach()
    assert road.route.has_news  # step() has not kept the connection yet
    road.step()
    assert road.route.connection.has_unsent and road.route.has_news
    assert road.route.connection.data_to_send()
    assert not road.route.has_news  # though nothing of it has been sent


def test_a_refusal_that_nobody_has_looked_at_is_news(road):
    """On loopback a connection may be refused while it is dialled, in the last thing that a call does: requests that
    waited for it then stood still until the caller's deadline."""
    request = road.send()
    road.step()
    road.resolve(V4)
    road.step()
    road.dialled()
    road.newest.data_to_send()
    assert not road.route.has_news
    road.newest.connection_lost(KafkaConnectionError("connection refused"), road.now)
    assert road.route.has_news
    road.step()
    assert not road.route.has_news
    assert "connection refused" in str(road.answer_to(request).error)


def test_the_setup_timeout_grows_with_failures(road):
    """KIP-601: 10 s, 20 s, 30 s, with a fifth of jitter."""
    seen = []
    for _ in range(4):
        road.step(wanted=True)
        road.resolve(V4)
        seen.append(road.route.wake_at() - road.now)
        road.fail()
        road.step(5.0)
    assert seen == [10.0, 20.0, 30.0, 30.0]


def test_spelt_out_addresses_need_no_lookup(make_road):
    road = make_road("127.0.0.1")
    road.step(wanted=True)
    assert road.dialled() == [Address(2, ("127.0.0.1", 9092))]


def test_addresses_are_reused_until_they_fail(road):
    road.connect()
    road.route.connection.connection_lost(None, road.now)
    road.step()
    road.step(1.0, wanted=True)
    assert road.dialled() == [V4]
    assert road.shared.book.take_command() is None


def test_pain_B7_names_are_looked_up_again_once_known_addresses_failed(road):
    """KAFKA-12193: all addresses of a cluster change. Within the same attempt, so that nobody hears of it."""
    road.connect()
    road.route.connection.connection_lost(None, road.now)
    road.step()
    road.step(1.0)
    request = road.send()
    road.step()
    assert road.dialled() == [V4]
    road.fail()
    assert road.route.state is RouteState.RESOLVING
    assert road.unanswered
    road.resolve(V4, NEW)
    assert road.dialled() == [NEW]  # V4 has just failed
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(request).response is not None


def test_a_name_that_still_leads_nowhere_new_fails_the_attempt(road):
    road.connect()
    road.route.connection.connection_lost(None, road.now)
    road.step()
    road.step(1.0, wanted=True)
    road.fail()
    road.resolve(V4)
    assert road.route.state is RouteState.BACKING_OFF
    assert "connection refused" in road.route.cause
    road.step(5.0, wanted=True)
    assert road.route.state is RouteState.RESOLVING  # the next attempt asks again


def test_a_name_that_does_not_resolve_says_so(road):
    request = road.send()
    road.step()
    road.resolve(error="the name does not resolve")
    assert road.route.cause == "DNS: the name does not resolve"
    assert isinstance(road.answer_to(request).error, KafkaConnectionError)


def test_the_address_that_worked_is_tried_first_next_time(road):
    road.step(wanted=True)
    road.resolve(V6, V4)
    road.fail()
    road.reach()
    road.dialled()
    road.route.connection.connection_lost(None, road.now)
    road.step()
    road.step(1.0, wanted=True)
    assert road.dialled() == [V4]


# -- backoff


def test_backoff_doubles_to_its_maximum_and_starts_anew_when_a_request_was_answered(road):
    """Java's reconnect.backoff.ms, 50 ms to 1 s."""
    waits = []
    for _ in range(7):
        road.step(wanted=True)
        road.resolve(V4)
        road.fail()
        waits.append(round(road.route.not_before - road.now, 6))
        road.step(waits[-1])
        assert road.route.state is RouteState.DISCONNECTED
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    road.connect()
    assert road.route.failures == 7
    road.answer()
    assert (road.route.failures, road.route.cause) == (0, "")
    road.route.connection.connection_lost(None, road.now)
    road.step()
    assert road.route.not_before - road.now == pytest.approx(0.05)


def test_backoff_has_jitter_of_a_fifth(make_road):
    waits = set()
    for seed in range(200):
        road = make_road(rng=random.Random(seed))
        road.step(wanted=True)
        road.resolve(error="no")
        waits.add(road.route.not_before)
    assert 0.04 <= min(waits) < 0.042
    assert 0.058 < max(waits) <= 0.06


def test_what_is_asked_during_the_backoff_waits_for_the_next_attempt(road):
    """Whoever retries must not spin, and whoever is queued is not told twice."""
    first = road.send()
    road.step()
    road.resolve(V4)
    road.fail()
    assert road.answer_to(first).error
    second = road.send()
    road.step()
    assert road.route.state is RouteState.BACKING_OFF
    assert road.route.wake_at() == road.route.not_before
    assert len(road.shared.answers) == 1
    road.step(0.05)
    road.resolve(V4)
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(second).response is not None


def test_a_broken_connection_keeps_the_queue_and_dials_after_a_moment(road):
    road.connect()
    written = [road.send() for _ in range(5)]
    road.step()
    queued = road.send()
    road.step()
    road.route.connection.connection_lost(None, road.now)
    road.step()
    for request in written:
        assert isinstance(road.answer_to(request).error, KafkaConnectionError)
    assert road.route.state is RouteState.BACKING_OFF
    road.step(0.05)
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(queued).response is not None


def test_a_refused_login_is_not_tried_at_the_next_address(make_road):
    """Each refusal may count towards a lock-out."""

    class Refused:
        def next_request(self, answer, now):
            raise SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")

    road = make_road(new_login=lambda host: Refused())
    request = road.send()
    road.step()
    road.resolve(V4, V6)
    road.dialled()
    road.newest.connection_made(0.0)
    road.reply(ApiVersionsResponse())
    road.step()
    assert road.dialled() == []
    assert isinstance(road.answer_to(request).error, SaslAuthenticationFailedError)
    assert road.route.login_error is road.answer_to(request).error


# -- the queue


def test_only_as_many_as_allowed_are_in_flight(make_road):
    road = make_road(in_flight=2).connect()
    requests = [road.send() for _ in range(3)]
    road.step()
    assert len(road.hear()) == 2
    assert road.route.load == 3
    road.reply(MetadataResponse())
    road.step()
    assert len(road.hear()) == 2
    road.reply(MetadataResponse())
    road.reply(MetadataResponse())
    assert [road.answer_to(request).response is not None for request in requests] == [True] * 3


def test_a_queued_request_that_expires_fails_alone(road):
    short, long = road.send(allowance=3.0), road.send(allowance=30.0)
    road.step()
    road.step(SLOW_ATTEMPT)
    assert road.route.wake_at() == 3.0
    road.resolve(V4)
    road.step(3.0)
    error = road.answer_to(short).error
    assert isinstance(error, KafkaTimeoutError)
    assert "could not be sent within 3.0 s (connecting)" in str(error)
    assert road.newest.state is ConnectionState.CONNECTING
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(long).response is not None


def test_what_is_overdue_when_it_could_be_written_is_not(road):
    """Sent, it would be overdue at once and end the connection."""
    road.step(wanted=True)
    road.resolve(V4)
    request = road.send(allowance=1.0)
    road.newest.connection_made(road.now)
    road.hear()
    road.now += 2.0
    road.reply(ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=13)]))
    road.route.step(road.now, 0.5)
    assert isinstance(road.answer_to(request).error, KafkaTimeoutError)
    assert road.route.is_ready


def test_kip_219_what_waits_behind_a_mute_waits_with_it(road):
    """Queued before or during it."""
    road.connect()
    road.send()
    road.step()
    road.reply(MetadataResponse(throttle_time_ms=20_000))
    during = road.send(allowance=5.0)
    road.step()
    assert road.hear() == []
    assert road.route.wake_at() == 20.0
    road.step(19.0)
    later = road.send(allowance=1.5)
    road.step()
    assert road.route.wake_at() == 20.0
    road.step(1.0)
    assert len(road.hear()) == 2
    road.reply(MetadataResponse())
    road.reply(MetadataResponse())
    assert road.answer_to(during).response is not None
    assert road.answer_to(later).response is not None


def test_kip_219_a_mute_that_comes_while_requests_wait_moves_their_deadlines(make_road):
    road = make_road(in_flight=1).connect()
    road.send()
    waiting = road.send(allowance=5.0)
    road.step()
    road.reply(MetadataResponse(throttle_time_ms=20_000))
    road.step()
    road.step(19.0)
    assert len(road.shared.answers) == 1
    road.step(1.0)
    road.reply(MetadataResponse())
    assert road.answer_to(waiting).response is not None


# -- leaving, moving


def test_leaving_lets_what_is_in_flight_be_answered(road):
    road.connect()
    flying = road.send()
    road.step()
    queued = road.send()
    road.route.leave("gone")
    assert "gone" in str(road.answer_to(queued).error)
    assert not road.route.has_left()
    road.reply(MetadataResponse())
    assert road.route.has_left()
    assert road.answer_to(flying).response is not None
    assert isinstance(road.shared.commands[-1], Hangup)


@pytest.mark.parametrize("stage", ["nothing", "resolving", "connecting", "ready", "backing off"])
def test_leaving_with_nothing_in_flight_is_at_once(road, stage):
    if stage != "nothing":
        road.step(wanted=True)
    if stage in ("connecting", "ready", "backing off"):
        road.resolve(V4)
    if stage == "ready":
        road.reach()
    if stage == "backing off":
        road.fail()
    road.route.leave("gone")
    assert road.route.has_left()
    assert road.route.state is RouteState.DISCONNECTED
    assert road.route.connection is None


def test_moving_ends_the_connection_and_takes_the_queue_along(road):
    road.connect()
    flying = road.send()
    road.step()
    queued = road.send()
    road.route.move_to("elsewhere", 9092, "node 1 moved")
    assert "node 1 moved" in str(road.answer_to(flying).error)
    road.step()
    road.resolve(NEW)
    assert road.dialled() == [NEW]
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(queued).response is not None


def test_nothing_is_answered_twice(road):
    """Whatever an interrupted call has left half done: who has an answer gets no other."""
    request = road.send()
    for _ in range(2):
        road.shared.answer(Answer(request, 1, error=KafkaConnectionError("first")))
    road.route.refuse(KafkaConnectionError("second"))
    assert "first" in str(road.answer_to(request).error)
    road.shared.answers.clear()
    road.shared.answer(Answer(request, 1))
    assert road.shared.answers == []


@pytest.mark.parametrize("stage", ["resolving", "connecting", "ready", "backing off"])
def test_starting_over_works_from_any_state(road, stage):
    """After a Ctrl-C nobody knows how far things have come; what was answered meanwhile leaves the queue."""
    request, answered = road.send(), road.send()
    road.step()
    if stage != "resolving":
        road.resolve(V4)
    if stage == "ready":
        road.reach()
        road.hear()
        request = road.send()
    if stage == "backing off":
        road.fail()
        request, answered = road.send(), road.send()
    road.shared.answer(Answer(answered, 1, error=KafkaConnectionError("x")))
    road.route.start_over(KafkaConnectionError("interrupted"))
    road.shared.book.start_over()
    assert road.route.state is RouteState.DISCONNECTED
    assert [waiting.request for waiting in road.route.queue] == [request]
    assert road.route.requests() == [request]
    assert road.route.load == 1
    road.dialled()
    road.step(1.0)
    if stage in ("resolving", "backing off"):
        road.resolve(V4)
    road.heard.clear()
    road.reach()
    road.reply(MetadataResponse())
    assert road.answer_to(request).response is not None


def test_describe_answers_what_support_asks(road, make_road):
    assert road.route.describe(0.0) == "disconnected, 0 queued"
    road.send()
    road.step()
    assert road.route.describe(2.0) == "resolving for 2.0 s, 1 queued"
    road.resolve(V4)
    assert road.route.describe(2.0) == "connecting for 2.0 s, 1 queued"
    road.fail()
    words = road.route.describe(0.0)
    assert words.startswith("backing off for 0.05 s, 0 queued, failed 1 times: connection refused")
    road.step(1.0)
    road.connect()
    road.send()
    road.step()
    road.reply(MetadataResponse(throttle_time_ms=2000))
    assert road.route.describe(road.now) == "ready, 0 in flight, 0 queued, throttled for 2.0 s"
    assert road.route.name == "kafka:9092"
    assert make_road("::1").route.name == "[::1]:9092"


# -- log lines


def lines(caplog):
    return [(record.levelname, record.getMessage().split(" after")[0]) for record in caplog.records]


CLOSED = ("WARNING", "kafka:9092: the peer closed the connection (10.0.0.1:9092)")
REFUSED = ("WARNING", "kafka:9092: connection refused, while connecting (10.0.0.1:9092)")
CONNECTED = ("INFO", "kafka:9092: connected again")


def lose_and_reconnect(road):
    road.fail(None)
    road.step(1.0, wanted=True)
    road.reach()
    road.answer()


def test_pain_K2_a_connection_that_breaks_again_and_again_is_one_outage(road, caplog):
    """A broker that closes each connection after one answer must not cause two log lines per second."""
    caplog.set_level(logging.INFO, "thinconsumer")
    road.connect().answer()
    for _ in range(59):
        lose_and_reconnect(road)
    assert lines(caplog) == [CLOSED]
    for _ in range(30):
        lose_and_reconnect(road)
    assert len(lines(caplog)) == 2
    assert caplog.records[1].getMessage().endswith("61 failed attempts in 60 s")
    road.step(STABLE_AFTER)
    assert lines(caplog)[2:] == [CONNECTED]
    assert caplog.records[2].getMessage().endswith("after 89.0 s and 89 failed attempts")
    lose_and_reconnect(road)
    assert lines(caplog)[3:] == [CLOSED]


def test_an_outage_of_a_route_is_one_warning_a_minute_and_one_line_at_its_end(road, caplog):
    caplog.set_level(logging.INFO, "thinconsumer")
    while road.now < 119.0:
        road.step(1.0, wanted=True)
        if road.shared.book.has_command():
            road.resolve(V4)
        if road.route.connections():
            road.fail()
    assert lines(caplog)[0] == REFUSED
    assert len(lines(caplog)) == 2
    while not road.route.connections():
        road.step(1.0, wanted=True)
        if road.shared.book.has_command():
            road.resolve(V4)
    road.reach()
    road.step(STABLE_AFTER)
    assert len(lines(caplog)) == 2, "no request was answered yet"
    road.answer()
    assert lines(caplog)[2:] == [CONNECTED]


def test_a_connection_that_ends_before_it_answers_a_request_counts_as_a_failed_attempt(road):
    """A listener that requires a login answers ApiVersions, and closes the connection at the next request."""
    for failures in range(1, 4):
        request = road.send()
        while not road.route.connections():
            road.step(1.0)
            if road.shared.book.has_command():
                road.resolve(V4)
        road.reach()
        road.hear()
        road.heard.clear()
        road.fail(None)
        assert (road.route.failures, road.route.unreachable) == (failures, True)
        for text in (road.route.cause, str(road.answer_to(request).error)):
            assert "after ApiVersions, without an answer to Metadata: the listener may require a login" in text
            assert "security_protocol='SASL_PLAINTEXT'" in text
