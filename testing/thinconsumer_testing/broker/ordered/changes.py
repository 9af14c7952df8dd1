"""The steps by which the partition count of a topic with ordered delivery changes: from one topic image to the next.

Pure functions; ``control`` decides when each step is due. Each step is one change of the metadata, so that every broker
applies the count of a partition together with its leader epoch. A step that changes which count leaders accept also
raises the leader epochs of their partitions: records of the old epoch were written with the old count, later ones with
the new count (KIP-253).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..image import PartitionImage, TopicImage
from .topic import CountChange, OrderedTopicCounts, RemovedPartition

NO_LEADER = -1


def with_first_counts(topic: TopicImage) -> TopicImage:
    """Return the topic with its first counts for ordered delivery: it was just created, or stored without counts."""
    count = len(topic.partitions)
    return _with_counts(topic, OrderedTopicCounts(count, count), topic.partitions)


def with_stored_counts(topic: TopicImage, ordered: OrderedTopicCounts) -> TopicImage:
    """Return a topic with the counts that were stored for it."""
    return _with_counts(topic, ordered, topic.partitions)


def begin_expansion(topic: TopicImage, replicas: Sequence[tuple[int, ...]], alive: Mapping[int, object]) -> TopicImage:
    """Return the topic with the new count, and with one new partition, still without a leader, for each of
    ``replicas``. Each new partition records the leader epochs of the existing ones before they are raised.

    ``alive`` has the ids of the live brokers; those among a new partition's replicas are its first ISR. The topic must
    have no partition that is marked for deletion.
    """
    ordered, have = _counts(topic), len(topic.partitions)
    epochs = tuple(row.leader_epoch for row in topic.partitions)
    new = []
    for number, nodes in enumerate(replicas, have):
        end = ordered.removed.get(number, RemovedPartition(-1, 0))
        isr = tuple(node for node in nodes if node in alive)
        row = PartitionImage(topic.name, topic.topic_id, number, NO_LEADER, end.leader_epoch, nodes, isr)
        new.append(row._replace(leader_epochs_after_creation=epochs, first_offset=end.end_offset))
    changed = ordered._replace(
        undeleted_partition_count=have + len(new),
        change=CountChange.EXPANSION,
        kept_partition_count=have,
        removed={number: end for number, end in ordered.removed.items() if number >= have + len(new)},
        partition_count_epoch=ordered.partition_count_epoch + 1,
    )
    return _with_counts(topic, changed, (*map(_raised, topic.partitions), *new))


def complete_expansion(topic: TopicImage, elect: Callable[[PartitionImage, TopicImage], PartitionImage]) -> TopicImage:
    """Return the topic with leaders for its new partitions, now that the leaders of the existing ones have applied the
    new count.
    """
    ordered = _counts(topic)
    kept = ordered.kept_partition_count
    rows = (*topic.partitions[:kept], *(elect(row, topic) for row in topic.partitions[kept:]))
    return _with_counts(topic, ordered._replace(change=CountChange.NONE, kept_partition_count=-1), rows)


def begin_shrinking(topic: TopicImage, count: int) -> TopicImage:
    """Return the topic in the first step of a decrease to ``count``: leaders accept no count until the second step,
    :func:`complete_shrinking`.
    """
    changed = _counts(topic)._replace(change=CountChange.SHRINKING, kept_partition_count=count)
    return _with_counts(topic, changed, tuple(map(_raised, topic.partitions)))


def complete_shrinking(topic: TopicImage) -> TopicImage:
    """Return the topic with the new, lower count; partitions with this or a higher number are marked for deletion.

    Each newly marked partition records the leader epochs of the partitions that stay, before these epochs are raised.
    No leader accepts the old count any more, so a marked partition gets no further record that was written with a
    count.
    """
    ordered = _counts(topic)
    kept = ordered.kept_partition_count
    epochs = tuple(row.leader_epoch for row in topic.partitions[:kept])
    rows = tuple(
        row._replace(leader_epochs_before_deletion=epochs)
        if kept <= row.partition < ordered.undeleted_partition_count
        else row
        for row in map(_raised, topic.partitions)
    )
    changed = ordered._replace(
        undeleted_partition_count=kept,
        change=CountChange.NONE,
        kept_partition_count=-1,
        partition_count_epoch=ordered.partition_count_epoch + 1,
    )
    return _with_counts(topic, changed, rows)


def without_emptied(topic: TopicImage, end_of_empty: Callable[[PartitionImage], int | None]) -> TopicImage:
    """Return the topic without the partitions at its end that are marked for deletion and empty.

    ``end_of_empty`` returns a partition's log end offset if the partition is empty, else None.
    """
    ordered, rows = topic.ordered, topic.partitions
    if ordered is None or ordered.change is not CountChange.NONE:
        return topic
    removed = dict(ordered.removed)
    while len(rows) > ordered.undeleted_partition_count and (end := end_of_empty(rows[-1])) is not None:
        removed[rows[-1].partition] = RemovedPartition(rows[-1].leader_epoch, end)
        rows = rows[:-1]
    if rows is topic.partitions:
        return topic
    return topic._replace(partitions=rows, ordered=ordered._replace(removed=removed))


def may_have_leader(topic: TopicImage, row: PartitionImage) -> bool:
    """Return whether a partition may get a leader: not before the expansion that adds it is completed."""
    ordered = topic.ordered
    if ordered is None or ordered.change is not CountChange.EXPANSION:
        return True
    return row.partition < ordered.kept_partition_count


def keeps_tombstones(topic: TopicImage, partition: int) -> bool:
    """Return whether compaction must keep a partition's tombstones, since another partition may have older values of
    their keys: for an added partition, the partition that it was split off from; for every partition, the partitions
    that are marked for deletion, if there are any.

    Without the tombstone, a group that reads both partitions from the beginning would take the older value for the last
    one.
    """
    ordered = topic.ordered
    if ordered is None:
        return False
    is_added = partition >= ordered.initial_partition_count
    return is_added or len(topic.partitions) > ordered.undeleted_partition_count


def awaited_partitions(topic: TopicImage) -> tuple[PartitionImage, ...]:
    """Return the partitions whose leaders must have applied the first step of a change before its second step."""
    ordered = _counts(topic)
    if ordered.change is CountChange.EXPANSION:
        return topic.partitions[: ordered.kept_partition_count]
    return topic.partitions[: ordered.undeleted_partition_count]


def _counts(topic: TopicImage) -> OrderedTopicCounts:
    assert topic.ordered is not None, topic.name
    return topic.ordered


def _raised(row: PartitionImage) -> PartitionImage:
    return row._replace(leader_epoch=row.leader_epoch + 1)


def _with_counts(topic: TopicImage, ordered: OrderedTopicCounts, rows: Sequence[PartitionImage]) -> TopicImage:
    """Return the topic with these counts, which are repeated in each partition for the broker that leads it."""
    count = ordered.undeleted_partition_count
    is_shrinking = ordered.change is CountChange.SHRINKING
    repeated = tuple(_with_count(row, count, is_shrinking or row.partition >= count) for row in rows)
    return topic._replace(partitions=repeated, ordered=ordered)


def _with_count(row: PartitionImage, count: int, is_closed: bool) -> PartitionImage:
    if (row.undeleted_partition_count, row.is_closed) == (count, is_closed):
        return row  # Not a copy: a new object counts as a change, so it would get a higher partition epoch.
    return row._replace(undeleted_partition_count=count, is_closed=is_closed)
