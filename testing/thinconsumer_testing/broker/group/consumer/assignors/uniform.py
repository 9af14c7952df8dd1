"""The uniform assignor of the coordinator: members get about the same number of partitions, and few partitions move.

If all members subscribe to the same topics, their numbers of partitions differ by at most one, and a member gives up
partitions only if it has more than its share. With different subscriptions, partitions without an owner go to the least
loaded subscriber; then topics are balanced one after the other, until no move helps, for at most ROUNDS_MAX rounds.
Follows Kafka's ``UniformHomogeneousAssignmentBuilder`` and ``UniformHeterogeneousAssignmentBuilder``.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping

from ..member import Target, target_of
from .spec import MemberSpec

#: The most rounds over all topics. With overlapping subscriptions each round improves the balance, by less and less.
ROUNDS_MAX = 16


def assign_uniformly(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign all partitions of the subscribed topics about evenly, and move few partitions of the last target."""
    if len({spec.subscribed for spec in members.values()}) < 2:
        return _assign_by_quota(members, counts)
    return _Balancing(members, counts).assign()


def _kept(spec: MemberSpec, counts: Mapping[bytes, int]) -> list[tuple[bytes, int]]:
    """Return the partitions of the member's last target that it may keep."""
    return [
        (topic_id, index)
        for topic_id, indexes in spec.target.items()
        if topic_id in spec.subscribed
        for index in sorted(indexes)
        if index < counts[topic_id]
    ]


def _assign_by_quota(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign the partitions of topics to which all members subscribe.

    The quota is the number of partitions per member, rounded down. Each partition that is left over goes to a different
    member; members that already have more than the quota come first, so that their partition does not move.
    """
    topics = next((spec.subscribed for spec in members.values()), frozenset())
    quota, extra = divmod(sum(counts[topic_id] for topic_id in topics), max(len(members), 1))
    places: dict[str, list[tuple[bytes, int]]] = {}
    rooms: list[tuple[str, int]] = []  # Members that keep fewer partitions than their share, and how many they lack.
    claimed: set[tuple[bytes, int]] = set()
    last = len(members) - 1
    for number, (member_id, spec) in enumerate(members.items()):
        found = [place for place in _kept(spec, counts) if place not in claimed]
        # The last members have to take the extra partitions that earlier members have not taken; otherwise partitions
        # would be left without an owner.
        has_extra = extra > 0 and (len(found) > quota or last - number < extra)
        extra -= has_extra
        size = quota + has_extra
        places[member_id] = found[:size]
        claimed.update(places[member_id])
        if len(places[member_id]) < size:
            rooms.append((member_id, size - len(places[member_id])))
    free = [
        (topic_id, index)
        for topic_id in sorted(topics)
        for index in range(counts[topic_id])
        if (topic_id, index) not in claimed
    ]
    start = 0
    for member_id, lacks in rooms:
        places[member_id] += free[start : start + lacks]
        start += lacks
    return {member_id: _target(found) for member_id, found in places.items()}


def _target(places: list[tuple[bytes, int]]) -> Target:
    by_topic: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, index in places:
        by_topic[topic_id].append(index)
    return target_of(by_topic.items())


class _Balancing:
    """The assignment of members with different subscriptions; members are numbered in their order."""

    def __init__(self, members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> None:
        self._member_ids = list(members)
        self._counts = counts
        self._loads = [0] * len(members)
        self._subscribers: defaultdict[bytes, list[int]] = defaultdict(list)
        self._owners: dict[bytes, dict[int, int]] = {}  #: The owner's number by topic id and partition.
        for number, spec in enumerate(members.values()):
            for topic_id in sorted(spec.subscribed):  # the order of a set differs from process to process
                self._subscribers[topic_id].append(number)
                self._owners.setdefault(topic_id, {})
        for number, spec in enumerate(members.values()):
            for topic_id, index in _kept(spec, counts):
                if index not in self._owners[topic_id]:
                    self._put(topic_id, index, number)
        self._topics = sorted(self._subscribers, key=self._topic_order)

    def _topic_order(self, topic_id: bytes) -> tuple[float, int, bytes]:
        # Topics with many partitions for few members come first; the partitions of the other topics then even the loads
        # out.
        among = len(self._subscribers[topic_id])
        return -self._counts[topic_id] / among, among, topic_id

    def assign(self) -> dict[str, Target]:
        for topic_id in self._topics:
            self._assign_free(topic_id)
        shared = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        for _ in range(ROUNDS_MAX):
            # A list, so that every topic has its turn: any() of a generator would end the round at the first move.
            if not sum([self._balance(topic_id) for topic_id in shared]):
                break
        places: list[list[tuple[bytes, int]]] = [[] for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for index, number in owners.items():
                places[number].append((topic_id, index))
        return {member_id: _target(found) for member_id, found in zip(self._member_ids, places)}

    def _put(self, topic_id: bytes, index: int, number: int) -> None:
        self._owners[topic_id][index] = number
        self._loads[number] += 1

    def _assign_free(self, topic_id: bytes) -> None:
        """Give each partition without an owner to the least loaded subscriber."""
        heap = [(self._loads[number], number) for number in self._subscribers[topic_id]]
        heapq.heapify(heap)
        owners = self._owners[topic_id]
        for index in range(self._counts[topic_id]):
            if index not in owners:
                number = heap[0][1]
                self._put(topic_id, index, number)
                heapq.heapreplace(heap, (self._loads[number], number))

    def _balance(self, topic_id: bytes) -> int:
        """Move partitions of the topic from the most to the least loaded subscribers; return the number of moves."""
        partitions: defaultdict[int, list[int]] = defaultdict(list)
        for index, number in sorted(self._owners[topic_id].items()):
            partitions[number].append(index)
        least = [(self._loads[number], number) for number in self._subscribers[topic_id]]
        most = [(-self._loads[number], -number) for number in partitions]
        heapq.heapify(least)
        heapq.heapify(most)
        moves = 0
        while most:
            giver, taker = -most[0][1], least[0][1]
            # A move changes the loads of two members, but not their entries in the heaps: an old load is replaced.
            if -most[0][0] != self._loads[giver]:
                heapq.heapreplace(most, (-self._loads[giver], -giver))
            elif least[0][0] != self._loads[taker]:
                heapq.heapreplace(least, (self._loads[taker], taker))
            elif self._loads[giver] - self._loads[taker] <= 1:
                break
            elif not partitions[giver]:
                heapq.heappop(most)
            else:
                index = partitions[giver].pop()
                self._loads[giver] -= 1
                self._put(topic_id, index, taker)
                partitions[taker].append(index)
                moves += 1
        return moves
