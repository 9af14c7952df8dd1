"""Assign partitions to members at minimum cost: the algorithm of the sticky assignors.

A *pool* is a set of partitions with the same subscribers, its members; only the number of partitions matters. A
partition costs 0 at a *near* member (in the rack of a replica, or without a rack) and ``FAR`` at a *far* one. For as
many partitions of a pool as a member *owned* before, the cost at this member is 1 less. The caller limits the loads:
partitions wait as *excess* at their pool or an overloaded member until ``route`` moves them to members with *room*
along the cheapest paths. A path may also move partitions from one member to another.

This is minimum-cost flow by successive shortest paths: Dijkstra's algorithm with node potentials, here called
*heights*, finds the length of the shortest path, and Dinic's layers move partitions along all paths of that length at
once. Costs have few different values, and therefore heights do, too; sets of members are bit masks, so that a pool with
a thousand members takes a few operations on long integers instead of a thousand steps. Each round makes the shortest
path longer or, at equal length, the layers deeper, so the algorithm ends.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from .plans import bits

#: The cost of a partition at a far member: more than the costs of 1 on a path can add up to.
FAR = 1 << 40

#: Kinds of entries in the heap of :class:`_Search`. At equal distance the smallest comes first: a member with room ends
#: the search.
_SINK, _POOL, _MEMBER, _NEAR, _FAR = range(5)


class Flow:
    """Track how many partitions of each pool each member has.

    By pool: ``supplies`` has the number of partitions, ``near`` and ``far`` the bit masks of members, ``owned`` the
    numbers that members had before the rebalance. ``members`` is the number of members.
    """

    def __init__(
        self,
        supplies: Sequence[int],
        near: Sequence[int],
        members: int,
        far: Sequence[int] | None = None,
        owned: Sequence[Mapping[int, int]] | None = None,
    ) -> None:
        pools = len(supplies)
        self.near = near
        self.far = far if far is not None else [0] * pools
        self.owned = owned if owned is not None else [{}] * pools
        #: For each member, its number of partitions by pool.
        self.units: list[dict[int, int]] = [{} for _ in range(members)]
        #: For each pool, by member: how many partitions the member owned before the rebalance and does not have now.
        self.missing: list[dict[int, int]] = [dict(owned) for owned in self.owned]
        self.pool_excess = list(supplies)
        self.member_excess = [0] * members
        self.room = [0] * members
        #: A pool's or member's height minus ``source_height`` is the cost of the cheapest path to it from excess
        #: partitions, as far as known.
        self.pool_height = [0] * pools
        self.member_height = [0] * members
        self.at_height = {0: (1 << members) - 1}  #: For each height, the bit mask of its members.
        self.source_height = 0
        self.sink_height = 0

    def load(self, member: int) -> int:
        return sum(self.units[member].values())

    def put(self, pool: int, member: int, count: int) -> None:
        """Give ``count`` excess partitions of the pool to the member.

        A shortest path must lead from the pool to the member (see :meth:`onward`): :meth:`route` needs an optimal
        assignment to start from. Before the first ``route``, this holds for all near members and for no far one.
        """
        self.pool_excess[pool] -= count
        self.move(pool, member, count)

    def move(self, pool: int, member: int, count: int) -> None:
        """Add ``count`` partitions of the pool to the member; a negative ``count`` removes partitions."""
        has = self.units[member].get(pool, 0) + count
        if has:
            self.units[member][pool] = has
        else:
            del self.units[member][pool]
        if (owned := self.owned[pool].get(member)) is not None:
            if has < owned:
                self.missing[pool][member] = owned - has
            else:
                self.missing[pool].pop(member, None)

    def fill(self, most: Sequence[int]) -> None:
        """Give excess partitions to the least loaded near members, up to ``most`` each: faster than by :meth:`route`.

        Pools with few members come first, as their partitions have the least choice.
        """
        open_at: dict[int, int] = {}  # by load: the bit mask of members with this load that may get more
        for member, limit in enumerate(most):
            load = self.load(member)
            if load < limit:
                open_at[load] = open_at.get(load, 0) | 1 << member
        loads = sorted(open_at)
        for pool in sorted(range(len(self.near)), key=lambda pool: self.near[pool].bit_count()):
            index = 0
            while self.pool_excess[pool] and index < len(loads):
                load = loads[index]
                found = open_at[load] & self.near[pool]
                if not found:
                    index += 1
                    continue
                bit = found & -found
                member = bit.bit_length() - 1
                self.put(pool, member, 1)
                if load + 1 < most[member]:
                    if load + 1 not in open_at:
                        insort(loads, load + 1)
                        open_at[load + 1] = 0
                    open_at[load + 1] |= bit
                open_at[load] ^= bit
                if not open_at[load]:
                    del open_at[load], loads[index]

    def raise_to(self, least: Iterable[tuple[int, int]]) -> None:
        """Move partitions to members below their load in ``least``, pairs of a member and a load, as far as possible.

        They come from the excess of pools, and from members above their load.
        """
        for member, load in least:
            above = self.load(member) - load
            self.member_excess[member], self.room[member] = max(0, above), max(0, -above)
        self.route()

    def route(self) -> None:
        """Move as many excess partitions as possible to members with room, at minimum total cost."""
        open_to = [self.member_height[member] for member, room in enumerate(self.room) if room]
        if not open_to:
            return
        self.sink_height = min(open_to)
        while self._raise_heights():
            while (layers := _Layers.of(self)) is not None:
                layers.drain()

    def step_cost(self, pool: int, member: int) -> int:
        """Return the cost of a partition of the pool at the member, if the member did not own it."""
        return FAR if self.far[pool] >> member & 1 else 0

    def back_cost(self, member: int, pool: int) -> tuple[int, int]:
        """Return the cost to take a partition of the pool from the member, and how many can be taken at this cost."""
        count = self.units[member][pool]
        owned = self.owned[pool].get(member, 0)
        cost = self.step_cost(pool, member)
        return (-cost, count - owned) if count > owned else (1 - cost, count)

    def onward(self, pool: int, among: int) -> int:
        """Return the mask of those members in ``among`` to which a shortest path leads from the pool."""
        height = self.pool_height[pool]
        found = self.near[pool] & self.at_height.get(height, 0) | self.far[pool] & self.at_height.get(height + FAR, 0)
        found &= among
        for member in self.missing[pool]:
            if among >> member & 1 and self.member_height[member] == height + self.step_cost(pool, member) - 1:
                found |= 1 << member
        return found

    def onward_room(self, pool: int, member: int) -> int | None:
        """Return how many partitions a shortest path can move from the pool to the member; None if unlimited."""
        is_plain = self.member_height[member] == self.pool_height[pool] + self.step_cost(pool, member)
        return None if is_plain else self.missing[pool][member]

    def leads_back(self, member: int, pool: int) -> bool:
        """Return whether a shortest path leads from the member back to a pool of which the member has partitions."""
        return self.pool_height[pool] == self.member_height[member] + self.back_cost(member, pool)[0]

    def sources(self) -> tuple[list[int], list[int]]:
        """Return the pools and members with excess partitions at which shortest paths begin."""
        top = self.source_height
        pools = [p for p, some in enumerate(self.pool_excess) if some and self.pool_height[p] == top]
        members = [m for m, some in enumerate(self.member_excess) if some and self.member_height[m] == top]
        return pools, members

    def is_goal(self, member: int) -> bool:
        """Return whether a shortest path can end at the member."""
        return self.room[member] > 0 and self.member_height[member] == self.sink_height

    def _raise_heights(self) -> bool:
        """Search the shortest path to a member with room, and update the heights; return False if there is no path."""
        search = _Search(self)
        reach = search.run()
        if reach is None:
            return False
        self.source_height -= reach
        for pool, distance in search.pools.items():
            self.pool_height[pool] += distance - reach
        for member, distance in search.members.items():
            if distance < reach:
                bit = 1 << member
                before = self.member_height[member]
                after = self.member_height[member] = before + distance - reach
                self.at_height[before] ^= bit
                self.at_height[after] = self.at_height.get(after, 0) | bit
        self.at_height = {height: mask for height, mask in self.at_height.items() if mask}
        return True


class _Search:
    """One run of Dijkstra's algorithm over reduced costs, up to the nearest member with room.

    The reduced cost of a step is its cost, plus the height where it begins, minus that where it ends: never negative.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        #: The distance of each pool reached so far, from a source (:attr:`Flow.source_height`) in front of all pools
        #: and members with excess.
        self.pools: dict[int, int] = {}
        self.members: dict[int, int] = {}  #: The distance of each member reached so far.
        self.free = (1 << len(flow.units)) - 1  #: The bit mask of members not reached yet.
        self.heights = sorted(flow.at_height, reverse=True)
        top = flow.source_height
        #: Entries: (distance, kind, pool or member, index into ``heights``).
        self.heap = [(top - flow.pool_height[p], _POOL, p, 0) for p, some in enumerate(flow.pool_excess) if some]
        self.heap += [(top - flow.member_height[m], _MEMBER, m, 0) for m, some in enumerate(flow.member_excess) if some]
        heapify(self.heap)

    def run(self) -> int | None:
        """Return the distance of the sink, which is behind all members with room; None if no such member is reachable.

        The sink's height is :attr:`Flow.sink_height`.
        """
        while self.heap:
            distance, kind, number, index = heappop(self.heap)
            if kind == _SINK:
                return distance
            if kind == _POOL:
                self.reach_pool(number, distance)
            elif kind == _MEMBER:
                self.reach_members(self.free & 1 << number, distance)
            else:
                height = self.heights[index]
                self.reach_members(self.free & self.masks(kind)[number] & self.flow.at_height[height], distance)
                self.sweep(kind, number, distance + height, index + 1)
        return None

    def masks(self, kind: int) -> Sequence[int]:
        return self.flow.near if kind == _NEAR else self.flow.far

    def sweep(self, kind: int, pool: int, top: int, index: int) -> None:
        """Queue the pool's highest members of those whose height is at ``index`` of :attr:`heights` or later.

        A member's distance is ``top`` minus its height: the higher, the shorter. Lower members are queued once these
        are reached, since most searches end earlier.
        """
        waiting = self.free & self.masks(kind)[pool]
        while waiting and index < len(self.heights):
            height = self.heights[index]
            if waiting & self.flow.at_height[height]:
                heappush(self.heap, (top - height, kind, pool, index))
                return
            index += 1

    def reach_pool(self, pool: int, distance: int) -> None:
        if pool in self.pools:
            return
        self.pools[pool] = distance
        flow = self.flow
        top = distance + flow.pool_height[pool]
        for kind, cost in ((_NEAR, 0), (_FAR, FAR)):
            # No member that the pool can reach is higher than the pool plus the cost: reduced costs are not negative.
            highest = bisect_left(self.heights, -flow.pool_height[pool] - cost, key=operator.neg)
            self.sweep(kind, pool, top + cost, highest)
        for member in flow.missing[pool]:
            if self.free >> member & 1:
                cost = flow.step_cost(pool, member) - 1
                heappush(self.heap, (top + cost - flow.member_height[member], _MEMBER, member, 0))

    def reach_members(self, mask: int, distance: int) -> None:
        self.free ^= mask
        flow = self.flow
        for member in bits(mask):
            self.members[member] = distance
            top = distance + flow.member_height[member]
            if flow.room[member]:
                heappush(self.heap, (top - flow.sink_height, _SINK, 0, 0))
            for pool in flow.units[member]:
                if pool not in self.pools:
                    cost = flow.back_cost(member, pool)[0]
                    heappush(self.heap, (top + cost - flow.pool_height[pool], _POOL, pool, 0))


