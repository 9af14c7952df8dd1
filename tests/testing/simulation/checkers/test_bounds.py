"""Values at a bound pass, and one more is a violation."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer_testing.simulation.checkers.bounds import BATCH_MAX, BROKERS_MAX, BoundsChecker
from thinconsumer_testing.simulation.client_tap import SentRequest


@pytest.fixture
def court(new_court):
    """A court with BoundsChecker; the log has three records."""
    court = new_court(BoundsChecker)
    court.write(b"a", b"b", b"c")
    return court


def test_poll_may_return_max_poll_records_over_all_partitions(court):
    court.deliver(0, 1, 2, limit=3)
    assert court.verdict() == ""
    court.deliver(0, 1, 2, limit=2)
    assert court.verdict() == "ann got 3 records from one poll whose limit is 2"
    both = {court.tp: court.rows(0, 1), TopicPartition("t", 1): court.rows(2)}
    court.checker.delivered(court.reader, both, 3)
    assert court.verdict() == ""
    court.checker.delivered(court.reader, both, 2)
    assert "3 records" in court.verdict()


def test_partition_without_records_is_a_violation(court):
    court.checker.delivered(court.reader, {court.tp: []}, 10)
    assert "with an empty list of records" in court.verdict()


def test_buffered_bytes_may_exceed_the_limit_by_one_batch_per_broker(court):
    reader = court.new_reader("bob", max_buffered_bytes=1000)
    most = 1000 + BROKERS_MAX * BATCH_MAX
    court.checker.polled(reader, most)
    assert court.verdict() == ""
    court.checker.polled(reader, most + 1)
    assert court.verdict() == f"bob buffers {most + 1} bytes, but max_buffered_bytes=1000"


def test_only_the_end_of_a_session_may_follow_an_unanswered_fetch(court):
    def write(message, *before):
        sent = [SentRequest(one.API_KEY, 12, one) for one in (message, *before)]
        court.checker.request_written(court.reader, 1, sent[0], sent[1:])
        return court.verdict()

    fetch = FetchRequest(session_id=7, session_epoch=1)
    assert write(fetch, MetadataRequest()) == "" == write(MetadataRequest(), MetadataRequest(), fetch)
    assert write(FetchRequest(session_id=7, session_epoch=-1), fetch) == ""
    for wrong in (fetch, FetchRequest(session_id=0, session_epoch=-1), FetchRequest(session_id=7, session_epoch=0)):
        assert write(wrong, fetch) == "ann writes a Fetch on connection 1, on which another Fetch is unanswered"
