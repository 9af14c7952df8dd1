"""The transition table of a classic member."""

import itertools

import pytest

from thinconsumer.group.classic.states import TRANSITIONS, MemberEvent, MemberState


@pytest.mark.parametrize("state", MemberState)
def test_every_state_can_be_reached_and_left(state):
    assert TRANSITIONS[state]
    assert state is MemberState.UNSUBSCRIBED or any(state in moves.values() for moves in TRANSITIONS.values())


@pytest.mark.parametrize("event", MemberEvent)
def test_every_event_is_legal_in_some_state(event):
    assert any(event in moves for moves in TRANSITIONS.values())


def test_no_transition_skips_a_callback():
    """JoinGroup follows a revocation, STABLE an assignment, and FATAL a loss of partitions."""
    for start, moves in TRANSITIONS.items():
        for event, end in moves.items():
            if end is MemberState.PREPARING_REBALANCE:
                assert start in (MemberState.REVOKING_BEFORE_JOIN, MemberState.COMPLETING_REBALANCE), (start, event)
            if end is MemberState.STABLE:
                assert start is MemberState.ASSIGNING
            if end is MemberState.FATAL:
                assert start is MemberState.LOSING


def test_unsubscribed_is_reachable_from_every_state():
    reach = {state: set(TRANSITIONS[state].values()) for state in MemberState}
    for _, (a, b) in itertools.product(range(len(MemberState)), itertools.product(MemberState, MemberState)):
        if b in reach[a]:
            reach[a] |= reach[b]
    assert all(MemberState.UNSUBSCRIBED in reach[state] for state in MemberState)
