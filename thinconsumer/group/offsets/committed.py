"""OffsetFetch: read committed offsets, for partitions that start there, the user's ``committed()``, and gatekeepers.

A committed offset becomes the partition's position, and is then validated; without one, the reset policy applies. If an
open transaction or an unreplicated commit is about to change an offset, the broker reports the offset as unstable
(KIP-447), and the request is repeated, at every isolation level as in Java: with the older offset, records would be
read twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...errors import BrokerResponseError, KafkaError
from ...failures import GRACE, Action, OutageLog, Scope, rule
from ...network.metadata import Metadata
from ...network.request import Answer, Request
from ...positions.partitions import Cursor, Partition, Partitions
from ...positions.states import PositionEvent, PositionState
from ...support.calls import Call
from ...support.lazy_dataclass import dataclass, field
from ...support.timers import NEVER, Random, Retry, SharedJitter
from ...types import OffsetAndMetadata, TopicPartition
from ...wire import Message
from ...wire.error_codes import Code, to_error
from ...wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
)
from ..coordinator import GENERAL, Coordinator, RequestSettings, judge
from ..coordinator_requests import CoordinatorRequests
from ..identity import Identity
from .commit_identity import CommitIdentity

log = logging.getLogger(__name__)

API = "OffsetFetch"
NAMES_UNTIL, IDS_SINCE = 9, 10
GROUP_ERRORS_SINCE, STABLE_SINCE, GROUPS_SINCE, EPOCHS_SINCE = 2, 7, 8, 9
#: Limit of partitions in one request: the response may hold 4 KB of metadata for each (offset.metadata.max.bytes).
PARTITIONS_MAX = 5000

Offsets = dict[TopicPartition, "OffsetAndMetadata | None"]
Rows = dict[TopicPartition, OffsetFetchResponsePartition]


@dataclass(slots=True, eq=False)
class CommittedQuery:
    """Track one call of :meth:`Committed.ask`: the partitions left to read, and the offsets found."""

    left: set[TopicPartition]
    retry: Retry
    call: Call[Offsets]
    found: Offsets = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class OffsetFetchInFlight:
    """One OffsetFetch request: the partitions that it names, and which partitions and calls wait for the response."""

    tps: dict[TopicPartition, None] = field(default_factory=dict)
    #: Partitions that wait for a committed offset, each with its cursor (position object) when the request was made. A
    #: seek or reset replaces the cursor, and the response is then dropped for the partition.
    cursors: dict[Partition, Cursor] = field(default_factory=dict)
    questions: list[CommittedQuery] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)  #: The topics by id, if the request names them by id.


class Committed:
    """Read a group's committed offsets with OffsetFetch, one request at a time."""

    asker = "committed"

    def __init__(
        self,
        settings: RequestSettings,
        coordinator: Coordinator,
        partitions: Partitions,
        metadata: Metadata,
        random: Random,
    ) -> None:
        self._coordinator = coordinator
        self._partitions = partitions
        self._metadata = metadata
        self._group_id = coordinator.group_id
        self._shared_jitter = SharedJitter(random)  #: Partitions that fail together are retried in one request.
        self._requests = CoordinatorRequests(self.asker, settings, coordinator, random)
        self._backoff = self._requests.retry.backoff
        self._questions: list[CommittedQuery] = []
        self.outages = OutageLog(log)
        #: Topics of which the offsets of all partitions are requested: an assigned partition has no committed offset,
        #: and none of the topic is known. If another partition has one, the assigned one counts as added later.
        self._compared: set[str] = set()
        #: Returns the current identity, which the coordinator checks for a member of a consumer group (KIP-848).
        self.read_identity: Callable[[], CommitIdentity] = lambda: CommitIdentity(Identity(self._group_id))
        self.error: KafkaError | None = None  #: The error of the latest response, if polls raise it.

    def ask(self, tps: Iterable[TopicPartition]) -> Call[Offsets]:
        """Read the committed offsets of these partitions; the call's result has None for a partition without one.

        Retriable errors are retried until the caller stops waiting.
        """
        retry = Retry(self._backoff, self._shared_jitter, self._coordinator.agenda)
        question = CommittedQuery(set(tps), retry, Call("asking for committed offsets"))
        if question.left:
            self._questions.append(question)
            self._coordinator.agenda.touch()
        else:
            question.call.succeed({})
        return question.call

    def step(self, now: float) -> list[Request]:
        self._questions = [question for question in self._questions if not question.call.over]
        waiting = self._partitions.in_state(PositionState.AWAITING_COMMITTED, NEVER)
        if not waiting and not self._questions:
            self.error = None  # no committed offset is needed any more: forget the last error
            if self._requests.in_flight is None:
                self._coordinator.unwant(self.asker)
                return []
        self._coordinator.want(self.asker)
        self._requests.abandon_if_moved()
        error = self._coordinator.error or self._coordinator.last_error
        if error is not None and self._coordinator.target(GENERAL) is None:
            for partition in waiting:
                partition.last_error = error  # timeout errors name the last error
            for question in self._questions:
                question.call.last_error = error
        if not self._requests.may_send(now):
            return []
        flight = self._gather(waiting, now)
        if not flight.tps:
            return []
        topics = {tp.topic for tp in flight.tps}
        return [
            self._requests.send(
                OffsetFetchRequest,
                partial(self._build, flight),
                now,
                context=flight,
                min_version=1,
                max_version=lambda: IDS_SINCE if self._metadata.has_topic_ids(topics) else NAMES_UNTIL,
            )
        ]

    def handle(self, answer: Answer, now: float) -> None:
        if not self._requests.take(answer):
            return
        flight: OffsetFetchInFlight = answer.request.context
        self._shared_jitter.redraw()
        part, rows = (None, {}) if answer.response is None else _read(answer, self._group_id, flight.names)
        action, error = judge(answer, self._group_id, part)
        self._coordinator.report(action, error, answer, now)
        if error is not None:
            self._put_off(flight, error, action is Action.RAISE, now)
            return
        self.error = None
        self.outages.keep(self._partitions)
        self.outages.recovered(None, now, f"group {self._group_id}: committed offsets can be read again")
        self._requests.retry.succeeded()
        self._take(flight, rows, answer.node_id, now)

    def restart(self, now: float) -> None:
        self._requests.restart()

    def _gather(self, waiting: list[Partition], now: float) -> OffsetFetchInFlight:
        flight = OffsetFetchInFlight()
        for partition in waiting:
            if not partition.is_backing_off(now) and len(flight.tps) < PARTITIONS_MAX:
                flight.cursors[partition] = partition.cursor
                flight.tps[partition.tp] = None
        for topic in {tp.topic for tp in flight.tps} & self._compared & self._metadata.topics.keys():
            others = [TopicPartition(topic, number) for number in self._metadata.topics[topic].partitions]
            flight.tps.update(dict.fromkeys(others[: PARTITIONS_MAX - len(flight.tps)]))
        for question in self._questions:
            if question.retry.may_send(now) and len(flight.tps) < PARTITIONS_MAX:
                flight.questions.append(question)
                for tp in question.left:
                    if len(flight.tps) < PARTITIONS_MAX:
                        flight.tps[tp] = None
        return flight

    def _build(self, flight: OffsetFetchInFlight, version: int) -> Message:
        topics: dict[str, list[int]] = {}
        for tp in flight.tps:
            topics.setdefault(tp.topic, []).append(tp.partition)
        if version < GROUPS_SINCE:
            old = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()]
            return OffsetFetchRequest(group_id=self._group_id, topics=old, require_stable=version >= STABLE_SINCE)
        asked = [OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in topics.items()]
        if version >= IDS_SINCE:
            for topic in asked:
                topic.topic_id = self._metadata.topic_id(topic.name)
                flight.names[topic.topic_id] = topic.name
        group = OffsetFetchRequestGroup(group_id=self._group_id, topics=asked)
        current = self.read_identity()
        if version >= EPOCHS_SINCE and current.has_epochs and current.identity.is_member:
            group.member_id, group.member_epoch = current.identity.member_id, current.identity.generation_id
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _put_off(self, flight: OffsetFetchInFlight, error: KafkaError, final: bool, now: float) -> None:
        """Retry the request after a backoff. With ``final``, polls and the waiting calls raise the error."""
        log.debug("group %s: cannot read committed offsets: %s", self._group_id, error)
        self._requests.retry.failed(now)
        if isinstance(error, BrokerResponseError):
            self._note(error, None, now, is_raised=final)
        self.error = error if final else None
        for partition in self._still_waiting(flight):
            partition.last_error = error
        for question in flight.questions:
            question.call.last_error = error
            if final:
                question.call.fail(error)

    def _still_waiting(self, flight: OffsetFetchInFlight) -> list[Partition]:
        return [
            partition
            for partition, cursor in flight.cursors.items()
            if self._partitions.get(partition.tp) is partition
            and partition.cursor is cursor
            and partition.state is PositionState.AWAITING_COMMITTED
        ]

    def _take(self, flight: OffsetFetchInFlight, rows: Rows, node_id: int, now: float) -> None:
        committed = {tp.topic for tp, row in rows.items() if row.committed_offset >= 0}
        committed |= {p.tp.topic for p in self._partitions if p.committed is not None}
        unknown = self._unknown_topics(flight) - committed
        found = missing = 0
        for partition in self._still_waiting(flight):
            tp = partition.tp
            result = self._result(tp, rows.get(tp), node_id)
            if isinstance(result, KafkaError):
                self._refuse(partition, result, now)
                continue
            partition.worked()
            self.outages.recovered(tp, now, f"group {self._group_id}: committed offsets can be read again")
            if result is not None:
                found += 1
                partition.committed = result
                partition.place(PositionEvent.COMMITTED_FOUND, result.offset, result.leader_epoch)
                log.debug("%s-%s: starting at the committed offset %s", *tp, result.offset)
            elif tp.topic in unknown:
                # Request the offsets of all partitions of the topic, to find out whether this one was added later.
                self._compared.add(tp.topic)
            else:
                missing += 1
                partition.is_new = tp.topic in committed
                partition.missing_committed()
        if found or missing:
            text = "group %s: %d partitions start at their committed offsets, %d have none"
            # INFO only if the reset policy applies, as a partition has no committed offset: otherwise a group that
            # keeps rebalancing would log a line each time.
            log.log(logging.INFO if missing else logging.DEBUG, text, self._group_id, found, missing)
        for question in flight.questions:
            self._answer(question, flight, rows, node_id, now)

    def _unknown_topics(self, flight: OffsetFetchInFlight) -> set[str]:
        """Return the topics, except ``_compared``, of which the request lacks partitions that may have offsets."""
        topics, asked = self._metadata.topics, Counter([tp.topic for tp in flight.tps])
        incomplete = {name for name, count in asked.items() if name in topics and count < len(topics[name].partitions)}
        return incomplete - self._compared

    def _note(self, error: KafkaError, subject: TopicPartition | None, now: float, *, is_raised: bool) -> None:
        text = f"group {self._group_id}: cannot read committed offsets: {error}"
        grace = 0.0 if is_raised else GRACE
        self.outages.failed(getattr(error, "code", None), now, text, subject=subject, grace=grace)

    def _refuse(self, partition: Partition, error: KafkaError, now: float) -> None:
        is_raised = _is_raised(error)
        partition.failed(error, is_raised=is_raised)
        self._note(error, partition.tp, now, is_raised=is_raised)
        partition.failures += 1
        partition.back_off(now + self._backoff.delay(partition.failures, self._shared_jitter))

    def _result(
        self, tp: TopicPartition, row: OffsetFetchResponsePartition | None, node_id: int
    ) -> OffsetAndMetadata | KafkaError | None:
        """Return the committed offset, None if there is none, or the error."""
        if row is None:
            return KafkaError(f"broker {node_id} left {tp.topic}-{tp.partition} out of its answer to {API}")
        if row.error_code == Code.NONE:
            found = OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
            return found if row.committed_offset >= 0 else None
        error = to_error(row.error_code, api=API, node_id=node_id, partition=tp)
        if rule(API, row.error_code, Scope.PARTITION).action is Action.REFRESH_METADATA:
            self._metadata.request_update(f"committed offset of {tp.topic}-{tp.partition}: {error}")
        return error

    def _answer(
        self, question: CommittedQuery, flight: OffsetFetchInFlight, rows: Rows, node_id: int, now: float
    ) -> None:
        refused = False
        for tp in [tp for tp in question.left if tp in flight.tps]:
            result = self._result(tp, rows.get(tp), node_id)
            if isinstance(result, KafkaError):
                refused = True
                question.call.last_error = result
                if _is_raised(result):
                    question.call.fail(result)
                continue
            question.found[tp] = result
            question.left.discard(tp)
        if not question.left:
            question.call.succeed(question.found)
        elif refused:
            question.retry.failed(now)


def _is_of_group(code: int) -> bool:
    is_of_coordinator = rule(API, code, Scope.GROUP).action in (Action.WAIT_FOR_COORDINATOR, Action.FIND_COORDINATOR)
    return is_of_coordinator or code == Code.GROUP_AUTHORIZATION_FAILED


def _is_raised(error: KafkaError) -> bool:
    return isinstance(error, BrokerResponseError) and rule(API, error.code, Scope.PARTITION).action is Action.RAISE


def _read(answer: Answer, group_id: str, names: dict[bytes, str]) -> tuple[Any, Rows]:
    """Return the part of a response of any version that has the group's error code, and the results of partitions."""
    part: Any = answer.response
    if answer.version >= GROUPS_SINCE:
        part = {group.group_id: group for group in part.groups}.get(group_id) or OffsetFetchResponseGroup()
    rows = {
        TopicPartition(names.get(topic.topic_id, "") if names else topic.name, row.partition_index): row
        for topic in part.topics
        for row in topic.partitions
    }
    if answer.version < GROUP_ERRORS_SINCE:  # no field for errors of the group: its partitions repeat them
        part.error_code = next(filter(_is_of_group, (row.error_code for row in rows.values())), 0)
    return part, rows
