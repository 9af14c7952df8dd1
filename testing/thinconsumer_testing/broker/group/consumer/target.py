"""The target assignment of a consumer group: what each member should own, once all members have reconciled.

Follows Kafka's ``TargetAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...image import ClusterImage
from ..records import CoordinatorRecord
from . import records
from .assignors.registry import Assignor
from .assignors.spec import MemberSpec, ServerAssignor
from .assignors.user_assignor import ConsumerGroupPartitionAssignor, assign_by_user
from .group import ConsumerGroup
from .member import Target, target_of
from .topic_metadata import CountsByTopic, partition_counts, topic_ids


def assignor_of(group: ConsumerGroup, assignors: Mapping[str, Assignor]) -> Assignor:
    """Return the assignor that most members prefer, or the broker's first one."""
    first = next(iter(assignors.values()))
    # The log may name an assignor that the broker was configured with in an earlier run.
    return assignors.get(group.preferred_assignor() or "", first)


def new_target(
    group: ConsumerGroup, image: ClusterImage, assignors: Mapping[str, Assignor], now_ms: int
) -> Iterator[CoordinatorRecord]:
    """Compute the target assignment for the group's epoch; yield a record for each changed target, then the epoch
    record.

    Raises:
        GroupRequestError: UNKNOWN_SERVER_ERROR: an assignor of the user has failed.
    """
    assignor = assignor_of(group, assignors)
    specs = _specs(group, image)
    counts = partition_counts(frozenset().union(*(spec.subscribed for spec in specs.values())), image)
    if isinstance(assignor, ConsumerGroupPartitionAssignor):
        targets = assign_by_user(assignor, group, counts, image)
    else:
        targets = assign_in_lists(specs, counts, assignor)
    for member_id in group.members:
        target = targets.get(member_id, {})
        if member_id not in group.targets or group.targets[member_id] != target:
            yield records.target_record(group.group_id, member_id, target)
    yield records.target_epoch_record(group.group_id, group.epoch, now_ms)


def assign_in_lists(
    specs: Mapping[str, MemberSpec], counts: CountsByTopic, assign: ServerAssignor
) -> dict[str, Target]:
    """Return the target assignment of each member. The assignor is called for the partitions that are not marked for
    deletion, and if some are marked, a second time for these (KIP-253).

    Producers write nothing to marked partitions. If an assignor got all partitions in one list, a member could get all
    marked ones, and none with new records. ``thinconsumer/group/partition_lists.py`` does the same for classic groups.
    """
    targets = assign(specs, counts.undeleted)
    if not any(counts.marked.values()):
        return targets
    first = counts.undeleted
    shifted = {
        member_id: spec._replace(target=_shifted(spec.target, {one: -number for one, number in first.items()}))
        for member_id, spec in specs.items()
    }
    rest = {member_id: _shifted(target, first) for member_id, target in assign(shifted, counts.marked).items()}
    return {member_id: _joined(target, rest[member_id]) for member_id, target in targets.items()}


def _joined(one: Target, other: Target) -> Target:
    nothing: frozenset[int] = frozenset()
    return {topic_id: one.get(topic_id, nothing) | other.get(topic_id, nothing) for topic_id in {**one, **other}}


def _shifted(target: Target, by: Mapping[bytes, int]) -> Target:
    """Add ``by`` to the partition numbers of each topic; leave out negative results, and topics that ``by`` lacks."""
    return target_of(
        (topic_id, [number + by[topic_id] for number in numbers if number + by[topic_id] >= 0])
        for topic_id, numbers in target.items()
        if topic_id in by
    )


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
