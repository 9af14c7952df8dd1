"""Look up offsets with one ListOffsets request per leader.

This module groups lookups by leader, retries them and handles errors. ``resets`` and calls such as
``offsets_for_times`` add an :class:`OffsetLookup`, whose callbacks receive the result. KIP-79, KIP-207, KIP-320.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..calls import Call
from ..config import ConsumerConfig
from ..connection.request import Answer, Request, Target
from ..errors import BrokerResponseError, KafkaError, TopicAuthorizationFailedError
from ..failures import GRACE, Action, OutageLog, Scope, rule
from ..metadata import Metadata
from ..timers import NEVER, Backoff, Random, SharedJitter
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

log = logging.getLogger(__name__)

ASKER = "offsets"


class ListedOffset(NamedTuple):
    """A leader's result. ``offset`` is -1 if no record has that timestamp or a later one; ``timestamp`` is in ms.

    ``leader_epoch`` is -1 if unknown.
    """

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(slots=True, eq=False)
class OffsetLookup:
    """A lookup of the first offset at or after ``timestamp`` (ms; -1: log end, -2: log start) in one partition."""

    tp: TopicPartition
    timestamp: int
    wanted: Callable[[], bool]  #: Whether the caller still needs the result.
    found: Callable[[ListedOffset, float], None]
    failed: Callable[[KafkaError, bool], None]  #: Receives an error, and whether it is final.
    attempts: int = 0
    not_before: float = 0.0
    in_flight: bool = False
    leaderless_in: int = -1  #: Metadata version without a leader for ``tp``; a newer version ends the backoff.

    def may_ask(self, now: float, metadata_version: int) -> bool:
        """Return whether the lookup is due: its backoff has ended, or newer metadata may name a leader."""
        if self.in_flight:
            return False
        return now >= self.not_before or self.leaderless_in not in (-1, metadata_version)


class OffsetLookups:
    """Sends ListOffsets requests to partition leaders."""

    asker = ASKER

    def __init__(self, settings: ConsumerConfig, metadata: Metadata, random: Random) -> None:
        self._settings = settings
        self._metadata = metadata
        self._shared_jitter = SharedJitter(random)
        self._backoff = Backoff.from_settings(settings)
        self._lookups: list[OffsetLookup] = []
        self._outages = OutageLog(log)
        #: Incremented when a lookup is added or ends, so that the topics that metadata refreshes are computed anew.
        #: Otherwise metadata would request a topic after its last lookup for ever, and polls would raise its errors.
        self.version = 0

    def add(self, lookup: OffsetLookup) -> None:
        """Send the lookup from the next step on, until it succeeds, fails finally or is no longer wanted."""
        self._lookups.append(lookup)
        self.version += 1

    def ask(self, timestamps: Mapping[TopicPartition, int], what: str) -> Call[dict[TopicPartition, ListedOffset]]:
        """Look up one offset per partition (timestamp in ms; -1: log end, -2: log start).

        The call succeeds when all offsets are known, and fails with the first final error.
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

            self.add(OffsetLookup(tp, timestamp, lambda: not call.over, found, failed))
        return call

    def topics(self) -> set[str]:
        """Return the topics with pending lookups: metadata must contain their leaders."""
        return {lookup.tp.topic for lookup in self._lookups}

    def step(self, now: float) -> list[Request]:
        """Return the requests due now."""
        if not self._lookups:
            return []
        before = len(self._lookups)
        self._lookups = [lookup for lookup in self._lookups if lookup.in_flight or lookup.wanted()]
        if len(self._lookups) != before:
            self.version += 1
            self._outages.keep({lookup.tp for lookup in self._lookups})
        self._shared_jitter.redraw()
        groups: dict[int, list[dict[TopicPartition, OffsetLookup]]] = {}
        for lookup in self._lookups:
            if not lookup.may_ask(now, self._metadata.version):
                continue
            lookup.leaderless_in = -1
            info = self._metadata.leader(lookup.tp)
            if info is None:
                self._without_leader(lookup, now)
                continue
            _place(groups.setdefault(info.leader, []), lookup)
        return [self._request(node, group, now) for node, many in groups.items() for group in many]

    def wake_at(self, now: float) -> float:
        """Return when the next backoff ends."""
        idle, version = [lookup for lookup in self._lookups if not lookup.in_flight], self._metadata.version
        return min((now if lookup.may_ask(now, version) else lookup.not_before for lookup in idle), default=NEVER)

    def handle(self, answer: Answer, now: float) -> None:
        """Handle the response to a request made by :meth:`step`."""
        self._shared_jitter.redraw()
        group: dict[TopicPartition, OffsetLookup] = answer.request.context
        for lookup in group.values():
            lookup.in_flight = False
        response: ListOffsetsResponse | None = answer.response
        if response is None:
            error = answer.error or KafkaError("no answer")
            self._metadata.request_update(f"ListOffsets of node {answer.node_id} failed: {error}")
            # A rejected API version or login would be rejected again; only retriable errors are retried.
            final = isinstance(error, BrokerResponseError) and not error.retriable
            self._again(group.values(), error, now, final)
            return
        for topic in response.topics:
            for data in topic.partitions:
                lookup_ = group.pop(TopicPartition(topic.name, data.partition_index), None)
                if lookup_ is not None:
                    self._take(lookup_, data, answer.node_id, now)
        self._again(group.values(), KafkaError("the broker left this partition out of its response"), now)

    def restart(self, now: float) -> None:
        """Drop all lookups: an exception has ended the calls that waited, and ``resets`` adds its own again."""
        self._lookups.clear()
        self.version += 1

    # -- inside

    def _without_leader(self, lookup: OffsetLookup, now: float) -> None:
        topic = self._metadata.topics.get(lookup.tp.topic)
        error = topic.error if topic is not None else None
        words = f"no leader known for {lookup.tp.topic}-{lookup.tp.partition}"
        if error is not None:
            lookup.failed(error, not error.retriable)
        elif topic is not None and topic.partitions:
            missing = f": the topic has {len(topic.partitions)} partitions"
            lookup.failed(KafkaError(words + missing * (lookup.tp.partition not in topic.partitions)), False)
        self._metadata.request_update(words)
        # The backoff grows, since thousands of clients may lack the same leader. A newer metadata version ends it.
        lookup.leaderless_in = self._metadata.version
        self._pause(lookup, now)

    def _request(self, node: int, group: dict[TopicPartition, OffsetLookup], now: float) -> Request:
        for lookup in group.values():
            lookup.in_flight = True

        def build(version: int) -> Message:
            topics: dict[str, ListOffsetsTopic] = {}
            for tp, lookup in group.items():
                info = self._metadata.leader(tp)
                topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic)).partitions.append(
                    ListOffsetsPartition(
                        partition_index=tp.partition,
                        current_leader_epoch=-1 if info is None else info.leader_epoch,
                        timestamp=lookup.timestamp,
                    )
                )
            committed = self._settings.isolation_level == "read_committed"
            # replica_id -1 means a consumer. With the generated default 0, the broker would answer as to a follower
            # replica, with offsets beyond the high watermark.
            return ListOffsetsRequest(
                replica_id=-1, isolation_level=1 if committed else 0, topics=list(topics.values())
            )

        deadline = now + self._settings.request_timeout_ms / 1000
        # Version 0 returns lists of segment start offsets instead; version 2 is the first with an isolation level.
        lowest = 2 if self._settings.isolation_level == "read_committed" else 1
        return Request(ASKER, ListOffsetsRequest, Target(node), build, deadline, group, lowest)

    def _take(self, lookup: OffsetLookup, data: ListOffsetsPartitionResponse, node_id: int, now: float) -> None:
        offset = data.offset
        if data.error_code == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT and lookup.timestamp >= 0:
            offset = -1  # the log has no timestamps: no offset found, as in Java
        elif data.error_code == Code.NONE and offset < 0 and lookup.timestamp < 0:
            self._again([lookup], KafkaError(f"{lookup.tp}: no offset in the broker's response"), now)
            return
        elif data.error_code != Code.NONE:
            self._take_error(lookup, data, node_id, now)
            return
        self._lookups.remove(lookup)
        self.version += 1
        tp = lookup.tp
        self._outages.recovered(tp, now, f"offsets of {tp.topic}-{tp.partition} can be looked up again")
        if lookup.wanted():
            lookup.found(ListedOffset(max(offset, -1), data.timestamp, data.leader_epoch), now)

    def _take_error(self, lookup: OffsetLookup, data: ListOffsetsPartitionResponse, node_id: int, now: float) -> None:
        error = to_error(data.error_code, api="ListOffsets", node_id=node_id, partition=lookup.tp)
        if isinstance(error, TopicAuthorizationFailedError):
            error.topics = (lookup.tp.topic,)
        action = rule(error.api, data.error_code, Scope.PARTITION).action
        if action is Action.REFRESH_METADATA:
            self._metadata.request_update(f"looking up {lookup.tp.topic}-{lookup.tp.partition}: {error}")
        is_raised = action is Action.RAISE
        lookup.failed(error, is_raised)
        text = f"cannot look up offsets: {error}"
        self._outages.failed(error.code, now, text, subject=lookup.tp, grace=0.0 if is_raised else GRACE)
        self._pause(lookup, now)

    def _again(self, lookups: Iterable[OffsetLookup], error: KafkaError, now: float, final: bool = False) -> None:
        for lookup in lookups:
            lookup.failed(error, final)
            self._pause(lookup, now)

    def _pause(self, lookup: OffsetLookup, now: float) -> None:
        lookup.attempts += 1
        lookup.not_before = now + self._backoff.delay(lookup.attempts, self._shared_jitter)


def _place(groups: list[dict[TopicPartition, OffsetLookup]], lookup: OffsetLookup) -> None:
    """Put the lookup into the first group without its partition: a request may name each partition only once."""
    for group in groups:
        if lookup.tp not in group:
            group[lookup.tp] = lookup
            return
    groups.append({lookup.tp: lookup})
