"""Send queries about partitions to their leaders, many in one request, and again after a backoff (KIP-580).

Each kind is a subclass, such as :class:`OffsetLookups` and :class:`~.validation.Validation`. Unlike an admin operation,
a query has no deadline, and one request combines the queries of several callers. KIP-79, KIP-207, KIP-320.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..config import ConsumerConfig
from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..network.metadata import Metadata
from ..network.request import Answer, Request, Target
from ..support.agenda import Agenda, Alarm
from ..support.calls import Call
from ..support.timers import Backoff, Random, SharedJitter
from ..types import TopicPartition
from ..wire import Message
from ..wire.error_codes import Code, to_error
from ..wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger(__name__)


class PartitionQuery:
    """A query about one partition, repeated until it has a result or is no longer wanted.

    Args:
        argument: ListOffsets: a timestamp (ms; -1: log end, -2: log start). OffsetForLeaderEpoch: an epoch.
        least_epoch: while metadata names a leader with a lower epoch, metadata may be outdated, and no query is sent.
        outdated: the alarm at which the query is sent nevertheless; None: never.
    """

    wanted: Callable[[], bool]  #: Returns whether the caller still needs the result.
    found: Callable[[Any, float], None]  #: Receives the partition's part of the response, and the time.
    failed: Callable[[KafkaError, bool], None]  #: Receives an error, and whether it is final: will not pass by itself.

    __slots__ = (
        "argument", "attempts", "leaderless_in", "least_epoch", "least_refresh", "outdated", "pause", "tp",
    )  # fmt: skip

    def __init__(self, tp: TopicPartition, argument: int, least_epoch: int = -1, outdated: Alarm | None = None) -> None:
        self.tp = tp
        self.argument = argument
        self.least_epoch = least_epoch
        self.outdated = outdated
        self.least_refresh = 0  #: The number of the metadata refresh that must have succeeded before the query is sent.
        # The state of a ``timers.Retry``, without an object of its own for each of thousands of queries.
        self.attempts = 0
        self.pause: Alarm | None = None  #: The end of the backoff; None before the first failure.
        #: The metadata version without a leader of ``tp``, or with one whose epoch is below ``least_epoch``; else -1. A
        #: newer version ends the backoff.
        self.leaderless_in = -1


class LeaderQuery(PartitionQuery):
    """A :class:`PartitionQuery` composed of functions."""

    __slots__ = ("failed", "found", "wanted")

    def __init__(
        self,
        tp: TopicPartition,
        argument: int,
        wanted: Callable[[], bool],
        found: Callable[[Any, float], None],
        failed: Callable[[KafkaError, bool], None],
        least_epoch: int = -1,
        outdated: Alarm | None = None,
    ) -> None:
        super().__init__(tp, argument, least_epoch, outdated)
        self.wanted = wanted
        self.found = found
        self.failed = failed


Group = dict[TopicPartition, PartitionQuery]


class LeaderQueries(ABC):
    """Sends queries of one kind to partition leaders."""

    asker: str
    api: type[Message]
    purpose: str  #: Completes "cannot ..." in log lines.
    min_version = 0

    def __init__(self, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda) -> None:
        self._settings = settings
        self._metadata = metadata
        self._agenda = agenda
        #: By number of failures: the end of the backoff of the queries that failed together.
        self._pauses: dict[int, Alarm] = {}
        self._shared_jitter = SharedJitter(random)
        self._backoff = Backoff.from_settings(settings)
        self._api = self.api.__name__.removesuffix("Request")
        # Dicts: to remove a query from a list of thousands would take longer.
        self._waiting: dict[PartitionQuery, None] = {}  #: Queries to send, some of them after a backoff.
        self._in_flight: dict[PartitionQuery, None] = {}  #: Queries whose request has no response yet.
        self.outages = OutageLog(log)
        self._has_outages = False  #: Whether an outage was under way when the response being handled arrived.
        #: The metadata version in which all waiting queries wait for newer metadata; -1 if some do not.
        self._idle_in = -1
        #: Incremented when a query is added or ends: the set of topics to request metadata of is then computed anew.
        #: Otherwise metadata would go on to request a topic without queries, and polls would raise the topic's errors.
        self.version = 0

    def add(self, query: PartitionQuery) -> None:
        """Send the query from the next step on, until it has a result or is no longer wanted."""
        self._waiting[query] = None
        self._idle_in = -1
        self.version += 1
        self._agenda.touch()

    def topics(self) -> set[str]:
        """Return the topics with pending queries, whose leaders metadata must contain."""
        return {query.tp.topic for queries in (self._waiting, self._in_flight) for query in queries}

    def step(self, now: float) -> list[Request]:
        if not self._waiting:
            return []
        self._drop_unwanted()
        version = self._metadata.version
        if self._idle_in == version:
            return []
        awaited = {name for name in {query.tp.topic for query in self._waiting} if self._metadata.awaits(name)}
        due = []
        unknown = 0
        for query in self._waiting:
            pause = query.pause
            is_ahead = pause is not None and pause.is_ahead(now)
            if is_ahead and query.leaderless_in in (-1, version):
                continue
            if query.tp.topic in awaited or query.least_refresh > self._metadata.refreshed:
                unknown += 1
            else:
                due.append(query)
        if unknown == len(self._waiting):
            self._idle_in = version
        if not due:
            return []
        self._redraw()
        groups: dict[int, list[Group]] = {}
        for query in due:
            query.leaderless_in = -1
            info = self._metadata.leader(query.tp)
            is_behind = info is not None and info.leader_epoch < query.least_epoch
            if info is None or (is_behind and (query.outdated is None or query.outdated.is_ahead(now))):
                self._without_leader(query, now)
            else:
                del self._waiting[query]
                self._in_flight[query] = None
                _place(groups.setdefault(info.leader, []), query)
        deadline = now + self._settings.request_timeout_ms / 1000
        return [
            Request(self.asker, self.api, Target(node), partial(self._message, one), deadline, one, self.min_version)
            for node, many in groups.items()
            for one in many
        ]

    def _drop_unwanted(self) -> None:
        unwanted = [query for query in self._waiting if not query.wanted()]
        if unwanted:
            for query in unwanted:
                del self._waiting[query]
            self.version += 1
            self._agenda.touch()
            self.outages.keep({query.tp for queries in (self._waiting, self._in_flight) for query in queries})

    def handle(self, answer: Answer, now: float) -> None:
        self._redraw()
        group: Group = answer.request.context
        self._has_outages = bool(self.outages.under_way)
        error, final = KafkaError("the broker left this partition out of its response"), False
        if answer.response is None:
            error = answer.error or KafkaError("the request got no response")
            # Final is a rejected API version or login, for example: the broker would reject the next request, too.
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
        """Drop all queries: an exception has ended the call that waited; resets and validation add theirs again."""
        self._waiting.clear()
        self._in_flight.clear()
        self._idle_in = -1
        self.version += 1

    @abstractmethod
    def _message(self, group: Group, version: int) -> Message:
        """Return the request, with a current leader epoch for each partition."""

    @abstractmethod
    def _rows(self, response: Any) -> Iterator[tuple[TopicPartition, Any]]:
        """Yield each partition's part of a response."""

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
        # A newer metadata version ends the backoff, which grows: thousands of clients may wait for the same leader.
        query.leaderless_in = self._metadata.version
        self._back_off(query, now)

    def _take(self, query: PartitionQuery, data: Any, node_id: int, now: float) -> None:
        tp = query.tp
        if not data.error_code:
            del self._in_flight[query]
            self.version += 1
            if self._has_outages:
                self.outages.recovered(tp, now, f"{self._api} succeeds again for {tp.topic}-{tp.partition}")
                self._metadata.epoch_accepted(tp)
            if query.wanted():
                query.found(data, now)
            return
        error = to_error(data.error_code, api=self._api, node_id=node_id, partition=tp)
        action = rule(self._api, data.error_code, Scope.PARTITION).action
        if action is Action.REFRESH_METADATA:
            self._metadata.request_update(str(error))
        self._metadata.leader_refused(tp, node_id, data.error_code, now)
        final = action is Action.RAISE
        text = f"cannot {self.purpose}: {error}"
        self.outages.failed(error.code, now, text, subject=tp, grace=0.0 if final else GRACE)
        self._again(query, error, now, final=final)

    def invalid(self, query: PartitionQuery, error: KafkaError, now: float) -> None:
        """Send a query again after a backoff, since its answer is useless; log a warning if that lasts."""
        self.outages.failed("invalid", now, f"cannot {self.purpose}: {error}", subject=query.tp, grace=GRACE)
        self._again(query, error, now, final=False)

    def _again(self, query: PartitionQuery, error: KafkaError, now: float, *, final: bool) -> None:
        query.failed(error, final)
        del self._in_flight[query]
        self._waiting[query] = None
        self._idle_in = -1
        self._back_off(query, now)

    def _back_off(self, query: PartitionQuery, now: float) -> None:
        query.attempts += 1
        pause = self._pauses.get(query.attempts)
        if pause is None:
            pause = self._pauses[query.attempts] = self._agenda.alarm()
            pause.set(now + self._backoff.delay(query.attempts, self._shared_jitter))
        query.pause = pause

    def _redraw(self) -> None:
        """Let the queries that fail from now on share another pause, so that they are sent together again."""
        self._shared_jitter.redraw()
        self._pauses.clear()


