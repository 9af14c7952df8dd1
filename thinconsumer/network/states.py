"""The states of one connection and of the route to one node: two state machines, each declared as a table.

A :class:`~.connection.Connection` lives from its dial to its end and is never dialled twice. A
:class:`~.route.BrokerRoute` looks up a name, dials its addresses, and waits between attempts. In Java,
``ConnectionState`` and ``NetworkClient`` have one set of states for both.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class ConnectionState(enum.Enum):
    """The progress of one connection, from its dial to its end."""

    CONNECTING = "connecting"  #: The driver connects TCP, then TLS if any.
    NEGOTIATING = "negotiating"  #: ApiVersions was sent and is not answered yet.
    AUTHENTICATING = "authenticating"  #: The login runs. Without a login, the connection becomes READY at once.
    READY = "ready"  #: Requests can be sent.
    REAUTHENTICATING = "re-authenticating"  #: The login runs again (KIP-368); new requests wait for its end.
    DISCONNECTED = "disconnected"  #: The connection has ended.


class ConnectionEvent(enum.Enum):
    """An event of a connection, caused by the driver, the peer or the route."""

    CONNECTION_MADE = "connection made"
    RECEIVED = "bytes received"
    SENT = "bytes sent"
    NEGOTIATED = "versions negotiated"
    AUTHENTICATED = "logged in"
    REAUTHENTICATE = "next login begun"
    CLOSE = "closed on this side"
    CONNECTION_LOST = "connection lost"


class RouteState(enum.Enum):
    """The progress of the route to one node, which may connect again and again."""

    DISCONNECTED = "disconnected"  #: No connection, and no attempt at one.
    RESOLVING = "resolving"  #: The name is being looked up, or its lookup is queued.
    CONNECTING = "connecting"  #: One or more addresses are dialled; the first connection that is ready is kept.
    CONNECTED = "connected"  #: The route has a connection that has become ready.
    BACKING_OFF = "backing off"  #: The last attempt failed or the connection was lost; the next one waits.


class RouteEvent(enum.Enum):
    """An event of a route, caused by its steps, its connections or the network client."""

    LOOK_UP = "name looked up"
    DIAL = "address dialled"
    READY = "connection ready"
    FAILED = "attempt failed"
    LOST = "connection lost"
    CLOSED = "connection closed on this side"
    WAITED = "backoff over"


_C = ConnectionState
_E = ConnectionEvent

_ENDS = {_E.CLOSE: _C.DISCONNECTED, _E.CONNECTION_LOST: _C.DISCONNECTED}


def _connected(state: ConnectionState) -> Mapping[ConnectionEvent, ConnectionState]:
    """Return the events that leave a connection in ``state``, and those that end it."""
    return {_E.RECEIVED: state, _E.SENT: state, **_ENDS}


CONNECTION_TRANSITIONS: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    _C.CONNECTING: {_E.CONNECTION_MADE: _C.NEGOTIATING, **_ENDS},
    _C.NEGOTIATING: {_E.NEGOTIATED: _C.AUTHENTICATING, **_connected(_C.NEGOTIATING)},
    _C.AUTHENTICATING: {_E.AUTHENTICATED: _C.READY, **_connected(_C.AUTHENTICATING)},
    _C.READY: {_E.REAUTHENTICATE: _C.REAUTHENTICATING, **_connected(_C.READY)},
    _C.REAUTHENTICATING: {_E.AUTHENTICATED: _C.READY, **_connected(_C.REAUTHENTICATING)},
    # The driver may be in the middle of a batch of events when the connection is closed, and both sides may close it.
    _C.DISCONNECTED: {_E.CONNECTION_MADE: _C.DISCONNECTED, **_connected(_C.DISCONNECTED)},
}

_R = RouteState
_V = RouteEvent

ROUTE_TRANSITIONS: Mapping[RouteState, Mapping[RouteEvent, RouteState]] = {
    _R.DISCONNECTED: {
        _V.LOOK_UP: _R.RESOLVING,
        _V.DIAL: _R.CONNECTING,
        _V.CLOSED: _R.DISCONNECTED,  # a node can move or vanish while its route has no connection
    },
    _R.RESOLVING: {_V.DIAL: _R.CONNECTING, _V.FAILED: _R.BACKING_OFF, _V.CLOSED: _R.DISCONNECTED},
    _R.CONNECTING: {
        _V.READY: _R.CONNECTED,
        _V.LOOK_UP: _R.RESOLVING,  # all addresses of an earlier lookup have failed: look up again
        _V.FAILED: _R.BACKING_OFF,
        _V.CLOSED: _R.DISCONNECTED,
    },
    _R.CONNECTED: {_V.LOST: _R.BACKING_OFF, _V.CLOSED: _R.DISCONNECTED},
    _R.BACKING_OFF: {_V.WAITED: _R.DISCONNECTED, _V.CLOSED: _R.DISCONNECTED},
}
