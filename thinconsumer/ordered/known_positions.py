"""How far the group has read each partition (KIP-253).

A consumer knows the positions of its own partitions; for other partitions, their owners send the positions
(:mod:`.position_exchange`). The committed offset counts instead with ``assign()``, for owners that send no positions,
and while the coordinator rejects ConsumerGroupPositions for good, for example because it lacks this API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..config import ConsumerConfig
from ..errors import KafkaError
from ..network.request import Answer, Request
from ..positions.partitions import NOTHING, Partition, Partitions
from ..support.calls import Call
from ..support.timers import Random
from ..types import OffsetAndMetadata, TopicPartition
from .position_exchange import Place, PositionExchange, Report
from .topics import GatedTopic

if TYPE_CHECKING:
    from ..group.group import Group

#: After this many responses in a row without a partition's position, the committed offset counts: the owner may use
#: another client, which sends no positions.
SILENT_RESPONSES = 3
#: After this many responses in a row that show no member waiting for a position, requests are sent more rarely.
QUIET_RESPONSES = 5
#: Heartbeat intervals between two requests while no member waits. Requests go on, since only their responses tell that
#: a member has begun to wait for positions of this member.
QUIET_PACE = 10
#: A consumer without a group waits for its own partitions only: all others count as read.
READ = float("inf")


class KnownPositions:
    """Finds out how far the group has read, and sends this member's positions to the other members."""

    def __init__(
        self,
        config: ConsumerConfig,
        partitions: Partitions,
        random: Random,
        group: Group | None,
        topics: Mapping[str, GatedTopic],
    ) -> None:
        self._partitions = partitions
        self._group = group
        self._topics = topics
        self._option = config.heartbeat_interval_ms / 1000
        self._reads_committed = config.isolation_level == "read_committed"
        self._exchange = None if group is None else PositionExchange(config, group, random, lambda: self.interval)
        self._awaits_poll = False  #: Whether a request is due that waits for a poll to add this member's positions.
        self._has_polled = False  #: Whether a poll has added this member's positions since the last request.
        #: Whether no poll came in time for the last request. The next poll adds the positions at once: an application
        #: that polls rarely, and calls ``drive`` meanwhile, may never poll while a request waits.
        self._owes_positions = False
        #: When a request that waits for a poll is sent without one; not set before a step has found the request due.
        self._patience = partitions.agenda.alarm()
        #: The positions of own partitions when the last request was due. A position that has not moved since is sent
        #: like one at the end of the log.
        self._seen: dict[Place, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._call: Call[dict[TopicPartition, OffsetAndMetadata | None]] | None = None
        self._committed_pause = partitions.agenda.alarm()  #: When committed offsets may be requested again.

    @property
    def interval(self) -> float:
        """Minimum seconds between requests: ``heartbeat_interval_ms``, or the member's heartbeat interval if longer."""
        return self._option if self._group is None else max(self._option, self._group.member.heartbeat_interval)

    def counts_commits(self, tp: TopicPartition) -> bool:
        """Return whether only the committed offset shows how far the group has read a partition (``assign()``)."""
        return self._exchange is not None and not self._is_member and tp not in self._partitions

    def topic_forgotten(self) -> None:
        """Forget committed offsets: those of a deleted topic do not count for a new topic with its name."""
        self._committed = {}
        self._call = None

    def of(self, topic: GatedTopic, number: int) -> float | None:
        """Return the group's position in a partition; None if it is not known.

        Without a group, return ``READ`` for all but the own partitions.
        """
        tp = TopicPartition(topic.name, number)
        own = self._partitions.get(tp)
        if own is not None:
            return self._own(own)
        if self._exchange is None:
            return READ
        known = self._exchange.known.get((topic.shape.topic_id, number)) if self._is_member else None
        return self._committed.get(tp) if known is None else known

    def follow(self) -> None:
        """Forget positions of other generations, and take committed offsets that have arrived."""
        if self._exchange is not None:
            self._exchange.follow_generation()
        call = self._call
        if call is not None and call.done:
            self._call = None
            if call.error is None:
                self._committed = {tp: value.offset for tp, value in call.result().items() if value is not None}

    def step(self, now: float, awaited: Mapping[Place, TopicPartition]) -> list[Request]:
        """Return the request that is due; ``awaited`` are partitions that this consumer waits for and does not own."""
        exchange = self._exchange
        if exchange is None:
            return []
        has_holds = any(topic.shape.has_changed and topic.holds for topic in self._topics.values())
        exchange.is_active = self._is_member and has_holds
        is_quiet = not awaited and exchange.quiet_responses >= QUIET_RESPONSES
        exchange.keep_pace(QUIET_PACE if is_quiet else 1, now)
        self._read_committed(awaited, now)
        self._awaits_poll = self._waits_for_poll(now, exchange)
        if self._awaits_poll:
            return []
        if exchange.ready:
            # After a poll has added a position, a seek may have moved it back: such positions are withdrawn.
            own = {place: self._own(one) or 0 for place, one in self._own_requested(exchange).items()}
            exchange.ready = {place: one for place, one in exchange.ready.items() if own.get(place, -1) >= one.offset}
        requests = exchange.step(now, awaited)
        if requests:
            self._owes_positions = self._patience.is_over(now) and not self._has_polled
            self._has_polled = False
            self._patience.clear()
        return requests

    def _waits_for_poll(self, now: float, exchange: PositionExchange) -> bool:
        """Return whether the due request waits for a poll: at most half an interval, as a program may never poll."""
        if self._has_polled or not exchange.is_due(now) or not self._own_requested(exchange):
            return False
        self._patience.set_earlier(now + self.interval / 2)
        return self._patience.is_ahead(now)

    def handle(self, answer: Answer, now: float) -> None:
        assert self._exchange is not None
        self._exchange.handle(answer, now)

    def restart(self, now: float) -> None:
        self._call = None
        if self._exchange is not None:
            self._exchange.restart(now)

    def topic_changed(self) -> None:
        """Exchange positions at the full pace again: other members may wait for positions of this member."""
        if self._exchange is not None:
            self._exchange.quiet_responses = 0

    def due_reports(self) -> dict[Place, Report] | None:
        """Return the positions that a poll has to add to the next request, or {}; None if no poll is awaited."""
        exchange = self._exchange
        if exchange is None or not (self._awaits_poll or self._owes_positions):
            return None
        reports = {place: self._report(place, one) for place, one in self._own_requested(exchange).items()}
        self._seen = {place: report.offset for place, report in reports.items()}
        return exchange.due_reports(reports)

    def report(self, reports: Mapping[Place, Report]) -> None:
        """Send these positions with the next request."""
        if self._exchange is not None:
            self._exchange.ready.update(reports)
        self._has_polled, self._awaits_poll, self._owes_positions = True, False, False

    @property
    def _is_member(self) -> bool:
        return self._group is not None and self._group.subscription.is_subscribed

    def _own(self, partition: Partition) -> int | None:
        """Return the position of an own partition; None if there is none yet.

        The record in hand counts as read, as an application that goes on with ``poll`` never requests the next record
        of the iteration. A partition of which no record may be returned has no position: in an empty partition, the
        position would pass every threshold, although awaited partitions still have earlier records of its keys.
        """
        if not partition.has_position or partition.callback_pending or partition.delivery_end == NOTHING:
            return None
        read = self._partitions.read_up_to(partition)
        return None if read is None else read.offset

    def _own_requested(self, exchange: PositionExchange) -> dict[Place, Partition]:
        """Return this member's partitions that have a position and that other members wait for."""
        found: dict[Place, Partition] = {}
        names = {topic.shape.topic_id: topic.name for topic in self._topics.values()} if exchange.requested else {}
        for place in exchange.requested:
            own = self._partitions.get(TopicPartition(names.get(place[0], ""), place[1]))
            if own is not None and self._own(own) is not None:
                found[place] = own
        return found

    def _report(self, place: Place, partition: Partition) -> Report:
        offset, _, epoch = self._partitions.read_up_to(partition) or OffsetAndMetadata(-1)
        end = partition.last_stable_offset if self._reads_committed else partition.high_watermark
        gate = partition.delivery_end
        is_stopped = partition.paused or partition.error is not None or self._seen.get(place) == offset
        is_at_end = (end is not None and offset >= end) or (gate is not None and offset >= gate)
        return Report(offset, epoch, is_stopped or is_at_end)

    def _read_committed(self, awaited: Mapping[Place, TopicPartition], now: float) -> None:
        """Ask for the committed offsets of awaited partitions of which no member sends the position."""
        exchange, group = self._exchange, self._group
        assert exchange is not None and group is not None
        if self._is_member and exchange.error is None:
            tps = [tp for place, tp in awaited.items() if exchange.unknown.get(place, 0) >= SILENT_RESPONSES]
        else:
            tps = list(awaited.values())
        may_ask = self._call is None and not self._committed_pause.is_ahead(now)
        if not tps:
            self._committed = {}
        elif may_ask and (exchange.is_due(now) or not exchange.is_active):
            # In turns with requests for positions: one of the two in each interval.
            self._committed_pause.set(now + self.interval * (2 if exchange.is_active else 1))
            self._call = group.committed.ask(tps)
            exchange.skip_turn(now)

    def errors(self) -> list[KafkaError]:
        return [] if self._exchange is None or self._exchange.error is None else [self._exchange.error]
