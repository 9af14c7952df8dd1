"""Every request in every state, with the results of Kafka 4.3's ``TransactionCoordinator`` source."""

from dataclasses import replace

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.txn.states import IDLE_STATES, PREPARED_STATES, TRANSITIONS, TransactionState
from thinconsumer_testing.broker.txn.transaction import EPOCH_MAX, Transaction, TransactionMetadata
from thinconsumer_testing.broker.txn.transitions import (
    ProducerIdAndEpoch,
    on_add_partitions,
    on_end_txn,
    on_init_producer_id,
    on_verify_partitions,
    prepare_abort_unrequested,
)

NOW = 5_000
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NEW_ID = 99


#: The last column is Ongoing with another pending transition. Producer id 7 has epoch 5; its last epoch was 4.
SHORT = {
    "CONC": "CONCURRENT_TRANSACTIONS",
    "FENCED": "PRODUCER_FENCED",
    "MAP": "INVALID_PRODUCER_ID_MAPPING",
    "INVALID": "INVALID_TXN_STATE",
    "ABLE": "TRANSACTION_ABORTABLE",
}
TABLE = """
request        | Empty        | Ongoing       | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | pending
init           | Empty        | PrepareAbort  | CONC          | CONC         | Empty          | Empty         | CONC
init 7/5       | Empty        | PrepareAbort  | CONC          | CONC         | Empty          | Empty         | CONC
init 7/4       | Empty        | PrepareAbort  | CONC          | CONC         | Empty          | Empty         | CONC
init 7/3       | FENCED       | PrepareAbort  | CONC          | CONC         | FENCED         | FENCED        | CONC
init 8/5       | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | CONC
add a-1 7/5    | Ongoing      | Ongoing       | CONC          | CONC         | Ongoing        | Ongoing       | CONC
add a-0 7/5    | Ongoing      | NONE          | CONC          | CONC         | Ongoing        | Ongoing       | CONC
add a-1 7/4    | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | CONC
add a-1 7/6    | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | CONC
add a-1 8/5    | MAP          | MAP           | MAP           | MAP          | MAP            | MAP           | CONC
verify a-0 7/5 | ABLE         | NONE          | CONC          | CONC         | ABLE           | ABLE          | NONE
verify a-1 7/5 | ABLE         | ABLE          | CONC          | CONC         | ABLE           | ABLE          | ABLE
verify a-0 7/4 | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | FENCED
verify a-0 8/5 | MAP          | MAP           | MAP           | MAP          | MAP            | MAP           | MAP
commit1 7/5    | INVALID      | PrepareCommit | CONC          | INVALID      | NONE           | INVALID       | CONC
abort1 7/5     | INVALID      | PrepareAbort  | INVALID       | CONC         | INVALID        | NONE          | CONC
commit1 7/4    | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | FENCED
abort1 7/6     | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | FENCED
commit1 8/5    | MAP          | MAP           | MAP           | MAP          | MAP            | MAP           | MAP
commit2 7/5    | INVALID      | PrepareCommit | FENCED        | FENCED       | INVALID        | INVALID       | CONC
abort2 7/5     | PrepareAbort | PrepareAbort  | FENCED        | FENCED       | PrepareAbort   | PrepareAbort  | CONC
commit2 7/4    | FENCED       | FENCED        | CONC          | INVALID      | NONE           | INVALID       | CONC
abort2 7/4     | FENCED       | FENCED        | INVALID       | CONC         | INVALID        | NONE          | CONC
commit2 7/3    | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | CONC
abort2 7/6     | FENCED       | FENCED        | FENCED        | FENCED       | FENCED         | FENCED        | CONC
commit2 8/5    | MAP          | MAP           | MAP           | MAP          | MAP            | MAP           | CONC
abort2 8/5     | MAP          | MAP           | MAP           | MAP          | MAP            | MAP           | CONC
"""


def rows(table):
    head, *lines = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    return [
        pytest.param(line[0], state, SHORT.get(cell, cell), id=f"{line[0]} in {state}")
        for line in lines
        for state, cell in zip(head[1:], line[1:], strict=True)
    ]


