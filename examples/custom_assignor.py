"""A custom assignor: members with a higher strength get more partitions.

    python examples/custom_assignor.py

Every member sends its strength with JoinGroup, and the group leader's assignor computes the assignment. The example
starts an embedded broker and three members on one thread, which are polled in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from thinconsumer import Assignment, ClusterView, Consumer, PartitionAssignor, Subscription, TopicPartition
from thinconsumer.broker import BrokerProcess


class ByStrength(PartitionAssignor):
    """Assigns partitions one by one, each to the member with the fewest partitions in relation to its strength."""

    name = "by-strength"

    def __init__(self, strength: int = 1) -> None:
        self.strength = strength

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        """Return the strength. It is sent with every JoinGroup; after a change call ``enforce_rebalance()``."""
        return str(self.strength).encode()

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Return the assignment. Sorting makes it independent of which member is the leader."""
        strengths = {member: int(wish.user_data or b"1") for member, wish in subscriptions.items()}
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic in sorted({topic for wish in subscriptions.values() for topic in wish.topics}):
            willing = sorted(member for member, wish in subscriptions.items() if topic in wish.topics)
            for info in cluster.partitions.get(topic, ()):
                weakest = min(willing, key=lambda member: (len(shares[member]) + 1) / strengths[member])
                shares[weakest].append(TopicPartition(topic, info.partition))
        return {member: Assignment(tuple(share)) for member, share in shares.items()}


def main() -> None:
    """Divide twelve partitions among three members and print how many each got."""
    with BrokerProcess(topics={"orders": 12}) as broker:
        members = {
            strength: Consumer(
                "orders",
                bootstrap_servers=broker.bootstrap_servers,
                group_id="billing",
                partition_assignment_strategy=[ByStrength(strength)],
                heartbeat_interval_ms=100,
            )
            for strength in (1, 2, 3)
        }
        while not all(member.assignment() for member in members.values()):
            for member in members.values():
                member.poll(timeout_ms=20)
        for strength, member in members.items():
            print(f"strength {strength}: {len(member.assignment())} of 12 partitions")
        for member in members.values():
            member.close()


if __name__ == "__main__":
    main()
