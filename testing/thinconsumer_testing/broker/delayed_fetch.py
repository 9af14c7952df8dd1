"""Fetch requests that wait for data (long polling); a waiting request costs nothing until one of its partitions
changes.

Owns the conditions that complete a waiting fetch: ``min_bytes`` are available, ``max_wait_ms`` is over, or a partition
has an error, a diverging epoch or another event that the client must learn immediately. Follows Kafka's
``DelayedFetch``. The response is built in a timer callback after the append that completes the fetch, so that the
response contains everything that one Produce request appends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .fetch_sessions import CachedPartition
from .reading import (
    FetchParams,
    FetchReadResult,
    PartitionReadError,
    check_count,
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
    """A partition of a delayed fetch; called after each change of this broker's replica of the partition."""

    __slots__ = ("cached", "counted_up_to", "fetch", "number", "partition", "size")

    def __init__(self, fetch: DelayedFetch, partition: PartitionReplica, cached: CachedPartition, size: int) -> None:
        self.fetch = fetch
        self.partition = partition
        self.cached = cached
        self.size = size  #: Bytes of this partition that the fetch can return so far, at most partition_max_bytes.
        self.counted_up_to = max(readable_end(partition, fetch.params.isolation), cached.request.fetch_offset)
        self.number = partition.add_listener(self)

    def __call__(self) -> None:
        fetch = self.fetch
        before = self.size
        try:
            if replica_for(fetch.node, self.cached) is not self.partition or self._must_complete():
                fetch.complete_soon()
                return
        except PartitionReadError:
            fetch.complete_soon()
            return
        fetch.size += self.size - before
        if fetch.size >= fetch.params.min_bytes:
            fetch.complete_soon()

    def _must_complete(self) -> bool:
        """Add to ``size`` the bytes of the batches that have become readable since this method was last called.

        Returns True if the fetch must complete even with less than ``min_bytes``: the fetch offset is out of range, or
        the fetcher's log has diverged from this replica's log.

        Raises:
            PartitionReadError: This replica cannot serve the fetch, for example because it stopped leading.
        """
        partition, request = self.partition, self.cached.request
        check_count(partition, request.undeleted_partition_count)
        check_epoch(partition, request.current_leader_epoch, self.fetch.params.leader_only)
        end = readable_end(partition, self.fetch.params.isolation)
        offset = request.fetch_offset
        if offset > end or offset < partition.log.start_offset or diverging_epoch_of(partition, request) is not None:
            return True
        limit = request.partition_max_bytes
        for batch in partition.log.batches_from(self.counted_up_to) if end > self.counted_up_to else ():
            if self.size >= limit or batch.next_offset > end:
                break
            self.size = min(limit, self.size + len(batch.data))
            self.counted_up_to = batch.next_offset
        return False


class DelayedFetch:
    """A waiting fetch; ``done`` is called once, from a timer callback, unless :meth:`cancel` comes first."""

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
        for cached, partition, row in result.rows:
            assert partition is not None, "after an error, the response is sent at once"
            size = len(row.records or b"") if row is not None else 0
            self._watched.append(_WatchedPartition(self, partition, cached, size))
        self._timer: Timer = node.call_later(max_wait_s, self._complete)

    def complete_soon(self) -> None:
        """Stop watching the partitions, and build the response in a timer that fires after the running callback."""
        if self._watched:
            self._stop_watching()
            self._timer = self.node.call_later(0.0, self._complete)

    def cancel(self) -> None:
        """Discard the fetch: its connection is gone."""
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