def transaction(state, *, producer_id=7, epoch=5, last=4, previous=7, version=2, **changes):
    pending = state == "pending"
    state = TransactionState("Ongoing" if pending else state)
    has_partitions = state.value in ("Ongoing", "PrepareCommit", "PrepareAbort")
    metadata = TransactionMetadata(
        producer_id, epoch, 60_000, 1_000, state,
        previous_producer_id=previous, last_producer_epoch=last, client_version=version,
        partitions=frozenset({A0}) if has_partitions else frozenset(),
        started_ms=900 if has_partitions else -1,
        **changes,
    )  # fmt: skip
    txn = Transaction("t", metadata)
    if pending:
        txn.add({A1}, NOW, 2)
    return txn


def decide(txn, request):
    kind, *words = request.split()
    who = ProducerIdAndEpoch(*map(int, words[-1].split("/"))) if words else None
    if kind == "init":
        return on_init_producer_id(txn, 30_000, who, NOW, lambda: NEW_ID)
    if kind == "add":
        return on_add_partitions(txn, who, [TopicPartition("a", int(words[0][-1]))], NOW, 2)
    if kind == "verify":
        (code,) = on_verify_partitions(txn, who, [TopicPartition("a", int(words[0][-1]))]).values()
        return code
    version = 2 if kind.endswith("2") else 0
    return on_end_txn(txn, who, kind.startswith("commit"), NOW, version, lambda: NEW_ID)


def named(decision):
    return decision.name if isinstance(decision, Code) else decision.state.value


@pytest.mark.parametrize(("request_", "state", "outcome"), rows(TABLE))
def test_every_request_in_every_state(request_, state, outcome):
    txn = transaction(state)
    before, pending = txn.metadata, txn.pending
    decision = decide(txn, request_)
    assert named(decision) == outcome
    assert txn.metadata is before, "a transition takes effect once it is logged"
    if isinstance(decision, Code):
        assert txn.pending is pending
    else:
        assert txn.pending is decision.state
        txn.complete(decision)
        assert txn.state is decision.state


#: The producer's epochs were exhausted: id 7 ended at 32766, and it continues as 9/0. These requests retry that end.
OVERFLOW = """
request         | Empty  | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | pending
commit2 7/32766 | FENCED | FENCED  | FENCED        | FENCED       | NONE           | INVALID       | CONC
abort2 7/32766  | FENCED | FENCED  | FENCED        | FENCED       | INVALID        | NONE          | CONC
commit2 7/32765 | MAP    | MAP     | MAP           | MAP          | MAP            | MAP           | CONC
commit1 7/32766 | MAP    | MAP     | MAP           | MAP          | MAP            | MAP           | MAP
"""


@pytest.mark.parametrize(("request_", "state", "outcome"), rows(OVERFLOW))
def test_retried_end_after_a_producer_id_change(request_, state, outcome):
    txn = transaction(state, producer_id=9, epoch=0, last=EPOCH_MAX - 1, previous=7)
    assert named(decide(txn, request_)) == outcome


@pytest.mark.parametrize("state", ["Dead", "PrepareEpochFence"])
@pytest.mark.parametrize("request_", ["init 7/5", "add a-1 7/5", "commit2 7/5"])
def test_pending_only_states_raise(state, request_):
    with pytest.raises(IllegalStateError):
        decide(transaction(state), request_)


# -- transitions


def test_one_transition_at_a_time():
    txn = transaction("pending")
    assert repr(txn) == "<Transaction t Ongoing to Ongoing 7/5>"
    for move in (lambda: txn.add([A1], NOW, 2), txn.prepare_fence, txn.expire, lambda: txn.end(False, 2, -1, NOW)):
        with pytest.raises(IllegalStateError, match="while another transition is"):
            move()


def test_only_the_prepared_transition_can_be_completed():
    txn = transaction("Ongoing")
    metadata = txn.add([A1], NOW, 2)
    with pytest.raises(IllegalStateError, match="cannot complete a transition"):
        txn.complete(replace(metadata, state=TransactionState.EMPTY))
    txn.cancel_transition()
    with pytest.raises(IllegalStateError, match="cannot complete a transition"):
        txn.complete(metadata)


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_init_increments_the_epoch_and_sets_the_timeout(state):
    metadata = decide(transaction(state), "init")
    assert (metadata.producer_id, metadata.producer_epoch, metadata.last_producer_epoch) == (7, 6, -1)
    assert (metadata.timeout_ms, metadata.updated_ms) == (30_000, NOW)
    assert (metadata.started_ms, metadata.partitions) == (-1, frozenset())


def test_continuing_producer_keeps_its_last_epoch():
    """KIP-360: so that it can retry after a lost response."""
    for request_, epochs in (("init 7/5", (6, 5)), ("init 7/4", (5, 4))):
        metadata = decide(transaction("Empty"), request_)
        assert (metadata.producer_epoch, metadata.last_producer_epoch) == epochs


