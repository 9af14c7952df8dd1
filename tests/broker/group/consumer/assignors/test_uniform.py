"""The uniform assignor: balance first, then few moves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer_testing.broker.group.consumer.assignors.registry import SERVER_ASSIGNORS
from thinconsumer_testing.broker.group.consumer.assignors.spec import MemberSpec
from thinconsumer_testing.broker.group.consumer.assignors.uniform import assign_uniformly
from thinconsumer_testing.broker.group.consumer.member import Target

A, B, C = (name * 16 for name in (b"a", b"b", b"c"))


def places(target: Target) -> set[tuple[bytes, int]]:
    return {(topic_id, index) for topic_id, indexes in target.items() for index in indexes}


def check(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int], assignment: Mapping[str, Target]) -> None:
    """Every partition of a subscribed topic has one owner, and that subscribes to the topic."""
    assert set(assignment) == set(members)
    owned = [place for target in assignment.values() for place in places(target)]
    subscribed = {topic_id for spec in members.values() for topic_id in spec.subscribed}
    assert sorted(owned) == sorted((t, i) for t in subscribed for i in range(counts[t]))
    for member_id, target in assignment.items():
        assert set(target) <= members[member_id].subscribed
        assert all(target.values()), "a topic without partitions"


def spec(*topics: bytes, target: Target | None = None, instance: str | None = None) -> MemberSpec:
    return MemberSpec(frozenset(topics), target or {}, instance)


def fed_back(members: Mapping[str, MemberSpec], assignment: Mapping[str, Target]) -> dict[str, MemberSpec]:
    return {member_id: one._replace(target=assignment.get(member_id, {})) for member_id, one in members.items()}


def moved(before: Mapping[str, Target], after: Mapping[str, Target]) -> int:
    """Return how many partitions have gone from one remaining member to another."""
    owner = {place: member_id for member_id, target in before.items() for place in places(target)}
    return sum(
        place in owner and owner[place] != member_id and owner[place] in after
        for member_id, target in after.items()
        for place in places(target)
    )


counts_of = st.fixed_dictionaries({A: st.integers(0, 7), B: st.integers(0, 7), C: st.integers(0, 7)})
subscriptions = st.lists(st.frozensets(st.sampled_from((A, B, C))), min_size=1, max_size=7)


@pytest.mark.parametrize("members", range(1, 6))
@pytest.mark.parametrize("counts", list(product(range(5), range(4))))
def test_equal_subscriptions_are_even_and_stable(members: int, counts: tuple[int, int]) -> None:
    specs = {f"m{number}": spec(A, B) for number in range(members)}
    sizes = dict(zip((A, B), counts))
    assignment = assign_uniformly(specs, sizes)
    check(specs, sizes, assignment)
    loads = [len(places(target)) for target in assignment.values()]
    assert max(loads) - min(loads) <= 1
    assert assign_uniformly(fed_back(specs, assignment), sizes) == assignment


@given(counts_of, st.integers(1, 8), st.integers(0, 8), st.data())
def test_a_change_of_equal_members_moves_no_partition_without_need(
    counts: dict[bytes, int], before: int, left: int, data: st.DataObject
) -> None:
    first = {f"m{number}": spec(A, B) for number in range(before)}
    old = assign_uniformly(first, counts)
    staying = data.draw(st.lists(st.sampled_from(sorted(first)), unique=True))
    members = {name: first[name] for name in staying} | {f"n{number}": spec(A, B) for number in range(left + 1)}
    new = assign_uniformly(fed_back(members, old), counts)
    check(members, counts, new)
    total = counts[A] + counts[B]
    quota, extra = divmod(total, len(members))
    # Each staying member keeps its partitions up to its quota, and as many as possible one more.
    could = sum(min(len(places(old[name])), quota) for name in staying)
    could += min(extra, sum(len(places(old[name])) > quota for name in staying))
    kept = sum(len(places(old[name]) & places(new[name])) for name in staying)
    assert kept == could


@given(subscriptions, counts_of)
def test_different_subscriptions_are_complete_balanced_per_topic_and_stable(
    subscribed: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    members = {f"m{number}": MemberSpec(topics) for number, topics in enumerate(subscribed)}
    assignment = assign_uniformly(members, counts)
    check(members, counts, assignment)
    loads = {member_id: len(places(target)) for member_id, target in assignment.items()}
    for giver, target in assignment.items():
        for topic_id in target:
            takers = [loads[name] for name, one in members.items() if topic_id in one.subscribed]
            assert loads[giver] - min(takers) <= 1, "a move would help"
    assert assign_uniformly(fed_back(members, assignment), counts) == assignment


@given(subscriptions, subscriptions, counts_of)
def test_any_change_of_subscriptions_keeps_the_assignment_complete(
    before: list[frozenset[bytes]], after: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    old = assign_uniformly({f"m{n}": MemberSpec(topics) for n, topics in enumerate(before)}, counts)
    members = {f"m{n}": MemberSpec(topics, old.get(f"m{n}", {})) for n, topics in enumerate(after)}
    check(members, counts, assign_uniformly(members, counts))


def test_a_new_member_gets_partitions_of_the_most_loaded_only() -> None:
    old = assign_uniformly({"m1": spec(A), "m2": spec(A)}, {A: 6})
    members = fed_back({"m1": spec(A), "m2": spec(A), "m3": spec(A)}, old)
    new = assign_uniformly(members, {A: 6})
    assert moved(old, new) == 2
    assert {name: len(places(target)) for name, target in new.items()} == {"m1": 2, "m2": 2, "m3": 2}


def test_partitions_that_two_targets_claim_get_one_owner() -> None:
    both = {A: frozenset({0, 1})}
    for other in (A, B):
        members = {"m1": spec(A, target=both), "m2": spec(A, other, target=both)}
        check(members, {A: 4, B: 1}, assign_uniformly(members, {A: 4, B: 1}))


def test_partitions_that_no_longer_exist_are_dropped() -> None:
    members = {"m1": spec(A, target={A: frozenset({0, 9}), B: frozenset({0})})}
    assert assign_uniformly(members, {A: 2, B: 1}) == {"m1": {A: frozenset({0, 1})}}


def test_no_members_get_nothing() -> None:
    assert all(assign({}, {A: 3}) == {} for assign in SERVER_ASSIGNORS.values())


def test_a_member_without_topics_gets_nothing_and_its_partitions_go_to_others() -> None:
    members = {"m1": spec(target={A: frozenset({0, 1})}), "m2": spec(A)}
    assert assign_uniformly(members, {A: 2}) == {"m1": {}, "m2": {A: frozenset({0, 1})}}


def test_five_hundred_members_get_equal_shares() -> None:
    topics = frozenset({A})
    members = {f"m{number}": MemberSpec(topics) for number in range(500)}
    assignment = assign_uniformly(members, {A: 1000})
    assert {len(places(target)) for target in assignment.values()} == {2}
