"""The positions that members of a group exchange through its coordinator, and the partitions they want (KIP-253).

The positions are in memory only: a new coordinator begins without them, and each member sends its own again. A position
counts as long as its sender is a member in the same generation (or member epoch, KIP-848). Afterwards another member
may own the partition, and continue at a lower offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsResponse, PartitionPosition, TopicPositions

#: A partition by topic id and number.
Place = tuple[bytes, int]
UNKNOWN_POSITION = -1


class _SentPosition(NamedTuple):
    position: int
    member_id: str
    epoch: int


class ExchangedPositions:
    """The positions that members of one group have sent, and the partitions whose positions they want."""

    def __init__(self) -> None:
        self._sent: dict[Place, _SentPosition] = {}
        self._wanted: dict[str, frozenset[Place]] = {}

    def exchange(
        self, member_id: str, epochs: Mapping[str, int], positions: Iterable[tuple[Place, int]], wanted: Iterable[Place]
    ) -> None:
        """Take a member's positions in partitions that any member wants, and the partitions that this member wants from
        now on.

        ``epochs`` has the generation or member epoch of each current member of the group. Earlier positions are dropped
        if their sender is no longer a member, or has another epoch now, or if no member wants them any more.
        """
        self._wanted = {one: places for one, places in self._wanted.items() if one in epochs}
        self._wanted[member_id] = frozenset(wanted)
        asked = frozenset().union(*self._wanted.values())
        self._sent = {
            place: sent
            for place, sent in self._sent.items()
            if place in asked and epochs.get(sent.member_id) == sent.epoch
        }
        for place, position in positions:
            if place in asked and position >= 0:
                self._sent[place] = _SentPosition(position, member_id, epochs[member_id])

    def response(self, wanted: Iterable[Place]) -> ConsumerGroupPositionsResponse:
        """Return the positions in the ``wanted`` partitions, and those in all partitions that any member wants."""
        requested = sorted(frozenset().union(*self._wanted.values()))
        return ConsumerGroupPositionsResponse(
            positions=self._topics(wanted), requested=self._topics(requested), error_code=0
        )

    def _topics(self, places: Iterable[Place]) -> list[TopicPositions]:
        topics: dict[bytes, TopicPositions] = {}
        for place in places:
            topic_id, number = place
            sent = self._sent.get(place)
            position = UNKNOWN_POSITION if sent is None else sent.position
            topic = topics.setdefault(topic_id, TopicPositions(topic_id=topic_id))
            topic.partitions.append(PartitionPosition(partition_index=number, position=position))
        return list(topics.values())
