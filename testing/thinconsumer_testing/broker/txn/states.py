"""The state machine of a transaction, one transition table with Kafka's names.

A transition is first prepared (pending), and takes effect once it is in the log. Until then, a valid request that would
change the transaction gets CONCURRENT_TRANSACTIONS. Follows Kafka's ``TransactionState``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class TransactionState(enum.Enum):
    """The state of a transactional id's transaction. The order of the states is that of their numbers in the log."""

    EMPTY = "Empty"  #: No partition was added since the producer's InitProducerId.
    ONGOING = "Ongoing"  #: Partitions were added, and may be written to.
    PREPARE_COMMIT = "PrepareCommit"  #: The commit is decided and logged; markers are being written.
    PREPARE_ABORT = "PrepareAbort"  #: The abort is decided and logged; markers are being written.
    COMPLETE_COMMIT = "CompleteCommit"  #: Every partition has its commit marker.
    COMPLETE_ABORT = "CompleteAbort"  #: Every partition has its abort marker.
    DEAD = "Dead"  #: A pending state only: the transactional id has expired, and is being removed.
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  #: A pending state only: the producer is fenced before an abort.


class TransactionEvent(enum.Enum):
    INITIALISED = "producer initialised"
    ADDED = "partitions added"
    COMMITTED = "commit decided"
    ABORTED = "abort decided"
    FENCED = "producer fenced"
    MARKED = "all markers written"
    EXPIRED = "transactional id expired"


_S = TransactionState
_E = TransactionEvent

#: Valid transitions while no transaction is ongoing. An abort is valid since KIP-890, because a producer also aborts if
#: it does not know whether the transaction coordinator has begun its transaction.
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

#: States in which no transaction is ongoing or being completed.
IDLE_STATES = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
#: States in which the commit or abort is logged, and the markers are being written.
PREPARED_STATES = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
