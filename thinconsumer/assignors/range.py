"""The range assignor: each member gets consecutive partitions of each topic, and the first members may get one more.

Of topics with the same subscribers and number of partitions, a member gets the same partition numbers, as joins of
co-partitioned topics require. With racks (KIP-881), partitions with a replica in the member's rack are assigned first;
the numbers of partitions still differ by one at most, and these topics stay co-partitioned. The result equals that of
Java's ``RangeAssignor``, so it does not depend on which client leads the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from ..types import ClusterView, TopicPartition
from .base import Assignment, PartitionAssignor, Subscription
from .plans import bits, member_racks, racks_matter, readers, static_first


class RangeAssignor(PartitionAssignor):
    """``"range"``: each member gets consecutive partitions of each topic, with racks first those near to it.

    In topics with the same subscribers and number of partitions, a member gets the same partition numbers.
    """

    name = "range"

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Divide each topic among the members subscribed to it."""
        members = sorted(subscriptions, key=partial(static_first, subscriptions))
        racks = member_racks(subscriptions)
        member_rack = [racks.get(member) for member in members]
        masks = readers(cluster, members, subscriptions)
        known = {mask: {rack for i in bits(mask) if (rack := member_rack[i])} for mask in set(masks.values()) if racks}
        topics = [_Topic(t, mask, member_rack, known.get(mask, ()), cluster) for t, mask in masks.items()]
        if any(topic.racks_matter for topic in topics):
            _within_racks(topics)
        shares: list[list[TopicPartition]] = [[] for _ in members]
        for topic in topics:
            topic.give_runs(heed_racks=False)
            for member, partitions in topic.given.items():
                shares[member] += [TopicPartition(topic.name, partition) for partition in sorted(partitions)]
        return {member: Assignment(tuple(share)) for member, share in zip(members, shares)}


class _Topic:
    """One topic during the assignment. Members are numbers, in assignment order.

    ``members`` is the bit mask of the subscribers, ``racks`` has each member's rack, ``known`` the subscribers' racks.
    """

    def __init__(
        self, name: str, members: int, racks: Sequence[str | None], known: Collection[str], cluster: ClusterView
    ) -> None:
        self.name = name
        self.members = members
        self.racks = racks
        count = cluster.partition_count(name)
        self.left = dict.fromkeys(range(count))  # unassigned partitions, as an ordered set
        self.given: dict[int, list[int]] = {}
        self.least, self.extras = divmod(count, members.bit_count())
        self.replicas = [cluster.racks(partition) for partition in cluster.partitions[name]] if known else []
        self.racks_matter = racks_matter(known, self.replicas)

    def room(self, member: int) -> int:
        """Return how many partitions the member lacks to its equal share, plus one if ``extras`` are left."""
        return max(0, self.least + (self.extras > 0) - len(self.given.get(member, ())))

    def fits(self, member: int, partition: int) -> bool:
        """Return whether the partition has a replica in the member's rack, or the member has no rack."""
        rack = self.racks[member]
        return rack is None or rack in self.replicas[partition]

    def give(self, member: int, partitions: Iterable[int]) -> None:
        given = self.given.setdefault(member, [])
        for partition in partitions:
            del self.left[partition]
            given.append(partition)
        if len(given) > self.least:
            self.extras -= 1

    def give_runs(self, *, heed_racks: bool) -> None:
        """Assign what each member lacks, lowest numbers first; with ``heed_racks`` only what fits its rack."""
        for member in bits(self.members):
            if not self.left:
                break
            fitting = (p for p in self.left if self.fits(member, p)) if heed_racks else self.left
            run = list(islice(fitting, self.room(member)))
            if run:
                self.give(member, run)


def _within_racks(topics: Sequence[_Topic]) -> None:
    """Assign partitions to members in the rack of a replica or without a rack, up to each member's share.

    In topics with the same subscribers and number of partitions, a member gets the same partition numbers.
    """
    together: dict[tuple[int, int], list[_Topic]] = {}
    for topic in topics:
        together.setdefault((topic.members, len(topic.replicas)), []).append(topic)
    for group in together.values():
        if len(group) > 1:
            _give_in_step(group)
        elif group[0].racks_matter:
            group[0].give_runs(heed_racks=True)


def _give_in_step(topics: Sequence[_Topic]) -> None:
    """Assign the partitions of each number to the first member with room that has no rack or is near to them all."""
    waiting = list(bits(topics[0].members))
    for partition in range(len(topics[0].replicas)):
        for member in waiting:
            if all(topic.room(member) and topic.fits(member, partition) for topic in topics):
                for topic in topics:
                    topic.give(member, [partition])
                if not any(topic.room(member) for topic in topics):
                    waiting.remove(member)
                break
