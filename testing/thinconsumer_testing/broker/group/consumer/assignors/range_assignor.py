"""The range assignor of the coordinator: each topic's partitions in consecutive ranges.

Static members come first, sorted by instance id, so that a restarted one gets the same range; the other members follow,
sorted by member id. Topics with equal partition counts and equal subscribers are co-partitioned. Follows Kafka's
``RangeAssignor`` of the group coordinator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..member import Target
from .spec import MemberSpec


def assign_ranges(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign each topic's partitions in ranges; if they cannot be shared evenly, the first members get one more."""
    order = sorted(members, key=lambda member_id: _sort_key(member_id, members[member_id]))
    subscribers = Counter(topic_id for spec in members.values() for topic_id in spec.subscribed)
    begun: Counter[bytes] = Counter()
    assignment: dict[str, Target] = {}
    for member_id in order:
        target: dict[bytes, frozenset[int]] = {}
        for topic_id in sorted(members[member_id].subscribed):
            number, total, among = begun[topic_id], counts[topic_id], subscribers[topic_id]
            begun[topic_id] += 1
            size, extra = divmod(total, among)
            first = number * size + min(number, extra)
            found = range(first, first + size + (number < extra))
            if found:
                target[topic_id] = frozenset(found)
        assignment[member_id] = target
    return assignment


def _sort_key(member_id: str, spec: MemberSpec) -> tuple[bool, str]:
    return spec.instance_id is None, member_id if spec.instance_id is None else spec.instance_id
