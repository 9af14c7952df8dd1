"""A cluster's topics as plain data: partitions, leaders, epochs, and logs made of batches. No broker is in here.

Good enough to answer consumers, and no more: one log per partition that every replica is taken to have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..records.batch import HEADER, LOG_OVERHEAD
from ..records.builder import NewRecord, build_batch
from ..types import TopicPartition


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch in a log."""

    base_offset: int
    next_offset: int
    max_timestamp: int
    data: bytes


@dataclass(slots=True)
class PartitionLog:
    """One partition. Change what you like; call :meth:`Topics.changed` if parked fetches should notice."""

    topic: str
    partition: int
    leader: int
    epoch: int = 0
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    start_offset: int = 0
    batches: list[StoredBatch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  #: (epoch, its first offset), ascending.
    high_watermark: int | None = None  #: None: the log's end.
    last_stable_offset: int | None = None  #: None: the high watermark.
    aborted: list[tuple[int, int]] = field(default_factory=list)  #: (producer id, first offset), in the order to tell.
    error_code: int = 0  #: What requests about this partition are answered with.
    preferred_replica: int = -1  #: What the leader tells consumers in a rack (KIP-392).

    @property
    def end_offset(self) -> int:
        """Where the next batch goes."""
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def visible_end(self) -> int:
        """The high watermark."""
        return self.end_offset if self.high_watermark is None else self.high_watermark

    @property
    def stable_end(self) -> int:
        """Where read_committed ends."""
        return self.visible_end if self.last_stable_offset is None else self.last_stable_offset

    def append(self, batch: bytes) -> int:
        """Append one batch of format 2, whose base offset and epoch are set as a broker does; return its offset."""
        fields = HEADER.unpack_from(batch)
        last_delta, max_timestamp = fields[6], fields[8]
        base = self.end_offset
        data = base.to_bytes(8, "big") + batch[8:LOG_OVERHEAD] + self.epoch.to_bytes(4, "big") + batch[16:]
        self.batches.append(StoredBatch(base, base + last_delta + 1, max_timestamp, data))
        return base

    def append_values(self, values: Iterable[bytes | None], timestamp: int = 1_700_000_000_000) -> int:
        """Append one batch with these values; return its offset."""
        return self.append(build_batch([NewRecord(value, timestamp=timestamp) for value in values]))

    def place(self, base_offset: int, next_offset: int, data: bytes, max_timestamp: int = -1) -> None:
        """Put bytes as they are at some offset: legacy sets, holes, broken batches."""
        self.batches.append(StoredBatch(base_offset, next_offset, max_timestamp, data))

    def elect(self, leader: int) -> None:
        """Give the partition another leader (-1: none), with a new epoch if there is one."""
        self.leader = leader
        if leader >= 0:
            self.epoch += 1
            self.epochs.append((self.epoch, self.end_offset))

    def delete_before(self, offset: int) -> None:
        """Expire what lies before ``offset``, batch by batch."""
        self.batches = [batch for batch in self.batches if batch.next_offset > offset]
        self.start_offset = offset

    def truncate(self, offset: int) -> None:
        """Lose what lies at and after ``offset``, as an unclean election does; call before :meth:`elect`."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]

    def read(self, offset: int, end: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Return batches from the one that holds ``offset`` on, up to ``end`` and ``max_bytes``."""
        found: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.next_offset <= offset or batch.base_offset >= end:
                continue
            if size + len(batch.data) > max_bytes and (found or not at_least_one):
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above ``epoch`` and where it ends; (-1, -1) when none is known (KIP-320)."""
        known = [(e, start) for e, start in self.epochs if e <= epoch]
        later = [start for e, start in self.epochs if e > epoch]
        if not known:
            return -1, -1
        return known[-1][0], later[0] if later else self.end_offset

    def offset_for_time(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record at or after ``timestamp``."""
        return next((batch for batch in self.batches if batch.max_timestamp >= timestamp), None)


@dataclass(slots=True)
class TopicLog:
    """One topic."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionLog]
    internal: bool = False
    error_code: int = 0  #: What Metadata says of it.


class Topics:
    """All topics of a cluster, by name; index with a name or a TopicPartition."""

    def __init__(self, node_ids: Sequence[int] = (0,)) -> None:
        self.node_ids = list(node_ids)
        self.by_name: dict[str, TopicLog] = {}
        self.on_change: list[Callable[[], None]] = []
        self._ids = 0

    def __iter__(self) -> Iterator[TopicLog]:
        return iter(self.by_name.values())

    def __getitem__(self, key: TopicPartition) -> PartitionLog:
        return self.by_name[key[0]].partitions[key[1]]

    def add(self, name: str, partitions: int = 1) -> TopicLog:
        """Create a topic; leaders go round. A name used before gets a new topic id."""
        self._ids += 1
        nodes = self.node_ids
        logs = {
            number: PartitionLog(name, number, nodes[number % len(nodes)], replicas=list(nodes), isr=list(nodes))
            for number in range(partitions)
        }
        topic = self.by_name[name] = TopicLog(name, self._ids.to_bytes(16, "big"), logs)
        return topic

    def remove(self, name: str) -> None:
        """Delete a topic."""
        del self.by_name[name]

    def append_values(self, tp: TopicPartition, values: Iterable[bytes | None]) -> int:
        """Append a batch and let parked fetches see it; return its offset."""
        offset = self[tp].append_values(values)
        self.changed()
        return offset

    def changed(self) -> None:
        """Let parked fetches look again."""
        for callback in self.on_change:
            callback()

    def find(self, name: str, topic_id: bytes) -> TopicLog | None:
        """Return a topic by id, unless that is zero, else by name."""
        if any(topic_id):
            return next((topic for topic in self if topic.topic_id == topic_id), None)
        return self.by_name.get(name)
