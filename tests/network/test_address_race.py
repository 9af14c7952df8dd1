"""Addresses of one host side by side: when the next is dialled, which connection is kept, and when all have failed."""

import pytest

from thinconsumer.driver import Address
from thinconsumer.errors import KafkaConnectionError, SaslAuthenticationFailedError, SslAuthenticationFailedError
from thinconsumer.network.address_race import ANSWER_DELAY, CONNECT_DELAY, PARALLEL_MAX, RETRY_DELAY, AddressRace
from thinconsumer.network.connection import IoPolls
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER

ADDRESSES = [Address(2, (f"10.0.0.{n}", 9092)) for n in range(1, 7)]


class Racetrack:
    """One race; the test is the driver and the brokers."""

    def __init__(self, bench, count=2, deadline=10.0, **settings):
        self.now = 0.0
        self.dialled = []  #: Address number and time of each dial.
        self.benches = {}
        self._bench, self._deadline, self._settings = bench, deadline, settings
        self.probes = []  #: The connections without TLS.
        self.alarm, self.polls = Agenda().alarm("race"), IoPolls()
        self.race = AddressRace(ADDRESSES[:count], self._dial, self._probe, deadline, self.alarm, self.polls)
        self.wait(0.0)

    def _dial(self, address, now):
        number = ADDRESSES.index(address) + 1
        self.dialled.append((number, self.now))
        self.benches[number] = made = self._bench(now=self.now, connect_by=self._deadline, **self._settings)
        made.connection.address, made.connection._polls = address, self.polls
        return made.connection

    def _probe(self, address, now):
        made = self._bench(now=self.now, connect_by=self._deadline)
        made.connection.address, made.connection._polls = address, self.polls
        self.probes.append(made)
        return made.connection

    def wait(self, seconds):
        """Step at every moment that the race asks for, within so many seconds."""
        end = self.now + seconds
        while True:
            self.polls.horizon = self.now
            self.race.step(self.now)
            if self.due() > end:
                break
            self.now = self.due()
        self.now = end

    def due(self):
        """Return when the race has something to do even if nothing is received."""
        benches = [made for made in [*self.benches.values(), *self.probes] if made.connection in self.race.open]
        return min([self.alarm.at, *(made.due() for made in benches)])

    def fail(self, number, error=None):
        error = error or KafkaConnectionError(f"{number} refused")
        self.benches[number].connection.connection_lost(error, self.now)
        self.wait(0.0)

    def accept(self, number):
        self.benches[number].now = self.now
        self.benches[number].connection.connection_made(self.now)
        self.wait(0.0)

    def answer(self, number):
        self.benches[number].reply(self.benches[number].api_versions())
        self.wait(0.0)

    @property
    def hung_up(self):
        return [number for number, bench in self.benches.items() if bench.hangups]


@pytest.fixture
def track(bench):
    return lambda *arguments, **more: Racetrack(bench, *arguments, **more)


def test_the_next_address_is_dialled_beside_one_that_does_not_connect(track):
    t = track(3)
    t.wait(1.0)
    assert t.dialled == [(1, 0.0), (2, CONNECT_DELAY), (3, 2 * CONNECT_DELAY)]


def test_the_next_address_is_dialled_beside_one_that_connects_and_does_not_answer(track):
    t = track()
    t.wait(0.1)
    t.accept(1)
    t.wait(0.1 + ANSWER_DELAY)
    assert t.dialled == [(1, 0.0), (2, 0.1 + ANSWER_DELAY)]


def test_the_next_address_is_dialled_at_once_after_a_failure(track):
    t = track(3)
    t.fail(1)
    t.fail(2)
    assert t.dialled == [(1, 0.0), (2, 0.0), (3, 0.0)]