def _place(groups: list[Group], query: PartitionQuery) -> None:
    """Put the query into a group without its partition: a request may name each partition only once."""
    for group in groups:
        if query.tp not in group:
            group[query.tp] = query
            return
    groups.append({query.tp: query})


class EpochEndQueries(LeaderQueries):
    """Sends queries for the end offset of a leader epoch.

    A request carries the current leader epoch of each partition according to metadata, and a leader that has another
    one rejects the query.
    """

    api = OffsetForLeaderEpochRequest
    min_version = 3  # older versions require CLUSTER_ACTION in place of DESCRIBE on the topic (KIP-320)

    def _message(self, group: Group, version: int) -> Message:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for tp, query in group.items():
            part = OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=self._current_epoch(tp), leader_epoch=query.argument
            )
            topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic)).partitions.append(part)
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))

    def _rows(self, response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEndOffset]]:
        for topic in response.topics:
            for data in topic.partitions:
                yield TopicPartition(topic.topic, data.partition), data


#: The result of a lookup: ``offset`` is -1 if no record has the timestamp or a later one, ``leader_epoch`` -1 if
#: unknown.
ListedOffset = ListOffsetsPartitionResponse


class OffsetLookups(LeaderQueries):
    """Looks up the offset of the first record at or after each query's timestamp, or of an end of the log."""

    asker = "offsets"
    api = ListOffsetsRequest
    purpose = "look up offsets"

    def __init__(self, settings: ConsumerConfig, metadata: Metadata, random: Random, agenda: Agenda) -> None:
        super().__init__(settings, metadata, random, agenda)
        self._isolation = 1 if settings.isolation_level == "read_committed" else 0
        # Version 0 returns lists of segment start offsets instead; version 2 is the first with an isolation level.
        self.min_version = 1 + self._isolation

    def ask(self, timestamps: Mapping[TopicPartition, int], what: str) -> Call[dict[TopicPartition, ListedOffset]]:
        """Look up one offset per partition (timestamp in ms; -1: log end, -2: log start).

        The call, named ``what`` in errors, succeeds when all offsets are known, and fails with the first final error.
        """
        call: Call[dict[TopicPartition, ListedOffset]] = Call(what)
        results: dict[TopicPartition, ListedOffset] = {}
        if not timestamps:
            call.succeed(results)

        def failed(error: KafkaError, final: bool) -> None:
            call.last_error = error
            if final:
                call.fail(error)

        for tp, timestamp in timestamps.items():

            def found(answer: ListedOffset, now: float, tp: TopicPartition = tp) -> None:
                results[tp] = answer
                if len(results) == len(timestamps):
                    call.succeed(results)

            self.add(LeaderQuery(tp, timestamp, lambda: not call.over, found, failed))
        return call

    def _message(self, group: Group, version: int) -> Message:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp, query in group.items():
            part = ListOffsetsPartition(
                partition_index=tp.partition, current_leader_epoch=self._current_epoch(tp), timestamp=query.argument
            )
            topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic)).partitions.append(part)
        # replica_id -1 means a consumer. With the generated default 0, the broker would answer as to a follower
        # replica, with offsets beyond the high watermark.
        return ListOffsetsRequest(replica_id=-1, isolation_level=self._isolation, topics=list(topics.values()))

    def _rows(self, response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListedOffset]]:
        for topic in response.topics:
            for data in topic.partitions:
                yield TopicPartition(topic.name, data.partition_index), data

    def _take(self, query: PartitionQuery, data: ListedOffset, node_id: int, now: float) -> None:
        if data.error_code == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT and query.argument >= 0:
            data.error_code, data.offset = 0, -1  # this message format has no timestamps: none found, as in Java
        if data.offset < 0:
            if not data.error_code and query.argument < 0:
                self.invalid(query, KafkaError(f"no offset for {query.tp} in the response"), now)
                return
            data.offset = -1
        super()._take(query, data, node_id, now)
