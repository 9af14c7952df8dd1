"""The states of a member of a consumer group (KIP-848), and every legal transition between them.

``docs/states.md`` is generated from this table. The states are those of Java's ``MemberState``, with three differences:
a member acknowledges until the coordinator has answered, not until the request was sent; a member in state *fatal* may
leave, so that ``unsubscribe()`` and ``subscribe()`` join again; and there is no state PREPARE_LEAVING, in which Java's
member calls the listener, since this client revokes all partitions before its member leaves.
"""

from __future__ import annotations

import enum


class ConsumerMemberState(enum.Enum):
    """Name the step of the group protocol that a member is in."""

    UNSUBSCRIBED = "unsubscribed"  #: Not in a group.
    JOINING = "joining"  #: Sends heartbeats with epoch 0, until one is answered with the member's epoch.
    RECONCILING = "reconciling"  #: Revokes or assigns partitions, or waits for the names of assigned topics.
    ACKNOWLEDGING = "acknowledging"  #: A heartbeat with the owned partitions is due or in flight.
    STABLE = "stable"  #: Owns what the coordinator has assigned, and sends heartbeats.
    FENCED = "fenced"  #: Removed from the group; drops all partitions as lost, then joins again.
    LEAVING = "leaving"  #: The heartbeat with epoch -1, or -2 for a static member, is due or in flight.
    STALE = "stale"  #: Has left because of the poll timeout; the next poll drops all partitions as lost.
    FATAL = "fatal"  #: Rejected with an error that a repetition cannot heal.


class ConsumerMemberEvent(enum.Enum):
    """Name what changes a member's state: a call of the user, a listener, the clock, or a response."""

    SUBSCRIBE = "subscribe"
    RECEIVED = "assignment received"
    RECONCILED = "reconciled"  #: Partitions were revoked, or assigned: what the member owns has to be acknowledged.
    ACKNOWLEDGED = "acknowledged"
    UNFINISHED = "acknowledged in part"  #: Acknowledged, with more partitions to revoke or assign.
    EXPELLED = "expelled"  #: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, or GROUP_ID_NOT_FOUND after the join.
    REFUSED = "refused"  #: An error after which the member must not join again.
    LOST = "lost"  #: All partitions are dropped.
    LEAVE = "leave"
    LEFT = "left"
    POLL_TIMED_OUT = "left after the poll timeout"  #: ``max_poll_interval_ms`` has passed without a poll.


_S = ConsumerMemberState
_E = ConsumerMemberEvent
_OUT = {_E.EXPELLED: _S.FENCED, _E.REFUSED: _S.FATAL, _E.LEAVE: _S.LEAVING}

#: Legal transitions. An event that is not listed for a state is a bug in this package, and raises.
TRANSITIONS: dict[ConsumerMemberState, dict[ConsumerMemberEvent, ConsumerMemberState]] = {
    _S.UNSUBSCRIBED: {_E.SUBSCRIBE: _S.JOINING},
    _S.JOINING: {_E.RECEIVED: _S.RECONCILING, **_OUT},
    _S.RECONCILING: {_E.RECEIVED: _S.RECONCILING, _E.RECONCILED: _S.ACKNOWLEDGING, **_OUT},
    _S.ACKNOWLEDGING: {_E.RECEIVED: _S.RECONCILING, _E.ACKNOWLEDGED: _S.STABLE, _E.UNFINISHED: _S.RECONCILING, **_OUT},
    _S.STABLE: {_E.RECEIVED: _S.RECONCILING, **_OUT},
    _S.FENCED: {_E.LOST: _S.JOINING, _E.LEFT: _S.UNSUBSCRIBED},
    _S.LEAVING: {_E.LEFT: _S.UNSUBSCRIBED, _E.POLL_TIMED_OUT: _S.STALE},
    _S.STALE: {_E.LOST: _S.JOINING, _E.LEFT: _S.UNSUBSCRIBED},
    _S.FATAL: {_E.LEFT: _S.UNSUBSCRIBED},
}

#: The states in which the member sends heartbeats and takes assignments.
ACTIVE = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
#: The states in which all partitions are to be dropped as lost; in FATAL, that may be done already.
LOSING = frozenset({_S.FENCED, _S.STALE, _S.FATAL})
#: The rebalance listener's callback that may run in a state, by its name in the metrics.
CALLBACKS = dict.fromkeys(LOSING, "lost")
