"""Exchange positions with the other members of the group through its coordinator: ConsumerGroupPositions (KIP-253).

A member names the partitions that it waits for; the coordinator's responses then ask their owners for the positions.
Positions count for one generation: afterwards another member may own the partition, and continue at an earlier offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BrokerResponseError, KafkaError
from ..failures import GRACE, Action, OutageLog
from ..group.coordinator import GroupSettings, judge
from ..group.coordinator_requests import CoordinatorRequests
from ..group.identity import Identity
from ..network.request import Answer, Request
from ..support.timers import Random
from ..wire import Message
from ..wire.consumer_group_heartbeat import TopicPartitions
from ..wire.consumer_group_positions import (
    ConsumerGroupPositionsRequest,
    ConsumerGroupPositionsResponse,
    PartitionPosition,
    TopicPositions,
)

if TYPE_CHECKING:
    from ..group.group import Group

log = logging.getLogger(__name__)

ASKER = "ordered"
#: A partition by topic id and number.
Place = tuple[bytes, int]


class Report(NamedTuple):
    """A position of this member, with the facts that decide whether to send it."""

    offset: int
    epoch: int  #: The leader epoch of the last record before the position; -1 if unknown.
    #: Whether no record is expected now: at the end of the log, at a gate, while paused, after an error, or if the
    #: position has not moved since the last request was due.
    at_end: bool


def is_worth_sending(report: Report, last: Report | None) -> bool:
    """Return whether the position may release another member's partition that ``last`` has not released.

    ``last`` is the position that was sent last, or None if the coordinator has none of this member (KIP-253: "has not
    been included since this consumer starts"). A lower position is always sent. Within one leader epoch, a higher
    position is sent only at the end, since thresholds are ends of epochs. Unlike KIP-253, which only compares with the
    high watermark, a gate and a pause count as ends, too: either may be exactly at the threshold of another partition.
    """
    if last is None or report.offset < last.offset:
        return True
    return report.offset > last.offset and (report.at_end or report.epoch > last.epoch)


class PositionExchange:
    """Sends this member's positions and receives those of other members, one request at a time."""

    def __init__(
        self, settings: GroupSettings, group: Group, random: Random, read_interval: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._group = group
        self._coordinator = group.coordinator
        self._read_interval = read_interval  #: Returns the length of a heartbeat interval in seconds.
        self._requests = CoordinatorRequests(ASKER, settings, group.coordinator, random)
        self._identity: Identity | None = None  #: The generation that all positions belong to.
        self._sent: dict[Place, Report] = {}  #: The positions that were sent last, except in requests that failed.
        self.ready: dict[Place, Report] = {}  #: The positions for the next request.
        self.known: dict[Place, int] = {}  #: The positions of partitions that this member waits for.
        #: By awaited partition: for how many responses in a row the coordinator had no position of it.
        self.unknown: dict[Place, int] = {}
        #: The positions that the coordinator has of the partitions that members wait for; -1 if none.
        self.requested: dict[Place, int] = {}
        #: Whether positions are exchanged: True while this consumer is subscribed, and has partitions of a topic whose
        #: partition count has changed (:attr:`.Shape.has_changed`).
        self.is_active = False
        self._pace = 1  #: The number of heartbeat intervals between two requests.
        self._turn = group.coordinator.agenda.alarm()  #: When the next request may be sent.
        self.quiet_responses = 0  #: How many responses in a row have shown that no member waits for a position.
        self.error: KafkaError | None = None  #: The error of the last response, if the application must act on it.
        self._outages = OutageLog(log)

    def follow_generation(self) -> Identity | None:
        """Return the member's identity in a stable generation, else None; forget positions of other generations."""
        now_as = self._group.commit_identity()
        identity = now_as.who if now_as.is_subscribed and not now_as.is_rebalancing else None
        if identity is not None and not identity.is_member:
            identity = None
        if identity != self._identity:
            self._identity = identity
            for positions in (self._sent, self.ready, self.known, self.unknown, self.requested):
                positions.clear()
            self.quiet_responses = 0
        return identity

    def due_reports(self, reports: Mapping[Place, Report]) -> dict[Place, Report]:
        """Return those ``reports``, of partitions in ``requested``, that are worth sending and not in ``ready`` yet."""
        return {
            place: report
            for place, report in reports.items()
            if place not in self.ready
            and is_worth_sending(report, None if self.requested[place] < 0 else self._sent.get(place))
        }

    def is_due(self, now: float) -> bool:
        """Return whether a request may be sent now."""
        return self.is_active and self._requests.in_flight is None and not self._turn.is_ahead(now)

    def keep_pace(self, pace: int, now: float) -> None:
        """Plan the next request ``pace`` heartbeat intervals after the last one, but not before a backoff ends."""
        self._pace, pause = pace, self._requests.retry.pause
        turn = self._requests.sent_at + self._read_interval() * pace
        if pause.is_ahead(now):
            turn = max(turn, pause.at)
        self._turn.set(turn) if turn > now else self._turn.clear()

    def skip_turn(self, now: float) -> None:
        """Give this exchange's turn to a request for committed offsets that is sent now.

        The next request for positions follows as if one were sent now: see :meth:`keep_pace`.
        """
        self._requests.sent_at = now
        self.keep_pace(self._pace, now)

    def step(self, now: float, wanted: Collection[Place]) -> list[Request]:
        """Return the request that is due, if any. ``wanted`` are the awaited partitions."""
        if not self.is_active:
            self._coordinator.unwant(ASKER)
            return []
        self._coordinator.want(ASKER)
        self._requests.abandon_if_moved()
        identity = self.follow_generation()
        if identity is None or not self._requests.is_open or not self.is_due(now):
            return []
        sent, self.ready = self.ready, {}
        self._sent.update(sent)
        positions = {place: report.offset for place, report in sent.items()}
        request = self._requests.send(
            ConsumerGroupPositionsRequest,
            lambda version: _message(identity, positions, wanted),
            now,
            deadline=now + min(self._settings.request_timeout_ms, self._settings.session_timeout_ms) / 1000,
            context=(identity, frozenset(wanted), sent),
        )
        self.keep_pace(self._pace, now)
        return [request]

    def handle(self, answer: Answer, now: float) -> None:
        if not self._requests.take(answer):
            return
        identity, wanted, sent = answer.request.context
        action, error = judge(answer, self._coordinator.group_id)
        self._coordinator.report(action, error, answer, now)
        is_final = action is Action.RAISE
        self.error = error if is_final else None
        if error is not None:
            for place in sent:  # the coordinator may have none of these positions
                self._sent.pop(place, None)
            self._requests.retry.failed(now)
            self.keep_pace(self._pace, now)
            text = f"group {self._coordinator.group_id}: positions cannot be exchanged: {error}"
            if isinstance(error, BrokerResponseError):
                self._outages.failed(error.code, now, text, grace=0.0 if is_final else GRACE)
            log.debug(text)
            return
        response: ConsumerGroupPositionsResponse = answer.response
        self._requests.retry.succeeded()
        self._outages.recovered(None, now, f"group {self._coordinator.group_id}: positions are exchanged again")
        if identity != self.follow_generation():
            return
        found = dict(_rows(response.positions))
        self.known = {place: found[place] for place in wanted if found.get(place, -1) >= 0}
        self.unknown = {place: self.unknown.get(place, 0) + 1 for place in wanted if place not in self.known}
        self.requested = dict(_rows(response.requested))
        self.quiet_responses = 0 if self.requested or wanted else self.quiet_responses + 1

    def restart(self, now: float) -> None:
        self._requests.restart()
        self._sent.clear()
        self.ready.clear()


def _message(identity: Identity, positions: Mapping[Place, int], wanted: Iterable[Place]) -> Message:
    topics: dict[bytes, TopicPositions] = {}
    for (topic_id, number), offset in positions.items():
        topic = topics.setdefault(topic_id, TopicPositions(topic_id=topic_id))
        topic.partitions.append(PartitionPosition(partition_index=number, position=offset))
    others: dict[bytes, TopicPartitions] = {}
    for topic_id, number in wanted:
        others.setdefault(topic_id, TopicPartitions(topic_id=topic_id)).partitions.append(number)
    return ConsumerGroupPositionsRequest(
        group_id=identity.group_id,
        member_id=identity.member_id,
        generation_id_or_member_epoch=identity.generation_id,
        group_instance_id=identity.group_instance_id,
        positions=list(topics.values()),
        wanted=list(others.values()),
    )


def _rows(topics: Iterable[TopicPositions]) -> Iterator[tuple[Place, int]]:
    for topic in topics:
        for one in topic.partitions:
            yield (topic.topic_id, one.partition_index), one.position
