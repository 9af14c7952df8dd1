"""The transition table of a classic member."""

import itertools

from thinconsumer.group.classic.states import CALLBACKS, DONE, TRANSITIONS, ClassicMemberState


def test_no_transition_skips_a_callback():
    """JoinGroup follows a revocation, STABLE an assignment, and FATAL a loss of partitions."""
    for start, moves in TRANSITIONS.items():
        for event, end in moves.items():
            if end is ClassicMemberState.PREPARING_REBALANCE:
                assert start in (ClassicMemberState.REVOKING_BEFORE_JOIN, ClassicMemberState.COMPLETING_REBALANCE), (
                    start,
                    event,
                )
            if end is ClassicMemberState.STABLE:
                assert start is ClassicMemberState.ASSIGNING
            if end is ClassicMemberState.FATAL:
                assert start is ClassicMemberState.LOSING


def test_each_role_method_has_an_event_that_its_state_allows():
    assert DONE.keys() == CALLBACKS.keys()
    assert all(event in TRANSITIONS[state] for state, event in DONE.items())


def test_unsubscribed_is_reachable_from_every_state():
    reach = {state: set(TRANSITIONS[state].values()) for state in ClassicMemberState}
    for _, (a, b) in itertools.product(
        range(len(ClassicMemberState)), itertools.product(ClassicMemberState, ClassicMemberState)
    ):
        if b in reach[a]:
            reach[a] |= reach[b]
    assert all(ClassicMemberState.UNSUBSCRIBED in reach[state] for state in ClassicMemberState)
