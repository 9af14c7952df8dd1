"""Fetches that wait for data (long polling), at no cost while nothing happens.

Owns when a parked fetch is over: enough bytes have come, its time is up, or something has happened that the client
should know at once. Follows Kafka's ``DelayedFetch``. It watches its partitions, counts what comes as it comes, and in
the end does not answer from within whoever appended: it asks for a turn of its own, so that the work of one connection
never runs inside another's, and what is appended in one go is read in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .reading import Result, Terms, Unreadable, check_epoch, diverging, located, readable_end
from .sessions import Wanted

if TYPE_CHECKING:
    from .node import Node
    from .partition import Partition
    from .schedule import Timer


class _Watch:
    """One partition that a parked fetch waits for; called by it whenever something has changed."""

    __slots__ = ("counted_to", "fetch", "number", "partition", "size", "wanted")

    def __init__(self, fetch: ParkedFetch, partition: Partition, wanted: Wanted, size: int) -> None:
        self.fetch = fetch
        self.partition = partition
        self.wanted = wanted
        self.size = size  #: Bytes there are to read, as far as the client takes them.
        self.counted_to = max(readable_end(partition, fetch.terms.isolation), wanted.request.fetch_offset)
        self.number = partition.watch(self)

    def __call__(self) -> None:
        fetch = self.fetch
        before = self.size
        try:
            if located(fetch.node, self.wanted) is not self.partition or self._is_over():
                fetch.finish_soon()
                return
        except Unreadable:
            fetch.finish_soon()
            return
        fetch.size += self.size - before
        if fetch.size >= fetch.terms.min_bytes:
            fetch.finish_soon()

    def _is_over(self) -> bool:
        """Count what is new; return whether the client should know of something else. Raises: Unreadable."""
        partition, request = self.partition, self.wanted.request
        check_epoch(partition, request.current_leader_epoch, self.fetch.terms.leader_only)
        end = readable_end(partition, self.fetch.terms.isolation)
        offset = request.fetch_offset
        if offset > end or offset < partition.log.start_offset or diverging(partition, request) is not None:
            return True
        if end > self.counted_to:
            self._count(end)
        return False

    def _count(self, end: int) -> None:
        limit = self.wanted.request.partition_max_bytes
        for batch in self.partition.log.batches_from(self.counted_to):
            if self.size >= limit or batch.next_offset > end:
                break
            self.size = min(limit, self.size + len(batch.data))
            self.counted_to = batch.next_offset


class ParkedFetch:
    """See the module. ``done`` is called once, in a turn of its own, unless :meth:`cancel` comes first."""

    __slots__ = ("_done", "_timer", "_watches", "node", "size", "terms")

    def __init__(self, node: Node, terms: Terms, result: Result, max_wait_s: float, done: Callable[[], None]) -> None:
        self.node = node
        self.terms = terms
        self.size = result.size
        self._done: Callable[[], None] | None = done
        self._watches: list[_Watch] = []
        for wanted, row in result.rows:
            size = len(row.records or b"") if row is not None else 0
            self._watches.append(_Watch(self, located(node, wanted), wanted, size))
        self._timer: Timer = node.call_later(max_wait_s, self._finish)

    def finish_soon(self) -> None:
        """Look no more; answer when the one who has changed something is through."""
        if self._watches:
            self._forget()
            self._timer = self.node.call_later(0.0, self._finish)

    def cancel(self) -> None:
        """Forget it: nobody waits any more."""
        self._done = None
        self._forget()

    def _forget(self) -> None:
        self._timer.cancel()
        for watch in self._watches:
            watch.partition.unwatch(watch.number)
        self._watches = []

    def _finish(self) -> None:
        done, self._done = self._done, None
        self._forget()
        if done is not None:
            done()
