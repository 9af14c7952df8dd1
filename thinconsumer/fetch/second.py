"""Decide when to send a second Fetch to a broker that holds the first one.

A broker holds a Fetch of partitions without new records for ``fetch_max_wait_ms``, and reads no other request of that
connection meanwhile. A partition that is ready to be fetched only then, after a seek or an assignment, or since the
buffer has room for it again, would have to wait, though it may have records. It is asked for on a connection of its
own, by a Fetch that the broker answers at once and that belongs to no session. The session's next Fetch has it, too.

Here is which partitions wait for it and when it is due. The planner builds the request; ``answers`` takes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..connection.request import Target
from ..lazy_dataclass import dataclass, field
from ..partitions import Cursor, Partition
from ..timers import Retry
from .sessions import FetchSession, SessionPartitions

__all__ = ["CHANNEL", "LOOK_AFTER_S", "SecondFetch", "long_poll_since"]

CHANNEL = "fetch-2"
#: A Fetch of partitions with unknown log ends counts as a long poll if it was not answered for so long.
LOOK_AFTER_S = 0.02
#: The same holds for a Fetch of more partitions than this: to look at all of them would take too long.
LOOK_AT_MAX = 200
#: After so long, a Fetch counts as a long poll although a partition has records: the broker may wait for
#: ``fetch_min_bytes``, or be a follower that does not have them yet.
AWAITED_S = 0.1

#: Whether the broker has records of a partition that were not fetched yet; None if its log end is unknown.
HasMore: TypeAlias = Callable[[Partition], "bool | None"]


@dataclass(slots=True)
class SecondFetch:
    """The second Fetch to one node."""

    target: Target
    retry: Retry  #: Whether it is in flight, and the backoff after failures.
    reserved: int = 0  #: Maximum response bytes of the request in flight.
    #: The partitions that may have records, but were not ready to be fetched when the first Fetch was written.
    waiting: dict[Partition, None] = field(default_factory=dict)
    #: The positions that have got no records since then: they are not asked for again.
    tried: dict[Partition, tuple[Cursor, int]] = field(default_factory=dict)

    def drop_others(
        self, first: FetchSession, node_id: int, nodes: Mapping[Partition, int], has_more: HasMore
    ) -> None:  # fmt: skip
        """Drop the partitions that need not wait any more; ``nodes``: where to fetch each partition from."""
        for partition in list(self.waiting):
            position = partition.cursor, partition.cursor.fetch_offset
            if (
                nodes.get(partition) != node_id
                or first.listed.has_position_of(partition)
                or self.tried.get(partition) == position
                or has_more(partition) is False
            ):
                del self.waiting[partition]

    def next_in_turn(self) -> list[Partition]:
        """Return the partitions to ask for, in another order each time: brokers fill a response in the given order."""
        partitions = list(self.waiting)
        for first in partitions[:1]:
            self.waiting[first] = self.waiting.pop(first)
        return partitions

    def got_nothing(self, listed: SessionPartitions) -> None:
        """Note that the response has no records of the partitions in the request.

        If it has records of some, it may be full: then the others are asked for again.
        """
        for partition, cursor in listed.cursors.values():
            if listed.has_position_of(partition):
                self.tried[partition] = cursor, cursor.fetch_offset

    def clear(self) -> None:
        """Forget all partitions: the first Fetch is written now, and has them."""
        self.waiting.clear()
        self.tried.clear()


def long_poll_since(first: FetchSession, has_more: HasMore) -> float:
    """Return when the Fetch in flight counts as a long poll."""
    since = first.written_at
    if len(first.listed.cursors) > LOOK_AT_MAX:
        return since + LOOK_AFTER_S
    for partition, _ in first.listed.cursors.values():
        if first.listed.has_position_of(partition):
            more = has_more(partition)
            if more:
                return first.written_at + AWAITED_S
            if more is None:
                since = first.written_at + LOOK_AFTER_S
    return since
