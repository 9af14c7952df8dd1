"""The partition counts of a topic with ordered delivery, as the controller's metadata contain them (KIP-253).

The metadata image has :class:`OrderedTopicCounts` for each topic with ``enable.ordered.delivery``. This module must not
import ``image``, which imports it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class CountChange(enum.Enum):
    """A change of the partition count that the controller has begun, and completes once all leaders have applied it."""

    NONE = "none"
    #: The existing partitions accept the new count only. The new partitions have no leader yet: if a record was
    #: written to one of them while a leader of its parent (the partition that it was split off from) still accepted the
    #: old count, a record with the same key could be written to the parent later, and be consumed earlier.
    EXPANSION = "expansion"
    #: The partitions accept no count, and none is newly marked for deletion yet. If some leaders accepted the new count
    #: while others still accepted the old one, an heir (a partition that gets keys back) could get a record before the
    #: partition to be deleted gets one with the same key.
    SHRINKING = "shrinking"


class RemovedPartition(NamedTuple):
    """Where a removed partition ended. If an expansion creates the partition again, the new one continues from this
    leader epoch and offset: clients ignore lower leader epochs of the same topic id, and groups may have committed
    offsets of the removed partition.
    """

    leader_epoch: int
    end_offset: int


class OrderedTopicCounts(NamedTuple):
    """The partition counts of one topic. Partitions from ``undeleted_partition_count`` on are marked for deletion."""

    initial_partition_count: int
    undeleted_partition_count: int
    change: CountChange = CountChange.NONE
    #: During a change: the partitions below this number exist both before and after it.
    kept_partition_count: int = -1
    removed: Mapping[int, RemovedPartition] = MappingProxyType({})
    #: The number of changes of the count. The same count may occur twice: without this number, clients could not tell
    #: whether they have missed changes, or whether another broker's metadata is older than theirs.
    partition_count_epoch: int = 0
