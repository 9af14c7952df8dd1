"""The target assignment of a consumer group: what each member should own, once all members have reconciled.

Follows Kafka's ``TargetAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...image import ClusterImage
from ..records import CoordinatorRecord
from . import records
from .assignors import SERVER_ASSIGNORS
from .assignors.spec import MemberSpec
from .group import ConsumerGroup
from .topic_metadata import partition_counts, topic_ids


def new_target(
    group: ConsumerGroup, image: ClusterImage, default_assignor: str, now_ms: int
) -> Iterator[CoordinatorRecord]:
    """Yield the records of a target assignment for the group's epoch: those of members with a changed target."""
    name = group.preferred_assignor() or default_assignor
    specs = _specs(group, image)
    counts = partition_counts(frozenset().union(*(spec.subscribed for spec in specs.values())), image)
    targets = SERVER_ASSIGNORS[name](specs, counts)
    for member_id in group.members:
        target = targets.get(member_id, {})
        if member_id not in group.targets or group.targets[member_id] != target:
            yield records.target_record(group.group_id, member_id, target)
    yield records.target_epoch_record(group.group_id, group.epoch, now_ms)


def _specs(group: ConsumerGroup, image: ClusterImage) -> dict[str, MemberSpec]:
    # Members with the same subscription share one set of ids: assignors compare these sets.
    ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in group.members.items():
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in ids:
            ids[key] = topic_ids(group.subscriptions_of(member), image)
        specs[member_id] = MemberSpec(ids[key], group.target(member_id), member.instance_id)
    return specs
