"""The transaction state table, compared with Kafka's table of valid previous states."""

from thinconsumer_testing.broker.txn.states import IDLE_STATES, PREPARED_STATES, TRANSITIONS, TransactionState

S = TransactionState

#: ``TransactionState.validPreviousStates`` of Kafka 4.3.
PREVIOUS = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: {S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT},
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}


def test_transitions_match_kafka():
    ours = {(before, after) for before, moves in TRANSITIONS.items() for after in moves.values()}
    assert ours == {(before, after) for after, befores in PREVIOUS.items() for before in befores}
    assert set(TRANSITIONS) == set(S)


def test_log_numbers_match_kafka():
    assert [state.value for state in S] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip


def test_every_logged_state_is_idle_ongoing_or_prepared():
    assert IDLE_STATES | PREPARED_STATES | {S.ONGOING} == set(S) - {S.DEAD, S.PREPARE_EPOCH_FENCE}
