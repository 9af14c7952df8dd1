"""The ledger of records that all members of a group have processed."""

from types import SimpleNamespace

import pytest
from lab.ledger import Ledger

from thinconsumer.types import TopicPartition

A = TopicPartition("t", 0)


class FakeTruth:
    """Records at even offsets; counts from where it was asked."""

    def __init__(self):
        self.end = 10
        self.asked_from = []

    def first_from(self, low, high, *, committed, but={}):  # noqa: B006 - never changed
        self.asked_from.append(low)
        return next((o for o in range(low, min(high, self.end)) if o % 2 == 0 and but.get(o) != 1), None)


@pytest.fixture
def truth():
    return FakeTruth()


def make(truth, read_committed=False):
    return Ledger({A: truth}.get, read_committed)


def record(offset, epoch=1):
    return SimpleNamespace(topic="t", partition=0, offset=offset, leader_epoch=epoch)


def test_first_missing_is_the_lowest_unprocessed_offset(truth):
    ledger = make(truth)
    assert ledger.first_missing(A) == 0
    ledger.process([record(0), record(2), record(6)])
    assert (ledger.first_missing(A), ledger.first_missing(A, before=4)) == (4, None)
    ledger.process([record(4), record(8)])
    assert ledger.first_missing(A) is None


def test_transaction_committed_later_reveals_missing_records(truth):
    ledger = make(truth, True)
    ledger.process([record(0), record(2)])
    ledger.first_missing(A)
    ledger.first_missing(A)
    assert truth.asked_from == [0, 0]


def test_second_processing_is_counted_and_returned_while_forbidden(truth):
    ledger = make(truth)
    assert ledger.process([record(0), record(0)]) == []
    ledger.strict_since = 5.0
    assert ledger.process([record(2), record(0)]) == [record(0)]
    assert (ledger.count, ledger.doubles) == (4, 2)
