"""Ongoing and aborted transactions, and the last stable offset."""

from thinconsumer_testing.broker.log.transactions import LogTransactions


def test_first_unstable_offset_of_ongoing_and_uncommitted_transactions():
    transactions = LogTransactions()
    assert transactions.first_unstable(100) is None
    transactions.begin(1, 10)
    transactions.begin(2, 12)
    assert transactions.first_unstable(100) == 10
    transactions.end(1, 20, is_abort=False)
    assert transactions.first_unstable(100) == 12
    assert transactions.first_unstable(20) == 10  # the marker at 20 is not committed
    assert transactions.first_unstable(21) == 12
    transactions.end(2, 21, is_abort=True)
    assert transactions.first_unstable(22) is None
    assert transactions.first_unstable(0) == 10


def test_marker_without_transaction_changes_nothing():
    transactions = LogTransactions()
    transactions.end(1, 5, is_abort=True)
    assert (transactions.completed, transactions.aborted, transactions.first_unstable(0)) == ([], [], None)


def test_aborted_transactions_are_ordered_by_marker():
    transactions = LogTransactions()
    transactions.begin(1, 0)
    transactions.begin(2, 5)
    transactions.end(2, 8, is_abort=True)
    transactions.end(1, 10, is_abort=True)
    assert transactions.aborted_in(0, 11) == [(2, 5), (1, 0)]
    assert transactions.aborted_in(9, 11) == [(1, 0)]
    assert transactions.aborted_in(0, 5) == [(1, 0)]
    assert transactions.aborted_in(11, 99) == []


def test_search_ends_at_the_last_relevant_transaction():
    transactions = LogTransactions()
    for first in range(0, 1000, 10):
        transactions.begin(1, first)
        transactions.end(1, first + 5, is_abort=True)
    assert transactions.aborted_in(20, 30) == [(1, 20)]
    assert [one.last_stable_offset for one in transactions.aborted[:2]] == [6, 16]


def test_deleted_transactions_are_removed():
    transactions = LogTransactions()
    transactions.begin(1, 0)
    transactions.end(1, 3, is_abort=True)
    transactions.begin(1, 4)
    transactions.end(1, 7, is_abort=False)
    transactions.forget_before(3)
    assert (len(transactions.completed), len(transactions.aborted)) == (2, 1)
    transactions.forget_before(4)
    assert (len(transactions.completed), len(transactions.aborted)) == (1, 0)
