"""The table of a client that pushes metrics: against Java's, and without dead ends."""

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.support.state_machine import next_state
from thinconsumer.telemetry.states import TRANSITIONS, TelemetryEvent, TelemetryState

S, E = TelemetryState, TelemetryEvent
#: The states that may follow, from ``ClientTelemetryState``. Java's TERMINATING_PUSH_NEEDED is passed over here.
JAVA = {
    S.SUBSCRIPTION_NEEDED: {S.SUBSCRIPTION_IN_PROGRESS, S.TERMINATED},
    S.SUBSCRIPTION_IN_PROGRESS: {S.PUSH_NEEDED, S.SUBSCRIPTION_NEEDED, S.TERMINATING_PUSH_IN_PROGRESS, S.TERMINATED},
    S.PUSH_NEEDED: {S.PUSH_IN_PROGRESS, S.SUBSCRIPTION_NEEDED, S.TERMINATING_PUSH_IN_PROGRESS, S.TERMINATED},
    S.PUSH_IN_PROGRESS: {S.PUSH_NEEDED, S.SUBSCRIPTION_NEEDED, S.TERMINATING_PUSH_IN_PROGRESS, S.TERMINATED},
    S.TERMINATING_PUSH_IN_PROGRESS: {S.TERMINATED},
    S.TERMINATED: set(),
}


def test_only_transitions_of_java():
    assert TRANSITIONS.keys() == set(S)
    for state, events in TRANSITIONS.items():
        assert set(events.values()) <= JAVA[state]


def test_each_state_can_end_and_nothing_follows():
    for state in set(S) - {S.TERMINATED}:
        assert TRANSITIONS[state][E.STOP] is S.TERMINATED
    with pytest.raises(IllegalStateError):
        next_state(TRANSITIONS, S.TERMINATED, E.ASK, "telemetry")


def test_every_event_occurs_and_every_state_is_reached():
    assert {event for events in TRANSITIONS.values() for event in events} == set(E)
    assert {to for events in TRANSITIONS.values() for to in events.values()} == set(S)
