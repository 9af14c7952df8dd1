"""Reasons to rejoin, as pure functions: the cluster data that an assignment depends on, and whether they have changed.

Every member rejoins when its own set of topics changes. The leader, which computed the assignment, also rejoins when
one of these changes: a topic's partition count, the number of its partitions marked for deletion, or the racks of its
replicas if the assignment used racks (KIP-881). The leader compares these values, not metadata objects, which differ
after every refresh: otherwise each refresh would cause a rebalance.

A static leader that restarts must keep the assignment from before the restart (KIP-814). It cannot tell from metadata
which partitions were added since the assignment, and these would stay unassigned (in Java's client they do). So it
reads the assignments of all members (:mod:`.assignment_check`), and rejoins unless they have exactly the existing
partitions together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..linear_hashing import PartitionCounts
from ..types import ClusterView, TopicPartition

#: The prefix of the user data that version 0.1.0 wrote into a static leader's assignment. Kafka moves no group to the
#: consumer group protocol while an assignment has user data (KAFKA-18134), so a restarted leader rejoins to replace it.
OLD_NOTE = b"thinconsumer: planned with "


class TopicShape(NamedTuple):
    """The properties of one topic that an assignment depends on: if they change, the leader rejoins."""

    partitions: int
    racks: tuple[frozenset[str], ...]  #: By partition, the racks of its replicas; empty if racks are ignored.
    #: On counted topics, the number of partitions that are not marked for deletion; else None.
    undeleted: int | None = None


def shapes(
    view: ClusterView, topics: Collection[str], counted: Mapping[str, PartitionCounts], *, racks: bool
) -> dict[str, TopicShape]:
    """Return the shape of every topic; an unknown topic has no partitions."""
    return {
        topic: TopicShape(
            view.partition_count(topic),
            tuple(view.racks(p) for p in view.partitions.get(topic, ())) if racks else (),
            counted[topic].undeleted if topic in counted else None,
        )
        for topic in sorted(topics)
    }


def topics_changed(before: Collection[str], after: Collection[str]) -> str | None:
    """Return the difference between the topics of the last JoinGroup and the current ones, in words, or None."""
    before, after = set(before), set(after)
    if before == after:
        return None
    parts = [f"new {_names(after - before)}"] if after - before else []
    parts += [f"gone {_names(before - after)}"] if before - after else []
    return f"topics of the subscription changed: {', '.join(parts)}"


def shapes_changed(before: Mapping[str, TopicShape], after: Mapping[str, TopicShape]) -> str | None:
    """Return the first difference from the topics that the assignment was computed for, in words, or None."""
    for topic, now in after.items():
        then = before.get(topic)
        if then is None or then.partitions != now.partitions:
            was = 0 if then is None else then.partitions
            return f"topic {topic} has {now.partitions} partitions, {was} when the assignment was computed"
        if then.undeleted != now.undeleted:
            marked = now.partitions - (now.partitions if now.undeleted is None else now.undeleted)
            return f"topic {topic} has {marked} partitions marked for deletion, not as when the assignment was computed"
        if then.racks != now.racks:
            return f"replicas of topic {topic} are in other racks than when the assignment was computed"
    return None


def reassign_reason(assigned: Collection[TopicPartition], existing: Collection[TopicPartition]) -> str | None:
    """Return why a restarted leader should rejoin to compute an assignment; None if ``assigned`` equals ``existing``.

    An assignment may lack partitions that were added while the leader was down, and those that were left out until
    their owners revoked them (KIP-429). Assigned partitions that do not exist are a reason, too.
    """
    assigned, existing = set(assigned), set(existing)
    if assigned == existing:
        return None
    missing, gone = ([f"{tp.topic}-{tp.partition}" for tp in tps] for tps in (existing - assigned, assigned - existing))
    parts = [f"without {_names(missing)}"] if missing else []
    parts += [f"with {_names(gone)}, which do not exist"] if gone else []
    return f"restarted as leader of an assignment {' and '.join(parts)}"


def _names(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
