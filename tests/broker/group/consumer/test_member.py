"""A member as a value: its epochs, and the epochs of its partitions."""

from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember, owned_since, target_of
from thinconsumer_testing.broker.group.consumer.states import AssignmentState

A, B = b"a" * 16, b"b" * 16


def test_a_new_member_has_epoch_0_and_owns_nothing() -> None:
    member = ConsumerGroupMember("m")
    assert (member.member_epoch, member.previous_member_epoch, member.assigned) == (0, -1, {})
    assert not member.is_reconciled_to(1)


def test_a_move_makes_the_current_epoch_the_previous_one() -> None:
    moved = ConsumerGroupMember("m", member_epoch=4).moved(6, AssignmentState.UNRELEASED_PARTITIONS, {A: {0: 6}}, {})
    assert (moved.member_epoch, moved.previous_member_epoch) == (6, 4)
    assert not moved.is_reconciled_to(6), "it waits for partitions"


def test_the_assignment_epoch_of_a_partition_is_known_until_it_is_revoked() -> None:
    member = ConsumerGroupMember("m", assigned={A: {0: 2}}, pending_revocation={A: {1: 3}})
    assert [member.assignment_epoch(A, index) for index in range(3)] == [2, 3, None]
    assert member.assignment_epoch(B, 0) is None


def test_topics_without_partitions_are_left_out() -> None:
    assert owned_since({A: [1, 0], B: []}, 5) == {A: {0: 5, 1: 5}}
    assert target_of([(A, [1]), (B, [])]) == {A: frozenset({1})}


def test_equal_members_are_equal_and_a_changed_subscription_makes_another() -> None:
    one, two = (ConsumerGroupMember("m", subscribed_topic_names=frozenset({"orders"})) for _ in range(2))
    assert one == two
    assert one != ConsumerGroupMember("m")
