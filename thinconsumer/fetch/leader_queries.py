"""Send queries about partitions to their leaders: one request per leader, and a backoff after failures (KIP-580).

The two kinds are :class:`~.lookups.OffsetLookups` and :class:`~.validation.Validation`. Unlike an admin operation, a
query has no deadline, and one request combines the queries of several callers.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ..config import ConsumerConfig
from ..connection.request import Answer, Request, Target
from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..metadata import Metadata
from ..timers import NEVER, Backoff, Random, Retry, SharedJitter
from ..types import TopicPartition
from ..wire import Message
from ..wire.error_codes import to_error

log = logging.getLogger(__name__)


class PartitionQuery(ABC):
    """A query about one partition, repeated until it has a result or is no longer wanted.

    Args:
        argument: ListOffsets: a timestamp (ms; -1: log end, -2: log start). OffsetForLeaderEpoch: an epoch.
        least_epoch: until ``outdated_until``, a leader with an epoch below this gets no query, since metadata may be
            outdated.
        least_refresh: the number of the metadata refresh that must have succeeded before the query is sent.
    """

    __slots__ = ("argument", "leaderless_in", "least_epoch", "least_refresh", "outdated_until", "retry", "tp")

    retry: Retry

    def __init__(self, tp: TopicPartition, argument: int, least_epoch: int = -1, outdated_until: float = 0.0) -> None:
        self.tp = tp
        self.argument = argument
        self.least_epoch = least_epoch
        self.outdated_until = outdated_until
        self.least_refresh = 0
        #: The metadata version in which ``tp`` had no leader, else -1. A newer version ends the backoff.
        self.leaderless_in = -1

    @abstractmethod
    def wanted(self) -> bool:
        """Return whether the caller still needs the result."""

    @abstractmethod
    def found(self, data: Any, now: float) -> None:
        """Receive the partition's part of the response."""

    @abstractmethod
    def failed(self, error: KafkaError, final: bool) -> None:
        """Receive an error, and whether it is final."""


class LeaderQuery(PartitionQuery):
    """A :class:`PartitionQuery` composed of functions."""

    __slots__ = ("_failed", "_found", "_wanted")

    def __init__(
        self,
        tp: TopicPartition,
        argument: int,
        wanted: Callable[[], bool],
        found: Callable[[Any, float], None],
        failed: Callable[[KafkaError, bool], None],
        least_epoch: int = -1,
        outdated_until: float = 0.0,
    ) -> None:
        super().__init__(tp, argument, least_epoch, outdated_until)
        self._wanted = wanted
        self._found = found
        self._failed = failed

    def wanted(self) -> bool:
        return self._wanted()

    def found(self, data: Any, now: float) -> None:
        self._found(data, now)

    def failed(self, error: KafkaError, final: bool) -> None:
        self._failed(error, final)


Group = dict[TopicPartition, PartitionQuery]


