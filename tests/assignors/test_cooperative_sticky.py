"""The cooperative sticky assignor: a partition moves in two rebalances, and the second one is stable."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.assignors.base import Assignment, GroupMetadata, RebalanceProtocol, Subscription
from thinconsumer.assignors.plans import checked
from thinconsumer.assignors.sticky import CooperativeStickyAssignor
from thinconsumer.types import TopicPartition


def plan(view, members):
    assignor = CooperativeStickyAssignor()
    return checked(assignor.name, assignor.assign(view, members), view, members, cooperative=True)


@st.composite
def groups(draw):
    """Draw topics, members with racks, and any claims: disputed, stale, or to partitions unsubscribed or missing."""
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
    """Return the members with their new assignment, as they join the next rebalance."""
    return {
        name: Subscription(
            said.topics, owned_partitions=shares[name].partitions, generation_id=generation, rack_id=said.rack_id
        )
        for name, said in members.items()
    }


@settings(deadline=None, max_examples=150)
@given(group=groups())
def test_moved_partitions_are_revoked_in_the_first_rebalance_and_assigned_in_the_second(cluster, whole, group):
    """Also with racks and unequal subscriptions, where Java's assignor takes up to nine rebalances, or never ends."""
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


def test_a_new_member_gets_partitions_after_their_revocation(cluster, member, words):
    view = cluster(t=4)
    members = {"a": member("t", "t-0 t-1 t-2 t-3", generation=5), "b": member("t")}
    first = plan(view, members)
    assert words(first) == {"a": "t-0 t-1", "b": ""}
    assert words(plan(view, after(members, first, 6))) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_a_disputed_partition_is_not_assigned_until_both_members_revoke_it(cluster, member, words):
    """Java's assignor failed on such claims (KAFKA-12984). Another member must not start to read, too."""
    view = cluster(t=3)
    members = {"a": member("t", "t-0 t-1", generation=5), "b": member("t", "t-1 t-2", generation=5)}
    first = plan(view, members)
    assert words(first) == {"a": "t-0", "b": "t-2"}
    second = plan(view, after(members, first, 6))
    assert sorted(tp.partition for share in second.values() for tp in share.partitions) == [0, 1, 2]


def test_a_stale_member_does_not_get_partitions_of_the_newer_owner(cluster, member, words):
    """Java's assignor accepts the stale claim and assigns the partition at once: two members read it."""
    view = cluster(t=2)
    members = {"old": member("t", "t-0 t-1", generation=5), "new": member("t", "t-0 t-1", generation=6)}
    assert words(plan(view, members)) == {"old": "", "new": "t-0"}


def test_a_member_that_unsubscribed_from_a_topic_gets_none_of_it(cluster, member, words):
    """Also with unequal subscriptions; while it still owns a partition, no other member gets it."""
    view = cluster(t=1, u=1)
    members = {"a": member("u", "t-0", generation=5), "b": member("t u")}
    assert words(plan(view, members)) == {"a": "u-0", "b": ""}


def test_a_topic_created_again_with_fewer_partitions(cluster, member, words):
    view = cluster(t=2)
    members = {"a": member("t", "t-0 t-7", generation=5), "b": member("t", "t-8 t-9", generation=5)}
    assert words(plan(view, members)) == {"a": "t-0", "b": "t-1"}


def test_a_stable_group_keeps_its_assignment_although_others_are_as_balanced(cluster, member, words):
    view = cluster(t=3, u=2)
    members = {"b": member("t u", "t-1 u-0 u-1", generation=5), "a": member("t u", "t-2 t-0", generation=5)}
    assert words(plan(view, members)) == {"a": "t-0 t-2", "b": "t-1 u-0 u-1"}


def test_partitions_move_to_members_in_their_rack(cluster, member, words):
    """KIP-881: as long as the balance stays the same."""
    view = cluster(t="a b a b")
    members = {"m": member("t", "t-0 t-1", generation=5, rack="a"), "n": member("t", "t-2 t-3", generation=5, rack="b")}
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
    """Before KIP-792 the assignor sent it as user data. ``b`` claims the same partitions since generation 5."""
    members = {
        "a": member("t", "t-0", generation=field, user_data=data),
        "b": member("t", "t-0", generation=5),
        "c": member("t", "t-1", generation=5),
    }
    owner = "a" if generation > 5 else "b"
    assert words(plan(cluster(t=2), members))[owner] == "t-0"


def test_user_data_hold_the_generation_of_the_assignment():
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data(["t"]) == b"\xff\xff\xff\xff"
    assignor.on_assignment(Assignment(), GroupMetadata("g", 258, "m"))
    assert assignor.subscription_user_data(["t"]) == b"\0\0\1\2"
    assert list(assignor.supported_protocols) == [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
