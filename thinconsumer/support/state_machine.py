"""The one function of all state machines: each is a table of its legal transitions, by state and event."""

import enum
from collections.abc import Mapping
from typing import TypeVar

from ..errors import IllegalStateError

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


def next_state(transitions: Mapping[S, Mapping[E, S]], state: S, event: E, machine: object) -> S:
    """Return the state after ``event`` in ``state``; an error names ``machine``, whose state it is.

    Raises:
        IllegalStateError: the table has no transition for the event in this state, which is a bug of the client.
    """
    after = transitions[state].get(event)
    if after is None:
        raise IllegalStateError(f"{machine}: event {event.value!r} is impossible in state {state.value!r}")
    return after
