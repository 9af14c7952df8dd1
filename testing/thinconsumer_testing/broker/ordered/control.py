"""The controller's changes of partition counts: it checks a change, takes each step when it is due, and removes emptied
partitions (KIP-253).

The metadata alone records that a change has begun, so the next controller can complete it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.wire.error_codes import Code

from ..image import ClusterImage, PartitionImage, TopicImage
from ..schedule import Timer
from . import changes
from .topic import CountChange

if TYPE_CHECKING:
    from ..partition import PartitionReplica

log = logging.getLogger(__name__)

#: Seconds after which the controller asks the leaders again whether they have applied a change.
CHECK_S = 0.1


class CountRefused(Exception):
    """A new partition count is rejected, with an error code and a message for the client."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Controls(NamedTuple):
    """The functions of the controller that :class:`PartitionCountManager` calls."""

    put_topic: Callable[[TopicImage], None]
    elect: Callable[[PartitionImage, TopicImage], PartitionImage]
    leader_of: Callable[[PartitionImage], PartitionReplica | None]  #: None if no leader can be reached.
    call_later: Callable[[float, Callable[[], None]], Timer]


class PartitionCountManager:
    """Changes the partition counts of topics with ordered delivery, step by step."""

    def __init__(self, image: ClusterImage, controls: Controls) -> None:
        self._image = image
        self._controls = controls
        #: Topics with a change that is not completed.
        self._changing = {name: None for name, topic in image.topics.items() if _is_changing(topic)}
        self._timer: Timer | None = None
        self._is_stepping = False

    def check(self, topic: TopicImage, count: int) -> None:
        """Raise CountRefused if a topic cannot get this number of partitions, or not yet."""
        ordered = topic.ordered
        assert ordered is not None, topic.name
        have, lowest = ordered.undeleted_partition_count, ordered.initial_partition_count
        if count == have:
            raise CountRefused(Code.INVALID_PARTITIONS, f"The topic {topic.name} already has {have} partition(s).")
        if count < lowest:
            problem = f"The topic {topic.name} was created with {lowest} partition(s), and cannot have only {count}."
            raise CountRefused(Code.INVALID_PARTITIONS, problem)
        if ordered.change is not CountChange.NONE:
            problem = f"The last change of the partition count of {topic.name} is not completed yet."
            raise CountRefused(Code.REASSIGNMENT_IN_PROGRESS, problem)
        if count > have and len(self._without_emptied(topic).partitions) > have:
            problem = f"Partitions of {topic.name} that are marked for deletion still have records."
            raise CountRefused(Code.REASSIGNMENT_IN_PROGRESS, problem)
        if count < have and any(row.leader < 0 for row in topic.partitions[:have]):
            # Leaders accept no count until all of them have applied the first step: while one is missing, no producer
            # that sends a count could write to any partition.
            problem = f"A partition of {topic.name} has no leader."
            raise CountRefused(Code.LEADER_NOT_AVAILABLE, problem)

    def expand(self, topic: TopicImage, replicas: Sequence[tuple[int, ...]]) -> TopicImage:
        """Return the topic in the first step of an expansion; the caller has checked the new count."""
        return changes.begin_expansion(self._without_emptied(topic), replicas, self._image.brokers)

    def follow(self, topic: TopicImage) -> None:
        """Note the new metadata of a topic, which may begin or complete a change."""
        if _is_changing(topic):
            self._changing[topic.name] = None
        else:
            self._changing.pop(topic.name, None)

    def take_steps(self) -> None:
        """Complete the changes whose first step all leaders have applied; check the other changes again later."""
        if self._is_stepping or not self._changing:
            return
        self._is_stepping = True
        try:
            for name in list(self._changing):
                self._take_step(name)
        finally:
            self._is_stepping = False
        if self._changing and self._timer is None:
            self._timer = self._controls.call_later(CHECK_S, self._check_again)

    def remove_emptied(self) -> None:
        """Remove the partitions that are marked for deletion and empty, those with the highest numbers first.

        A partition stays while one with a higher number still has records, since partition numbers have no gaps.
        """
        for topic in list(self._image.topics.values()):
            self.remove_emptied_of(topic)

    def remove_emptied_of(self, topic: TopicImage) -> None:
        """Remove the emptied partitions of one topic.

        The removal is a metadata change of its own, even if an expansion creates the partitions again at once.
        Otherwise the replicas would keep their logs, and one that has not applied the last DeleteRecords could become
        leader and return deleted records.
        """
        remaining = self._without_emptied(topic)
        if remaining is not topic:
            count = len(topic.partitions) - len(remaining.partitions)
            log.info("removing %d emptied partitions of %s", count, topic.name)
            self._controls.put_topic(remaining)

    def stop(self) -> None:
        """Take no further step: the controller was killed."""
        self._changing.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _check_again(self) -> None:
        self._timer = None
        self.take_steps()

    def _take_step(self, name: str) -> None:
        topic = self._image.topics.get(name)
        if topic is None or topic.ordered is None or not _is_changing(topic):
            self._changing.pop(name, None)
            return
        is_shrinking = topic.ordered.change is CountChange.SHRINKING
        if not all(self._has_applied(row, is_shrinking) for row in changes.awaited_partitions(topic)):
            return
        if is_shrinking:
            self._controls.put_topic(changes.complete_shrinking(topic))
        else:
            self._controls.put_topic(changes.complete_expansion(topic, self._controls.elect))

    def _has_applied(self, row: PartitionImage, is_shrinking: bool) -> bool:
        """Return whether the partition's leader has applied this metadata.

        When the count shrinks, all earlier records must be committed, too: consumers first read a marked partition to
        its end, which is the high watermark.

        Without a leader the result is False, as the last leader may still accept the old count: a broker that the
        controller cannot reach and that is alone in the ISR goes on writing, and will be elected again.
        """
        replica = self._leader(row)
        return replica is not None and (not is_shrinking or replica.high_watermark >= replica.epoch_start)

    def _leader(self, row: PartitionImage) -> PartitionReplica | None:
        replica = self._controls.leader_of(row)
        is_current = replica is not None and replica.is_leader and replica.leader_epoch == row.leader_epoch
        return replica if is_current else None

    def _without_emptied(self, topic: TopicImage) -> TopicImage:
        return changes.without_emptied(topic, self._end_of_empty)

    def _end_of_empty(self, row: PartitionImage) -> int | None:
        replica = self._leader(row)
        if replica is None or replica.log.start_offset != replica.log.end_offset:
            return None
        return replica.log.end_offset


def _is_changing(topic: TopicImage) -> bool:
    return topic.ordered is not None and topic.ordered.change is not CountChange.NONE
