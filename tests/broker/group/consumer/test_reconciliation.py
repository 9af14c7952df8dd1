"""The steps of a member from its current to its target assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.member import (
    ConsumerGroupMember,
    Partitions,
    Target,
    owned_since,
    target_of,
)
from thinconsumer_testing.broker.group.consumer.reconciliation import Goal, reconcile
from thinconsumer_testing.broker.group.consumer.states import AssignmentState

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = (
    AssignmentState.STABLE,
    AssignmentState.UNREVOKED_PARTITIONS,
    AssignmentState.UNRELEASED_PARTITIONS,
)


def goal(
    epoch: int,
    target: Mapping[bytes, set[int]],
    owned: Partitions | None = None,
    *,
    subscribed: tuple[bytes, ...] = (A, B),
    taken: Mapping[tuple[bytes, int], int] | None = None,
    changed: bool = False,
) -> Goal:
    epochs = taken or {}
    wanted = target_of(target.items())
    return Goal(epoch, wanted, subscribed, lambda t, i: epochs.get((t, i), -1), owned, changed)


def member(epoch: int, assigned: Mapping[bytes, list[int]], state: AssignmentState = STABLE, **more: object):
    return ConsumerGroupMember(
        "m",
        member_epoch=epoch,
        state=state,
        assigned=owned_since(assigned, epoch),
        **more,  # type: ignore[arg-type]
    )


def test_partitions_of_others_are_waited_for_and_the_member_moves_on() -> None:
    after = reconcile(member(3, {A: [0]}), goal(4, {A: {0, 1, 2}}, taken={(A, 1): 3}))
    assert (after.member_epoch, after.state) == (4, UNRELEASED)
    assert after.assigned == {A: {0: 3, 2: 4}}, "a partition that is kept keeps its epoch"
    done = reconcile(after, goal(4, {A: {0, 1, 2}}))
    assert (done.state, done.assigned) == (STABLE, {A: {0: 3, 1: 4, 2: 4}})


@pytest.mark.parametrize("owned", [None, {A: [0, 1]}, {A: [0]}])
def test_a_member_that_still_owns_what_it_revokes_waits(owned: Partitions | None) -> None:
    before = member(3, {A: [1]}, UNREVOKED, pending_revocation={A: {0: 3}})
    assert reconcile(before, goal(4, {A: {1, 2}}, owned)) is before


def test_after_the_revocation_the_member_gets_the_target_of_that_moment() -> None:
    before = member(3, {A: [1]}, UNREVOKED, pending_revocation={A: {0: 3}})
    after = reconcile(before, goal(6, {A: {1}, B: {0}}, {A: [1]}))
    assert (after.member_epoch, after.state) == (6, STABLE)
    assert (after.assigned, after.pending_revocation) == ({A: {1: 3}, B: {0: 6}}, {})


def test_a_partition_that_the_member_has_just_revoked_can_come_back_to_it() -> None:
    before = member(3, {A: [1]}, UNREVOKED, pending_revocation={A: {0: 3}})
    after = reconcile(before, goal(5, {A: {0, 1}}, {A: [1]}, taken={(A, 0): 3, (A, 1): 3}))
    assert (after.state, after.assigned) == (STABLE, {A: {0: 5, 1: 3}})


def test_a_member_that_reports_not_to_own_what_it_must_revoke_skips_the_revocation() -> None:
    after = reconcile(member(3, {A: [0]}), goal(4, {B: {0}}, {}))
    assert (after.member_epoch, after.state, after.assigned) == (4, STABLE, {B: {0: 4}})


def test_topics_without_subscription_are_revoked_at_once() -> None:
    before = member(3, {A: [0], B: [1]})
    after = reconcile(before, goal(3, {A: {0}, B: {1}}, {A: [0], B: [1]}, subscribed=(A,), changed=True))
    assert (after.member_epoch, after.state) == (3, UNREVOKED)
    assert (after.assigned, after.pending_revocation) == ({A: {0: 3}}, {B: {1: 3}})
    assert reconcile(before, goal(3, {A: {0}, B: {1}}, subscribed=(A,))) is before, "the subscription is as before"


def test_topics_without_subscription_that_are_not_owned_any_more_are_dropped() -> None:
    before = member(3, {A: [0], B: [1]})
    after = reconcile(before, goal(3, {A: {0}, B: {1}}, {A: [0]}, subscribed=(A,), changed=True))
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, {A: {0: 3}}, {})


def test_further_topics_without_subscription_join_the_pending_revocation() -> None:
    before = member(3, {A: [0], B: [1]}, UNREVOKED, pending_revocation={B: {0: 3}})
    after = reconcile(before, goal(4, {A: {0}}, None, subscribed=(A,), changed=True))
    assert (after.state, after.assigned) == (UNREVOKED, {A: {0: 3}})
    assert after.pending_revocation == {B: {0: 3, 1: 3}}


def test_the_target_in_topics_without_subscription_is_not_assigned() -> None:
    after = reconcile(member(3, {}), goal(4, {A: {0}, B: {0}}, {}, subscribed=(A,)))
    assert after.assigned == {A: {0: 4}}


def test_an_unknown_state_fences_a_member_that_may_own_partitions() -> None:
    unknown = member(3, {A: [0]}, AssignmentState.UNKNOWN)
    for owned in (None, {A: [0]}):
        with pytest.raises(GroupRequestError) as caught:
            reconcile(unknown, goal(4, {A: {0}}, owned))
        assert caught.value.code == Code.FENCED_MEMBER_EPOCH
    assert reconcile(unknown, goal(4, {A: {0}}, {})).member_epoch == 4


def test_topics_without_partitions_are_left_out() -> None:
    assert owned_since({A: [1, 0], B: []}, 5) == {A: {0: 5, 1: 5}}
    assert target_of([(A, [1]), (B, [])]) == {A: frozenset({1})}


@dataclass
class Group:
    """Members as the coordinator has them, and the partitions that their clients own."""

    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    holds: dict[str, set[int]] = field(default_factory=dict)  #: The partitions that each client owns, and reports.
    target: dict[str, frozenset[int]] = field(default_factory=dict)
    epoch: int = 1

    def partition_epoch(self, topic_id: bytes, index: int) -> int:
        for one in self.members.values():
            if one.assignment_epoch(topic_id, index) is not None:
                return one.member_epoch
        return -1

    def heartbeat(self, name: str, reports: bool = True) -> None:
        before = self.members[name]
        target: Target = target_of([(A, self.target.get(name, frozenset()))])
        owned = {A: sorted(self.holds[name])} if reports else None
        after = reconcile(before, Goal(self.epoch, target, {A}, self.partition_epoch, owned))
        assert after.member_epoch >= before.member_epoch, "epochs never go back"
        assert not set(after.assigned.get(A, ())) & set(after.pending_revocation.get(A, ()))
        self.members[name] = after
        # The client gets new partitions with the response, and gives up what is not in it.
        self.holds[name] |= set(after.assigned.get(A, ()))
        self.check()

    def revoke(self, name: str) -> None:
        """The client's callback is done."""
        self.holds[name] &= set(self.members[name].assigned.get(A, ()))

    def check(self) -> None:
        owners = [index for held in self.holds.values() for index in held]
        assert len(owners) == len(set(owners)), f"two owners: {self.holds}"
        for name, held in self.holds.items():
            one = self.members[name]
            known = set(one.assigned.get(A, ())) | set(one.pending_revocation.get(A, ()))
            assert held <= known, "the coordinator takes a partition for free that a client owns"

    def settle(self) -> int:
        for number in range(1, 20):
            if all(one.is_reconciled_to(self.epoch) for one in self.members.values()):
                return number
            for name in self.members:
                self.heartbeat(name)
                self.revoke(name)
        raise AssertionError("does not converge")


