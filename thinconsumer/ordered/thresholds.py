"""Ask partition leaders for thresholds: the offsets at which the leader epochs of gates end (KIP-253)."""

from __future__ import annotations

from weakref import WeakSet

from ..config import ConsumerConfig
from ..errors import KafkaError
from ..fetch.leader_queries import EpochEndQueries, LeaderQuery, PartitionQuery
from ..network.metadata import Metadata
from ..support.agenda import Agenda
from ..support.timers import Random
from ..types import TopicPartition
from ..wire.offset_for_leader_epoch import EpochEndOffset
from .gates import END, Requirement
from .topics import EpochEnds, Threshold


class Thresholds(EpochEndQueries):
    """Sends the queries, and stores their results in the topics."""

    purpose = "look up the end of a leader epoch"

    def __init__(
        self, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda, asker: str
    ) -> None:
        self.asker = asker
        super().__init__(settings, metadata, random, agenda)
        self._asked: WeakSet[EpochEnds] = WeakSet()  #: The topics with queries, and more.
        self.last_error: KafkaError | None = None  #: The error of the last failed query, until one succeeds.

    def is_current(self, topic: EpochEnds, one: Requirement) -> bool:
        """Return whether a threshold is known, and the partition has had no new leader since."""
        known = topic.thresholds.get(one)
        return known is not None and known.leader_epoch == self._newest_epoch(topic, one)

    def ask(self, topic: EpochEnds, one: Requirement) -> None:
        """Look up a threshold, unless that is under way.

        While a leader still has the old epoch, producers with the old count may write records of it, so the end that it
        would return is not final: the query waits for a leader with a higher one. A partition that was marked for
        deletion ends where its current epoch does, since producers write nothing to it any more.
        """
        current = self._newest_epoch(topic, one)
        if one in topic.asked or current < 0:
            return
        epoch, least = (current, current) if one.epoch == END else (one.epoch, one.epoch + 1)
        token = topic.asked[one] = object()
        self._asked.add(topic)

        def found(data: EpochEndOffset, now: float) -> None:
            del topic.asked[one]
            known = topic.thresholds.get(one)
            offset = data.end_offset
            if known is not None and topic.keeps_lowest:
                offset = min(offset, known.offset)
            topic.thresholds[one] = Threshold(offset, current)
            self.last_error = None

        def failed(error: KafkaError, final: bool) -> None:
            self.last_error = error

        tp = TopicPartition(topic.name, one.partition)
        self.add(LeaderQuery(tp, epoch, lambda: topic.asked.get(one) is token, found, failed, least))

    def restart(self, now: float) -> None:
        """Drop all queries: the next step asks again."""
        super().restart(now)
        for topic in self._asked:
            topic.asked.clear()

    def _newest_epoch(self, topic: EpochEnds, one: Requirement) -> int:
        return self._metadata.newest_epoch(TopicPartition(topic.name, one.partition))

    def _take(self, query: PartitionQuery, data: EpochEndOffset, node_id: int, now: float) -> None:
        if not data.error_code and data.end_offset < 0:
            # A leader that was just elected has not recorded its epoch yet.
            self._again(query, KafkaError(f"node {node_id} knows no end of epoch {query.argument}"), now, final=False)
            return
        super()._take(query, data, node_id, now)
