"""What is under way on a connection is counted frame by frame, however the bytes are cut."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from thinconsumer.testing.simulation.checkers import Checker, Jury
from thinconsumer.testing.simulation.tap import FrameTap, is_goodbye
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.metadata import MetadataRequest


class Hears(Checker):
    """Notes what is in flight."""

    def in_flight(self, client, label, api_key, count):
        self.heard.append((client, label, api_key, count))


@dataclass(eq=False)
class Connection:
    """What a tap has to know of one."""

    client: str
    label: str


class Line:
    """A tap on connections, and what the jury heard."""

    def __init__(self):
        self.heard = []
        hears = Hears(self.heard.append, lambda tp: None)
        hears.heard = self.heard
        self.tap = FrameTap(Jury([hears]))
        self.one, self.two = self.connect("one"), self.connect("two")

    def connect(self, label):
        connection = Connection("ann", label)
        self.tap.opened(connection)
        return connection

    def counts(self):
        heard, self.heard[:] = [(label, key, count) for _, label, key, count in self.heard], []
        return heard


def frame(message, version):
    data = encode_request(message, version, 1, "ann")
    return len(data).to_bytes(4, "big") + data


def fetch(session_id=7, session_epoch=1, version=12):
    return frame(FetchRequest(session_id=session_id, session_epoch=session_epoch), version)


FETCH, METADATA = fetch(), frame(MetadataRequest(), 9)


@pytest.fixture
def line():
    """Two connections of ann's, open."""
    return Line()


def test_requests_count_until_they_are_answered(line):
    for _ in range(2):
        line.tap.reached_node(line.one, FETCH)
        line.tap.left_node(line.one, b"answer")
    line.tap.reached_node(line.one, FETCH)
    line.tap.reached_node(line.one, FETCH)
    assert line.heard[0] == ("ann", "one", 1, 1)
    assert line.counts() == [("one", 1, 1), ("one", 1, 1), ("one", 1, 1), ("one", 1, 2)]


def test_each_api_and_each_connection_counts_by_itself(line):
    line.tap.reached_node(line.one, FETCH + METADATA)
    line.tap.reached_node(line.two, FETCH)
    line.tap.reached_node(line.one, METADATA)
    assert line.counts() == [("one", 1, 1), ("one", 3, 1), ("two", 1, 1), ("one", 3, 2)]


def test_answers_come_in_the_order_of_requests(line):
    line.tap.reached_node(line.one, METADATA + FETCH)
    line.tap.left_node(line.one, b"answer")  # Metadata's
    line.tap.reached_node(line.one, FETCH)
    assert line.counts()[-1] == ("one", 1, 2)


def test_an_answer_to_nothing_counts_for_nothing(line):
    line.tap.left_node(line.one, b"?")
    line.tap.reached_node(line.one, FETCH)
    assert line.counts() == [("one", 1, 1)]


@pytest.mark.parametrize("size", [1, 3, 5, 7, 50])
def test_a_frame_counts_when_it_is_whole_however_it_is_cut(line, size):
    data = FETCH + METADATA + FETCH
    for at in range(0, len(data) - size, size):
        line.tap.reached_node(line.one, data[at : at + size])
    assert ("one", 1, 2) not in line.heard
    line.tap.reached_node(line.one, data[at + size :])
    assert line.counts() == [("one", 1, 1), ("one", 3, 1), ("one", 1, 2)]


@pytest.mark.parametrize("version", [7, 12, 13])
def test_a_goodbye_to_a_session_may_follow_a_fetch_and_only_that(line, version):
    line.tap.reached_node(line.one, fetch(version=version))
    line.tap.reached_node(line.one, fetch(session_epoch=-1, version=version))
    assert line.counts() == [("one", 1, 1)]
    line.tap.reached_node(line.one, fetch(version=version))
    assert line.counts() == [("one", 1, 3)]


@pytest.mark.parametrize(
    ("data", "says_so"),
    [
        (fetch(7, -1), True),
        (fetch(0, -1), False),  # no session at all
        (fetch(7, 0), False),  # begins another
        (fetch(7, 1), False),
        (METADATA, False),
    ],
    ids=["goodbye", "no session", "begin", "go on", "metadata"],
)
def test_what_a_goodbye_is(data, says_so):
    assert is_goodbye(int.from_bytes(data[4:6], "big"), data[4:]) is says_so


def test_a_closed_connection_is_forgotten_and_another_begins_at_none(line):
    line.tap.reached_node(line.one, FETCH + FETCH[:9])
    line.tap.closed(line.one)
    line.tap.closed(line.one)
    line.tap.opened(line.one)
    line.tap.reached_node(line.one, FETCH)
    assert line.counts() == [("one", 1, 1), ("one", 1, 1)]
