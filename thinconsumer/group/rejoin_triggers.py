"""Reasons to rejoin, as pure functions: the cluster data that an assignment depends on, and whether it has changed.

Every member rejoins when its own set of topics changes. The leader, which computed the assignment, also rejoins when a
topic's partition count changes, or its replicas' racks if the assignment used racks (KIP-881). The leader compares
counts and names: metadata objects differ after every refresh, which would cause a rebalance each time.

A static leader that restarts must keep the assignment from before the restart (KIP-814). It cannot tell from metadata
which partitions were added since the assignment, and these would stay unassigned. So the leader adds a note to the user
data of its own assignment, which the coordinator returns to the restarted leader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..types import ClusterView

#: The prefix of the user data that a leader writes into its own assignment (:func:`note_of`). It tells this data from
#: that of another client, which may have computed the assignment.
NOTE = b"thinconsumer: planned with "
DIGEST_BYTES = 16


class TopicShape(NamedTuple):
    """The properties of one topic that an assignment depends on: if they change, the leader rejoins."""

    partitions: int
    racks: tuple[frozenset[str], ...]  #: By partition, the racks of its replicas; empty if racks are ignored.


def shapes(view: ClusterView, topics: Collection[str], *, racks: bool) -> dict[str, TopicShape]:
    """Return the shape of every topic; an unknown topic has no partitions."""
    return {
        topic: TopicShape(
            view.partition_count(topic), tuple(view.racks(p) for p in view.partitions.get(topic, ())) if racks else ()
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
    """Return how the topics have changed since the assignment was computed, in words, or None."""
    for topic, now in after.items():
        then = before.get(topic)
        if then is None or then.partitions != now.partitions:
            was = 0 if then is None else then.partitions
            return f"topic {topic} has {now.partitions} partitions, {was} when the assignment was computed"
        if then.racks != now.racks:
            return f"replicas of topic {topic} are in other racks than when the assignment was computed"
    return None


def note_of(plan: Mapping[str, TopicShape], *, withheld: bool) -> bytes:
    """Return the user data of a static leader's own assignment: a digest of the topics, and ``withheld``.

    ``withheld`` says that the assignment withholds partitions until their owners have revoked them (KIP-429).
    """
    text = "".join(f"{topic}\n{shape.partitions}\n" for topic, shape in sorted(plan.items()))
    return NOTE + (b"\1" if withheld else b"\0") + hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


def reassign_reason(note: bytes | None, now: Mapping[str, TopicShape], *, cooperative: bool) -> str | None:
    """Return why a restarted leader should rejoin to compute an assignment; None if the old one is still valid.

    If the assignment has no note, another client may have computed it. A cooperative group then rebalances, since that
    moves no partition needlessly; an eager group does not, since every member would revoke all its partitions.
    """
    if note is None:
        return "leads with an assignment that it did not compute" if cooperative else None
    if note == note_of(now, withheld=False):
        return None
    if note == note_of(now, withheld=True):
        return "restarted as leader of an assignment that withheld partitions"
    return "restarted as leader of an assignment computed when topics had other partitions"


def _names(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
