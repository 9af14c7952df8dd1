"""The assignment of the sticky assignors, against exhaustive search and at large sizes."""

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.assignors.balance import balanced
from thinconsumer.assignors.base import Subscription
from thinconsumer.assignors.plans import member_racks, partition_racks, racks_matter
from thinconsumer.types import TopicPartition

RACKS = st.sampled_from(["a", "b", None])


def cost(shares, view, members, owners):
    """Return the quantities to minimise, in order of importance."""
    topics = sorted({tp.topic for share in shares.values() for tp in share})
    of_members, of_partitions = member_racks(members), partition_racks(view, topics)
    matter = racks_matter(of_members.values(), of_partitions.values())
    pairs = [(name, tp) for name, share in shares.items() for tp in share]
    return (
        sum(len(share) ** 2 for share in shares.values()),
        sum(matter and name in of_members and of_members[name] not in of_partitions[tp] for name, tp in pairs),
        sum(owners.get(tp, name) != name for name, tp in pairs),
    )


def least_cost(view, members, owners):
    tps = [TopicPartition(t, p) for t in view.partitions for p in range(view.partition_count(t))]
    takers = [[name for name, said in members.items() if tp.topic in said.topics] for tp in tps]
    wanted = [(tp, names) for tp, names in zip(tps, takers) if names]
    best = None
    for choice in itertools.product(*(names for _, names in wanted)):
        shares = {name: [] for name in members}
        for (tp, _), name in zip(wanted, choice):
            shares[name].append(tp)
        found = cost(shares, view, members, owners)
        best = found if best is None else min(best, found)
    return best


@st.composite
def groups(draw, members=3, topics=3, partitions=2):
    """Draw topics with racks as ``cluster`` takes them, members, and owners of some partitions."""
    names = [f"t{number}" for number in range(draw(st.integers(1, topics)))]
    shapes = {
        name: " ".join(
            "".join(draw(st.sets(st.sampled_from("ab-"), min_size=1))) for _ in range(draw(st.integers(1, partitions)))
        )
        for name in names
    }
    uniform = draw(st.booleans())
    same = draw(st.sets(st.sampled_from(names), min_size=1))
    ids = [f"m{number}" for number in range(draw(st.integers(1, members)))]
    said = {
        name: Subscription(
            tuple(sorted(same if uniform else draw(st.sets(st.sampled_from([*names, "unknown"]))))), rack_id=draw(RACKS)
        )
        for name in ids
    }
    tps = [TopicPartition(name, number) for name in names for number in range(len(shapes[name].split()))]
    owners = {tp: name for tp in tps if (name := draw(st.sampled_from([*ids, "left", None])))}
    return shapes, said, owners


@pytest.mark.once
@settings(deadline=None, max_examples=200)
@given(group=groups())
def test_no_assignment_is_better(cluster, whole, group):
    """Most balanced, then most partitions within racks, then fewest moved."""
    shapes, members, owners = group
    view = cluster(**shapes)
    shares = balanced(view, members, owners)
    assert whole(shares, view, members)
    assert cost(shares, view, members, owners) == least_cost(view, members, owners)


@pytest.mark.once
@settings(deadline=None, max_examples=25)
@given(group=groups(members=50, topics=20, partitions=10))
def test_any_subscriptions_terminate_and_the_result_is_stable(cluster, whole, group):
    """Heuristic assignors have looped forever on unequal subscriptions (librdkafka issue 4783)."""
    shapes, members, owners = group
    view = cluster(**shapes)
    shares = balanced(view, members, owners)
    assert whole(shares, view, members)
    again = balanced(view, members, {tp: name for name, share in shares.items() for tp in share})
    assert again == shares


@settings(deadline=None, max_examples=30)
@given(group=groups(members=8, topics=5, partitions=5), seed=st.integers(0, 99))
def test_the_order_of_topics_and_members_does_not_matter(cluster, group, seed):
    """The order changes with every metadata refresh and rebalance, which must not move partitions."""
    shapes, members, owners = group
    rng = random.Random(seed)

    def shuffled(mapping):
        return dict(rng.sample(list(mapping.items()), len(mapping)))

    shares = balanced(cluster(**shapes), members, owners)
    others = {
        name: Subscription(tuple(rng.sample(said.topics, len(said.topics))), rack_id=said.rack_id)
        for name, said in shuffled(members).items()
    }
    assert balanced(cluster(**shuffled(shapes)), others, shuffled(owners)) == shares


def test_each_topic_is_spread_over_members_with_equal_subscriptions(cluster, member):
    """One topic per member would be balanced by count, but topics differ in load."""
    shares = balanced(cluster(t=4, u=4), dict.fromkeys("ab", member("t u")), {})
    assert all([tp.topic for tp in share] == ["t", "t", "u", "u"] for share in shares.values())


def test_moved_partitions_come_from_all_topics(cluster, member):
    owners = {TopicPartition(topic, number): "a" for topic in "tu" for number in range(4)}
    shares = balanced(cluster(t=4, u=4), dict.fromkeys("ab", member("t u")), owners)
    assert shares["b"] == tuple(TopicPartition(topic, number) for topic in "tu" for number in (2, 3))


@pytest.mark.parametrize("owners", ["nobody", "few", "gone"])
@pytest.mark.parametrize("kind", ["equal", "mixed"])
def test_a_thousand_members_and_ten_thousand_partitions(cluster, member, whole, kind, owners):
    """CPU time limits for a shared machine: 5 s for equal subscriptions, 30 s for mixed ones."""
    rng = random.Random(1)
    topics = [f"t{number}" for number in range(200)]
    view = cluster(**dict.fromkeys(topics, 50))
    names = [f"m{number:03}" for number in range(1000)]
    wanted = [topics if kind == "equal" else rng.sample(topics, rng.choice([1, 4, 20, 100])) for _ in names]
    members = {name: member(" ".join(own)) for name, own in zip(names, wanted)}
    had = {"nobody": [], "few": names[:100], "gone": [*names[100:], *(f"x{number}" for number in range(100))]}[owners]
    tps = [TopicPartition(topic, number) for topic in topics for number in range(50)]
    before = {tp: rng.choice(had) for tp in tps} if had else {}
    began = time.process_time()
    shares = balanced(view, members, before)
    assert time.process_time() - began < (5 if kind == "equal" else 30)
    assert whole(shares, view, members)
    if kind == "equal":
        assert {len(share) for share in shares.values()} == {10}
