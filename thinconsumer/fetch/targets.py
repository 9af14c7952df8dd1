"""Keep the list of partitions to fetch from each node, without looking at all partitions in each step.

A partition is looked at again when it has changed (``Partition.report_change``), when its buffered batches fill its
share of the buffer or no longer do, and when metadata changes.
"""

from __future__ import annotations

from ..config import ConsumerConfig
from ..network.metadata import Metadata
from ..positions.partitions import Partition, Partitions, by_number
from ..support.agenda import Alarm
from .buffer import Buffer


class FetchTargets:
    """The partitions to fetch, by the node to fetch them from."""

    def __init__(
        self, settings: ConsumerConfig, partitions: Partitions, metadata: Metadata, buffer: Buffer, planner: Alarm
    ) -> None:
        self.limit = settings.max_buffered_bytes  #: How many bytes of the buffer all partitions may fill together.
        self._planner = planner
        self._partitions = partitions
        self._metadata = metadata
        self._buffer = buffer
        self.clear()

    def clear(self) -> None:
        #: The partitions to fetch by node; no node has an empty list.
        self.by_node: dict[int, dict[Partition, None]] = {}
        #: Partitions that are not fetched because their batches fill their share of the buffer, or because one of these
        #: batches is broken.
        self.left_out: dict[Partition, None] = {}
        self.leaderless: dict[Partition, None] = {}  #: Partitions that could be fetched if metadata had their leader.
        #: By node: the partitions that have changed since the node's last request was built, also if they are no longer
        #: fetched from the node; True for a partition of which only the fetch offset has moved.
        self.changed: dict[int, dict[Partition, bool]] = {}
        #: By node: partitions for which the node was chosen, or chosen again, after the node's last request was built.
        self.late: dict[int, dict[Partition, None]] = {}
        self.nodes: dict[Partition, int] = {}  #: By partition: the node to fetch it from.
        self._fetchable: dict[Partition, None] = {}
        self._share = 0  #: Bytes of the buffer that one partition may fill.
        self._seen = -1  #: The metadata version for which all fetchable partitions were looked at.
        self._partitions.reindex()

    def set_limit(self, limit: int, now: float) -> None:
        self.limit = limit
        self._place_all({}, now)

    def update(self, now: float) -> None:
        known = self._partitions
        if not (known.changed or known.unplanned) and self._seen == self._metadata.version:
            return
        partitions = known.take_unplanned()
        if self._seen != self._metadata.version:
            self._seen = self._metadata.version
            partitions.update(self._fetchable)
        fetchable = self._fetchable
        concerned: dict[Partition, None] = {}
        for partition in partitions:
            if known.get(partition.tp) is partition and partition.may_fetch(now):
                fetchable[partition] = None
            elif partition in fetchable:
                del fetchable[partition]
            else:
                continue
            concerned[partition] = None
        self._place_all(concerned, now)

    def _place_all(self, concerned: dict[Partition, None], now: float) -> None:
        """Place these partitions and, if the share of each partition has changed, those with buffered batches."""
        share = self.limit // max(1, len(self._fetchable))
        if share != self._share:
            self._share = share
            concerned.update(dict.fromkeys(self._buffer.queues))
        for partition in concerned:
            self._place(partition, now)

    def fetched(self, partition: Partition, size: int, sender: int) -> None:
        """Note that node ``sender`` has sent batches to the buffer, which now has ``size`` bytes of the partition.

        Its fetch offset moves. The partition need not be looked at again, unless these bytes fill its share of the
        buffer, or a gatekeeper holds its records from some offset on, or it is fetched from another node by now, whose
        Fetch in flight has the offset of before.
        """
        node_id = self.nodes.get(partition)
        if node_id != sender or partition.delivery_end is not None or size >= self._share:
            partition.report_change()
        else:
            self.changed.setdefault(node_id, {}).setdefault(partition, True)

    def wanted(self, node_id: int) -> list[Partition]:
        """Return the partitions to fetch from a node, in the order of assignment."""
        return sorted(self.by_node.get(node_id, ()), key=by_number)

    def node_for(self, partition: Partition, now: float) -> int | None:
        """Return the preferred replica, until its time is over or metadata drops it, else the leader.

        None if the leader is unknown.
        """
        info = self._metadata.leader(partition.tp)
        if partition.preferred_replica >= 0:
            is_over = partition.preference is None or not partition.preference.is_ahead(now)
            if not is_over and partition.preferred_replica in self._metadata.nodes:
                return partition.preferred_replica
            partition.preferred_replica = -1
            self._planner.touch()  # this change of the partition is reported, too, and the planner looks at it
        return None if info is None else info.leader

    def _place(self, partition: Partition, now: float) -> None:
        """Put the partition to its node; without one to ``left_out`` or ``leaderless``, or nowhere if not fetchable."""
        self.left_out.pop(partition, None)
        self.leaderless.pop(partition, None)
        node_id = self._node(partition, now) if partition in self._fetchable else None
        before = self.nodes.get(partition)
        if node_id is not None:
            self.changed.setdefault(node_id, {})[partition] = False
            self.late.setdefault(node_id, {})[partition] = None
        if node_id == before:
            return
        if before is not None:
            self.changed.setdefault(before, {})[partition] = False
            del self.by_node[before][partition], self.nodes[partition]
            if not self.by_node[before]:
                del self.by_node[before]
        if node_id is not None:
            self.by_node.setdefault(node_id, {})[partition] = None
            self.nodes[partition] = node_id

    def _node(self, partition: Partition, now: float) -> int | None:
        # head() drops batches fetched before a seek, which would use up the partition's share of the buffer.
        is_buffered = partition in self._buffer.queues and self._buffer.head(partition) is not None
        if is_buffered and (self._buffer.size_of(partition) >= self._share or self._buffer.broken(partition)):
            self.left_out[partition] = None
            self._buffer.awaited_by = self._planner
            return None
        node_id = self.node_for(partition, now)
        if node_id is None:
            self.leaderless[partition] = None
            # Without this request, the partition would wait for the next periodic metadata refresh.
            self._metadata.request_update(f"no leader known for {partition.tp.topic}-{partition.tp.partition}")
        return node_id
