"""Ask brokers for the leader epochs at a topic's changes, and for the offsets at which epochs end (KIP-253).

Any broker has the epochs (PartitionLeaderEpochsForPartitions), and the leader of a partition has the offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from weakref import WeakSet

from ..config import ConsumerConfig
from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..fetch.leader_queries import EpochEndQueries, LeaderQuery, PartitionQuery
from ..linear_hashing import PartitionCounts
from ..network.metadata import Metadata
from ..network.request import ANY_NODE, Answer, Request
from ..support.agenda import Agenda
from ..support.timers import Backoff, Random, Retry
from ..types import TopicPartition
from ..wire.consumer_group_heartbeat import TopicPartitions
from ..wire.error_codes import to_error
from ..wire.offset_for_leader_epoch import EpochEndOffset
from ..wire.partition_leader_epochs import (
    PartitionLeaderEpochsForPartitionsRequest,
    PartitionLeaderEpochsForPartitionsResponse,
    PartitionLeaderEpochsTopicResult,
)
from .gates import END, Requirement
from .topics import EpochEnds, GatedTopic, Threshold

log = logging.getLogger(__name__)

API = "PartitionLeaderEpochsForPartitions"


class LeaderEpochRequests:
    """Asks any broker for leader epochs, with one request at a time for all topics together."""

    def __init__(
        self, asker: str, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda
    ) -> None:
        self._asker = asker
        self._metadata = metadata
        self._timeout = settings.request_timeout_ms / 1000
        self._retry = Retry(Backoff.from_settings(settings), random, agenda)
        self._in_flight: Request | None = None
        self.is_complete = False  #: Whether the last step found all leader epochs known.
        self.error: KafkaError | None = None  #: The error of the last response, if the application must act on it.
        self._outages = OutageLog(log)

    def step(self, now: float, partitions: Iterable[tuple[GatedTopic, int]]) -> list[Request]:
        """Return the request that is due, for the leader epochs that decide about the gates of these partitions."""
        wanted: dict[GatedTopic, set[int]] = {}
        for topic, number in partitions:
            if missing := topic.missing_epochs(number):
                wanted.setdefault(topic, set()).update(missing)
        self.is_complete = not wanted
        if self.is_complete:
            self.error = None
            return []
        if not self._retry.may_send(now):
            return []
        topics = [TopicPartitions(topic_id=one.shape.topic_id, partitions=sorted(wanted[one])) for one in wanted]
        request = Request(
            self._asker,
            PartitionLeaderEpochsForPartitionsRequest,
            ANY_NODE,
            lambda version: PartitionLeaderEpochsForPartitionsRequest(topics=topics),
            now + self._timeout,
            {topic.shape.topic_id: topic for topic in wanted},
        )
        self._in_flight = request
        self._retry.sent()
        return [request]

    def restart(self) -> None:
        self._in_flight = None
        self._retry.succeeded()

    def handle(self, answer: Answer, now: float) -> None:
        if answer.request is not self._in_flight:
            log.debug("dropped a late %s response", API)
            return
        self._in_flight = None
        problems = list(self._problems(answer))
        error, is_final = problems[-1] if problems else (None, False)
        self.error = error if is_final else None
        if error is None:
            self._retry.succeeded()
            self._outages.recovered(None, now, "brokers answer with leader epochs again")
            return
        self._retry.failed(now)
        text = f"partitions are held: the leader epochs at their topic's changes are not known: {error}"
        code = error.code if isinstance(error, BrokerResponseError) else None
        self._outages.failed(code, now, text, grace=0.0 if is_final else GRACE)

    def _problems(self, answer: Answer) -> Iterator[tuple[KafkaError, bool]]:
        """Take the leader epochs in an answer; yield each error, and whether it is final."""
        topics: dict[bytes, GatedTopic] = answer.request.context
        response: PartitionLeaderEpochsForPartitionsResponse | None = answer.response
        if response is None:
            error = answer.error or KafkaError("the request got no response")
            yield error, isinstance(error, BrokerResponseError) and not error.retriable
            return
        if not any(row.topic_id in topics for row in response.topics):
            yield KafkaError(f"node {answer.node_id} lacks the requested topics"), False
        for row in response.topics:
            if row.topic_id in topics and (problem := self._take(topics[row.topic_id], row, answer.node_id)):
                yield problem

    def _take(
        self, topic: GatedTopic, row: PartitionLeaderEpochsTopicResult, node_id: int
    ) -> tuple[KafkaError, bool] | None:
        """Take one topic's leader epochs; return the error, and whether it is final, if there is any."""
        codes = [(row.error_code, Scope.TOPIC), *((one.error_code, Scope.PARTITION) for one in row.partitions)]
        for code, scope in codes:
            if code:
                error = to_error(code, api=API, node_id=node_id, detail=f"topic {topic.name}")
                action = rule(API, code, scope).action
                if action is Action.REFRESH_METADATA:
                    self._metadata.request_update(str(error))
                if scope is Scope.TOPIC or action is Action.RAISE:
                    return error, action is Action.RAISE
        counts = PartitionCounts.checked(row.initial_partition_count, row.undeleted_partition_count)
        shape = topic.shape
        if (counts, row.partition_count_epoch) != (shape.counts, shape.partition_count_epoch):
            # The metadata of the broker or of this client is outdated. Epochs of another change would open gates early.
            text = (
                f"node {node_id} has {counts} after {row.partition_count_epoch} changes for topic {topic.name}, and "
                f"this client {shape.counts} after {shape.partition_count_epoch}"
            )
            self._metadata.request_update(text)
            return KafkaError(text), False
        # A response may lack partitions, as its size is limited. The missing ones are requested at once, or after a
        # backoff if the response has none that was requested.
        if topic.take_epochs(row.partitions):
            return None
        return KafkaError(f"node {node_id} lacks the requested partitions of topic {topic.name}"), False


class Thresholds(EpochEndQueries):
    """Asks partition leaders for thresholds, the offsets at which leader epochs end, and stores them in the topics."""

    purpose = "look up the end of a leader epoch"

    def __init__(
        self, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda, asker: str
    ) -> None:
        self.asker = asker
        super().__init__(settings, metadata, random, agenda)
        self._asked: WeakSet[EpochEnds] = WeakSet()  #: All topics that ever had a query.
        self.last_error: KafkaError | None = None  #: The error of the last failed query, until one succeeds.

    def is_current(self, topic: EpochEnds, one: Requirement) -> bool:
        """Return whether a threshold is known, and the partition has had no new leader since."""
        known = topic.thresholds.get(one)
        return known is not None and known.leader_epoch == self._newest_epoch(topic, one)

    def ask(self, topic: EpochEnds, one: Requirement) -> None:
        """Look up a threshold, unless a query for it is under way, or metadata has no leader epoch of the partition.

        The query waits for a leader with a higher epoch: until then producers with the old count may still write
        records in the requested epoch, so that its end is not final. For END, the end of the current epoch is looked
        up: producers write nothing more to a partition that was marked for deletion, and a barrier needs the end as it
        is now.
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
            # A leader that was just elected may not have recorded its epoch yet.
            self._again(query, KafkaError(f"node {node_id} knows no end of epoch {query.argument}"), now, final=False)
            return
        super()._take(query, data, node_id, now)
