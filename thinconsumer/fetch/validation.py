"""Validate positions after a leader change with OffsetForLeaderEpoch (KIP-320).

The response confirms the position or gives the offset where the logs diverge: a position after it moves back there. If
the leader has no such epoch, a position inside the log is kept. Under reset policy none, polls raise
``LogTruncationError`` in both cases instead.
"""

import logging

from ..config import ConsumerConfig, OffsetResetStrategy
from ..errors import KafkaError, LogTruncationError, UnsupportedVersionError
from ..network.metadata import Metadata, TopicMetadata
from ..network.request import Request
from ..positions.partitions import Partition, Partitions
from ..positions.states import PositionEvent, PositionState
from ..support.agenda import Agenda
from ..support.timers import Random
from ..wire import ZERO_UUID
from ..wire.offset_for_leader_epoch import EpochEndOffset
from .leader_queries import EpochEndQueries, LeaderQuery, PartitionQuery

log = logging.getLogger(__name__)

#: How many seconds to wait at most for metadata to reach the leader epoch of records already read: a cluster takes 9 s
#: by default to notice a broker that is cut off. The epoch of a deleted topic or another cluster is never reached.
BEHIND_S = 10.0


class Validation(EpochEndQueries):
    """Validates the position of every partition in state VALIDATING."""

    asker = "validation"
    purpose = "validate the position"

    def __init__(
        self, settings: ConsumerConfig, partitions: Partitions, metadata: Metadata, random: Random, agenda: Agenda
    ) -> None:
        super().__init__(settings, metadata, random, agenda)
        self._partitions = partitions
        self._asked: dict[Partition, LeaderQuery] = {}
        self._seen = (-1, -1)

    def step(self, now: float) -> list[Request]:
        """Detect new leaders and recreated topics; return the requests due now."""
        seen = self._metadata.version, self._partitions.generation
        if self._seen != seen:
            self._seen = seen
            for partition in self._partitions:
                if (topic := self._metadata.topics.get(partition.tp.topic)) is not None:
                    self._compare(partition, topic)
        self._asked = {partition: query for partition, query in self._asked.items() if query.wanted()}
        for partition in self._partitions.in_state(PositionState.VALIDATING, now):
            # After LogTruncationError no query is sent until a seek.
            if partition not in self._asked and not isinstance(partition.error, LogTruncationError):
                info = self._metadata.leader(partition.tp)
                if partition.cursor.fetch_epoch < 0 or (info is not None and info.leader_epoch < 0):
                    partition.move(PositionEvent.VALIDATED)  # nothing to compare: one of the epochs is unknown
                else:
                    self._ask(partition, now)
        return super().step(now)

    def restart(self, now: float) -> None:
        super().restart(now)
        self._asked.clear()
        self._seen = (-1, -1)

    def _take(self, query: PartitionQuery, data: EpochEndOffset, node_id: int, now: float) -> None:
        partition = self._partitions.get(query.tp)
        is_newer = not data.error_code and data.leader_epoch > query.argument
        if is_newer and partition is not None and query.wanted() and data.end_offset < partition.cursor.fetch_offset:
            # The end of a newer epoch says nothing about the requested one. Taken for a truncation, the answer would be
            # followed by the same request at once, for ever.
            wrong = f"{data.leader_epoch}, {data.end_offset}"
            text = f"node {node_id} answered with the end of a newer leader epoch than {query.argument}: {wrong}"
            self.invalid(query, KafkaError(text), now)
            return
        super()._take(query, data, node_id, now)

    def _compare(self, partition: Partition, topic: TopicMetadata) -> None:
        if topic.topic_id != ZERO_UUID:
            if partition.topic_id not in (None, topic.topic_id):
                partition.leader_epoch = partition.preferred_replica = -1
                partition.high_watermark = partition.last_stable_offset = partition.log_start_offset = None
                self._begin_anew(partition)
            partition.topic_id = topic.topic_id
        info = self._metadata.leader(partition.tp)
        if info is None:
            return
        is_lower = info.leader_epoch < partition.leader_epoch and self._metadata.has_lowered_epoch(partition.tp)
        # If metadata names another leader of the same epoch, the leader named before may be only a follower, which
        # serves consumers, too. Its records of earlier epochs may not be in the leader's log.
        has_moved = info.leader != partition.leader and info.leader_epoch == partition.leader_epoch
        partition.leader = info.leader
        if info.leader_epoch > partition.leader_epoch or is_lower or has_moved:
            if partition.leader_epoch >= 0:
                partition.preferred_replica = -1
                partition.backoff = None  # a new leader ends the backoff
            # A cluster that went back to an older epoch has another log: its records of the same epoch may differ, too.
            fetch_epoch = partition.cursor.fetch_epoch
            doubtful = fetch_epoch >= 0 if is_lower else 0 <= fetch_epoch < info.leader_epoch
            partition.leader_epoch = info.leader_epoch
            if doubtful and partition.state is PositionState.FETCHING:
                partition.move(PositionEvent.LEADER_CHANGED)

    def _begin_anew(self, partition: Partition) -> None:
        partition.committed = None  # the committed offset belonged to the old topic
        if partition.state in (PositionState.FETCHING, PositionState.VALIDATING):
            text = "%s-%s: its topic was deleted and created again; resetting position %s"
            log.warning(text, *partition.tp, partition.cursor.offset)
            partition.ask_reset(None)
        elif partition.state is PositionState.AWAITING_RESET:
            # A lookup in flight may return an offset of the deleted topic: repeat the lookup.
            partition.ask_reset(partition.reset)

    def _ask(self, partition: Partition, now: float) -> None:
        cursor, leader_epoch, fetch_epoch = partition.cursor, partition.leader_epoch, partition.cursor.fetch_epoch

        def wanted() -> bool:
            return (
                partition.cursor is cursor
                and cursor.fetch_epoch == fetch_epoch  # a late Fetch response may advance fetch_epoch
                and partition.leader_epoch == leader_epoch
                and partition.state is PositionState.VALIDATING
                and self._partitions.get(partition.tp) is partition
            )

        def failed(error: KafkaError, final: bool) -> None:
            if wanted() and isinstance(error, UnsupportedVersionError) and error.partition is None:
                # Brokers before 2.3 do not support version 3: skip the validation, as clients before KIP-320 did.
                partition.move(PositionEvent.VALIDATED)
            elif wanted():
                partition.failed(error, is_raised=final)

        def found(data: EpochEndOffset, now: float) -> None:
            del self._asked[partition]
            self._found(partition, data)

        # A leader with an older epoch than that of the records read would report a truncation that did not happen. So
        # the query waits for newer metadata, for at most ``BEHIND_S``, unless the cluster has gone back to this epoch.
        least_epoch = -1 if self._metadata.has_lowered_epoch(partition.tp) else fetch_epoch
        outdated = None
        if leader_epoch < least_epoch:
            outdated = self._agenda.alarm()
            outdated.set(now + BEHIND_S)
            text = "%s-%s: metadata has leader epoch %s, records read have %s: waiting up to %s s for newer metadata"
            log.info(text, *partition.tp, leader_epoch, fetch_epoch, BEHIND_S)
        query = LeaderQuery(partition.tp, fetch_epoch, wanted, found, failed, least_epoch, outdated)
        self._asked[partition] = query
        self.add(query)

    def _found(self, partition: Partition, data: EpochEndOffset) -> None:
        partition.worked()
        position, received = partition.cursor.offset, partition.cursor.fetch_offset
        epoch, is_known = partition.cursor.epoch, data.end_offset >= 0 and data.leader_epoch >= 0
        if is_known and data.end_offset >= received:
            partition.move(PositionEvent.VALIDATED)
        elif is_known and 0 <= epoch < data.leader_epoch:
            # The log diverges from the buffered records. The epoch of the response may have begun below the position:
            # drop the buffer, and validate again with the position's own epoch.
            partition.place(PositionEvent.SEEK_VALIDATED, position, epoch)
        elif epoch < 0 or (is_known and data.end_offset >= position):
            # Buffered records are truncated. The position stays: no record before it is truncated, or it was set
            # without a leader epoch and no record was returned since.
            log.info("%s-%s: log truncated at %s, position stays %s", *partition.tp, data.end_offset, position)
            partition.place(PositionEvent.TRUNCATED, position, min(epoch, data.leader_epoch))
        else:
            self._truncated(partition, data if is_known else None)

    def _truncated(self, partition: Partition, data: EpochEndOffset | None) -> None:
        position = partition.cursor.offset
        if self._settings.auto_offset_reset.strategy is OffsetResetStrategy.NONE:
            partition.error = LogTruncationError(partition.tp, position, data.end_offset if data else None)
        elif data is None:
            text = "%s-%s: the leader has no leader epoch %s: position %s is kept if it is inside the log"
            log.warning(text, *partition.tp, partition.cursor.epoch, position)
            partition.ask_reset(None, out_of_range=position, forget_epoch=True)
        else:
            where = data.end_offset
            log.warning("%s-%s: log truncated: position %s -> %s (logs diverge there)", *partition.tp, position, where)
            partition.place(PositionEvent.TRUNCATED, data.end_offset, data.leader_epoch)
