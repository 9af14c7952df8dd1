"""Validate positions after a leader change with OffsetForLeaderEpoch (KIP-320).

A partition enters VALIDATING when metadata shows a new leader epoch. The response confirms the position or reports
the offset where the logs diverge. The position moves back there; under reset policy none, polls raise
``LogTruncationError`` instead.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ..config import ConsumerConfig
from ..connection.request import Answer, Request, Target
from ..errors import LogTruncationError, UnsupportedVersionError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..metadata import Metadata
from ..partitions import Cursor, Partition, Partitions, PositionEvent, PositionState
from ..timers import NEVER, Backoff, Random, SharedJitter
from ..types import TopicPartition
from ..wire import ZERO_UUID, Message
from ..wire.error_codes import Code, to_error
from ..wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from .resets import timestamp_of

log = logging.getLogger(__name__)

ASKER = "validation"
#: How long to wait, in seconds, until metadata reaches the leader epoch of records already read. A cluster takes 9 s by
#: default to notice a broker that is cut off. If the epoch belongs to a deleted topic or to another cluster, metadata
#: never reaches it and validation is delayed by this time.
BEHIND_S = 10.0
#: First version that consumers with READ on the topic may send (KIP-320); older ones require ClusterAction.
CONSUMERS_SINCE = 3


class PendingValidation(NamedTuple):
    """A validation in flight for one partition; stale once its position or leader epoch changes."""

    partition: Partition
    cursor: Cursor
    leader_epoch: int
    fetch_epoch: int  #: The epoch whose end offset is requested.

    @property
    def fresh(self) -> bool:
        """Whether the partition still waits for this response."""
        partition = self.partition
        return (
            partition.cursor is self.cursor
            and partition.leader_epoch == self.leader_epoch
            and partition.cursor.fetch_epoch == self.fetch_epoch  # a late Fetch response may advance it
            and partition.state is PositionState.VALIDATING
        )


class Validation:
    """Validates the position of every partition in state VALIDATING."""

    asker = ASKER

    def __init__(self, settings: ConsumerConfig, partitions: Partitions, metadata: Metadata, random: Random) -> None:
        self._settings = settings
        self._partitions = partitions
        self._metadata = metadata
        self._shared_jitter = SharedJitter(random)
        self._backoff = Backoff.from_settings(settings)
        self._asked: dict[Partition, PendingValidation] = {}
        #: Partitions with records of a newer leader epoch than in metadata, and when the wait for new metadata ends.
        self._behind: dict[Partition, tuple[Cursor, float]] = {}
        self._seen = (-1, -1)
        self._outages = OutageLog(log)

    def step(self, now: float) -> list[Request]:
        """Detect new leaders and recreated topics; return the requests due now, one per leader."""
        seen = self._metadata.version, self._partitions.generation
        if self._seen != seen:
            self._seen = seen
            self._outages.keep(self._partitions)
            for partition in self._partitions:
                self._compare(partition)
        waiting = self._partitions.in_state(PositionState.VALIDATING, now)
        self._asked = {partition: asked for partition, asked in self._asked.items() if asked.fresh}
        if self._behind:
            self._behind = {p: known for p, known in self._behind.items() if self._still_waits(p, known[0])}
        groups: dict[int, dict[TopicPartition, PendingValidation]] = {}
        for partition in waiting:
            if partition in self._asked:
                continue
            info = self._metadata.leader(partition.tp)
            if info is None:
                self._metadata.request_update(f"no leader known for {partition.tp.topic}-{partition.tp.partition}")
            elif partition.cursor.fetch_epoch < 0 or info.leader_epoch < 0:
                partition.move(PositionEvent.VALIDATED)  # an old broker reports no epochs to compare
            elif self._awaits_newer_metadata(partition, info.leader_epoch, now):
                self._metadata.request_update(
                    f"{partition.tp.topic}-{partition.tp.partition} has an outdated leader in metadata"
                )
                self._pause(partition, now)
            else:
                asked = PendingValidation(
                    partition, partition.cursor, partition.leader_epoch, partition.cursor.fetch_epoch
                )
                groups.setdefault(info.leader, {})[partition.tp] = self._asked[partition] = asked
        return [self._request(node, group, now) for node, group in groups.items()]

    def wake_at(self, now: float) -> float:
        """Return when the next backoff ends."""
        return self._partitions.wake_at(lambda p: p.state is PositionState.VALIDATING, now)

    def handle(self, answer: Answer, now: float) -> None:
        """Handle the response to a request made by :meth:`step`."""
        self._shared_jitter.redraw()
        group: dict[TopicPartition, PendingValidation] = answer.request.context
        for asked in group.values():
            if self._asked.get(asked.partition) is asked:
                del self._asked[asked.partition]
        response: OffsetForLeaderEpochResponse | None = answer.response
        if response is None:
            self._failed(answer, group, now)
            return
        for topic in response.topics:
            for data in topic.partitions:
                found = group.pop(TopicPartition(topic.topic, data.partition), None)
                if found is not None and found.fresh:
                    self._take(found.partition, data, answer.node_id, now)
        for left_out in group.values():
            if left_out.fresh:
                self._pause(left_out.partition, now)

    def restart(self, now: float) -> None:
        """Validate every pending partition anew."""
        self._asked.clear()
        self._behind.clear()
        self._seen = (-1, -1)

    # -- detecting leader changes

    def _compare(self, partition: Partition) -> None:
        topic_id = self._metadata.topic_id(partition.tp.topic)
        if topic_id != ZERO_UUID:
            if partition.topic_id not in (None, topic_id):
                partition.leader_epoch = -1
                partition.preferred_replica = -1
                partition.high_watermark = partition.last_stable_offset = partition.log_start_offset = None
                self._begin_anew(partition)
            partition.topic_id = topic_id
        info = self._metadata.leader(partition.tp)
        if info is None:
            return
        if info.leader_epoch > partition.leader_epoch:
            if partition.leader_epoch >= 0:
                partition.preferred_replica = -1
                if partition.blocked_until < NEVER:
                    partition.blocked_until = 0.0  # the new leader ends the backoff
            doubtful = 0 <= partition.cursor.fetch_epoch < info.leader_epoch
            partition.leader_epoch = info.leader_epoch
            if doubtful and partition.state is PositionState.FETCHING:
                partition.move(PositionEvent.LEADER_CHANGED)

    def _begin_anew(self, partition: Partition) -> None:
        partition.committed = None  # the committed offset belonged to the old topic
        if partition.state in (PositionState.FETCHING, PositionState.VALIDATING):
            log.warning(
                "%s-%s: its topic was deleted and created again; resetting position %s",
                *partition.tp,
                partition.cursor.offset,
            )
            partition.ask_reset(None)
        elif partition.state is PositionState.AWAITING_RESET:
            # A lookup in flight may return an offset of the deleted topic: repeat it, for the same target.
            partition.ask_reset(partition.reset)

    def _awaits_newer_metadata(self, partition: Partition, leader_epoch: int, now: float) -> bool:
        """Return whether to wait for newer metadata, since records of a newer leader epoch were read.

        The leader in metadata would not know that epoch, and the reset policy would discard a valid position.
        """
        cursor = partition.cursor
        if leader_epoch >= cursor.fetch_epoch:
            return False
        known = self._behind.get(partition)
        if known is None or known[0] is not cursor:
            log.info(
                "%s-%s: metadata has leader epoch %s, but epoch %s was read: waiting up to %s s for newer metadata",
                *partition.tp,
                leader_epoch,
                cursor.fetch_epoch,
                BEHIND_S,
            )
            known = self._behind[partition] = cursor, now + BEHIND_S
        return now < known[1]

    def _still_waits(self, partition: Partition, cursor: Cursor) -> bool:
        still = partition.cursor is cursor and partition.state is PositionState.VALIDATING
        return still and self._partitions.get(partition.tp) is partition

    # -- requests and responses

    def _request(self, node: int, group: dict[TopicPartition, PendingValidation], now: float) -> Request:
        def build(version: int) -> Message:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for tp, asked in group.items():
                topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic)).partitions.append(
                    OffsetForLeaderPartition(
                        partition=tp.partition, current_leader_epoch=asked.leader_epoch, leader_epoch=asked.fetch_epoch
                    )
                )
            return OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))

        deadline = now + self._settings.request_timeout_ms / 1000
        return Request(ASKER, OffsetForLeaderEpochRequest, Target(node), build, deadline, group, CONSUMERS_SINCE)

    def _failed(self, answer: Answer, group: dict[TopicPartition, PendingValidation], now: float) -> None:
        for asked in group.values():
            if not asked.fresh:
                continue
            if isinstance(answer.error, UnsupportedVersionError):
                # Brokers before 2.3 do not support version 3: skip the validation, as clients before KIP-320 did.
                asked.partition.move(PositionEvent.VALIDATED)
            else:
                self._pause(asked.partition, now)
        self._metadata.request_update(f"OffsetForLeaderEpoch of node {answer.node_id} failed: {answer.error}")

    def _take(self, partition: Partition, data: EpochEndOffset, node_id: int, now: float) -> None:
        if data.error_code != Code.NONE:
            error = to_error(data.error_code, api="OffsetForLeaderEpoch", node_id=node_id, partition=partition.tp)
            action = rule(error.api, data.error_code, Scope.PARTITION).action
            if action is Action.REFRESH_METADATA:
                self._metadata.request_update(f"validating {partition.tp.topic}-{partition.tp.partition}: {error}")
            is_raised = action is Action.RAISE
            partition.failed(error, is_raised=is_raised)
            text = f"cannot validate the position: {error}"
            self._outages.failed(error.code, now, text, subject=partition.tp, grace=0.0 if is_raised else GRACE)
            self._pause(partition, now)
            return
        partition.worked()
        tp = partition.tp
        self._outages.recovered(tp, now, f"the position in {tp.topic}-{tp.partition} can be validated again")
        position, received = partition.cursor.offset, partition.cursor.fetch_offset
        epoch, is_known = partition.cursor.epoch, data.end_offset >= 0 and data.leader_epoch >= 0
        if is_known and data.end_offset >= received:
            partition.move(PositionEvent.VALIDATED)
        elif is_known and 0 <= epoch < data.leader_epoch:
            # The log diverges from the buffered records. The response's epoch is newer than the position's and may have
            # begun below the position: drop the buffer, and validate again with the position's own epoch.
            partition.place(PositionEvent.SEEK_VALIDATED, position, epoch)
        elif epoch < 0 or (is_known and data.end_offset >= position):
            # Buffered records are truncated: fetch them again. The position stays, since no record before it is
            # truncated, or the user has set it and no record was returned since.
            log.info("%s-%s: log truncated at %s, position stays %s", *partition.tp, data.end_offset, position)
            partition.place(PositionEvent.TRUNCATED, position, min(epoch, data.leader_epoch))
        else:
            self._truncated(partition, data if is_known else None)

    def _truncated(self, partition: Partition, data: EpochEndOffset | None) -> None:
        position = partition.cursor.offset
        if timestamp_of(self._settings.auto_offset_reset, 0.0) is None:
            partition.error = LogTruncationError(partition.tp, position, data.end_offset if data else None)
            partition.blocked_until = NEVER  # until a seek
        elif data is None:
            log.warning("%s-%s: log truncated at an unknown offset: resetting position %s", *partition.tp, position)
            partition.ask_reset(None)
        else:
            where = data.end_offset
            log.warning("%s-%s: log truncated: position %s -> %s (logs diverge there)", *partition.tp, position, where)
            partition.place(PositionEvent.TRUNCATED, data.end_offset, data.leader_epoch)

    def _pause(self, partition: Partition, now: float) -> None:
        partition.failures += 1
        partition.blocked_until = now + self._backoff.delay(partition.failures, self._shared_jitter)
