"""Compute the assignment of the sticky assignors: most balanced, then rack-aware, then sticky.

No assignment is more balanced; of equally balanced ones, none has more partitions with a replica in their member's rack
(KIP-881, if racks matter); of those, none leaves more partitions with their previous owners. So without a change of the
group, the next rebalance moves nothing, and a cooperative group is stable after the second rebalance: partitions
revoked in the first one have no owner, and to assign them as planned moves no partition.

1. Partitions of topics with the same subscribers form a *pool*. :mod:`.levels` finds how evenly pools can be spread and
   divides the problem into *blocks*: each member of a block gets ``least`` or ``most`` partitions, all from the block's
   pools.
2. Pools are subdivided by the racks of their replicas. A partition costs 1 less at its owner than at another member,
   and very much more at a member whose rack has no replica of it. At first each owner gets its partitions back,
   except those without a replica in its rack, and the least loaded members get the rest; then :mod:`.flow` moves
   partitions from overloaded to underloaded members at minimum cost.
3. The number of partitions per pool and member is turned into partitions: first those that the member owns, then others
   round robin, which spreads each topic.

If all members subscribe to the same topics and racks do not matter, there is one pool and one block: members keep what
they own up to their quota, and partitions above the quota move to members below theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..support.garbage_collection import garbage_collection_paused
from ..types import ClusterView, TopicPartition
from .base import Subscription, sort_key
from .flow import Flow
from .levels import blocks
from .plans import bits, in_order, member_racks, partition_racks, racks_matter, readers


@garbage_collection_paused  # else thousands of new objects start many collections
def balanced(
    cluster: ClusterView, subscriptions: Mapping[str, Subscription], owners: Mapping[TopicPartition, str]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the partitions of each member. ``owners`` are previous owners; any that left the group are ignored."""
    members = sorted(subscriptions, key=sort_key)
    shares = _Problem(cluster, subscriptions, members).solve(owners)
    return {member: in_order(share) for member, share in zip(members, shares)}


class _Pool:
    """Partitions with the same subscribers, and with replicas in the same racks."""

    def __init__(self, near: int, far: int) -> None:
        self.near = near  #: The bit mask of the subscribers in one of these racks or without a rack.
        self.far = far  #: The bit mask of the other subscribers.
        self.partitions: list[TopicPartition] = []
        self.owned: dict[int, list[TopicPartition]] = {}

    def add(self, tp: TopicPartition, owner: int | None) -> None:
        self.partitions.append(tp)
        if owner is not None and (self.near | self.far) >> owner & 1:
            self.owned.setdefault(owner, []).append(tp)

    def deal(self, counts: Mapping[int, int]) -> dict[int, list[TopicPartition]]:
        """Return for each member as many partitions as ``counts`` says: owned ones first, then others round robin."""
        kept = {}
        for member, owned in self.owned.items():
            # Sorted by number before topic: a member gives up some partitions of each topic, not all of one topic.
            kept[member] = sorted(owned, key=lambda tp: (tp.partition, sort_key(tp.topic)))[: counts.get(member, 0)]
        stay = {tp for owned in kept.values() for tp in owned}
        shares = {member: kept.get(member, []) for member in counts}
        waiting = deque((member, count - len(shares[member])) for member, count in sorted(counts.items()))
        for tp in self.partitions:
            if tp in stay:
                continue
            member, count = waiting.popleft()
            while not count:
                member, count = waiting.popleft()
            shares[member].append(tp)
            waiting.append((member, count - 1))
        return shares


class _Problem:
    """The input of one assignment. Members are numbered in sorted order."""

    def __init__(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription], members: Sequence[str]) -> None:
        self.members = members
        self.readers = readers(cluster, members, subscriptions)
        self.counts = {topic: cluster.partition_count(topic) for topic in self.readers}
        self.bounds = [(0, 0)] * len(members)
        self.racks: dict[TopicPartition, frozenset[str]] = {}
        self.in_rack: dict[str, int] = {}
        of_members = member_racks(subscriptions)
        racks = partition_racks(cluster, self.readers) if of_members else {}
        if racks_matter(of_members.values(), racks.values()):
            for number, member in enumerate(members):
                if member in of_members:
                    self.in_rack[of_members[member]] = self.in_rack.get(of_members[member], 0) | 1 << number
            known = frozenset(self.in_rack)
            self.racks = {tp: where & known for tp, where in racks.items()}

    def solve(self, owners: Mapping[TopicPartition, str]) -> list[list[TopicPartition]]:
        """Return the partitions of each member, by the member's number."""
        pools = self._pools(owners)
        flow = self._flow(pools)
        counts: list[dict[int, int]] = [{} for _ in pools]
        for member, units in enumerate(flow.units):
            for index, count in units.items():
                counts[index][member] = count
        shares: list[list[TopicPartition]] = [[] for _ in self.members]
        for index, pool in enumerate(pools):
            for member, share in pool.deal(counts[index]).items():
                shares[member] += share
        return shares

    def _pools(self, owners: Mapping[TopicPartition, str]) -> list[_Pool]:
        """Return the pools of all blocks, divided by rack; store each member's least and most number of partitions."""
        alike: dict[int, list[str]] = {}
        for topic, mask in self.readers.items():
            alike.setdefault(mask, []).append(topic)
        masks = list(alike)
        number = {member: index for index, member in enumerate(self.members)}
        pools: dict[tuple[int, frozenset[str]], _Pool] = {}
        for block in blocks([sum(map(self.counts.__getitem__, alike[mask])) for mask in masks], masks):
            for member in bits(block.members):
                self.bounds[member] = block.least, block.most
            for index in block.pools:
                for topic in alike[masks[index]]:
                    for partition in range(self.counts[topic]):
                        tp = TopicPartition(topic, partition)
                        pool = self._pool(pools, masks[index] & block.members, tp)
                        pool.add(tp, number.get(owners.get(tp, "")))
        return list(pools.values())

    def _pool(self, pools: dict[tuple[int, frozenset[str]], _Pool], members: int, tp: TopicPartition) -> _Pool:
        racks = self.racks.get(tp, frozenset())
        pool = pools.get((members, racks))
        if pool is None:
            far = 0
            for rack, mask in self.in_rack.items():
                far |= 0 if rack in racks else members & mask
            pool = pools[members, racks] = _Pool(members & ~far, far)
        return pool

    def _flow(self, pools: Sequence[_Pool]) -> Flow:
        """Distribute the partitions of all pools over members at minimum cost."""
        flow = Flow(
            [len(pool.partitions) for pool in pools],
            [pool.near for pool in pools],
            len(self.members),
            [pool.far for pool in pools],
            [{member: len(owned) for member, owned in pool.owned.items()} for pool in pools],
        )
        for index, pool in enumerate(pools):
            for member, owned in pool.owned.items():
                if pool.near >> member & 1:
                    flow.put(index, member, len(owned))
        flow.fill([most for _, most in self.bounds])
        flow.raise_to(enumerate(least for least, _ in self.bounds))
        flow.room = [most - least for least, most in self.bounds]
        flow.route()
        return flow
