"""The state machine of an assigned partition: the step that it waits for before records can be fetched."""

from __future__ import annotations

import enum


class PositionState(enum.Enum):
    """The step that a partition waits for before it has a valid position, or FETCHING."""

    AWAITING_CALLBACK = "awaiting callback"  #: ``on_partitions_assigned`` has not succeeded yet.
    AWAITING_COMMITTED = "awaiting committed"  #: The committed offset is fetched from the coordinator.
    AWAITING_RESET = "awaiting reset"  #: An offset is looked up, as for auto_offset_reset or a seek to the log end.
    VALIDATING = "validating"  #: The leader is asked whether its log was truncated below the position (KIP-320).
    FETCHING = "fetching"  #: Has a valid position, from which records can be fetched.

    __hash__ = object.__hash__  # Enum's own hash is a slow Python function, called several times for each partition


class PositionEvent(enum.Enum):
    """An event of a partition, caused by the user, the group or a broker."""

    CALLBACK_DONE = "callback done"
    COMMITTED_FOUND = "committed found"
    COMMITTED_MISSING = "committed missing"
    SEEK = "seek"
    SEEK_VALIDATED = "seek with a leader epoch"
    RESET_ASKED = "reset asked"
    RESET_FOUND = "reset found"
    LEADER_CHANGED = "leader changed"
    VALIDATED = "validated"
    TRUNCATED = "truncated"

    __hash__ = object.__hash__  # as in PositionState


_S = PositionState
_E = PositionEvent

#: The transitions that are possible in every state: another position is set or looked up, mostly by the user.
_BY_USER = {_E.SEEK: _S.FETCHING, _E.SEEK_VALIDATED: _S.VALIDATING, _E.RESET_ASKED: _S.AWAITING_RESET}

#: Legal transitions. Any other is a bug in this client and raises ``IllegalStateError``.
TRANSITIONS: dict[PositionState, dict[PositionEvent, PositionState]] = {
    _S.AWAITING_CALLBACK: {
        _E.CALLBACK_DONE: _S.AWAITING_COMMITTED,
        **_BY_USER,  # a seek inside ``on_partitions_assigned``: the committed offset is not fetched
    },
    _S.AWAITING_COMMITTED: {_E.COMMITTED_FOUND: _S.VALIDATING, _E.COMMITTED_MISSING: _S.AWAITING_RESET, **_BY_USER},
    _S.AWAITING_RESET: {
        _E.RESET_FOUND: _S.FETCHING,
        # The rejected position has a leader epoch, with which OffsetForLeaderEpoch finds out whether the log was
        # truncated, and at which offset.
        _E.LEADER_CHANGED: _S.VALIDATING,
        **_BY_USER,
    },
    _S.VALIDATING: {_E.VALIDATED: _S.FETCHING, _E.TRUNCATED: _S.FETCHING, _E.LEADER_CHANGED: _S.VALIDATING, **_BY_USER},
    _S.FETCHING: {_E.LEADER_CHANGED: _S.VALIDATING, **_BY_USER},
}