def test_the_first_connection_that_is_ready_is_kept_and_the_others_are_hung_up(track):
    t = track()
    t.wait(CONNECT_DELAY)
    t.accept(1)
    t.accept(2)
    t.answer(2)
    assert t.race.winner is t.benches[2].connection
    assert t.hung_up == [1]
    assert t.race.connections == []
    assert not t.race.has_failed


def test_a_single_address_is_dialled_once(track):
    t = track(1)
    t.wait(9.0)
    assert t.dialled == [(1, 0.0)]
    t.fail(1)
    assert t.race.has_failed
    assert t.due() == NEVER


def test_attempts_at_the_same_time_are_bounded(track):
    t = track(6)
    t.wait(5.0)
    assert len(t.dialled) == PARALLEL_MAX == len(t.race.connections)
    t.fail(2)
    assert t.dialled[PARALLEL_MAX:] == [(5, 5.0)]


def test_all_attempts_share_one_deadline(track):
    t = track(6)
    t.wait(10.0)
    assert t.race.has_failed
    assert t.now == 10.0
    assert [str(error).rpartition(": ")[2] for error in t.race.errors.values()] == [
        f"no connection within {10.0 - moment:.1f} s" for _, moment in t.dialled
    ]


def test_an_address_that_refused_is_dialled_again_while_another_one_drops_packets(track):
    """A broker that restarts must not be found only when the other address has used up the setup timeout."""
    t = track()
    t.wait(CONNECT_DELAY)
    t.fail(2)
    t.wait(RETRY_DELAY)
    assert t.dialled[2:] == [(2, CONNECT_DELAY + RETRY_DELAY)]
    t.accept(2)
    t.answer(2)
    assert t.race.winner is t.benches[2].connection


def test_a_rejected_login_ends_the_race(track):
    """Every address would reject the same credentials, and each rejection may count towards a lock-out."""

    class Rejected:
        reauthenticate_after = None

        def next_request(self, answer, now):
            raise SaslAuthenticationFailedError("wrong password", code=58, name="SASL_AUTHENTICATION_FAILED")

    t = track(3, new_login=lambda host: Rejected())
    t.wait(CONNECT_DELAY)
    t.accept(1)
    t.answer(1)
    assert isinstance(t.race.login_error, SaslAuthenticationFailedError)
    assert t.race.has_failed
    assert t.hung_up == [1, 2]
    assert len(t.dialled) == 2


CUT = KafkaConnectionError("closed during the TLS handshake", is_handshake_cut=True)


def test_a_port_that_cuts_the_tls_handshake_off_and_answers_without_tls_is_found_out(track):
    """A plaintext listener takes a ClientHello for a request of 369 MB, and closes as a broker that restarts does."""
    t = track(1)
    t.fail(1, CUT)
    (probe,) = t.probes
    assert not t.race.has_failed
    assert t.due() < NEVER
    probe.connection.connection_made(0.0)
    probe.reply(probe.api_versions())
    t.wait(0.0)
    assert t.race.has_failed
    assert isinstance(t.race.login_error, SslAuthenticationFailedError)
    assert "the port does not use TLS: set security_protocol" in str(t.race.login_error)
    assert probe.hangups == [probe.connection]


def test_a_restarting_broker_that_cuts_the_tls_handshake_off_is_tried_again(track):
    t = track(2)
    t.wait(CONNECT_DELAY)
    t.fail(1, CUT)
    t.fail(2, CUT)
    (probe,) = t.probes  # one at a time
    probe.connection.connection_lost(KafkaConnectionError("refused"), 0.0)
    t.wait(0.0)
    assert t.race.has_failed
    assert t.race.login_error is None


def test_closing_hangs_up_all_attempts(track):
    t = track()
    t.wait(CONNECT_DELAY)
    t.race.close()
    assert t.hung_up == [1, 2]
    assert t.due() == NEVER


def test_attempts_wait_for_io_to_be_polled(track):
    """A program that polls once a minute must not dial a second address only because it was away."""
    t = track()
    t.race.step(60.0)
    assert t.dialled == [(1, 0.0)]
