"""A record that differs from the log's, or must not be visible, is a violation; others pass."""

import pytest

from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer_testing.simulation.checkers.content import ContentChecker

FIELDS = ("topic", "partition", "leader_epoch", "offset", "timestamp", "timestamp_type", "key", "value", "headers")


@pytest.fixture
def court(new_court):
    """A court with ContentChecker; the log has two records."""
    court = new_court(ContentChecker)
    court.write(b"a", b"b")
    return court


def show(court, *records, reader=None):
    court.checker.delivered(reader or court.reader, {court.tp: list(records)}, 10)


def changed(record, **changes):
    return ConsumerRecord(**{name: getattr(record, name) for name in FIELDS} | changes)


def test_committed_records_pass_in_any_order_and_twice(court):
    """OrderChecker judges the order."""
    court.deliver(1, 0, 0)
    show(court, changed(court.rows(0)[0]))
    assert court.verdict() == ""


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"A"},
        {"value": None},
        {"key": b""},
        {"headers": (("h", b"v"),)},
        {"timestamp": 5},
        {"timestamp_type": 1},
        {"topic": "u"},
        {"partition": 1},
    ],
    ids=str,
)
def test_record_that_differs_in_one_field_is_a_violation(court, change):
    show(court, changed(court.rows(0)[0], **change))
    assert ", but the log has " in court.verdict()


def test_uncommitted_record_is_a_violation(court):
    court.append(b"c")
    record = changed(court.rows(1)[0], offset=2, value=b"c")
    show(court, record)
    assert "never committed" in court.verdict()
    court.log.high_watermark = 3
    show(court, record)
    assert court.verdict() == ""


@pytest.mark.parametrize("commit", [True, False])
def test_read_committed_sees_a_transaction_only_once_it_is_committed(court, commit):
    strict = court.new_reader("bob", read_committed=True)
    at = court.write(b"t", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    court.deliver(at, reader=strict)
    assert court.verdict() == "bob read t-0 offset 2 of epoch 0, whose transaction is open or was aborted"
    court.deliver(at)
    assert court.verdict() == ""  # ann reads uncommitted
    court.end(4, commit)
    court.deliver(at, reader=strict)
    assert bool(court.verdict()) is not commit
    court.deliver(0, 1, reader=strict)
    assert court.verdict() == ""


def test_records_of_a_missing_partition_are_a_violation(court):
    court.checker.delivered(court.reader, {TopicPartition("u", 0): court.rows(0)}, 10)
    assert "does not exist" in court.verdict()