def shares(members: int, partitions: int) -> list[tuple[frozenset[int], ...]]:
    """Return every way to distribute some partitions among members."""
    return [
        tuple(frozenset(p for p, o in enumerate(owners) if o == number) for number in range(members))
        for owners in product(range(members + 1), repeat=partitions)
    ]


@pytest.mark.parametrize("members", [1, 2])
def test_every_change_of_targets_converges_in_four_rounds_with_one_owner_at_any_time(members: int) -> None:
    names = [f"m{number}" for number in range(members)]
    for old, new in product(shares(members, 3), repeat=2):
        group = Group({name: ConsumerGroupMember(name) for name in names}, {name: set() for name in names})
        for target in (old, new):
            group.epoch += 1
            group.target = dict(zip(names, target))
            assert group.settle() <= 4
            assert {name: frozenset(held) for name, held in group.holds.items()} == group.target


actions = st.lists(
    st.tuples(
        st.sampled_from(("target", "heartbeat", "silent", "revoke")), st.integers(0, 2), st.integers(0, 4**3 - 1)
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(actions)
def test_whatever_order_of_events_no_partition_has_two_owners_and_the_group_settles(
    events: list[tuple[str, int, int]],
) -> None:
    names = ["m0", "m1", "m2"]
    group = Group({name: ConsumerGroupMember(name) for name in names}, {name: set() for name in names})
    for kind, position, number in events:
        name = names[position]
        if kind == "target":
            group.epoch += 1
            owners = [number // 4**place % 4 for place in range(3)]
            group.target = {n: frozenset(p for p, o in enumerate(owners) if o == k) for k, n in enumerate(names)}
        elif kind == "revoke":
            group.revoke(name)
        else:
            group.heartbeat(name, reports=kind == "heartbeat")
    group.settle()
    assert {name: frozenset(held) for name, held in group.holds.items()} == {
        name: group.target.get(name, frozenset()) for name in names
    }


def test_partitions_move_between_members_without_a_barrier() -> None:
    """Of three members one takes a partition from another: the third one is not touched."""
    names = ["m0", "m1", "m2"]
    group = Group({name: ConsumerGroupMember(name) for name in names}, {name: set() for name in names}, epoch=2)
    group.target = {"m0": frozenset({0, 1}), "m1": frozenset(), "m2": frozenset({2})}
    group.settle()
    group.epoch, group.target = 3, {"m0": frozenset({0}), "m1": frozenset({1}), "m2": frozenset({2})}
    for name in names:
        group.heartbeat(name)
    assert group.members["m2"].is_reconciled_to(3)
    assert [group.members[name].state for name in names] == [UNREVOKED, UNRELEASED, STABLE]
    for one, two in combinations(names, 2):
        assert not group.holds[one] & group.holds[two]
