"""The table of a consumer group's member against Java's ``MemberState``."""

from thinconsumer.group.consumer.states import ACTIVE, LOSING, TRANSITIONS, ConsumerMemberEvent, ConsumerMemberState

S, E = ConsumerMemberState, ConsumerMemberEvent
#: For each state, the states from which Java's member may enter it (``MemberState.previousValidStates``, Kafka 4).
JAVA = {
    S.STABLE: {S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.RECONCILING: {S.STABLE, S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.ACKNOWLEDGING: {S.RECONCILING},
    S.FATAL: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.LEAVING, S.UNSUBSCRIBED},
    S.FENCED: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.LEAVING},
    S.JOINING: {S.FENCED, S.UNSUBSCRIBED, S.STALE},
    # Through PREPARE_LEAVING, in which Java's member calls the listener.
    S.LEAVING: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.UNSUBSCRIBED},
    S.UNSUBSCRIBED: {S.LEAVING, S.FENCED},
    S.STALE: {S.LEAVING},
}
#: Moves that Java does not have: a member may leave after a final error and after the poll timeout.
OURS = {(S.FATAL, S.UNSUBSCRIBED), (S.STALE, S.UNSUBSCRIBED)}


def test_every_move_is_one_of_javas_or_listed():
    moves = {(state, after) for state, events in TRANSITIONS.items() for after in events.values()}
    assert moves - OURS <= {(before, after) for after, befores in JAVA.items() for before in befores}
    assert moves >= OURS


def test_a_member_can_leave_and_be_expelled_in_every_active_state():
    for state in ACTIVE:
        assert {E.EXPELLED, E.REFUSED, E.LEAVE} <= TRANSITIONS[state].keys()
    assert not ACTIVE & LOSING
