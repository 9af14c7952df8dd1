"""Ask any broker for the leader epochs at a topic's changes: PartitionLeaderEpochsForPartitions (KIP-253)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from ..config import ConsumerConfig
from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..linear_hashing import PartitionCounts
from ..network.metadata import Metadata
from ..network.request import ANY_NODE, Answer, Request
from ..support.agenda import Agenda
from ..support.timers import Backoff, Random, Retry
from ..wire.consumer_group_heartbeat import TopicPartitions
from ..wire.error_codes import to_error
from ..wire.partition_leader_epochs import (
    PartitionLeaderEpochsForPartitionsRequest,
    PartitionLeaderEpochsForPartitionsResponse,
    PartitionLeaderEpochsTopicResult,
)
from .topics import GatedTopic

log = logging.getLogger(__name__)

API = "PartitionLeaderEpochsForPartitions"


class LeaderEpochRequests:
    """Sends one request at a time, for all topics together."""

    def __init__(
        self, asker: str, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda
    ) -> None:
        self._asker = asker
        self._metadata = metadata
        self._timeout = settings.request_timeout_ms / 1000
        self._retry = Retry(Backoff.from_settings(settings), random, agenda)
        self._in_flight: Request | None = None
        self.error: KafkaError | None = None  #: The error of the last response, if the application must act on it.
        self._outages = OutageLog(log)

    def step(self, now: float, wanted: Mapping[bytes, frozenset[int]]) -> list[Request]:
        """Return the request that is due, for the ``wanted`` partitions by topic id."""
        if not wanted:
            self.error = None
            return []
        if not self._retry.may_send(now):
            return []
        topics = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in wanted.items()
        ]
        request = Request(
            self._asker,
            PartitionLeaderEpochsForPartitionsRequest,
            ANY_NODE,
            lambda version: PartitionLeaderEpochsForPartitionsRequest(topics=topics),
            now + self._timeout,
        )
        self._in_flight = request
        self._retry.sent()
        return [request]

    def restart(self) -> None:
        """Forget the request in flight, as its connection is closed."""
        self._in_flight = None
        self._retry.succeeded()

    def handle(self, answer: Answer, topics: Mapping[bytes, GatedTopic], now: float) -> None:
        """Take the response to the request of :meth:`step`, for these topics by id."""
        if answer.request is not self._in_flight:
            log.debug("dropped a late %s response", API)
            return
        self._in_flight = None
        problems = list(self._problems(answer, topics))
        if problems:
            self._failed(*problems[-1], now)
            return
        self.error = None
        self._retry.succeeded()
        self._outages.recovered(None, now, "brokers answer with leader epochs again")

    def _problems(self, answer: Answer, topics: Mapping[bytes, GatedTopic]) -> Iterator[tuple[KafkaError, bool]]:
        """Take the leader epochs in an answer; yield each error, and whether it is final."""
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
            # The broker's metadata is older or newer than this client's. Epochs of another change would open gates.
            text = (
                f"node {node_id} has {counts} after {row.partition_count_epoch} changes for topic {topic.name}, and "
                f"this client {shape.counts} after {shape.partition_count_epoch}"
            )
            self._metadata.request_update(text)
            return KafkaError(text), False
        # A response may lack partitions, as its size is limited: they are asked for again. But not without a backoff if
        # it has none.
        if topic.take_epochs(row.partitions):
            return None
        return KafkaError(f"node {node_id} lacks the requested partitions of topic {topic.name}"), False

    def _failed(self, error: KafkaError, is_final: bool, now: float) -> None:
        self._retry.failed(now)
        self.error = error if is_final else None
        text = f"partitions are held: the leader epochs at their topic's changes are not known: {error}"
        code = error.code if isinstance(error, BrokerResponseError) else None
        self._outages.failed(code, now, text, grace=0.0 if is_final else GRACE)
