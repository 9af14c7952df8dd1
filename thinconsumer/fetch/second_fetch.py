"""Decide when to send a second Fetch to a broker that holds the first one.

A broker holds a Fetch of partitions without new records for up to ``fetch_max_wait_ms`` (a long poll), and reads no
other request of that connection meanwhile. A partition that becomes ready to be fetched during this time, by a seek,
for example, would have to wait, though it may have records. The second Fetch, on a connection of its own, belongs to no
session, and is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..network.request import Target
from ..positions.partitions import Cursor, Partition
from ..support.agenda import Alarm
from ..support.lazy_dataclass import dataclass, field
from ..support.timers import Retry
from .sessions import FetchSession, SessionPartitions

CHANNEL = "fetch-2"
#: A Fetch that has a partition with an unknown log end counts as a long poll if it was not answered for this many
#: seconds.
LOOK_AFTER_S = 0.02
#: A Fetch of more partitions than this counts as a long poll after ``LOOK_AFTER_S``, too: to look at all log ends would
#: take too long.
LOOK_AT_MAX = 200
#: After this many seconds, a Fetch counts as a long poll although a partition has records: the broker may wait for
#: ``fetch_min_bytes``, or be a follower that does not have them yet.
AWAITED_S = 0.1


@dataclass(slots=True)
class SecondFetch:
    """The second Fetch to one node, and the context of its requests."""

    target: Target
    first: FetchSession
    retry: Retry  #: Whether a second Fetch is in flight, and the backoff after failures.
    held: Alarm  #: When the first Fetch counts as a long poll.
    reserved: int = 0  #: Maximum response bytes of the request in flight.
    uses_ids: bool = False  #: As :attr:`.FetchSession.uses_ids`.
    turn: int = 0  #: Number of requests built so far; selects the first partition of the next one.
    #: By partition: the cursor and fetch offset for which a second Fetch got no records since the first Fetch was
    #: written; they are not requested again.
    tried: dict[Partition, tuple[Cursor, int]] = field(default_factory=dict)
    #: The partitions of the request with their cursors when it was written.
    listed: SessionPartitions = field(default_factory=SessionPartitions)

    @property
    def written_at(self) -> float | None:
        return self.first.written_at

    def answered(self, session_id: int) -> None:
        self.reserved = 0
        self.retry.succeeded()

    def failed(self, now: float) -> None:
        """Note a failure. The session's next Fetch has these partitions, too."""
        self.reserved = 0
        self.retry.failed(now)

    def got_nothing(self) -> None:
        """Note a response without records. (One with records may be full, so its other partitions are tried again.)"""
        for partition, cursor in self.listed.cursors.values():
            if self.listed.has_position_of(partition):
                self.tried[partition] = cursor, cursor.fetch_offset


def long_poll_since(
    listed: SessionPartitions, written_at: float, has_more: Callable[[Partition], bool | None]
) -> float:
    """Return the time from which on a Fetch of these partitions, written at ``written_at``, counts as a long poll.

    ``has_more`` tells whether the broker has records that were not fetched yet; None if the log end is unknown.
    """
    if len(listed.cursors) > LOOK_AT_MAX:
        return written_at + LOOK_AFTER_S
    since = written_at
    for partition, _ in listed.cursors.values():
        if listed.has_position_of(partition):
            more = has_more(partition)
            if more:
                return written_at + AWAITED_S
            if more is None:
                since = written_at + LOOK_AFTER_S
    return since
