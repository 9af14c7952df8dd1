"""The plan of the sticky assignors: as even as can be, then within racks, then with as little moved as possible.

Exactly so, not nearly: no plan is more even; of those as even, none has more partitions in their reader's rack
(KIP-881, where racks matter); of those, none leaves more with their owners. So a plan fed back gives itself, and a
cooperative group is stable after its second rebalance: what the first one could not hand over yet is nobody's by then,
and to give it where it was meant to go moves nothing, which no other plan can undercut.

1. Partitions that nobody could tell apart are one *pool*: same readers. How evenly can pools be spread over members?
   :mod:`.levels` answers with blocks: every member of a block gets ``least`` or ``most`` partitions, of the block's
   pools only.
2. Within these bounds, who gets what? Pools are divided further, by racks; a partition costs nothing with its owner,
   one with anybody else, and very much in a foreign rack. Whatever can stay starts where it is, the rest is dealt to
   the least loaded, and then :mod:`.flow` moves from where too much is to where too little is, by the cheapest chains.
3. So many units of a pool for a member become partitions: its own first, then new ones dealt out in turns, so that each
   topic is spread.

In a group that subscribes to the same topics there is one pool and one block, and all of this comes down to: keep up to
your quota, and take from the others' surplus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..types import ClusterView, TopicPartition
from .base import Subscription, sort_key
from .flow import Flow
from .levels import blocks
from .masks import bits, readers
from .plans import in_order, known_topics
from .racks import member_racks, partition_racks, racks_matter


def balanced(
    cluster: ClusterView, subscriptions: Mapping[str, Subscription], owners: Mapping[TopicPartition, str]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the partitions of each member. ``owners``: who had what; others than members count for nobody."""
    members = sorted(subscriptions, key=sort_key)
    problem = _Problem(cluster, subscriptions, members)
    shares = problem.solve(owners)
    return {member: in_order(share) for member, share in zip(members, shares)}


class _Pool:
    """Partitions that differ in nothing but their owners."""

    def __init__(self, near: int, far: int) -> None:
        self.near = near
        self.far = far
        self.partitions: list[TopicPartition] = []
        self.owned: dict[int, list[TopicPartition]] = {}

    def add(self, tp: TopicPartition, owner: int | None) -> None:
        self.partitions.append(tp)
        if owner is not None and (self.near | self.far) >> owner & 1:
            self.owned.setdefault(owner, []).append(tp)

    def deal(self, counts: Mapping[int, int]) -> dict[int, list[TopicPartition]]:
        """Say which partitions the members get that get so many: their own, then new ones in turns."""
        kept = {}
        for member, owned in self.owned.items():
            # By number first: what goes away comes from all topics.
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
    """Members as numbers, in order; pools as they were found."""

    def __init__(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription], members: Sequence[str]) -> None:
        self.members = members
        self.topics = known_topics(cluster, subscriptions.values())
        self.counts = {topic: cluster.partition_count(topic) for topic in self.topics}
        self.readers = readers(self.topics, members, subscriptions)
        self.bounds = [(0, 0)] * len(members)
        self.racks: dict[TopicPartition, frozenset[str]] = {}
        self.in_rack: dict[str, int] = {}
        self._look_at_racks(cluster, subscriptions)

    def _look_at_racks(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> None:
        of_members = member_racks(subscriptions)
        if not of_members:
            return
        racks = partition_racks(cluster, self.topics)
        if not racks_matter(of_members.values(), racks.values()):
            return
        for number, member in enumerate(self.members):
            if member in of_members:
                self.in_rack[of_members[member]] = self.in_rack.get(of_members[member], 0) | 1 << number
        known = frozenset(self.in_rack)
        self.racks = {tp: where & known for tp, where in racks.items()}

    def solve(self, owners: Mapping[TopicPartition, str]) -> list[list[TopicPartition]]:
        """Return each member's partitions, by number."""
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
        """Find the blocks, and divide their pools by racks."""
        alike: dict[int, list[str]] = {}
        for topic in self.topics:
            alike.setdefault(self.readers[topic], []).append(topic)
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
        """Distribute so many units of each pool, at least cost."""
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
        for member, (least, _) in enumerate(self.bounds):
            load = flow.load(member)
            flow.member_excess[member], flow.room[member] = max(0, load - least), max(0, least - load)
        flow.route()
        flow.room = [most - least for least, most in self.bounds]
        flow.route()
        return flow
