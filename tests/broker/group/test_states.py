"""The transition tables of groups and shards: complete, reachable, and strict."""

import enum
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from thinconsumer.errors import IllegalStateError
from thinconsumer_testing.broker.group.states import (
    GROUP_TRANSITIONS,
    SHARD_TRANSITIONS,
    GroupEvent,
    GroupState,
    ShardEvent,
    ShardState,
    next_state,
)

MACHINES: list[tuple[Mapping[Any, Mapping[Any, Any]], type[enum.Enum], type[enum.Enum], enum.Enum]] = [
    (GROUP_TRANSITIONS, GroupState, GroupEvent, GroupState.EMPTY),
    (SHARD_TRANSITIONS, ShardState, ShardEvent, ShardState.DOWN),
]
PAIRS = [(table, s, e) for table, states, events, _ in MACHINES for s, e in itertools.product(states, events)]


@pytest.mark.parametrize(("table", "states", "events", "first"), MACHINES)
def test_every_state_is_in_the_table_and_reachable(table: Any, states: Any, events: Any, first: Any) -> None:
    assert set(table) == set(states)
    reached, todo = {first}, [first]
    while todo:
        new = set(table[todo.pop()].values()) - reached
        reached |= new
        todo += new
    assert reached == set(states)
    assert {event for moves in table.values() for event in moves} == set(events)


@pytest.mark.parametrize(("table", "state", "event"), PAIRS)
def test_every_state_and_event_transitions_or_raises(table: Any, state: Any, event: Any) -> None:
    if event in table[state]:
        assert next_state(table, state, event, "it") is table[state][event]
    else:
        with pytest.raises(IllegalStateError, match=state.value):
            next_state(table, state, event, "it")


def test_invalid_transition_error_names_owner_event_and_state() -> None:
    with pytest.raises(IllegalStateError, match="billing: event 'assignment written' is invalid in state 'Empty'"):
        next_state(GROUP_TRANSITIONS, GroupState.EMPTY, GroupEvent.ASSIGNED, "billing")


#: The valid previous states in Kafka's ClassicGroupState (which also allows Dead after Dead).
KAFKA: dict[str, set[str]] = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": {"Stable", "PreparingRebalance", "CompletingRebalance", "Empty"},
}


def test_transitions_match_kafka() -> None:
    found: dict[str, set[str]] = {state.value: set() for state in GroupState}
    for state, moves in GROUP_TRANSITIONS.items():
        for to in moves.values():
            found[to.value].add(state.value)
    assert found == KAFKA
