"""Sticky for cooperative groups: a partition changes hands in two rebalances, and the group settles with the second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.assignors.base import Assignment, GroupMetadata, RebalanceProtocol, Subscription
from thinconsumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from thinconsumer.assignors.plans import checked
from thinconsumer.types import TopicPartition


def plan(view, members):
    """Plan, and check the plan as the leader does."""
    assignor = CooperativeStickyAssignor()
    return checked(assignor.name, assignor.assign(view, members), view, members, cooperative=True)


@st.composite
def groups(draw):
    """Draw topics, members with racks, and claims of any kind: disputed, stale, to what is unwanted or not there."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 4)))]
    shapes = {
        name: " ".join(draw(st.lists(st.sampled_from(["a", "b", "ab", "-"]), min_size=1, max_size=5))) for name in names
    }
    uniform = draw(st.booleans())
    tps = st.tuples(st.sampled_from([*names, "gone"]), st.integers(0, 5)).map(lambda pair: TopicPartition(*pair))
    members = {}
    for number in range(draw(st.integers(1, 5))):
        topics = names if uniform else sorted(draw(st.sets(st.sampled_from([*names, "gone"]))))
        members[f"m{number}"] = Subscription(
            tuple(topics),
            owned_partitions=tuple(draw(st.sets(tps, max_size=8))),
            generation_id=draw(st.sampled_from([-1, 5, 6, 6])),
            rack_id=draw(st.sampled_from(["a", "b", None])),
        )
    return shapes, members


def after(members, shares, generation):
    """Return the members once they have taken their shares: what they join the next rebalance with."""
    return {
        name: Subscription(
            said.topics,
            owned_partitions=shares[name].partitions,
            generation_id=generation,
            rack_id=said.rack_id,
        )
        for name, said in members.items()
    }


@settings(deadline=None, max_examples=150)
@given(group=groups())
def test_pain_E4_what_moves_is_nobodys_in_round_one_and_the_new_owners_in_round_two(cluster, whole, group):
    """With racks and unequal subscriptions, too, where Java's takes up to nine rounds, or rebalances for ever (E10)."""
    shapes, members = group
    view = cluster(**shapes)
    first = plan(view, members)
    claimed = {(name, tp) for name, said in members.items() for tp in said.owned_partitions}
    for name, share in first.items():
        for tp in share.partitions:
            others = {other for other, claim in claimed if claim == tp and other != name}
            newest = max((members[other].generation_id for other in others), default=-2)
            mine = members[name].generation_id if (name, tp) in claimed else -2
            assert not others or mine > newest, f"{tp} goes to {name}, and {others} may be reading it"

    second_members = after(members, first, 7)
    second = plan(view, second_members)
    assert whole({name: share.partitions for name, share in second.items()}, view, members), "all is given out"
    for name, share in first.items():
        assert set(share.partitions) <= set(second[name].partitions), "what was left or given in round one stays"

    third = plan(view, after(members, second, 8))
    assert third == second, "settled"


def test_pain_E4_a_newcomer_gets_its_share_when_it_has_been_given_up(cluster, member, words):
    view = cluster(t=4)
    members = {"a": member("t", "t-0 t-1 t-2 t-3", generation=5), "b": member("t")}
    first = plan(view, members)
    assert words(first) == {"a": "t-0 t-1", "b": ""}
    assert words(plan(view, after(members, first, 6))) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_pain_E3_what_two_claim_in_one_generation_goes_to_neither_before_both_let_go(cluster, member, words):
    """Java fell over such claims (KAFKA-12984). Where two read, a third must not begin as well."""
    view = cluster(t=3)
    members = {"a": member("t", "t-0 t-1", generation=5), "b": member("t", "t-1 t-2", generation=5)}
    first = plan(view, members)
    assert words(first) == {"a": "t-0", "b": "t-2"}
    second = plan(view, after(members, first, 6))
    assert sorted(tp.partition for share in second.values() for tp in share.partitions) == [0, 1, 2]


def test_pain_E10_a_stale_member_does_not_get_what_its_newer_owner_still_reads(cluster, member, words):
    """Java takes the stale claim for ownership and gives the partition at once: two readers."""
    view = cluster(t=2)
    members = {"old": member("t", "t-0 t-1", generation=5), "new": member("t", "t-0 t-1", generation=6)}
    assert words(plan(view, members)) == {"old": "", "new": "t-0"}


def test_pain_E10_who_has_left_a_topic_gets_none_of_it_back(cluster, member, words):
    """Not even with subscriptions that differ, and while it still reads it nobody else does either."""
    view = cluster(t=1, u=1)
    members = {"a": member("u", "t-0", generation=5), "b": member("t u")}
    assert words(plan(view, members)) == {"a": "u-0", "b": ""}


def test_pain_E10_a_topic_made_again_with_fewer_partitions(cluster, member, words):
    view = cluster(t=2)
    members = {"a": member("t", "t-0 t-7", generation=5), "b": member("t", "t-8 t-9", generation=5)}
    assert words(plan(view, members)) == {"a": "t-0", "b": "t-1"}


def test_pain_E5_a_settled_group_is_left_alone_even_if_others_would_be_as_even(cluster, member, words):
    view = cluster(t=3, u=2)
    members = {"b": member("t u", "t-1 u-0 u-1", generation=5), "a": member("t u", "t-2 t-0", generation=5)}
    assert words(plan(view, members)) == {"a": "t-0 t-2", "b": "t-1 u-0 u-1"}


def test_partitions_move_to_where_they_can_be_read_within_the_rack(cluster, member, words):
    """KIP-881: worth a move, as long as it makes nothing less even."""
    view = cluster(t="a b a b")
    members = {
        "m": member("t", "t-0 t-1", generation=5, rack="a"),
        "n": member("t", "t-2 t-3", generation=5, rack="b"),
    }
    first = plan(view, members)
    assert words(first) == {"m": "t-0", "n": "t-3"}
    assert words(plan(view, after(members, first, 6))) == {"m": "t-0 t-2", "n": "t-1 t-3"}


@pytest.mark.parametrize(
    ("field", "data", "generation"),
    [
        (6, b"\0\0\0\4", 6),
        (0, b"\0\0\0\6", 0),
        (-1, b"\0\0\0\6", 6),
        (-1, b"\0\0\0", -1),
        (-1, None, -1),
        (-1, b"", -1),
    ],
)
def test_the_generation_is_in_the_subscription_or_else_in_user_data(cluster, member, words, field, data, generation):
    """KIP-792 put it into the subscription; before, the assignor sent it by itself. ``b`` claims the same, since 5."""
    members = {
        "a": member("t", "t-0", generation=field, user_data=data),
        "b": member("t", "t-0", generation=5),
        "c": member("t", "t-1", generation=5),
    }
    owner = "a" if generation > 5 else "b"
    assert words(plan(cluster(t=2), members))[owner] == "t-0"


def test_it_says_in_which_generation_it_was_given_what_it_has():
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data(["t"]) == b"\xff\xff\xff\xff"
    assignor.on_assignment(Assignment(), GroupMetadata("g", 258, "m"))
    assert assignor.subscription_user_data(["t"]) == b"\0\0\1\2"
    assert list(assignor.supported_protocols) == [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
