"""RoundRobin: all partitions of all topics in a row are dealt out like cards, to those who take the suit.

Gives exactly the plans of Java's ``RoundRobinAssignor``, so that any mix of clients agrees whoever leads.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types import ClusterView, TopicPartition
from .base import Assignment, PartitionAssignor, Subscription
from .masks import next_bit, readers
from .plans import known_topics, static_first


class RoundRobinAssignor(PartitionAssignor):
    """``"roundrobin"``: even counts, as long as all members subscribe to the same topics."""

    name = "roundrobin"

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Deal; the turn goes on from one topic to the next."""
        members = sorted(subscriptions, key=lambda member: static_first(member, subscriptions[member]))
        topics = known_topics(cluster, subscriptions.values())
        shares: list[list[TopicPartition]] = [[] for _ in members]
        turn = 0
        for topic, takers in readers(topics, members, subscriptions).items():
            for partition in range(cluster.partition_count(topic)):
                taker = next_bit(takers, turn)
                shares[taker].append(TopicPartition(topic, partition))
                turn = taker + 1
        return {member: Assignment(tuple(share)) for member, share in zip(members, shares)}
