"""The assignment of partitions marked for deletion apart from all others, with every built-in assignor."""

import random

import pytest

from thinconsumer.assignors import Assignment, Subscription
from thinconsumer.assignors.plans import checked
from thinconsumer.assignors.registry import BUILT_IN, create
from thinconsumer.group.partition_lists import assign_in_lists
from thinconsumer.group.rejoin_triggers import TopicShape, shapes
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.types import ClusterView, Node, PartitionInfo, TopicPartition

NODES = {number: Node(number, f"b{number}", 9092, f"r{number}") for number in (1, 2, 3)}


def cluster(**topics):
    return ClusterView(
        {
            topic: tuple(PartitionInfo(topic, n, 1 + n % 3, 0, (1 + n % 3,), (1 + n % 3,), ()) for n in numbers)
            for topic, numbers in topics.items()
        },
        NODES,
    )


def plan(strategy, view, members, undeleted):
    counted = {topic: PartitionCounts(1, count) for topic, count in undeleted.items()}
    [assignor] = create([strategy])
    cooperative = strategy == "cooperative-sticky"

    def assign(part):
        found = assignor.assign(part.view, part.subscriptions)
        return checked(assignor.name, found, part.view, part.subscriptions, cooperative=cooperative)

    return assign_in_lists(view, members, shapes(view, view.partitions, counted, racks=False), assign)


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_both_lists_are_spread_evenly(strategy):
    view = cluster(t=range(16))
    members = {f"m{n}": Subscription(("t",)) for n in range(4)}
    found = plan(strategy, view, members, {"t": 8})
    for share in found.values():
        numbers = [tp.partition for tp in share.partitions]
        assert (sum(n < 8 for n in numbers), sum(n >= 8 for n in numbers)) == (2, 2)
    given = [tp for share in found.values() for tp in share.partitions]
    assert sorted(given) == [TopicPartition("t", n) for n in range(16)]


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_every_partition_is_assigned_once_whatever_the_topics_look_like(strategy):
    for seed in range(60):
        rng = random.Random(seed)
        numbers, undeleted = {}, {}
        for topic in ("a", "b", "c"):
            count = rng.randint(1, 9)
            kept = rng.randint(1, count)
            numbers[topic] = [n for n in range(count) if n < kept or rng.random() < 0.7]
            if rng.random() < 0.7:
                undeleted[topic] = kept
            else:
                numbers[topic] = range(count)
        members = {f"m{n}": Subscription(tuple(sorted(rng.sample("abc", rng.randint(1, 3))))) for n in range(3)}
        found = plan(strategy, cluster(**numbers), members, undeleted)
        wanted = {topic for member in members.values() for topic in member.topics}
        given = [tp for share in found.values() for tp in share.partitions]
        assert sorted(given) == sorted(TopicPartition(t, n) for t in wanted for n in numbers[t])
        for member, share in found.items():
            assert {tp.topic for tp in share.partitions} <= set(members[member].topics)


def test_owned_partitions_keep_their_owners_in_both_lists():
    view = cluster(t=range(8))
    first = {"m0": (0, 3, 4, 7), "m1": (1, 2, 5, 6)}
    members = {
        name: Subscription(("t",), None, tuple(TopicPartition("t", n) for n in numbers), 3)
        for name, numbers in first.items()
    }
    found = plan("cooperative-sticky", view, members, {"t": 4})
    assert {name: tuple(sorted(tp.partition for tp in share.partitions)) for name, share in found.items()} == first


def test_without_marked_partitions_the_assignor_gets_everything_as_it_is():
    view, members = cluster(t=range(4)), {"m": Subscription(("t",), b"data")}
    seen = []

    def assign(part):
        seen.append((part.view, part.subscriptions))
        return {"m": Assignment((TopicPartition("t", 0),), b"said")}

    found = assign_in_lists(view, members, {"t": TopicShape(4, (), 4)}, assign)
    assert seen == [(view, members)] and found["m"] == Assignment((TopicPartition("t", 0),), b"said")


def test_user_data_belongs_to_the_first_list():
    view, members = cluster(t=range(4)), {"m": Subscription(("t",), b"data")}
    seen = []

    def assign(part):
        seen.append(part.subscriptions["m"].user_data)
        return {"m": Assignment((TopicPartition("t", 0),), b"said %d" % len(seen))}

    found = assign_in_lists(view, members, {"t": TopicShape(4, (), 3)}, assign)
    assert seen == [b"data", None]
    assert found["m"] == Assignment((TopicPartition("t", 0), TopicPartition("t", 3)), b"said 1")
