"""The states of a client that pushes its metrics, and every legal transition between them.

As Java's ``ClientTelemetryState``, but without its state TERMINATING_PUSH_NEEDED: the last push is written at once.
"""

from __future__ import annotations

import enum


class TelemetryState(enum.Enum):
    """Name what the client waits for."""

    SUBSCRIPTION_NEEDED = "subscription needed"  #: GetTelemetrySubscriptions is due now or later.
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"  #: GetTelemetrySubscriptions is in flight.
    PUSH_NEEDED = "push needed"  #: PushTelemetry is due now or later.
    PUSH_IN_PROGRESS = "push in progress"  #: PushTelemetry is in flight.
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"  #: The last PushTelemetry is in flight.
    TERMINATED = "terminated"  #: Nothing more is sent.


class TelemetryEvent(enum.Enum):
    """Name what changes the state: a request, its response, or the end of the client."""

    ASK = "ask"
    SUBSCRIBED = "subscribed"
    PUSH = "push"
    PUSHED = "pushed"  #: Also a push whose response is lost: the subscription is still valid.
    ASK_AGAIN = "ask again"  #: The subscription is not known, empty or outdated, or could not be had.
    LAST_PUSH = "last push"
    STOP = "stop"


_S = TelemetryState
_E = TelemetryEvent

#: Legal transitions. An event that is not listed for a state is a bug in this package, and raises.
TRANSITIONS: dict[TelemetryState, dict[TelemetryEvent, TelemetryState]] = {
    _S.SUBSCRIPTION_NEEDED: {_E.ASK: _S.SUBSCRIPTION_IN_PROGRESS, _E.STOP: _S.TERMINATED},
    _S.SUBSCRIPTION_IN_PROGRESS: {
        _E.SUBSCRIBED: _S.PUSH_NEEDED,
        _E.ASK_AGAIN: _S.SUBSCRIPTION_NEEDED,
        _E.STOP: _S.TERMINATED,
    },
    _S.PUSH_NEEDED: {
        _E.PUSH: _S.PUSH_IN_PROGRESS,
        _E.LAST_PUSH: _S.TERMINATING_PUSH_IN_PROGRESS,
        _E.STOP: _S.TERMINATED,
    },
    _S.PUSH_IN_PROGRESS: {
        _E.PUSHED: _S.PUSH_NEEDED,
        _E.ASK_AGAIN: _S.SUBSCRIPTION_NEEDED,
        _E.LAST_PUSH: _S.TERMINATING_PUSH_IN_PROGRESS,
        _E.STOP: _S.TERMINATED,
    },
    _S.TERMINATING_PUSH_IN_PROGRESS: {_E.STOP: _S.TERMINATED},
    _S.TERMINATED: {},
}
