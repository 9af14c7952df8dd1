"""Reasons to rejoin: partition counts, names and racks of the group's topics."""

import pytest

from thinconsumer.group.rejoin_triggers import note_of, reassign_reason, shapes, shapes_changed, topics_changed
from thinconsumer.types import ClusterView, Node, PartitionInfo

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
    changed = shapes_changed(shapes(BEFORE, {"t"}, racks=racks), shapes(after, {"t"}, racks=racks))
    assert changed is None if words is None else words in changed


def test_a_created_topic_is_a_change_once():
    before = shapes(ClusterView({}, {}), {"t"}, racks=False)
    after = shapes(BEFORE, {"t"}, racks=False)
    assert "has 2 partitions, 0 when" in shapes_changed(before, after)
    assert shapes_changed(after, after) is None


def test_topics_are_compared_as_sets_and_listed():
    assert topics_changed(["a", "b"], ["b", "a"]) is None
    assert topics_changed(["a", "b"], ["b", "c"]).endswith("new c, gone a")
    assert topics_changed([], [f"t{n}" for n in range(7)]).endswith("new t0, t1, t2, t3, t4 and 2 more")


@pytest.mark.parametrize("withheld", [False, True])
@pytest.mark.parametrize(
    ("after", "same"),
    [(BEFORE, True), (view([(2, 1), (3, 2)]), True), (view([(1, 2)]), False), (view([(1,), (2,), (3,)]), False)],
)
def test_a_leaders_note_shows_whether_its_assignment_is_still_valid(withheld, after, same):
    """Racks of replicas do not invalidate the assignment."""
    note = note_of(shapes(BEFORE, {"t"}, racks=True), withheld=withheld)
    words = reassign_reason(note, shapes(after, {"t"}, racks=False), cooperative=True)
    if not same:
        assert "other partitions" in words
    else:
        assert ("withheld partitions" in words) if withheld else words is None


def test_without_a_note_only_a_cooperative_leader_rejoins():
    now = shapes(BEFORE, {"t"}, racks=False)
    assert reassign_reason(None, now, cooperative=False) is None
    assert "did not compute" in reassign_reason(None, now, cooperative=True)


def test_a_new_topic_invalidates_the_note():
    then = shapes(BEFORE, {"t"}, racks=False)
    assert reassign_reason(
        note_of(then, withheld=False), shapes(BEFORE, {"t", "other"}, racks=False), cooperative=False
    )
    gone = shapes(ClusterView({}, {}), {"t"}, racks=False)
    assert reassign_reason(note_of(gone, withheld=False), then, cooperative=False)
