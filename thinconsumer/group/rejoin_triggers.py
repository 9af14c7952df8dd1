"""Who rejoins for what, as pure functions: what of the cluster a plan depends on, and whether that has changed.

Every member joins again when its own set of topics has. The leader, which alone knows what the plan was made from,
does so when a topic has other partitions, or other racks if the plan heeded racks (KIP-881). It compares counts and
names, never objects: comparing what metadata happens to hold is how groups rebalance with every refresh (E5).

A static leader that is restarted is told to keep a plan that it has not made (KIP-814), and would take the topics of
now for those of then: what appeared in between would be nobody's. So a plan comes with a note in its leader's own
share, which the coordinator hands to whoever comes back in its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..types import ClusterView

#: What a note begins with: other clients may have left anything in a share.
NOTE = b"thinconsumer: planned with "
DIGEST_BYTES = 16


class TopicShape(NamedTuple):
    """What a plan depends on in one topic."""

    partitions: int
    racks: tuple[frozenset[str], ...]  #: By partition, where its replicas are; empty when racks play no part.


def shapes(view: ClusterView, topics: Collection[str], *, racks: bool) -> dict[str, TopicShape]:
    """Return the shape of every topic; one that is not known has no partitions."""
    return {
        topic: TopicShape(
            view.partition_count(topic),
            tuple(view.racks(p) for p in view.partitions.get(topic, ())) if racks else (),
        )
        for topic in sorted(topics)
    }


def topics_changed(before: Collection[str], after: Collection[str]) -> str | None:
    """Return what is different between the topics joined with and those wanted now, in words; None if nothing is."""
    before, after = set(before), set(after)
    if before == after:
        return None
    parts = [f"new {_some(after - before)}"] if after - before else []
    parts += [f"gone {_some(before - after)}"] if before - after else []
    return f"topics of the subscription changed: {', '.join(parts)}"


def shapes_changed(before: Mapping[str, TopicShape], after: Mapping[str, TopicShape]) -> str | None:
    """Return how the topics have changed since the plan was made, in words; None if they have not."""
    for topic, now in after.items():
        then = before.get(topic)
        if then is None or then.partitions != now.partitions:
            was = 0 if then is None else then.partitions
            return f"topic {topic} has {now.partitions} partitions, {was} when the plan was made"
        if then.racks != now.racks:
            return f"replicas of topic {topic} are in other racks than when the plan was made"
    return None


def note_of(plan: Mapping[str, TopicShape], *, half: bool) -> bytes:
    """Return what a static leader leaves in its own share: what it planned with, and if that is half a handover."""
    text = "".join(f"{topic}\n{shape.partitions}\n" for topic, shape in sorted(plan.items()))
    return NOTE + (b"\1" if half else b"\0") + hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


def doubts(note: bytes | None, now: Mapping[str, TopicShape], *, cooperative: bool) -> str | None:
    """Return why whoever came back as the leader should ask for a plan of its own; None if the old one still holds.

    Without a note one cannot know. Where a rebalance moves nothing that need not move it is asked for then.
    """
    if note is None:
        return "leads by a plan that it has not made, and which may be half of a handover" if cooperative else None
    if note == note_of(now, half=False):
        return None
    if note == note_of(now, half=True):
        return "came back to lead by a plan that was half of a handover"
    return "came back to lead by a plan that was made when topics had other partitions"


def _some(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
