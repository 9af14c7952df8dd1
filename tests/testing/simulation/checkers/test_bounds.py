"""What is exactly at a bound is allowed, one more is not."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import BoundsChecker
from thinconsumer.testing.simulation.checkers.bounds import BATCH_MAX, BROKERS_MAX
from thinconsumer.types import TopicPartition
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.metadata import MetadataRequest


@pytest.fixture
def court(new_court):
    """A court that looks after bounds; the log holds three records."""
    court = new_court(BoundsChecker)
    court.write(b"a", b"b", b"c")
    return court


def test_a_poll_may_bring_as_many_records_as_it_allowed_over_all_partitions(court):
    court.deliver(0, 1, 2, limit=3)
    assert court.verdict() == ""
    court.deliver(0, 1, 2, limit=2)
    assert court.verdict() == "ann was given 3 records by one poll that allowed 2"
    both = {court.tp: court.rows(0, 1), TopicPartition("t", 1): court.rows(2)}
    court.checker.delivered(court.reader, both, 3)
    assert court.verdict() == ""
    court.checker.delivered(court.reader, both, 2)
    assert "3 records" in court.verdict()


def test_a_partition_without_a_record_is_no_result(court):
    court.checker.delivered(court.reader, {court.tp: []}, 10)
    assert "without a record" in court.verdict()


def test_memory_may_overshoot_by_one_batch_of_each_broker(court):
    reader = court.new_reader("bob", max_buffered_bytes=1000)
    most = 1000 + BROKERS_MAX * BATCH_MAX
    court.checker.buffered(reader, most)
    assert court.verdict() == ""
    court.checker.buffered(reader, most + 1)
    assert court.verdict() == f"bob keeps {most + 1} bytes, with max_buffered_bytes=1000"


def test_one_fetch_at_a_time_on_a_connection_and_as_many_as_you_like_of_others(court):
    court.checker.in_flight("ann", "ann>1#1", FetchRequest.API_KEY, 1)
    court.checker.in_flight("ann", "ann>1#1", MetadataRequest.API_KEY, 5)
    assert court.verdict() == ""
    court.checker.in_flight("ann", "ann>1#1", FetchRequest.API_KEY, 2)
    assert court.verdict() == "ann has 2 Fetches out at once on connection ann>1#1"
