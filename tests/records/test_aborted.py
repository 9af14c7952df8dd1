"""read_committed: the batches that are skipped."""

import pytest

from thinconsumer.errors import CorruptRecordError
from thinconsumer.records.aborted import AbortedTransactions
from thinconsumer.records.batch import ControlType
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch, build_marker

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def data(producer: int, offset: int, *, transactional: bool = True) -> bytes:
    return build_batch(
        [NewRecord(b"v")], base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0,
        transactional=transactional,
    )  # fmt: skip


def end(kind: ControlType, producer: int, offset: int) -> bytes:
    return build_marker(kind, producer_id=producer, base_offset=offset)


def delivered(aborted, *log):
    transactions = AbortedTransactions(aborted, "t", 0)
    batches, error = split(memoryview(b"".join(log)))
    assert error is None
    return [b.base_offset for b in batches if not transactions.skip(b) and not b.is_control]


CASES = {
    "nothing aborted": ([], [data(1, 0), end(COMMIT, 1, 1)], [0]),
    "one aborted": ([(1, 0)], [data(1, 0), end(ABORT, 1, 1), data(1, 2), end(COMMIT, 1, 3)], [2]),
    "two at once, one of them": (
        [(1, 0)], [data(1, 0), data(2, 1), data(1, 2), end(COMMIT, 2, 3), end(ABORT, 1, 4)], [1],
    ),
    "twice the same producer": (
        [(1, 0), (1, 3)], [data(1, 0), end(ABORT, 1, 1), data(2, 2), data(1, 3), end(ABORT, 1, 4), data(1, 5)], [2, 5],
    ),
    "not transactional, same producer id": ([(1, 0)], [data(1, 0, transactional=False)], [0]),
    "no producer": ([(1, 0)], [build_batch([NewRecord(b"v")], base_offset=0)], [0]),
    "begun before what was fetched": ([(1, 0)], [data(1, 50), end(ABORT, 1, 51), data(1, 52)], [52]),
    "begins later": ([(1, 2)], [data(1, 0), end(COMMIT, 1, 1), data(1, 2), end(ABORT, 1, 3)], [0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_committed_batches_are_delivered(name):
    aborted, log, expected = CASES[name]
    assert delivered(aborted, *log) == expected


def test_the_list_may_be_in_any_order():
    """Brokers sort aborted transactions by their end, so a long one that began first comes last."""
    log = [data(1, 0), data(2, 1), end(ABORT, 2, 2), data(1, 3), end(ABORT, 1, 4), data(3, 5)]
    for aborted in ([(2, 1), (1, 0)], [(1, 0), (2, 1)]):
        assert delivered(aborted, *log) == [5]


def test_abort_marker_of_an_unlisted_transaction_is_no_error():
    """The transaction's batches are all before the fetch offset."""
    assert delivered([], end(ABORT, 9, 7), data(1, 8)) == [8]
    assert delivered([(1, 8)], end(ABORT, 9, 7), data(1, 8)) == []


def test_a_commit_marker_does_not_end_an_aborted_transaction():
    """A producer id can be reused while its aborted transaction is listed; only the abort marker ends that."""
    assert delivered([(1, 0)], data(1, 0), end(COMMIT, 1, 1), data(1, 2)) == []


def test_error_of_an_unreadable_marker_names_partition_and_offset():
    marker = bytearray(end(ABORT, 1, 1))
    marker[-1] ^= 1
    batches, _ = split(memoryview(data(1, 0) + marker))
    transactions = AbortedTransactions([(1, 0)], "t", 3)
    assert transactions.skip(batches[0])
    with pytest.raises(CorruptRecordError) as caught:
        transactions.skip(batches[1])
    assert (caught.value.partition, caught.value.offset, caught.value.next_offset) == (("t", 3), 1, 2)
