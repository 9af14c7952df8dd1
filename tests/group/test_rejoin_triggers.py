"""Reasons to rejoin: partition counts, names and racks of the group's topics."""

import pytest

from thinconsumer.group.rejoin_triggers import reassign_reason, shapes, shapes_changed, topics_changed
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.types import ClusterView, Node, PartitionInfo, TopicPartition

NODES = {n: Node(n, "h", 9092, f"rack{n}") for n in (1, 2, 3)}


def view(replicas, **more):
    return ClusterView(
        {
            topic: tuple(PartitionInfo(topic, n, r[0], 7, r, r, ()) for n, r in enumerate(found))
            for topic, found in {"t": replicas, **more}.items()
        },
        NODES,
    )


BEFORE = view([(1, 2), (2, 3)], other=[(1,)])


@pytest.mark.parametrize(
    ("after", "racks", "words"),
    [
        (BEFORE, True, None),
        (view([(2, 1), (3, 2)], other=[(3,), (1,)]), True, None),  # leaders moved, a topic of no concern grew
        (view([(1, 2), (2, 1)]), False, None),
        (view([(1, 2), (2, 1)]), True, "racks"),
        (view([(1, 2), (2, 3), (1, 3)]), False, "3 partitions, 2 when"),
        (view([(1, 2)]), False, "1 partitions, 2 when"),
        (view([]), False, "0 partitions, 2 when"),
    ],
)
def test_only_partition_counts_and_used_racks_are_a_change(after, racks, words):
    changed = shapes_changed(shapes(BEFORE, {"t"}, {}, racks=racks), shapes(after, {"t"}, {}, racks=racks))
    assert changed is None if words is None else words in changed


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"t": PartitionCounts(1, 2)}, {"t": PartitionCounts(1, 2)}, None),
        ({"t": PartitionCounts(1, 2)}, {"t": PartitionCounts(1, 1)}, "1 partitions marked for deletion"),
        ({"t": PartitionCounts(1, 1)}, {"t": PartitionCounts(1, 2)}, "0 partitions marked for deletion"),
        ({}, {"other": PartitionCounts(1, 1)}, None),
    ],
)
def test_partitions_marked_for_deletion_are_a_change(before, after, words):
    one, other = (shapes(BEFORE, {"t"}, counts, racks=False) for counts in (before, after))
    changed = shapes_changed(one, other)
    assert changed is None if words is None else words in changed


def test_a_created_topic_is_a_change_once():
    before = shapes(ClusterView({}, {}), {"t"}, {}, racks=False)
    after = shapes(BEFORE, {"t"}, {}, racks=False)
    assert "has 2 partitions, 0 when" in shapes_changed(before, after)
    assert shapes_changed(after, after) is None


def test_topics_are_compared_as_sets_and_listed():
    assert topics_changed(["a", "b"], ["b", "a"]) is None
    assert topics_changed(["a", "b"], ["b", "c"]).endswith("new c, gone a")
    assert topics_changed([], [f"t{n}" for n in range(7)]).endswith("new t0, t1, t2, t3, t4 and 2 more")


def tps(topic, *numbers):
    return [TopicPartition(topic, number) for number in numbers]


@pytest.mark.parametrize(
    ("assigned", "words"),
    [
        (tps("t", 0, 1, 2), None),
        (tps("t", 2, 0), "without t-1"),
        ([], "without t-0, t-1, t-2"),
        (tps("t", 0, 1, 2, 3), "with t-3, which do not exist"),
        (tps("t", 0, 2, 3), "without t-1 and with t-3, which do not exist"),
    ],
)
def test_a_restarted_leader_rejoins_unless_each_partition_is_assigned(assigned, words):
    why = reassign_reason(assigned, tps("t", 0, 1, 2))
    assert why is None if words is None else why == f"restarted as leader of an assignment {words}"
