"""Where a group stands, and where a coordinator stands: two small machines, each one table.

Follows Kafka's ``ClassicGroupState`` and ``CoordinatorRuntime.CoordinatorState``. Kafka's *Consumer Rewrite Design*
drew coordinator and group as one machine; its states are ours as follows.

====================== ================================================================================
original               here
====================== ================================================================================
down                   shard *down*: another node leads the partition, or none
catch up               shard *catching up*: the log is being read, COORDINATOR_LOAD_IN_PROGRESS
ready                  shard *ready*, and the group *Empty*: no members yet, or no more
prepare for rebalance  group *PreparingRebalance*: members are told to rejoin, JoinGroup is parked
rebalancing            group *CompletingRebalance*: the leader assigns, SyncGroup is parked
steady                 group *Stable*
====================== ================================================================================
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from ...errors import IllegalStateError


class GroupState(enum.Enum):
    """Where one classic group stands, in Kafka's own words."""

    EMPTY = "Empty"  #: No members; there may be offsets. Also groups that never had members.
    PREPARING_REBALANCE = "PreparingRebalance"  #: JoinGroup is parked until all members have joined, or time is over.
    COMPLETING_REBALANCE = "CompletingRebalance"  #: SyncGroup is parked until the leader's assignment is in the log.
    STABLE = "Stable"  #: Every member can have its assignment.
    DEAD = "Dead"  #: Deleted, or kept by another coordinator now.


class GroupEvent(enum.Enum):
    """What moves a group on."""

    CHANGED = "a member came, went, or wants something else"
    JOINED = "joining is over"
    EMPTIED = "joining is over, and nobody is left"
    ASSIGNED = "the assignment is in the log"
    REMOVED = "deleted, or unloaded"


class ShardState(enum.Enum):
    """Where the coordinator of one partition of ``__consumer_offsets`` stands on one node."""

    DOWN = "down"  #: Not the leader: NOT_COORDINATOR.
    CATCHING_UP = "catching up"  #: Elected, and reading the log: COORDINATOR_LOAD_IN_PROGRESS.
    READY = "ready"  #: Answers.


class ShardEvent(enum.Enum):
    """What moves a coordinator on."""

    ELECTED = "elected"
    CAUGHT_UP = "log read"
    RESIGNED = "resigned"


_G = GroupState
_E = GroupEvent

GROUP_TRANSITIONS: Mapping[GroupState, Mapping[GroupEvent, GroupState]] = {
    _G.EMPTY: {_E.CHANGED: _G.PREPARING_REBALANCE, _E.REMOVED: _G.DEAD},
    _G.PREPARING_REBALANCE: {
        _E.JOINED: _G.COMPLETING_REBALANCE,
        _E.EMPTIED: _G.EMPTY,
        _E.REMOVED: _G.DEAD,
    },
    _G.COMPLETING_REBALANCE: {
        _E.ASSIGNED: _G.STABLE,
        _E.CHANGED: _G.PREPARING_REBALANCE,
        _E.REMOVED: _G.DEAD,
    },
    _G.STABLE: {_E.CHANGED: _G.PREPARING_REBALANCE, _E.REMOVED: _G.DEAD},
    _G.DEAD: {},
}

_S = ShardState
_V = ShardEvent

SHARD_TRANSITIONS: Mapping[ShardState, Mapping[ShardEvent, ShardState]] = {
    _S.DOWN: {_V.ELECTED: _S.CATCHING_UP},
    _S.CATCHING_UP: {_V.CAUGHT_UP: _S.READY, _V.RESIGNED: _S.DOWN},
    _S.READY: {_V.RESIGNED: _S.DOWN},
}

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


def next_state(transitions: Mapping[S, Mapping[E, S]], state: S, event: E, who: object) -> S:
    """Return the state after ``event``.

    Raises:
        IllegalStateError: There is no such move; a bug of ours, since requests are checked before.
    """
    after = transitions[state].get(event)
    if after is None:
        wanted = {to.value for moves in transitions.values() for on, to in moves.items() if on is event}
        raise IllegalStateError(
            f"{who}: no way from {state.value!r} to {' or '.join(sorted(wanted))!r} ({event.value})"
        )
    return after
