"""The round robin assignor: members get partitions in turn, skipping members not subscribed to the partition's topic.

The result equals that of Java's ``RoundRobinAssignor``, so it does not depend on which client leads the group.
"""

from collections.abc import Mapping
from functools import partial

from ..types import ClusterView, TopicPartition
from .base import Assignment, PartitionAssignor, Subscription
from .plans import next_bit, readers, static_first


class RoundRobinAssignor(PartitionAssignor):
    """``"roundrobin"``: balanced if all members subscribe to the same topics."""

    name = "roundrobin"

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Assign partitions in turn; the turn continues from one topic to the next."""
        members = sorted(subscriptions, key=partial(static_first, subscriptions))
        shares: list[list[TopicPartition]] = [[] for _ in members]
        turn = 0
        for topic, subscribers in readers(cluster, members, subscriptions).items():
            for partition in range(cluster.partition_count(topic)):
                member = next_bit(subscribers, turn)
                shares[member].append(TopicPartition(topic, partition))
                turn = member + 1
        return {name: Assignment(tuple(share)) for name, share in zip(members, shares)}
