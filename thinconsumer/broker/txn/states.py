"""Where a transaction stands: one table, in Kafka's own words.

A move is first prepared, then made once the log has it; while it is prepared, everybody else is told
CONCURRENT_TRANSACTIONS. Follows Kafka's ``TransactionState``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from ...errors import IllegalStateError


class TransactionState(enum.Enum):
    """Where the transaction of one transactional id stands."""

    EMPTY = "Empty"  #: A producer has its id and epoch; nothing was added yet.
    ONGOING = "Ongoing"  #: Partitions were added, and may be written to.
    PREPARE_COMMIT = "PrepareCommit"  #: The commit is decided and logged; markers are being written.
    PREPARE_ABORT = "PrepareAbort"  #: The abort is decided and logged; markers are being written.
    COMPLETE_COMMIT = "CompleteCommit"  #: Every partition has its commit marker.
    COMPLETE_ABORT = "CompleteAbort"  #: Every partition has its abort marker.
    DEAD = "Dead"  #: Not used for so long that the transactional id is being forgotten. Never more than prepared.
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  #: The producer is being fenced, then aborted. Never more than prepared.

    @property
    def status(self) -> int:
        """The number that stands for it in the log."""
        return _STATUSES.index(self)

    @classmethod
    def of_status(cls, status: int) -> TransactionState:
        """Return the state of a number in the log; raises ValueError for one that means nothing."""
        if not 0 <= status < len(_STATUSES):
            raise ValueError(f"transaction status {status} is unknown")
        return _STATUSES[status]


class TransactionEvent(enum.Enum):
    """What moves a transaction on."""

    INITIALISED = "producer initialised"
    ADDED = "partitions added"
    COMMITTED = "commit decided"
    ABORTED = "abort decided"
    FENCED = "producer fenced"
    MARKED = "all markers written"
    EXPIRED = "transactional id expired"


_S = TransactionState
_E = TransactionEvent
_STATUSES = tuple(_S)

#: What may happen between transactions. An abort of nothing makes sense since KIP-890: a producer that does not know
#: whether its transaction ever reached the coordinator aborts it to be sure.
_IDLE_TRANSITIONS: Mapping[TransactionEvent, TransactionState] = {
    _E.INITIALISED: _S.EMPTY,
    _E.ADDED: _S.ONGOING,
    _E.ABORTED: _S.PREPARE_ABORT,
    _E.EXPIRED: _S.DEAD,
}

TRANSITIONS: Mapping[TransactionState, Mapping[TransactionEvent, TransactionState]] = {
    _S.EMPTY: _IDLE_TRANSITIONS,
    _S.ONGOING: {
        _E.ADDED: _S.ONGOING,
        _E.COMMITTED: _S.PREPARE_COMMIT,
        _E.ABORTED: _S.PREPARE_ABORT,
        _E.FENCED: _S.PREPARE_EPOCH_FENCE,
    },
    _S.PREPARE_COMMIT: {_E.MARKED: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_E.MARKED: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: _IDLE_TRANSITIONS,
    _S.COMPLETE_ABORT: _IDLE_TRANSITIONS,
    _S.DEAD: {},
    _S.PREPARE_EPOCH_FENCE: {_E.ABORTED: _S.PREPARE_ABORT},
}

#: Between transactions.
IDLE_STATES = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
#: The end is decided and the markers are not all written.
PREPARED_STATES = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})


def next_state(state: TransactionState, event: TransactionEvent, who: object) -> TransactionState:
    """Return the state after ``event``.

    Raises:
        IllegalStateError: That makes no sense in this state; a bug of ours, since requests are checked before.
    """
    after = TRANSITIONS[state].get(event)
    if after is None:
        raise IllegalStateError(f"{who}: {event.value!r} makes no sense while {state.value!r}")
    return after