@pytest.mark.parametrize("who", ["", " 7/32766"])
def test_exhausted_epochs_rotate_the_producer_id(who):
    txn = transaction("CompleteCommit", epoch=EPOCH_MAX - 1)
    metadata = decide(txn, "init" + who)
    assert (metadata.producer_id, metadata.producer_epoch, metadata.previous_producer_id) == (NEW_ID, 0, 7)
    assert metadata.last_producer_epoch == (EPOCH_MAX - 1 if who else -1)


def test_previous_exhausted_producer_may_retry():
    """It sends the previous producer id with an exhausted epoch, so only its response can have been lost."""
    txn = transaction("Empty", producer_id=9, epoch=0, last=EPOCH_MAX - 1, previous=7)
    metadata = decide(txn, "init 7/32766")
    assert (metadata.producer_id, metadata.producer_epoch) == (9, 0)
    assert named(decide(transaction("Empty", producer_id=9, epoch=0, previous=7), "init 7/3")) == "PRODUCER_FENCED"


def test_exhausted_epochs_with_an_outdated_epoch_return_kafkas_unknown_server_error():
    assert named(decide(transaction("Empty", epoch=EPOCH_MAX - 1), "init 7/5")) == "UNKNOWN_SERVER_ERROR"


def test_new_transactional_id_accepts_any_expected_producer():
    """After UNKNOWN_PRODUCER_ID the producer continues, and the coordinator has expired the id, too."""
    metadata = decide(transaction("Empty", producer_id=3, epoch=-1, last=-1, previous=-1), "init 7/5")
    assert (metadata.producer_id, metadata.producer_epoch, metadata.last_producer_epoch) == (3, 0, -1)


@pytest.mark.parametrize("epoch", [5, EPOCH_MAX - 2])
def test_unrequested_abort_increments_the_epoch(epoch):
    txn = transaction("Ongoing", epoch=epoch, version=0)
    metadata = prepare_abort_unrequested(txn, NOW, lambda: NEW_ID)
    assert metadata.state is TransactionState.PREPARE_ABORT
    assert (metadata.producer_epoch, metadata.last_producer_epoch, metadata.next_producer_id) == (epoch + 1, epoch, -1)
    assert (metadata.client_version, metadata.started_ms, metadata.partitions) == (2, 900, {A0})


@pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
def test_unrequested_abort_with_the_last_epoch_sets_the_next_producer_id(epoch):
    txn = transaction("Ongoing", epoch=epoch)
    metadata = prepare_abort_unrequested(txn, NOW, lambda: NEW_ID)
    assert (metadata.producer_id, metadata.producer_epoch, metadata.next_producer_id) == (7, EPOCH_MAX, NEW_ID)
    txn.complete(metadata)
    ended = txn.prepare_complete(NOW)
    assert (ended.producer_id, ended.producer_epoch, ended.next_producer_id) == (NEW_ID, 0, -1)


def test_first_partitions_begin_the_transaction():
    txn = transaction("CompleteAbort")
    began = decide(txn, "add a-0 7/5")
    assert (began.started_ms, began.partitions, began.client_version) == (NOW, {A0}, 2)
    went_on = decide(transaction("Ongoing"), "add a-1 7/5")
    assert (went_on.started_ms, went_on.partitions) == (900, {A0, A1})


@pytest.mark.parametrize(
    ("request_", "epoch", "expected"),
    [
        ("commit1 7/5", 5, (5, 4, -1, 0)),
        ("commit2 7/5", 5, (6, 5, -1, 2)),
        ("commit2 7/32766", EPOCH_MAX - 1, (EPOCH_MAX, EPOCH_MAX - 1, NEW_ID, 2)),
    ],
    ids=["before KIP-890", "since KIP-890", "with the last epoch"],
)
def test_end_decides_on_the_next_epoch(request_, epoch, expected):
    found = decide(transaction("Ongoing", epoch=epoch), request_)
    found = found.producer_epoch, found.last_producer_epoch, found.next_producer_id, found.client_version
    assert found == expected


def test_abort_without_a_transaction_starts_now():
    metadata = decide(transaction("CompleteCommit"), "abort2 7/5")
    assert (metadata.started_ms, metadata.partitions, metadata.producer_epoch) == (NOW, frozenset(), 6)


# -- the state table


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
