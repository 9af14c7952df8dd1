"""Requests without a backoff and repeated responses are violations; progress is not limited."""

import pytest

from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.simulation.checkers.pace import (
    DIALS_MAX,
    DIALS_PER_REQUEST,
    FRUITLESS_MAX,
    REPEATS_MAX,
    WINDOW_S,
    PaceChecker,
)


@pytest.fixture
def court(new_court):
    """A court with PaceChecker that watches ann."""
    return new_court(PaceChecker)


def ask(court, times, *, client="ann", node=1, request=MetadataRequest, now=10.0):
    for _ in range(times):
        court.checker.requested(client, node, request(), now)


def batch(offset, epoch=0, size=50):
    return offset.to_bytes(8, "big") + bytes(4) + epoch.to_bytes(4, "big") + bytes(size)


def test_requests_beyond_the_limit_are_a_violation(court):
    ask(court, FRUITLESS_MAX)
    assert court.verdict() == ""
    ask(court, 1, now=10.5)
    assert (
        court.verdict() == f"ann has sent node 1 {FRUITLESS_MAX + 1} MetadataRequests without progress within 0.500 s"
    )


@pytest.mark.parametrize(
    "other",
    [{"node": 2}, {"request": FetchRequest}, {"client": "bob"}, {"now": 10.0 + WINDOW_S}],
    ids=["another node", "another API", "another reader", "the next window"],
)
def test_each_reader_node_api_and_window_counts_by_itself(court, other):
    court.new_reader("bob")
    ask(court, FRUITLESS_MAX)
    ask(court, FRUITLESS_MAX, **other)
    assert court.verdict() == ""
    ask(court, 1, **other)
    assert court.verdict() != ""


def fetch(court, fetched, times, data, now=10.0):
    """Fetch, and return records; if ``data`` is a function, of a new offset each time."""
    for n in range(times):
        request, response = fetched({0: data(n) if callable(data) else data})
        court.checker.requested("ann", 1, request, now)
        court.checker.answered("ann", 1, request, response, now)


def slowly(court, fetched, times, make):
    for n in range(times):
        court.checker.answered("ann", 1, *fetched(*make(n)), n * WINDOW_S)


def test_repeated_records_beyond_the_limit_are_a_violation(court, fetched):
    slowly(court, fetched, REPEATS_MAX, lambda n: [{0: batch(5)}])
    assert court.verdict() == ""
    slowly(court, fetched, 1, lambda n: [{0: batch(5)}])
    words = f"node 1 has sent ann the records from offset 5 on {REPEATS_MAX + 1} times in a row"
    assert court.verdict() == words


def test_connection_attempts_are_limited_by_the_requests_that_brokers_get(court):
    ask(court, 1)
    for line in range(DIALS_MAX + DIALS_PER_REQUEST):
        court.checker.connection_opened(court.reader, line, "kafka1", 9092)
    assert court.verdict() == ""
    court.checker.connection_opened(court.reader, 0, "kafka1", 9092)
    count = DIALS_MAX + DIALS_PER_REQUEST + 1
    assert court.verdict() == f"ann has opened {count} connections, but sent only 1 requests"
