"""Keep the list of partitions to fetch from each node, without looking at all partitions in each step.

A partition is looked at again when it has changed (``Partition.report_change``), when its buffered batches have become
more or fewer, when its backoff or its preferred replica's time ends, and with all others when metadata changes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from operator import attrgetter

from ..config import ConsumerConfig
from ..metadata import Metadata
from ..partitions import Partition, Partitions
from ..timers import NEVER
from .buffer import Buffer

_by_number = attrgetter("number")


class FetchTargets:
    """The partitions to fetch, by the node to fetch them from."""

    def __init__(self, settings: ConsumerConfig, partitions: Partitions, metadata: Metadata, buffer: Buffer) -> None:
        self._max_buffered_bytes = settings.max_buffered_bytes
        self._partitions = partitions
        self._metadata = metadata
        self._buffer = buffer
        self.clear()

    def clear(self) -> None:
        """Look at all partitions again."""
        #: The partitions to fetch by node; no node has an empty list.
        self.by_node: dict[int, dict[Partition, None]] = {}
        #: Partitions that are not fetched since they have their share of the buffer filled, or a broken batch.
        self.left_out: dict[Partition, None] = {}
        self.leaderless: dict[Partition, None] = {}  #: Partitions that could be fetched if their leader was known.
        #: By node: partitions that have changed since the last request to that node was built.
        self._changed: dict[int, dict[Partition, None]] = {}
        self._nodes: dict[Partition, int] = {}
        self._fetchable: dict[Partition, None] = {}
        self._share = 0  #: Bytes of the buffer that one partition may fill.
        self._seen = -1  #: The metadata version for which all partitions were looked at.
        #: When to look at a partition again: a heap of time, a number that is different for each entry, and partition.
        self._due: list[tuple[float, int, Partition]] = []
        self._due_at: dict[Partition, float] = {}  #: The first of these times of each partition.
        self._serial = count()
        self._partitions.reindex()

    def update(self, now: float) -> None:
        """Look at the partitions that have changed since the last call, and at those for which a time has come."""
        has_changes = self._partitions.has_unplanned or self._buffer.changed or self._seen != self._metadata.version
        if not has_changes and not (self._due and self._due[0][0] <= now):
            return
        partitions = dict.fromkeys(self._partitions.take_unplanned())
        partitions.update(self._buffer.changed)
        self._buffer.changed.clear()
        while self._due and self._due[0][0] <= now:
            at, _, partition = heappop(self._due)
            partitions[partition] = None
            if self._due_at.get(partition) == at:
                del self._due_at[partition]
        if self._seen != self._metadata.version:
            self._seen = self._metadata.version
            partitions.update(self._fetchable)
        for partition in list(partitions):
            if self._may_fetch(partition, now):
                self._fetchable[partition] = None
            elif partition in self._fetchable:
                del self._fetchable[partition]
            else:
                del partitions[partition]
        share = self._max_buffered_bytes // max(1, len(self._fetchable))
        if share != self._share:
            self._share = share
            partitions.update(dict.fromkeys(self._buffer.turns()))
        for partition in partitions:
            self._place(partition, now)

    def wanted(self, node_id: int) -> list[Partition]:
        """Return the partitions to fetch from a node, in the order of assignment."""
        return sorted(self.by_node.get(node_id, ()), key=_by_number)

    def is_wanted(self, partition: Partition, node_id: int) -> bool:
        """Return whether to fetch the partition from this node."""
        return self._nodes.get(partition) == node_id

    def take_changed(self, node_id: int) -> list[Partition]:
        """Return the partitions for which a request to the node may differ from the one before, in assignment order.

        These include partitions that are no longer fetched from that node.
        """
        return sorted(self._changed.pop(node_id, ()), key=_by_number)

    def node_for(self, partition: Partition, now: float) -> int | None:
        """Return the node to fetch from: the preferred replica until it expires or metadata drops it, else the leader.

        ``None`` if there is no known leader.
        """
        info = self._metadata.leader(partition.tp)
        if partition.preferred_replica >= 0:
            if now < partition.preferred_until and partition.preferred_replica in self._metadata.nodes:
                return partition.preferred_replica
            partition.preferred_replica = -1
        return None if info is None else info.leader

    def _may_fetch(self, partition: Partition, now: float) -> bool:
        if self._partitions.get(partition.tp) is not partition or not partition.wants_records:
            return False
        if now < partition.blocked_until:
            self._look_at(partition, partition.blocked_until)
            return False
        return True

    def _look_at(self, partition: Partition, at: float) -> None:
        if at < self._due_at.get(partition, NEVER):
            self._due_at[partition] = at
            heappush(self._due, (at, next(self._serial), partition))

    def _place(self, partition: Partition, now: float) -> None:
        """Put the partition where it belongs: to its node, to ``left_out`` or ``leaderless``, or nowhere."""
        self.left_out.pop(partition, None)
        self.leaderless.pop(partition, None)
        node_id = self._node(partition, now) if partition in self._fetchable else None
        before = self._nodes.get(partition)
        if before is not None:
            self._changed.setdefault(before, {})[partition] = None
        if node_id != before:
            if before is not None:
                del self.by_node[before][partition], self._nodes[partition]
                if not self.by_node[before]:
                    del self.by_node[before]
            if node_id is not None:
                self.by_node.setdefault(node_id, {})[partition] = None
                self._nodes[partition] = node_id
        if node_id is not None:
            self._changed.setdefault(node_id, {})[partition] = None

    def _node(self, partition: Partition, now: float) -> int | None:
        # head() drops batches fetched before a seek, which would use up the partition's share of the buffer.
        is_buffered = self._buffer.head(partition) is not None
        if is_buffered and (self._buffer.held(partition) >= self._share or self._buffer.broken(partition)):
            self.left_out[partition] = None
            return None
        node_id = self.node_for(partition, now)
        if node_id is None:
            self.leaderless[partition] = None
            # Without this request, the partition would wait for the next periodic metadata refresh.
            self._metadata.request_update(f"no leader known for {partition.tp.topic}-{partition.tp.partition}")
        elif partition.preferred_replica >= 0:
            self._look_at(partition, partition.preferred_until)
        return node_id
