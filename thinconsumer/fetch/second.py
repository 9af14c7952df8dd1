"""Decide when to send a second Fetch to a broker that holds the first one.

A broker holds a Fetch of partitions without new records for ``fetch_max_wait_ms``, and reads no other request of that
connection meanwhile. A partition that is ready to be fetched only then, after a seek or an assignment, or since the
buffer has room for it again, would have to wait, though it may have records. It is asked for on a connection of its
own, by a Fetch that the broker answers at once and that belongs to no session. The session's next Fetch has it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..partitions import Partition
from ..timers import NEVER
from .sessions import FetchSession

__all__ = ["CHANNEL", "LOOK_AFTER_S", "held_since", "stranded"]

CHANNEL = "fetch-2"
#: A Fetch of partitions with unknown log ends counts as held if it was not answered for so long.
LOOK_AFTER_S = 0.02

#: The same holds for a Fetch of more partitions than this: to look at all of them would take too long.
LOOK_AT_MAX = 200

#: Whether the broker has records of a partition that were not fetched yet; None if its log end is unknown.
HasMore = Callable[[Partition], "bool | None"]


def stranded(first: FetchSession, changed: Iterable[Partition], has_more: HasMore) -> list[Partition]:
    """Return those of the node's changed partitions that may have records, but are not in the Fetch in flight.

    A Fetch that was not written yet will have all of them.
    """
    if first.written_at == NEVER:
        return []
    return [one for one in changed if not first.held.has_position_of(one) and has_more(one) is not False]


def held_since(first: FetchSession, has_more: HasMore) -> float:
    """Return when the broker began to hold the Fetch in flight; NEVER if it has records to answer it with."""
    since = first.written_at
    if len(first.held.cursors) > LOOK_AT_MAX:
        return since + LOOK_AFTER_S
    for partition, _ in first.held.cursors.values():
        if first.held.has_position_of(partition):
            more = has_more(partition)
            if more:
                return NEVER
            if more is None:
                since = first.written_at + LOOK_AFTER_S
    return since
