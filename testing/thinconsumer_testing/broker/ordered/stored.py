"""Ordered delivery in ``meta.json``: a topic's partition counts, and the leader epochs recorded at their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thinconsumer.errors import IllegalArgumentError

from ..config import TopicConfig
from ..image import PartitionImage, TopicImage
from .changes import with_first_counts, with_stored_counts
from .topic import CountChange, OrderedTopicCounts, RemovedPartition


def add_ordered_to_json(stored: dict[str, Any], topic: TopicImage) -> None:
    """Add a topic's counts to its JSON form ``stored``, if the topic has ordered delivery."""
    ordered = topic.ordered
    if ordered is None:
        return
    # Partitions that were added or marked for deletion together share a list, which may have an element for each
    # partition of the topic, so each list is stored only once.
    lists: dict[tuple[int, ...], int] = {}
    stored["ordered"] = {
        "initial_partition_count": ordered.initial_partition_count,
        "undeleted_partition_count": ordered.undeleted_partition_count,
        "change": ordered.change.value,
        "kept_partition_count": ordered.kept_partition_count,
        "partition_count_epoch": ordered.partition_count_epoch,
        "removed": {str(number): list(end) for number, end in ordered.removed.items()},
        "partitions": [
            [
                lists.setdefault(row.leader_epochs_after_creation, len(lists)),
                lists.setdefault(row.leader_epochs_before_deletion, len(lists)),
                row.first_offset,
            ]
            for row in topic.partitions
        ],
        "leader_epochs": list(lists),
    }


def with_ordered_from_json(topic: TopicImage, stored: Mapping[str, Any]) -> TopicImage:
    """Return the topic with the counts in its JSON form ``stored``. A topic that an earlier version of this broker has
    stored without counts gets its first counts. A topic without ordered delivery is returned unchanged.

    Raises:
        IllegalArgumentError: The counts contradict the partitions.
    """
    if not TopicConfig.parse(topic.configs).ordered_delivery or topic.internal:
        return topic
    found = stored.get("ordered")
    if found is None:
        return with_first_counts(topic)
    lists = [tuple(int(epoch) for epoch in epochs) for epochs in found["leader_epochs"]]
    rows = tuple(
        _with_epochs(row, lists, *(int(number) for number in more))
        for row, more in zip(topic.partitions, found["partitions"], strict=True)
    )
    return with_stored_counts(topic._replace(partitions=rows), _counts_from_json(found, len(rows)))


def _with_epochs(
    row: PartitionImage, lists: Sequence[tuple[int, ...]], created: int, deleted: int, first_offset: int
) -> PartitionImage:
    if not (0 <= created < len(lists) and 0 <= deleted < len(lists) and first_offset >= 0):
        raise IllegalArgumentError(f"partition {row.partition} refers to leader epochs that are not stored")
    return row._replace(
        leader_epochs_after_creation=lists[created],
        leader_epochs_before_deletion=lists[deleted],
        first_offset=first_offset,
    )


def _counts_from_json(row: Mapping[str, Any], partitions: int) -> OrderedTopicCounts:
    ordered = OrderedTopicCounts(
        int(row["initial_partition_count"]),
        int(row["undeleted_partition_count"]),
        CountChange(row["change"]),
        int(row["kept_partition_count"]),
        {int(number): RemovedPartition(*map(int, end)) for number, end in row["removed"].items()},
        int(row.get("partition_count_epoch", 0)),  # an earlier version has stored none
    )
    lowest = ordered.initial_partition_count
    is_valid = 1 <= lowest <= ordered.undeleted_partition_count <= partitions
    if ordered.change is not CountChange.NONE:
        is_valid = is_valid and lowest <= ordered.kept_partition_count < ordered.undeleted_partition_count
    if not is_valid:
        raise IllegalArgumentError(f"a topic with {partitions} partitions has impossible counts: {ordered}")
    return ordered
