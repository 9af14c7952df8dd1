"""Fetches that wait for data (long polling), at no cost while nothing happens.

Owns when a parked fetch is over: enough bytes have come, its time is up, or something has happened that the client
should know at once. Follows Kafka's ``DelayedFetch``. It watches its partitions, counts what comes as it comes, and in
the end does not answer from within whoever appended: it asks for a turn of its own, so that the work of one connection
never runs inside another's, and what is appended in one go is read in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .fetch_sessions import CachedPartition
from .reading import (
    FetchParams,
    FetchReadResult,
    PartitionReadError,
    check_epoch,
    diverging_epoch_of,
    readable_end,
    replica_for,
)

if TYPE_CHECKING:
    from .node import BrokerNode
    from .partition import PartitionReplica
    from .schedule import Timer


class _WatchedPartition:
    """One partition that a parked fetch waits for; called by it whenever something has changed."""

    __slots__ = ("counted_up_to", "fetch", "number", "partition", "size", "wanted")

    def __init__(self, fetch: DelayedFetch, partition: PartitionReplica, wanted: CachedPartition, size: int) -> None:
        self.fetch = fetch
        self.partition = partition
        self.wanted = wanted
        self.size = size  #: Bytes there are to read, as far as the client takes them.
        self.counted_up_to = max(readable_end(partition, fetch.params.isolation), wanted.request.fetch_offset)
        self.number = partition.add_listener(self)

    def __call__(self) -> None:
        fetch = self.fetch
        before = self.size
        try:
            if replica_for(fetch.node, self.wanted) is not self.partition or self._must_complete():
                fetch.complete_soon()
                return
        except PartitionReadError:
            fetch.complete_soon()
            return
        fetch.size += self.size - before
        if fetch.size >= fetch.params.min_bytes:
            fetch.complete_soon()

    def _must_complete(self) -> bool:
        """Count what is new; return whether the client should know of something else. Raises: Unreadable."""
        partition, request = self.partition, self.wanted.request
        check_epoch(partition, request.current_leader_epoch, self.fetch.params.leader_only)
        end = readable_end(partition, self.fetch.params.isolation)
        offset = request.fetch_offset
        if offset > end or offset < partition.log.start_offset or diverging_epoch_of(partition, request) is not None:
            return True
        if end > self.counted_up_to:
            self._count(end)
        return False

    def _count(self, end: int) -> None:
        limit = self.wanted.request.partition_max_bytes
        for batch in self.partition.log.batches_from(self.counted_up_to):
            if self.size >= limit or batch.next_offset > end:
                break
            self.size = min(limit, self.size + len(batch.data))
            self.counted_up_to = batch.next_offset


class DelayedFetch:
    """See the module. ``done`` is called once, in a turn of its own, unless :meth:`cancel` comes first."""

    __slots__ = ("_done", "_timer", "_watched", "node", "params", "size")

    def __init__(
        self,
        node: BrokerNode,
        params: FetchParams,
        result: FetchReadResult,
        max_wait_s: float,
        done: Callable[[], None],
    ) -> None:
        self.node = node
        self.params = params
        self.size = result.size
        self._done: Callable[[], None] | None = done
        self._watched: list[_WatchedPartition] = []
        for wanted, row in result.rows:
            size = len(row.records or b"") if row is not None else 0
            self._watched.append(_WatchedPartition(self, replica_for(node, wanted), wanted, size))
        self._timer: Timer = node.call_later(max_wait_s, self._complete)

    def complete_soon(self) -> None:
        """Look no more; answer when the one who has changed something is through."""
        if self._watched:
            self._stop_watching()
            self._timer = self.node.call_later(0.0, self._complete)

    def cancel(self) -> None:
        """Forget it: nobody waits any more."""
        self._done = None
        self._stop_watching()

    def _stop_watching(self) -> None:
        self._timer.cancel()
        for watch in self._watched:
            watch.partition.remove_listener(watch.number)
        self._watched = []

    def _complete(self) -> None:
        done, self._done = self._done, None
        self._stop_watching()
        if done is not None:
            done()
