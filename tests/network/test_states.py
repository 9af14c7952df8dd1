"""The two tables: each state is reachable, and each pair of state and event does what its row says."""

import itertools

import pytest

from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.network.states import (
    CONNECTION_TRANSITIONS,
    ROUTE_TRANSITIONS,
    ConnectionEvent,
    ConnectionState,
    RouteEvent,
    RouteState,
)
from thinconsumer.support.state_machine import next_state
from thinconsumer.wire.metadata import MetadataRequest

MACHINES = [
    pytest.param(ConnectionState, ConnectionEvent, CONNECTION_TRANSITIONS, ConnectionState.CONNECTING, id="connection"),
    pytest.param(RouteState, RouteEvent, ROUTE_TRANSITIONS, RouteState.DISCONNECTED, id="route"),
]


@pytest.mark.parametrize(("states", "events", "transitions", "first"), MACHINES)
def test_tables_name_every_state_and_reach_it(states, events, transitions, first):
    assert set(transitions) == set(states)
    reached, todo = set(), {first}
    while todo:
        reached.add(state := todo.pop())
        todo |= set(transitions[state].values()) - reached
    assert reached == set(states)
    assert {event for row in transitions.values() for event in row} == set(events)


def test_a_connection_that_has_ended_stays_so():
    assert set(CONNECTION_TRANSITIONS[ConnectionState.DISCONNECTED].values()) == {ConnectionState.DISCONNECTED}


@pytest.mark.parametrize(("states", "events", "transitions", "first"), MACHINES)
def test_every_other_pair_raises_and_names_both(states, events, transitions, first):
    for state, event in itertools.product(states, events):
        if event in transitions[state]:
            assert next_state(transitions, state, event, "x") is transitions[state][event]
        else:
            with pytest.raises(IllegalStateError) as caught:
                next_state(transitions, state, event, "x")
            assert event.value in str(caught.value)
            assert state.value in str(caught.value)


#: How the outside causes each event. The connection itself causes NEGOTIATED, AUTHENTICATED and REAUTHENTICATE.
CAUSES = {
    ConnectionEvent.CONNECTION_MADE: lambda bench: bench.connection.connection_made(bench.now),
    ConnectionEvent.RECEIVED: lambda bench: (
        bench.connection.get_buffer(),
        bench.connection.buffer_updated(1, bench.now),
    ),
    ConnectionEvent.SENT: lambda bench: bench.connection.data_sent(0, bench.now),
    ConnectionEvent.CLOSE: lambda bench: bench.connection.close(None),
    ConnectionEvent.CONNECTION_LOST: lambda bench: bench.connection.connection_lost(
        KafkaConnectionError("x"), bench.now
    ),
}


class Endless:
    """A login without an end, to stay in AUTHENTICATING."""

    reauthenticate_after = None

    def next_request(self, answer, now):
        return MetadataRequest()


class AtOnce:
    """A login that ends without a request, and is due again at once."""

    reauthenticate_after = 0.0

    def next_request(self, answer, now):
        return None


def in_state(bench, state):
    """Return a bench with a connection in a state; some states need a login that does not end."""
    if state is ConnectionState.REAUTHENTICATING:
        logins = iter([AtOnce(), Endless()])
        made = bench(new_login=lambda host: next(logins)).reach(ConnectionState.READY)
        made.connection.reauthenticate(0.0)
        made.connection.data_sent(len(made.connection.data_to_send()[0]), 0.0)
        return made
    if state is ConnectionState.AUTHENTICATING:
        made = bench(new_login=lambda host: Endless())
        made.connection.connection_made(0.0)
        made.reply(made.api_versions())
        return made
    return bench().reach(state)


@pytest.mark.parametrize("event", CAUSES, ids=lambda event: event.name)
@pytest.mark.parametrize("state", ConnectionState, ids=lambda state: state.name)
def test_every_state_and_event_of_a_connection(bench, state, event):
    """A legal event changes the state, any other raises; after the end, a legal one does nothing."""
    made = in_state(bench, state)
    connection = made.connection
    assert connection.state is state
    hangups = len(made.hangups)
    if event in CONNECTION_TRANSITIONS[state]:
        CAUSES[event](made)
        assert connection.state is CONNECTION_TRANSITIONS[state][event]
        # Bytes after the end: the driver has missed the order to hang up, and gets it again.
        has_ended = state is ConnectionState.DISCONNECTED
        ordering = ConnectionEvent.RECEIVED if has_ended else ConnectionEvent.CLOSE
        assert len(made.hangups) == hangups + (event is ordering)
        if has_ended:
            assert len(connection.data_to_send()) == 0
    else:
        with pytest.raises(IllegalStateError):
            CAUSES[event](made)
        assert connection.state is state
