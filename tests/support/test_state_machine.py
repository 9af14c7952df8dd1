"""The tables of the state machines: each state is entered and left, each event occurs, and every other pair raises."""

import itertools

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer.group import coordinator
from thinconsumer.group.classic import states as classic
from thinconsumer.group.consumer import states as consumer
from thinconsumer.ordered import holds
from thinconsumer.produce import batch
from thinconsumer.support.state_machine import next_state

#: By name: the table, the states, the events, the first state if it is never entered again, and the final states.
MACHINES = {
    "classic member": (classic.TRANSITIONS, classic.ClassicMemberState, classic.ClassicMemberEvent, set(), []),
    "consumer member": (consumer.TRANSITIONS, consumer.ConsumerMemberState, consumer.ConsumerMemberEvent, set(), []),
    "coordinator": (coordinator.TRANSITIONS, coordinator.CoordinatorState, coordinator.CoordinatorEvent, set(), []),
    "hold": (holds.TRANSITIONS, holds.HoldState, holds.HoldEvent, set(), []),
    "batch": (
        batch.BATCH_TRANSITIONS, batch.BatchState, batch.BatchEvent, {batch.BatchState.OPEN}, [batch.BatchState.DONE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_is_entered_and_left_and_every_event_occurs(name):
    table, states, events, first, final = MACHINES[name]
    assert set(table) == set(states)
    assert {after for moves in table.values() for after in moves.values()} | first == set(states)
    assert {event for moves in table.values() for event in moves} == set(events)
    assert [state for state, moves in table.items() if not moves] == final


@pytest.mark.parametrize("name", MACHINES)
def test_every_pair_is_a_move_of_the_table_or_raises(name):
    table, states, events, _, _ = MACHINES[name]
    for state, event in itertools.product(states, events):
        if (after := table[state].get(event)) is not None:
            assert next_state(table, state, event, name) is after
            continue
        with pytest.raises(IllegalStateError, match=f"'{event.value}' is impossible in state '{state.value}'"):
            next_state(table, state, event, name)