class _Layers:
    """Pools and members by number of steps on shortest paths, from those with excess partitions to one with room."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.pool_layer: dict[int, int] = {}
        self.member_layers: list[int] = []  #: Bit mask of members per layer, without those found to be dead ends.

    @classmethod
    def of(cls, flow: Flow) -> _Layers | None:
        """Return the layers, or None if no shortest path is left."""
        found = cls(flow)
        pools, members = flow.sources()
        mask = sum(1 << member for member in members)
        free = (1 << len(flow.units)) - 1
        while pools or mask:
            free &= ~mask
            found.pool_layer.update(dict.fromkeys(pools, len(found.member_layers)))
            found.member_layers.append(mask)
            if any(map(flow.is_goal, bits(mask))):
                return found
            back: set[int] = set()
            for member in bits(mask):
                for pool in flow.units[member]:
                    if pool not in found.pool_layer and pool not in back and flow.leads_back(member, pool):
                        back.add(pool)
            mask = 0
            for pool in pools:
                mask |= flow.onward(pool, free & ~mask)
            pools = sorted(back)
        return None

    def drain(self) -> None:
        """Move partitions along the layers until no path of this length is left."""
        flow = self.flow
        pools, members = flow.sources()
        for excess, starts, kind in ((flow.pool_excess, pools, _POOL), (flow.member_excess, members, _MEMBER)):
            for start in starts:
                while excess[start] and (path := self.path(kind, start)) is not None:
                    excess[start] -= self.push(kind, path, excess[start])

    def path(self, kind: int, start: int) -> list[int] | None:
        """Return a path from ``start`` to a member with room, or None; remove dead ends from the layers on the way."""
        path = [start]
        while path:
            here, depth = path[-1], len(path)
            if (kind == _MEMBER) == (depth % 2 == 1):
                if not self.member_layers[depth - 1] >> here & 1:
                    path.pop()  # `here` is a dead end, or a start that was also put into a later layer
                    continue
                if depth == len(self.member_layers) and self.flow.is_goal(here):
                    return path
                onward = self.pool_after(here, depth)
                if onward is None:
                    self.member_layers[depth - 1] ^= 1 << here
            else:
                if self.pool_layer.get(here) != depth - 1:
                    path.pop()
                    continue
                mask = self.flow.onward(here, self.member_layers[depth]) if depth < len(self.member_layers) else 0
                onward = (mask & -mask).bit_length() - 1 if mask else None
                if onward is None:
                    del self.pool_layer[here]
            if onward is None:
                path.pop()
            else:
                path.append(onward)
        return None

    def pool_after(self, member: int, layer: int) -> int | None:
        """Return a pool of the layer to which a shortest path leads back from the member; None if there is none."""
        for pool in self.flow.units[member]:
            if self.pool_layer.get(pool) == layer and self.flow.leads_back(member, pool):
                return pool
        return None

    def push(self, kind: int, path: list[int], most: int) -> int:
        """Move at most ``most`` partitions, as many as possible, along the path; return their number."""
        flow = self.flow
        amount = min(most, flow.room[path[-1]])
        steps = list(pairwise(path))
        onward = kind == _POOL
        for here, there in steps:
            limit = flow.onward_room(here, there) if onward else flow.back_cost(here, there)[1]
            amount = amount if limit is None else min(amount, limit)
            onward = not onward
        onward = kind == _POOL
        for here, there in steps:
            flow.move(here, there, amount) if onward else flow.move(there, here, -amount)
            onward = not onward
        flow.room[path[-1]] -= amount
        return amount
