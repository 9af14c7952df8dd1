"""The classic member's states and every move between them; the consumer of ``seeds/000`` on today's protocol.

``docs/states.md`` is generated from this table. Waiting for users' code is a state of its own (revoking, losing,
assigning), since the group must not see the next request before that code is through.
"""

from __future__ import annotations

import enum


class MemberState(enum.Enum):
    """Where a member is in the protocol."""

    UNSUBSCRIBED = "unsubscribed"  #: Not in a group.
    UNJOINED = "unjoined"  #: Joins once the coordinator is known and ``poll`` is called.
    REVOKING_BEFORE_JOIN = "revoking before join"  #: Gives up partitions before JoinGroup.
    PREPARING_REBALANCE = "preparing rebalance"  #: JoinGroup is due, backing off or in flight.
    COMPLETING_REBALANCE = "completing rebalance"  #: The leader assigns; SyncGroup is due or in flight.
    REVOKING_AFTER_SYNC = "revoking after sync"  #: Gives up partitions that it lost (KIP-429).
    ASSIGNING = "assigning"  #: Takes over new partitions.
    STABLE = "stable"  #: Has its assignment, and sends heartbeats.
    LOSING = "losing"  #: Removed from the group; gives up all partitions as lost.
    LEAVING = "leaving"  #: LeaveGroup is due or in flight.
    FATAL = "fatal"  #: Fenced, or rejected with an error that is not retried.


class MemberEvent(enum.Enum):
    """What happens to a member, from the user, the role, the clock or the coordinator."""

    SUBSCRIBE = "subscribe"
    BEGIN = "begin"  #: A rebalance begins for us: the coordinator is known and may be asked.
    PREPARED = "prepared"
    JOINED = "joined"
    RETRY = "retry"  #: The sync failed, or the group moved on during it: join again, with nothing to prepare.
    SYNCED = "synced"
    REVOKED = "revoked"
    ASSIGNED = "assigned"
    REJOIN = "rejoin"
    EXPELLED = "expelled"  #: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, fenced, or away for too long.
    LOST = "lost"
    GIVE_UP = "give up"  #: Nothing to lose any more, and a reason not to try again.
    LEAVE = "leave"
    LEFT = "left"


_S = MemberState
_E = MemberEvent
_OUT = {_E.EXPELLED: _S.LOSING, _E.LEAVE: _S.LEAVING}

#: Legal moves. Anything else is a bug of ours and raises.
TRANSITIONS: dict[MemberState, dict[MemberEvent, MemberState]] = {
    _S.UNSUBSCRIBED: {_E.SUBSCRIBE: _S.UNJOINED},
    _S.UNJOINED: {_E.BEGIN: _S.REVOKING_BEFORE_JOIN, **_OUT},
    _S.REVOKING_BEFORE_JOIN: {_E.PREPARED: _S.PREPARING_REBALANCE, **_OUT},
    _S.PREPARING_REBALANCE: {_E.JOINED: _S.COMPLETING_REBALANCE, **_OUT},
    _S.COMPLETING_REBALANCE: {_E.SYNCED: _S.REVOKING_AFTER_SYNC, _E.RETRY: _S.PREPARING_REBALANCE, **_OUT},
    # A share that cannot be read is not kept either.
    _S.REVOKING_AFTER_SYNC: {_E.REVOKED: _S.ASSIGNING, _E.REJOIN: _S.UNJOINED, **_OUT},
    # Users' code may fail for as long as it likes; a rebalance meanwhile has to go on without it.
    _S.ASSIGNING: {_E.ASSIGNED: _S.STABLE, _E.REJOIN: _S.UNJOINED, **_OUT},
    _S.STABLE: {_E.REJOIN: _S.UNJOINED, **_OUT},
    _S.LOSING: {_E.LOST: _S.UNJOINED, _E.GIVE_UP: _S.FATAL, _E.LEAVE: _S.LEAVING},
    _S.LEAVING: {_E.LEFT: _S.UNSUBSCRIBED},
    _S.FATAL: {_E.LEAVE: _S.LEAVING},
}
