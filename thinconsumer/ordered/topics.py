"""One topic with ordered delivery: its counts and partitions, and brokers' answers about its changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..linear_hashing import PartitionCounts
from ..network.metadata import Metadata
from ..positions.partitions import Partition, Partitions
from ..wire.partition_leader_epochs import PartitionLeaderEpochs
from .gates import Epochs, Gate, Requirement, TopicHistory, deciding_partitions, gates_of
from .holds import Hold


class Threshold(NamedTuple):
    """The offset at which a leader epoch ends in a partition."""

    offset: int
    leader_epoch: int  #: The partition's leader epoch in metadata when its leader was asked.


class Shape(NamedTuple):
    """The part of a topic's metadata that changes with its partition count."""

    topic_id: bytes
    counts: PartitionCounts
    existing: frozenset[int]
    #: The number of changes so far: the same counts may be found again, with partitions removed and added in between.
    partition_count_epoch: int = -1

    @property
    def has_changed(self) -> bool:
        """Whether the topic has more partitions than it began with, or some that are marked for deletion."""
        return self.counts.undeleted > self.counts.initial or max(self.existing) >= self.counts.initial

    def may_be_removed_by(self, partition: int, later: Shape) -> bool:
        """Return whether a partition of this shape may have been removed before ``later``, and perhaps added again."""
        changes = later.partition_count_epoch - self.partition_count_epoch
        # A marked partition is added again by the next change; another one must be marked by a change before that.
        may_be_readded = partition >= self.counts.initial and changes > (partition < self.counts.undeleted)
        return partition not in later.existing or may_be_readded


def shapes(metadata: Metadata) -> dict[str, Shape]:
    """Return the shapes of all topics with ordered delivery and known partitions."""
    found = {name: (metadata.topics[name], counts) for name, counts in metadata.counted().items()}
    return {
        name: Shape(topic.topic_id, counts, frozenset(topic.partitions), topic.partition_count_epoch)
        for name, (topic, counts) in found.items()
        if topic.partitions
    }


def has_changed(metadata: Metadata, partitions: Partitions) -> bool:
    """Return whether any shape ``has_changed``. If none has, nothing is held: only set counts for Fetch requests."""
    found = shapes(metadata)
    if any(shape.has_changed for shape in found.values()):
        return True
    for name, shape in found.items():
        partitions.set_count(name, shape.counts.undeleted)
    for name in partitions.counts.keys() - metadata.counted().keys():
        partitions.set_count(name, None)  # the topic was created anew, without ordered delivery
    return False


class EpochEnds:
    """The ends of leader epochs of one topic's partitions, as leaders have answered.

    With ``keeps_lowest``, an end that is looked up again after a leader change only counts if it is lower: the log was
    truncated. A higher end only shows that the log has grown since.
    """

    def __init__(self, name: str, *, keeps_lowest: bool = False) -> None:
        self.name = name
        self.keeps_lowest = keeps_lowest
        self.thresholds: dict[Requirement, Threshold] = {}
        self.asked: dict[Requirement, object] = {}  #: The thresholds that leaders are asked for, with a token each.

    def clear(self) -> None:
        """Forget all thresholds, and drop the responses to queries under way."""
        self.thresholds.clear()
        self.asked.clear()


class HeldTopic:
    """A topic with partitions that may be held."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds: dict[Partition, Hold] = {}


class GatedTopic(EpochEnds, HeldTopic):
    """One topic with its changes, as far as brokers have reported them, and the holds of its assigned partitions."""

    def __init__(self, name: str, shape: Shape) -> None:
        EpochEnds.__init__(self, name)
        HeldTopic.__init__(self, name)
        self.shape = shape
        #: Of awaited partitions, with ``assign()``: the committed offset, and since when it has not moved.
        self.stalled: dict[int, tuple[float | None, float]] = {}
        self.first_offsets: dict[int, int] = {}  #: The log starts of stalled partitions that have not moved for long.
        self._created: dict[int, Epochs] = {}
        self._deleted: dict[int, Epochs] = {}
        self._answered: set[int] = set()  #: The partitions with known leader epochs.

    def changed(self, shape: Shape) -> None:
        """Take another shape of the same topic, and forget what was known about earlier changes."""
        for partition in self.holds:
            if partition.has_position and self.shape.may_be_removed_by(partition.tp.partition, shape):
                # The heir of a removed partition waits no longer: buffered records would come after later ones of it.
                partition.rewind()
        self.shape = shape
        for outdated in (self._created, self._deleted, self._answered, self.stalled, self.first_offsets):
            outdated.clear()
        self.clear()
        for hold in self.holds.values():
            hold.topic_changed()

    def missing_epochs(self, partition: int) -> frozenset[int]:
        """Return the partitions that decide about the gates of ``partition`` and have no known leader epochs yet."""
        counts = self.shape.counts
        wanted = deciding_partitions(counts.initial, counts.undeleted, self.shape.existing, partition)
        return wanted - self._answered

    def take_epochs(self, rows: Iterable[PartitionLeaderEpochs]) -> bool:
        """Take the leader epochs of partitions; return whether any of these partitions had none before.

        Each list is cut at the partition's own number, since only partitions below it have held its keys.
        """
        before = len(self._answered)
        for row in rows:
            number = row.partition_index
            if row.error_code or number not in self.shape.existing:
                continue
            self._answered.add(number)
            if row.leader_epochs_after_creation:
                self._created[number] = tuple(row.leader_epochs_after_creation[:number])
            if row.leader_epochs_before_deletion and number >= self.shape.counts.undeleted:
                self._deleted[number] = tuple(row.leader_epochs_before_deletion[:number])
        return len(self._answered) > before

    def creation(self, partition: int) -> Epochs:
        """Return the leader epochs with which a partition was added; none for one that the topic began with."""
        return self._created.get(partition, ())

    def gates(self, partition: int) -> list[Gate]:
        """Return the gates of a partition, once :meth:`missing_epochs` is empty for it."""
        history = TopicHistory(self.shape.counts.initial, self.shape.existing, self._created, self._deleted)
        return gates_of(history, partition)
