"""One transactional id: a move is prepared, then made or given up, and nothing else happens meanwhile."""

import dataclasses

import pytest

from thinconsumer.broker.txn.states import TransactionState
from thinconsumer.broker.txn.transaction import EPOCH_MAX, Facts, Transaction, is_exhausted
from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition

S = TransactionState
TP = TopicPartition("a", 0)


@pytest.fixture
def txn():
    return Transaction("t", Facts(7, 0, 60_000, 100))


def test_a_move_counts_once_it_is_completed(txn):
    facts = txn.add([TP], 200, 2)
    assert (txn.state, txn.pending) == (S.EMPTY, S.ONGOING)
    txn.complete(facts)
    assert (txn.state, txn.pending, txn.facts) == (S.ONGOING, None, facts)


def test_a_move_that_was_given_up_leaves_no_trace(txn):
    before = txn.facts
    txn.add([TP], 200, 2)
    txn.give_up()
    assert (txn.facts, txn.pending) == (before, None)


def test_only_one_move_at_a_time(txn):
    txn.add([TP], 200, 2)
    for move in (lambda: txn.add([TP], 200, 2), txn.fence, txn.expire, lambda: txn.end(False, 2, -1, 200)):
        with pytest.raises(IllegalStateError, match="while another move is"):
            move()


def test_only_the_move_that_was_prepared_can_be_completed(txn):
    facts = txn.add([TP], 200, 2)
    with pytest.raises(IllegalStateError, match="cannot become"):
        txn.complete(dataclasses.replace(facts, state=S.EMPTY))
    txn.give_up()
    with pytest.raises(IllegalStateError, match="cannot become"):
        txn.complete(facts)


def test_a_fence_can_only_be_followed_by_the_abort(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.fence()
    assert txn.pending is S.PREPARE_EPOCH_FENCE
    with pytest.raises(IllegalStateError, match="'PrepareEpochFence'"):
        txn.add([TP], 300, 2)
    txn.complete(txn.end(False, 2, -1, 300))
    assert (txn.state, txn.facts.producer_epoch, txn.facts.last_producer_epoch) == (S.PREPARE_ABORT, 1, 0)


def test_only_what_is_ongoing_can_be_fenced(txn):
    with pytest.raises(IllegalStateError, match="'producer fenced' makes no sense while 'Empty'"):
        txn.fence()


def test_the_end_empties_it_and_keeps_what_the_producer_may_ask_again_with(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.complete(txn.end(True, 2, -1, 300))
    txn.complete(txn.finish(400))
    facts = txn.facts
    assert (facts.state, facts.partitions, facts.updated_ms, facts.started_ms) == (
        S.COMPLETE_COMMIT,
        frozenset(),
        400,
        200,
    )
    assert (facts.producer_epoch, facts.last_producer_epoch) == (1, 0)


def test_an_id_set_aside_is_taken_when_all_is_done_and_the_one_before_is_remembered(txn):
    txn.complete(txn.add([TP], 200, 2))
    txn.complete(txn.end(True, 2, 50, 300))
    assert txn.facts.producer_id == 7
    txn.complete(txn.finish(400))
    facts = txn.facts
    assert (facts.producer_id, facts.producer_epoch, facts.previous_producer_id, facts.next_producer_id) == (
        50,
        0,
        7,
        -1,
    )


def test_without_an_epoch_left_none_is_given_out(txn):
    txn.facts = dataclasses.replace(txn.facts, producer_epoch=EPOCH_MAX - 1)
    with pytest.raises(IllegalStateError, match="no epoch is left for producer id 7"):
        txn.initialise(1000, None, 200)


def test_the_last_epoch_is_kept_to_fence_with():
    assert [is_exhausted(epoch) for epoch in (0, EPOCH_MAX - 2, EPOCH_MAX - 1, EPOCH_MAX)] == [False, False, True, True]


def test_it_says_where_it_stands_and_where_it_goes(txn):
    txn.add([TP], 200, 2)
    assert repr(txn) == "<Transaction t Empty to Ongoing 7/0>"