class LeaderQueries(ABC):
    """Sends queries of one kind to partition leaders."""

    asker: str
    api: type[Message]
    purpose: str  #: Completes "cannot ..." in log lines.

    def __init__(self, settings: ConsumerConfig, metadata: Metadata, random: Random) -> None:
        self._settings = settings
        self._metadata = metadata
        self._shared_jitter = SharedJitter(random)
        self._backoff = Backoff.from_settings(settings)
        self._api = self.api.__name__.removesuffix("Request")
        self._min_version = 0
        self._queries: dict[PartitionQuery, None] = {}  # a dict, from which an answered query is removed at once
        self._outages = OutageLog(log)
        self._has_outages = False  #: Whether ``_outages`` had any when the response being handled arrived.
        #: The metadata version in which all queries wait for the first response about their topics; -1 if some do not.
        self._idle_in = -1
        #: Incremented when a query is added or ends, so that the topics that metadata refreshes are computed anew.
        #: Otherwise metadata would go on to request a topic without queries, and polls would raise the topic's errors.
        self.version = 0

    def add(self, query: PartitionQuery) -> None:
        """Send the query from the next step on, until it has a result or is no longer wanted."""
        query.retry = Retry(self._backoff, self._shared_jitter)
        self._queries[query] = None
        self._idle_in = -1
        self.version += 1

    def topics(self) -> set[str]:
        """Return the topics with pending queries: metadata must contain their leaders."""
        return {query.tp.topic for query in self._queries}

    def step(self, now: float) -> list[Request]:
        """Return the requests due now."""
        if not self._queries:
            return []
        before = len(self._queries)
        self._queries = {query: None for query in self._queries if query.retry.in_flight or query.wanted()}
        if len(self._queries) != before:
            self.version += 1
            self._outages.keep({query.tp for query in self._queries})
        if self._idle_in == self._metadata.version:
            return []
        for query in self._queries:
            if query.leaderless_in not in (-1, self._metadata.version):
                query.retry.not_before = now
        due = [query for query in self._queries if query.retry.may_send(now)]
        if due:
            self._shared_jitter.redraw()
        groups: dict[int, list[Group]] = {}
        unknown = 0
        for query in due:
            query.leaderless_in = -1
            info = self._metadata.leader(query.tp)
            if query.least_refresh > self._metadata.refreshed or (
                info is None and self._metadata.awaits(query.tp.topic)
            ):
                unknown += 1
                query.leaderless_in = self._metadata.version
                query.retry.not_before = NEVER
            elif info is None or (info.leader_epoch < query.least_epoch and now < query.outdated_until):
                self._without_leader(query, now)
            else:
                query.retry.sent()
                _place(groups.setdefault(info.leader, []), query)
        if unknown == len(self._queries):
            self._idle_in = self._metadata.version
        deadline = now + self._settings.request_timeout_ms / 1000
        return [self._request(node, group, deadline) for node, many in groups.items() for group in many]

    def wake_at(self, now: float) -> float:
        """Return when the next backoff ends."""
        if self._idle_in == self._metadata.version:
            return NEVER
        return max(now, min((query.retry.wake_at() for query in self._queries), default=NEVER))

    def handle(self, answer: Answer, now: float) -> None:
        """Handle the response to a request made by :meth:`step`."""
        self._shared_jitter.redraw()
        group: Group = answer.request.context
        self._has_outages = bool(self._outages)
        error, final = KafkaError("the broker left this partition out of its response"), False
        if answer.response is None:
            error = answer.error or KafkaError("the request got no response")
            # A rejected API version or login would be rejected again; only retriable errors are retried.
            final = isinstance(error, BrokerResponseError) and not error.retriable
            self._metadata.request_update(f"{self._api} of node {answer.node_id} failed: {error}")
        else:
            for tp, data in self._rows(answer.response):
                query = group.pop(tp, None)
                if query is not None:
                    self._take(query, data, answer.node_id, now)
        for query in group.values():
            self._again(query, error, now, final=final)

    def restart(self, now: float) -> None:
        """Drop all queries at a restart of the engine.

        An exception has ended the public call that waited for a result; resets and validation add their queries again.
        """
        self._queries.clear()
        self._idle_in = -1
        self.version += 1

    @abstractmethod
    def _message(self, group: Group) -> Message:
        """Return the request, with a current leader epoch for each partition."""

    @abstractmethod
    def _rows(self, response: Any) -> Iterator[tuple[TopicPartition, Any]]:
        """Yield each partition's part of a response."""

    def _request(self, node: int, group: Group, deadline: float) -> Request:
        return Request(
            self.asker, self.api, Target(node), lambda version: self._message(group), deadline, group, self._min_version
        )

    def _current_epoch(self, tp: TopicPartition) -> int:
        info = self._metadata.leader(tp)
        return -1 if info is None else info.leader_epoch

    def _without_leader(self, query: PartitionQuery, now: float) -> None:
        tp, topic = query.tp, self._metadata.topics.get(query.tp.topic)
        outdated = "" if self._metadata.leader(tp) is None else f" with epoch {query.least_epoch}"
        words = f"no leader{outdated} known for {tp.topic}-{tp.partition}"
        if topic is not None and topic.error is not None:
            query.failed(topic.error, not topic.error.retriable)
        elif topic is not None and topic.partitions:
            missing = f": the topic has {len(topic.partitions)} partitions"
            query.failed(KafkaError(words + missing * (tp.partition not in topic.partitions)), False)
        self._metadata.request_update(words)
        # The backoff grows with each failure, since thousands of clients may wait for the same leader and load the
        # brokers with requests. A newer metadata version ends the backoff.
        query.leaderless_in = self._metadata.version
        query.retry.failed(now)

    def _take(self, query: PartitionQuery, data: Any, node_id: int, now: float) -> None:
        tp = query.tp
        if not data.error_code:
            del self._queries[query]
            self.version += 1
            if self._has_outages:
                self._outages.recovered(tp, now, f"{self._api} succeeds again for {tp.topic}-{tp.partition}")
            if query.wanted():
                query.found(data, now)
            return
        error = to_error(data.error_code, api=self._api, node_id=node_id, partition=tp)
        action = rule(self._api, data.error_code, Scope.PARTITION).action
        if action is Action.REFRESH_METADATA:
            self._metadata.request_update(str(error))
        final = action is Action.RAISE
        text = f"cannot {self.purpose}: {error}"
        self._outages.failed(error.code, now, text, subject=tp, grace=0.0 if final else GRACE)
        self._again(query, error, now, final=final)

    def _again(self, query: PartitionQuery, error: KafkaError, now: float, *, final: bool) -> None:
        query.failed(error, final)
        query.retry.failed(now)


def _place(groups: list[Group], query: PartitionQuery) -> None:
    """Put the query into the first group without its partition: a request may name each partition only once."""
    for group in groups:
        if query.tp not in group:
            group[query.tp] = query
            return
    groups.append({query.tp: query})
