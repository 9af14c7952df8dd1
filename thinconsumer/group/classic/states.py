"""The states of a member of a classic group, and every legal transition between them.

``docs/states.md`` is generated from this table. Revoking, losing and assigning are states of their own, because the
member must not send its next JoinGroup or SyncGroup before the rebalance listener has returned.
"""

from __future__ import annotations

import enum


class ClassicMemberState(enum.Enum):
    """Name the step of the group protocol that a member is in."""

    UNSUBSCRIBED = "unsubscribed"  #: Not in a group.
    UNJOINED = "unjoined"  #: Joins as soon as the coordinator is known and ``poll`` is called.
    REVOKING_BEFORE_JOIN = "revoking before join"  #: Revokes all partitions (eager), or those of unsubscribed topics.
    PREPARING_REBALANCE = "preparing rebalance"  #: JoinGroup is due, backing off or in flight.
    COMPLETING_REBALANCE = "completing rebalance"  #: The leader computes the assignment; SyncGroup is due or in flight.
    REVOKING_AFTER_SYNC = "revoking after sync"  #: Revokes partitions that the new assignment lacks (KIP-429).
    ASSIGNING = "assigning"  #: Calls ``on_partitions_assigned`` with the newly assigned partitions.
    STABLE = "stable"  #: Has its assignment, and sends heartbeats.
    LOSING = "losing"  #: Removed from the group, or without a poll for too long; drops all partitions as lost.
    LEAVING = "leaving"  #: LeaveGroup is due or in flight.
    FATAL = "fatal"  #: Fenced, or rejected with an error that every further join would get.


class ClassicMemberEvent(enum.Enum):
    """Name what changes a member's state: a call of the user, the role, the clock, or a response."""

    SUBSCRIBE = "subscribe"
    BEGIN = "begin"  #: A rebalance begins for this member: the coordinator is known and can be sent requests.
    PREPARED = "prepared"
    JOINED = "joined"
    RETRY = "retry"  #: SyncGroup or the assignment failed, or the coordinator moved: join, revoking nothing first.
    SYNCED = "synced"
    REVOKED = "revoked"
    ASSIGNED = "assigned"
    REJOIN = "rejoin"
    EXPELLED = "expelled"  #: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, a final error, or no poll for too long.
    LOST = "lost"
    GIVE_UP = "give up"  #: All partitions are dropped, and the error is final: do not join again.
    LEAVE = "leave"
    LEFT = "left"


_S = ClassicMemberState
_E = ClassicMemberEvent
_OUT = {_E.EXPELLED: _S.LOSING, _E.LEAVE: _S.LEAVING}

#: Legal transitions. An event that is not listed for a state is a bug in this package, and raises.
TRANSITIONS: dict[ClassicMemberState, dict[ClassicMemberEvent, ClassicMemberState]] = {
    _S.UNSUBSCRIBED: {_E.SUBSCRIBE: _S.UNJOINED},
    _S.UNJOINED: {_E.BEGIN: _S.REVOKING_BEFORE_JOIN, **_OUT},
    _S.REVOKING_BEFORE_JOIN: {_E.PREPARED: _S.PREPARING_REBALANCE, **_OUT},
    _S.PREPARING_REBALANCE: {_E.JOINED: _S.COMPLETING_REBALANCE, **_OUT},
    _S.COMPLETING_REBALANCE: {_E.SYNCED: _S.REVOKING_AFTER_SYNC, _E.RETRY: _S.PREPARING_REBALANCE, **_OUT},
    # REJOIN: the role could not take the assignment (decode it, for example), so the member must not keep it.
    _S.REVOKING_AFTER_SYNC: {_E.REVOKED: _S.ASSIGNING, _E.REJOIN: _S.UNJOINED, **_OUT},
    # REJOIN: a listener that keeps raising must not keep this member out of the next rebalance.
    _S.ASSIGNING: {_E.ASSIGNED: _S.STABLE, _E.REJOIN: _S.UNJOINED, **_OUT},
    _S.STABLE: {_E.REJOIN: _S.UNJOINED, **_OUT},
    _S.LOSING: {_E.LOST: _S.UNJOINED, _E.GIVE_UP: _S.FATAL, _E.LEAVE: _S.LEAVING},
    _S.LEAVING: {_E.LEFT: _S.UNSUBSCRIBED},
    _S.FATAL: {_E.LEAVE: _S.LEAVING},
}

#: The rebalance listener's callback that may run in a state, by its name in the metrics.
CALLBACKS = {
    _S.REVOKING_BEFORE_JOIN: "revoked",
    _S.REVOKING_AFTER_SYNC: "revoked",
    _S.ASSIGNING: "assigned",
    _S.LOSING: "lost",
}

#: States in which a JoinGroup or SyncGroup is due or in flight.
JOINING = frozenset({_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE})
#: States after a successful SyncGroup. A successful Heartbeat response in these states confirms the new generation;
#: earlier in a rebalance, it is about the previous generation.
CONFIRMING = frozenset({_S.REVOKING_AFTER_SYNC, _S.ASSIGNING, _S.STABLE})
#: The event that follows once the role method of a state is done.
DONE = {
    _S.REVOKING_BEFORE_JOIN: _E.PREPARED,
    _S.REVOKING_AFTER_SYNC: _E.REVOKED,
    _S.ASSIGNING: _E.ASSIGNED,
    _S.LOSING: _E.LOST,
}
