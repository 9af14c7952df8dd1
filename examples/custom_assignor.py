"""An assignor of your own: strong members get more partitions than weak ones.

    python examples/custom_assignor.py

Every member tells the leader its strength, and the leader's copy of the assignor plans for all of them. Starts a broker
of its own, and three members on one thread: each is polled in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from thinconsumer import Assignment, ClusterView, Consumer, PartitionAssignor, Subscription, TopicPartition
from thinconsumer.broker import BrokerProcess


class ByStrength(PartitionAssignor):
    """Deals partitions out one by one, always to the member that has the least for its strength."""

    name = "by-strength"

    def __init__(self, strength: int = 1) -> None:
        self.strength = strength

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        """Sent with every join, so it may change: enforce_rebalance() has the group plan anew."""
        return str(self.strength).encode()

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Runs in the leader only, and must not depend on which one that is: hence the sorting."""
        strengths = {member: int(wish.user_data or b"1") for member, wish in subscriptions.items()}
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic in sorted({topic for wish in subscriptions.values() for topic in wish.topics}):
            willing = sorted(member for member, wish in subscriptions.items() if topic in wish.topics)
            for info in cluster.partitions.get(topic, ()):
                weakest = min(willing, key=lambda member: (len(shares[member]) + 1) / strengths[member])
                shares[weakest].append(TopicPartition(topic, info.partition))
        return {member: Assignment(tuple(share)) for member, share in shares.items()}


def main() -> None:
    """Let three members share twelve partitions, and show who has how many."""
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
