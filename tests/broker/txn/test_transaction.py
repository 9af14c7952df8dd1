"""One transactional id: a single transition at a time, prepared, then completed or cancelled."""

import dataclasses

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.txn.transaction import EPOCH_MAX, Transaction, TransactionMetadata, is_exhausted

S = TransactionState
TP = TopicPartition("a", 0)


@pytest.fixture
def txn():
    return Transaction("t", TransactionMetadata(7, 0, 60_000, 100))


def test_transition_takes_effect_on_completion(txn):
    metadata = txn.add([TP], 200, 2)
    assert (txn.state, txn.pending) == (S.EMPTY, S.ONGOING)
    txn.complete(metadata)
    assert (txn.state, txn.pending, txn.metadata) == (S.ONGOING, None, metadata)


def test_cancelled_transition_has_no_effect(txn):
    before = txn.metadata
    txn.add([TP], 200, 2)
    txn.cancel_transition()
    assert (txn.metadata, txn.pending) == (before, None)


def test_one_transition_at_a_time(txn):
    txn.add([TP], 200, 2)
    for move in (lambda: txn.add([TP], 200, 2), txn.prepare_fence, txn.expire, lambda: txn.end(False, 2, -1, 200)):
        with pytest.raises(IllegalStateError, match="while another transition is"):
            move()


def test_only_the_prepared_transition_can_be_completed(txn):
    metadata = txn.add([TP], 200, 2)
    with pytest.raises(IllegalStateError, match="cannot complete a transition"):
        txn.complete(dataclasses.replace(metadata, state=S.EMPTY))
    txn.cancel_transition()
    with pytest.raises(IllegalStateError, match="cannot complete a transition"):
        txn.complete(metadata)


def test_fence_must_be_followed_by_an_abort(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.prepare_fence()
    assert txn.pending is S.PREPARE_EPOCH_FENCE
    with pytest.raises(IllegalStateError, match="'PrepareEpochFence'"):
        txn.add([TP], 300, 2)
    txn.complete(txn.end(False, 2, -1, 300))
    assert (txn.state, txn.metadata.producer_epoch, txn.metadata.last_producer_epoch) == (S.PREPARE_ABORT, 1, 0)


def test_only_ongoing_transactions_can_be_fenced(txn):
    with pytest.raises(IllegalStateError, match="event 'producer fenced' is invalid in state 'Empty'"):
        txn.prepare_fence()


def test_completion_clears_partitions_and_keeps_the_last_epoch(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.complete(txn.end(True, 2, -1, 300))
    txn.complete(txn.prepare_complete(400))
    metadata = txn.metadata
    assert (metadata.state, metadata.partitions) == (S.COMPLETE_COMMIT, frozenset())
    assert (metadata.updated_ms, metadata.started_ms) == (400, 200)
    assert (metadata.producer_epoch, metadata.last_producer_epoch) == (1, 0)


def test_next_producer_id_is_used_after_completion(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.complete(txn.end(True, 2, 50, 300))
    assert txn.metadata.producer_id == 7
    txn.complete(txn.prepare_complete(400))
    metadata = txn.metadata
    assert (metadata.producer_id, metadata.producer_epoch) == (50, 0)
    assert (metadata.previous_producer_id, metadata.next_producer_id) == (7, -1)


def test_exhausted_epochs_raise(txn):
    txn.metadata = dataclasses.replace(txn.metadata, producer_epoch=EPOCH_MAX - 1)
    with pytest.raises(IllegalStateError, match="epochs of producer id 7 are exhausted"):
        txn.prepare_init(1000, None, 200)


def test_last_epoch_is_reserved_for_fencing():
    assert [is_exhausted(epoch) for epoch in (0, EPOCH_MAX - 2, EPOCH_MAX - 1, EPOCH_MAX)] == [False, False, True, True]


def test_repr(txn):
    txn.add([TP], 200, 2)
    assert repr(txn) == "<Transaction t Empty to Ongoing 7/0>"
