"""The state machines of a classic group and of a coordinator shard, one transition table each.

Follows Kafka's ``ClassicGroupState`` and ``CoordinatorRuntime.CoordinatorState``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from thinconsumer.errors import IllegalStateError


class GroupState(enum.Enum):
    """The state of a classic group, with Kafka's names."""

    EMPTY = "Empty"  #: The group has no members. It may have offsets, for example of consumers that only commit.
    PREPARING_REBALANCE = "PreparingRebalance"  #: JoinGroup is parked until all members have joined or timed out.
    COMPLETING_REBALANCE = "CompletingRebalance"  #: SyncGroup is parked until the leader's assignment is in the log.
    STABLE = "Stable"  #: The assignment is committed; each member gets its part with SyncGroup.
    DEAD = "Dead"  #: The group is unloaded, as another broker is its coordinator; also reported for an unknown group.


class GroupEvent(enum.Enum):
    CHANGED = "membership or subscriptions changed"
    JOINED = "join phase complete"
    EMPTIED = "join phase complete without members"
    ASSIGNED = "assignment written"
    REMOVED = "deleted or unloaded"


class ShardState(enum.Enum):
    """The state of the coordinator of one partition of ``__consumer_offsets`` on one broker."""

    DOWN = "down"  #: This broker does not lead the partition; requests get NOT_COORDINATOR.
    CATCHING_UP = "catching up"  #: Loads the log; all requests but Heartbeat get COORDINATOR_LOAD_IN_PROGRESS.
    READY = "ready"  #: The log is loaded; requests are handled.


class ShardEvent(enum.Enum):
    ELECTED = "elected"
    CAUGHT_UP = "log loaded"
    RESIGNED = "resigned"


_G = GroupState
_E = GroupEvent

GROUP_TRANSITIONS: Mapping[GroupState, Mapping[GroupEvent, GroupState]] = {
    _G.EMPTY: {_E.CHANGED: _G.PREPARING_REBALANCE, _E.REMOVED: _G.DEAD},
    _G.PREPARING_REBALANCE: {_E.JOINED: _G.COMPLETING_REBALANCE, _E.EMPTIED: _G.EMPTY, _E.REMOVED: _G.DEAD},
    _G.COMPLETING_REBALANCE: {_E.ASSIGNED: _G.STABLE, _E.CHANGED: _G.PREPARING_REBALANCE, _E.REMOVED: _G.DEAD},
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


def next_state(transitions: Mapping[S, Mapping[E, S]], state: S, event: E, owner: object) -> S:
    """Return the state after ``event``.

    Raises:
        IllegalStateError: The state has no transition for the event: a bug, as requests are checked before.
    """
    after = transitions[state].get(event)
    if after is None:
        raise IllegalStateError(f"{owner}: event {event.value!r} is invalid in state {state.value!r}")
    return after
