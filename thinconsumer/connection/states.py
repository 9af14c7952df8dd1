"""Where a connection stands, and where the way to a node stands: two small machines, each one table.

A :class:`~.link.Link` is one connection, from the moment it is dialled to its end; it is never dialled twice. A
:class:`~.route.Route` is the way to one node: it looks up names, dials one link after the other and waits between
attempts. Java's ``ConnectionState`` and ``NetworkClient`` mix the two.

Three kinds of pairs: a legal move, one that is ignored for a stated reason, and all others, which are bugs and raise.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from ..errors import IllegalStateError


class ConnectionState(enum.Enum):
    """Where one connection stands."""

    CONNECTING = "connecting"  #: The driver was told to dial: TCP, then TLS if any.
    NEGOTIATING = "negotiating"  #: ApiVersions is out.
    AUTHENTICATING = "authenticating"  #: Logging in; passed through at once where there is no login.
    READY = "ready"  #: Takes requests.
    CLOSING = "closing"  #: We have ended it; the driver has not been told yet and may still call.
    DISCONNECTED = "disconnected"  #: Over.


class ConnectionEvent(enum.Enum):
    """What happens to a connection, from its driver, its peer or its owner."""

    CONNECTION_MADE = "connection made"
    RECEIVED = "bytes received"
    SENT = "bytes sent"
    NEGOTIATED = "versions negotiated"
    AUTHENTICATED = "logged in"
    CLOSE = "closed by us"
    HUNG_UP = "driver told to hang up"
    CONNECTION_LOST = "connection lost"


class RouteState(enum.Enum):
    """Where the way to a node stands."""

    DISCONNECTED = "disconnected"  #: No connection, and none under way.
    RESOLVING = "resolving"  #: Its name is being looked up, or waits for its turn.
    LINKED = "linked"  #: There is a link, which knows the rest.
    BACKING_OFF = "backing off"  #: The last attempt failed or the connection broke; waiting before the next.


class RouteEvent(enum.Enum):
    """What happens to the way to a node."""

    LOOK_UP = "name looked up"
    DIAL = "address dialled"
    FAILED = "attempt failed"
    LOST = "connection lost"
    CLOSED = "connection closed by us"
    WAITED = "backoff over"


_L = ConnectionState
_E = ConnectionEvent

CONNECTION_TRANSITIONS: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    _L.CONNECTING: {
        _E.CONNECTION_MADE: _L.NEGOTIATING,
        _E.CLOSE: _L.CLOSING,
        _E.CONNECTION_LOST: _L.DISCONNECTED,
    },
    _L.NEGOTIATING: {
        _E.RECEIVED: _L.NEGOTIATING,
        _E.SENT: _L.NEGOTIATING,
        _E.NEGOTIATED: _L.AUTHENTICATING,
        _E.CLOSE: _L.CLOSING,
        _E.CONNECTION_LOST: _L.DISCONNECTED,
    },
    _L.AUTHENTICATING: {
        _E.RECEIVED: _L.AUTHENTICATING,
        _E.SENT: _L.AUTHENTICATING,
        _E.AUTHENTICATED: _L.READY,
        _E.CLOSE: _L.CLOSING,
        _E.CONNECTION_LOST: _L.DISCONNECTED,
    },
    _L.READY: {
        _E.RECEIVED: _L.READY,
        _E.SENT: _L.READY,
        _E.CLOSE: _L.CLOSING,
        _E.CONNECTION_LOST: _L.DISCONNECTED,
    },
    _L.CLOSING: {
        _E.HUNG_UP: _L.DISCONNECTED,
        _E.CONNECTION_LOST: _L.DISCONNECTED,
    },
    _L.DISCONNECTED: {},
}

_BATCH = "the driver may be in the middle of a batch of events when we close"
_CROSSED = "ours and the peer's end have crossed"

CONNECTION_IGNORED: Mapping[tuple[ConnectionState, ConnectionEvent], str] = {
    (_L.CLOSING, _E.CONNECTION_MADE): _BATCH,
    (_L.CLOSING, _E.RECEIVED): _BATCH,
    (_L.CLOSING, _E.SENT): _BATCH,
    (_L.CLOSING, _E.CLOSE): "the first reason to close is the one that counts",
    (_L.DISCONNECTED, _E.CONNECTION_MADE): _BATCH,
    (_L.DISCONNECTED, _E.RECEIVED): _BATCH,
    (_L.DISCONNECTED, _E.SENT): _BATCH,
    (_L.DISCONNECTED, _E.CLOSE): _CROSSED,
    (_L.DISCONNECTED, _E.HUNG_UP): _CROSSED,
    (_L.DISCONNECTED, _E.CONNECTION_LOST): _CROSSED,
}

_R = RouteState
_V = RouteEvent

ROUTE_TRANSITIONS: Mapping[RouteState, Mapping[RouteEvent, RouteState]] = {
    _R.DISCONNECTED: {_V.LOOK_UP: _R.RESOLVING, _V.DIAL: _R.LINKED, _V.FAILED: _R.BACKING_OFF},
    _R.RESOLVING: {_V.DIAL: _R.LINKED, _V.FAILED: _R.BACKING_OFF, _V.CLOSED: _R.DISCONNECTED},
    _R.LINKED: {
        _V.DIAL: _R.LINKED,  # the next address of the same attempt
        _V.LOOK_UP: _R.RESOLVING,  # the addresses known from before have all failed
        _V.FAILED: _R.BACKING_OFF,
        _V.LOST: _R.BACKING_OFF,
        _V.CLOSED: _R.DISCONNECTED,
    },
    _R.BACKING_OFF: {_V.WAITED: _R.DISCONNECTED, _V.CLOSED: _R.DISCONNECTED},
}

ROUTE_IGNORED: Mapping[tuple[RouteState, RouteEvent], str] = {
    (_R.DISCONNECTED, _V.CLOSED): "a node can move or vanish while nothing is going on",
}

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


def next_state(
    transitions: Mapping[S, Mapping[E, S]], ignored: Mapping[tuple[S, E], str], state: S, event: E, who: object
) -> S | None:
    """Return the state after ``event``, or None when it is to be ignored.

    Raises:
        IllegalStateError: the pair is in neither table: a bug of ours or of the driver.
    """
    after = transitions[state].get(event)
    if after is None and (state, event) not in ignored:
        raise IllegalStateError(f"{who}: {event.value!r} makes no sense while {state.value!r}")
    return after
