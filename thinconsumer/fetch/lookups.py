"""Look up offsets with ListOffsets, for ``resets`` and for calls such as ``offsets_for_times``.

KIP-79, KIP-207, KIP-320.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import ConsumerConfig
from ..errors import KafkaError
from ..network.metadata import Metadata
from ..support.agenda import Agenda
from ..support.calls import Call
from ..support.timers import Random
from ..types import TopicPartition
from ..wire import Message
from ..wire.error_codes import Code
from ..wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from .leader_queries import Group, LeaderQueries, LeaderQuery, PartitionQuery

#: The result of a lookup: ``offset`` is -1 if no record has the timestamp or a later one, ``leader_epoch`` -1 if
#: unknown.
ListedOffset = ListOffsetsPartitionResponse


class OffsetLookups(LeaderQueries):
    """Looks up the first offset at or after each query's timestamp."""

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

            self.add(LeaderQuery(tp, timestamp, lambda: not call.over, found, failed))
        return call

    def _message(self, group: Group, version: int) -> Message:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp, query in group.items():
            info = self._metadata.leader(tp)
            part = ListOffsetsPartition(partition_index=tp.partition, timestamp=query.argument)
            part.current_leader_epoch = -1 if info is None else info.leader_epoch
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
