"""Report a client's health for liveness probes and dashboards, without I/O.

A client is stuck if an obstacle has lasted for half of the session timeout (without a group: of the request timeout),
or will not end by itself. An obstacle beside which there is progress does not count.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import (
    BrokerResponseError,
    KafkaError,
    RecordError,
    RetriableDeserializationError,
    UnknownTopicOrPartitionError,
)
from ..failures import OutageLog
from ..positions.partitions import Partition
from ..support.lazy_dataclass import dataclass
from ..types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..engine import Engine
    from ..group.coordinator import Coordinator
    from ..group.membership import Membership
    from ..metrics import MetricValues
    from .managers import ConsumerManagers

__all__ = ["Health", "HealthState", "MemberHealth"]

log = logging.getLogger(__name__)

#: Seconds between two checks for obstacles. A check in every step would slow down polls.
LOOK_EVERY = 0.5
#: Seconds added to ``LOOK_EVERY`` for each partition, at most ``LOOK_EVERY`` in all. A check looks at all partitions of
#: a new assignment until Fetch responses confirm them: for 10,000, one check takes a tenth of the time to the first
#: record. At a longer interval, a partition that is resumed right after a check would count as silent in the next one.
LOOK_LATER_PER_PARTITION = 50e-6
#: Tolerance in seconds: a heartbeat or Fetch counts as unanswered only this long after its response was due, and a
#: missing topic is logged only after it was missing for this long.
GRACE = 1.0
#: Maximum number of partitions that an obstacle's text names; further ones are only counted.
NAMED_MAX = 5
#: A consumer is stuck after this many errors of polls for one record, without an error for another record in between.
RECORD_ERRORS_MAX = 3


class HealthState(enum.Enum):
    """Summary of the health of a consumer or group member."""

    IDLE = "idle"  #: The consumer has neither a subscription nor assigned partitions.
    OK = "ok"
    #: The client joins, rebalances, looks up offsets or waits for a broker: it should continue by itself.
    WORKING = "working"
    STUCK = "stuck"  #: Something has prevented progress for too long, or will not end by itself.


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """A group member's health. Ages are in seconds; an age is None if the event has never happened."""

    state: HealthState
    reason: str  #: All obstacles in words, the most serious first; empty if there are none.
    since: float | None  #: For how many seconds the first obstacle has lasted; None without obstacles.
    group_state: str  #: The member's state (docs/states.md); empty without a group.
    generation_id: int
    member_id: str
    coordinator: int | None  #: Node id of the group's coordinator; None if unknown.
    last_poll_age: float | None
    last_heartbeat_age: float | None  #: Seconds since the last successful heartbeat, JoinGroup or SyncGroup.
    last_error: Exception | None  #: The error behind the first part of :attr:`reason`, if it has one.


@dataclass(frozen=True, slots=True)
class Health(MemberHealth):
    """A consumer's health. Ages are in seconds; an age is None if the event has never happened."""

    assigned: int  #: Number of assigned partitions.
    last_fetch_age: float | None  #: Seconds since the last successful Fetch.


@dataclass(slots=True)
class Obstacle:
    """A reason why the client, or some of its partitions, makes no progress: an unreachable broker, for example."""

    words: str
    error: Exception | None = None
    #: The obstacle's identity from one check to the next if its ``words`` change; empty to use ``words``.
    key: str = ""
    #: When the obstacle began; None to use the time of the first check that found the obstacle.
    since: float | None = None
    final: bool = False  #: Whether the obstacle lasts until the application or an operator acts.
    #: Whether there is progress beside the obstacle, which therefore never counts as stuck. An example is a partition
    #: that is held until other partitions are read.
    is_wait: bool = False


class Processing(NamedTuple):
    """What workers add to the health and the metrics of the consumer whose records they process."""

    obstacles: Callable[[float], Iterable[Obstacle]]  #: Called with the time for each report, and for no check.
    metrics: Callable[[], MetricValues]


class ObstacleLog:
    """Notes since when each obstacle of a client lasts, and describes the client's health by them."""

    def __init__(self, patience: float) -> None:
        self.polled_at: float | None = None  #: When the last poll began.
        self._patience = patience  #: Seconds without progress after which the client counts as stuck.
        self._since: dict[str, float] = {}

    def _note(self, obstacles: Iterable[Obstacle], now: float) -> list[Obstacle]:
        """Note these obstacles in place of those of the last check; return them, the most serious first."""
        found = list(obstacles)
        self._since = {key: self._since.get(key, now) for key in (one.key or one.words for one in found)}
        for one in found:
            if one.since is None:
                one.since = self._since[one.key or one.words]
        return sorted(found, key=lambda one: (not one.final, one.is_wait, one.since or 0.0))

    def _describe(
        self,
        obstacles: list[Obstacle],
        coordinator: Coordinator | None,
        member: Membership | None,
        now: float,
        state: HealthState = HealthState.OK,
    ) -> tuple[Any, ...]:
        """Return the values of a :class:`MemberHealth`; ``state`` is the health state if there are no obstacles."""
        first = obstacles[0] if obstacles else None
        since = None if first is None else _age(first.since, now)
        if first is not None:
            is_stuck = first.final or ((since or 0.0) >= self._patience and not first.is_wait)
            state = HealthState.STUCK if is_stuck else HealthState.WORKING
        return (
            state,
            "; ".join(dict.fromkeys(obstacle.words for obstacle in obstacles)),
            since,
            "" if member is None else member.state.value,
            -1 if member is None else member.identity.generation_id,
            "" if member is None else member.identity.member_id,
            None if coordinator is None else coordinator.node_id,
            _age(self.polled_at, now),
            None if member is None else _age(member.stats.answered_at, now),
            None if first is None else first.error,
        )


class HealthMonitor(ObstacleLog):
    """Checks the progress of each partition, and reports what prevents progress.

    Each successful Fetch response counts as progress of its partitions, with or without new records. No progress is
    expected of partitions that are paused, held or have buffered records, since Fetch requests may leave these out.
    """

    def __init__(self, managers: ConsumerManagers, patience: float) -> None:
        super().__init__(patience)
        self._managers = managers
        self._outages = OutageLog(log)
        #: Texts of the errors for missing topics and partitions that the last check found.
        self._reported: set[str] = set()
        #: For each partition that the last check has looked at, the time since which it makes no progress: the time of
        #: its last Fetch response, or of the last check that expected none (paused or with buffered records, e.g.).
        self._excused: dict[TopicPartition, float] = {}
        self.check_at = 0.0  #: When the next check of all partitions is due; 0 before the first step.
        self._silence_limit = managers.config.fetch_max_wait_ms / 1000 + GRACE
        self._completed = 0
        self._fetched_at: float | None = None
        #: The last error that a poll raised for one record; None once the position is past the record.
        self._record: RecordError | None = None
        self._record_at = 0.0  #: When a poll first raised an error for the record of ``_record``.
        #: How many polls have raised an error for the record of ``_record``, without one for another record in between.
        self._record_errors = 0

    def check(self, now: float) -> bool:
        """Check all partitions and return True; the first call, when nothing is known of them, only returns False."""
        is_first = not self.check_at
        self.check_at = now + LOOK_EVERY + min(LOOK_EVERY, LOOK_LATER_PER_PARTITION * len(self._managers.partitions))
        if not is_first:
            self._look(now)
        return not is_first

    def record_failed(self, error: KafkaError, now: float) -> None:
        """Count a poll that raises ``error``, if the error is about one record."""
        if not isinstance(error, RecordError):
            return
        last = self._record
        if last is None or (last.partition, last.offset) != (error.partition, error.offset):
            self._record_at, self._record_errors = now, 0
        self._record = error
        self._record_errors += 1
        # A poll goes on: without a line in the log, nobody would know why the partition does not.
        if isinstance(error, RetriableDeserializationError) and now - error.since >= GRACE:
            self._outages.keep(self._managers.partitions)
            self._outages.failed("not ready", now, str(error), subject=error.partition)

    def record_read(self, tp: TopicPartition, now: float) -> None:
        """Note that a partition is past a record whose deserializer was not ready."""
        self._outages.recovered(tp, now, f"{tp.topic}-{tp.partition} goes on")

    def is_stale(self, partition: Partition, now: float) -> bool:
        """Return whether no recent Fetch has confirmed the log end, so that the lag is unknown.

        A partition with buffered records is never stale, although it may go for long without a Fetch: its lag is the
        distance to the last known end of the log.
        """
        at = partition.confirmed_at
        return not self._managers.buffer.size_of(partition) and (at is None or now - at > self._patience)

    def report(self, now: float) -> Health:
        assigned, group, processing = len(self._managers.partitions), self._managers.group, self._managers.processing
        obstacles = self._look(now, () if processing is None else processing.obstacles(now))
        coordinator, member = (None, None) if group is None else (group.coordinator, group.member)
        is_busy = assigned or self._managers.is_subscribed
        without = HealthState.OK if is_busy else HealthState.IDLE
        described = self._describe(obstacles, coordinator, member, now, without)
        return Health(*(*described, assigned, _age(self._fetched_at, now)))

    def _look(self, now: float, more: Iterable[Obstacle] = ()) -> list[Obstacle]:
        managers = self._managers
        if managers.answers.completed != self._completed:
            self._completed, self._fetched_at = managers.answers.completed, now
        obstacles = [Obstacle(str(error), error, final=True) for error in managers.persistent_errors()]
        obstacles += [*engine_obstacles(managers.engine, now), *self._group(now), *self._broken()]
        obstacles += [*self._missing(now), *self._silent(now), *self._held(), *more]
        if (error := managers.metadata.rejection) is not None:
            obstacles.append(Obstacle(f"metadata cannot be refreshed: {error}", error, "metadata"))
        for node_id in managers.planner.paced_nodes(now):
            words = f"broker {node_id} answers Fetch requests at once and without records"
            obstacles.append(Obstacle(words, is_wait=True))
        if all(obstacle.is_wait for obstacle in obstacles):
            # Each success ends the obstacle of a failure: without this, failures that recur would not be reported
            # between two of them.
            recurring = (one for outages in managers.outage_logs() for one in outages.recurring(now))
            obstacles += [Obstacle(f"again and again: {words}", since=at, is_wait=True) for words, at in recurring]
        return self._note(obstacles, now)

    def _group(self, now: float) -> Iterator[Obstacle]:
        group = self._managers.group
        if group is None:
            yield from self._topics()
            return
        if group.subscription.is_subscribed or group.commits.queue.calls:
            yield from coordinator_obstacles(group.coordinator)
        if group.commits.last_error is not None and now - group.commits.failed_at < self._patience:
            yield Obstacle(f"commits fail: {group.commits.last_error}", group.commits.last_error, "commits")
        yield from self._topics()
        if group.subscription.is_subscribed:
            words = f"the member is {group.member.state.value}"
            yield from member_obstacles(group.member, "records are held back", words, now)

    def _topics(self) -> Iterator[Obstacle]:
        """Yield what is wrong with the subscribed topics, except that they do not exist, and without final errors."""
        subscriber, topics = self._managers.subscriber, self._managers.metadata.topics
        if subscriber is None:
            return
        for name in sorted(subscriber.own_topics() & topics.keys()):
            error = topics[name].error
            if error is not None and error.retriable and not isinstance(error, UnknownTopicOrPartitionError):
                yield Obstacle(str(error), error)
        if self._managers.group is None and self._managers.is_subscribed and not subscriber.is_settled:
            yield Obstacle(subscriber.situation)

    def _broken(self) -> Iterator[Obstacle]:
        record = self._record
        partition = None if record is None else self._managers.partitions.get(record.partition)
        if record is None or partition is None or not 0 <= partition.cursor.offset <= record.offset:
            self._record = None
            return
        where = f"{record.partition.topic}-{record.partition.partition} stays at offset {record.offset}"
        words = f"{where}: {'tried' if record.retriable else 'raised'} {self._record_errors} times: {record}"
        is_final = self._record_errors >= RECORD_ERRORS_MAX and not record.retriable
        yield Obstacle(words, record, since=self._record_at, final=is_final)

    def _missing(self, now: float) -> Iterator[Obstacle]:
        missing = {str(error): error for error in self._managers.missing()}
        for words in self._reported - missing.keys():
            self._outages.recovered(words, now, f"no longer the case: {words}")
        self._reported = set(missing)
        for words, error in missing.items():
            self._outages.failed(words, now, words, subject=words, grace=GRACE)
            yield Obstacle(words, error)

    def _silent(self, now: float) -> Iterator[Obstacle]:
        """Yield an obstacle for each reason why partitions make no progress, with the names of those partitions."""
        found: dict[str, list[Partition]] = {}
        begun: dict[str, float] = {}
        managers, excused, self._excused = self._managers, self._excused, {}
        has_ready = managers.buffer.has_ready()
        for partition in self._suspects(has_ready, now):
            # While records wait to be polled, Fetch requests may leave out a partition for want of room.
            full = has_ready and partition.has_position and not managers.planner.is_asking(partition, now)
            idle = full or partition.paused or partition.callback_pending
            idle = idle or partition.pending_revocation or partition.unsubscribed  # the member's state tells more
            # _held() names what a held partition waits for.
            idle = idle or (partition.is_held and partition.has_position)
            if idle or managers.buffer.size_of(partition):
                self._excused[partition.tp] = now
                continue
            confirmation = partition.confirmation
            known = () if confirmation is None else (confirmation.at, confirmation.excused_at)
            times = [at for at in (excused.get(partition.tp), *known) if at is not None]
            since = self._excused[partition.tp] = max(times, default=now)
            if partition.error is not None:
                continue  # already an obstacle: persistent_errors() has the error
            words = self._why_silent(partition, now - since)
            if words is not None:
                found.setdefault(words, []).append(partition)
                begun[words] = min(begun.get(words, now), since)
        for words, partitions in found.items():
            names = ", ".join(f"{p.tp.topic}-{p.tp.partition}" for p in partitions[:NAMED_MAX])
            more = len(partitions) - NAMED_MAX
            error = partitions[0].last_error
            text = f"{names}{f' and {more} more' if more > 0 else ''}: {words}"
            yield Obstacle(_because(text, error), error, since=begun[words])

    def _held(self) -> Iterator[Obstacle]:
        """Yield an obstacle for each partition that a gatekeeper holds."""
        for partition, words, is_wait in (one for keeper in self._managers.gatekeepers for one in keeper.held()):
            name = f"{partition.tp.topic}-{partition.tp.partition}"
            yield Obstacle(f"{name} is {words}", partition.last_error, f"{name} is held", is_wait=is_wait)

    def _suspects(self, has_ready: bool, now: float) -> list[Partition]:
        """Return the partitions that may make no progress, in the order of assignment.

        All others are in a fetch session that a response has confirmed lately, or that requests nothing until buffered
        records are polled. To exclude them takes one comparison for each session, not for each partition.
        """
        managers, partitions, planner = self._managers, self._managers.partitions, self._managers.planner
        found = {*partitions.unconfirmed(), *partitions.without_position(), *planner.targets.leaderless}
        found.update(managers.buffer.queues)
        for is_asking, listed in planner.sessions():
            confirmation = listed.confirmation
            if has_ready and not is_asking:
                confirmation.excused_at = now
            elif confirmation.at is not None:
                since = max(confirmation.at, confirmation.excused_at or 0.0)
                if now - since > self._silence_limit:
                    found.update(p for p, _ in listed.cursors.values() if p.confirmation is confirmation)
        return sorted((p for p in found if partitions.get(p.tp) is p), key=lambda p: p.number)

    def _why_silent(self, partition: Partition, silence: float) -> str | None:
        """Return what the partition lacks; None if it only waits for a Fetch response, and not for too long yet.

        ``silence`` is the time without progress in seconds.
        """
        node_id = self._managers.planner.targets.node_for(partition, 0.0)
        if node_id is None:
            return "no leader is known"
        if not partition.has_position:
            return "no position is known"
        if silence <= self._silence_limit:
            return None
        node = self._managers.metadata.nodes.get(node_id)
        where = f"broker {node_id}" if node is None else f"broker {node_id} ({node.host}:{node.port})"
        if isinstance(partition.last_error, BrokerResponseError):
            return f"{where} rejects each Fetch"
        return f"{where} answers no Fetch; check that it runs and can be reached"


def engine_obstacles(engine: Engine, now: float) -> Iterator[Obstacle]:
    """Yield an obstacle if no broker can be reached, and one if a provider of credentials should have been called."""
    if engine.network.outage_since is not None:
        waits_for = "" if engine.logins is None else engine.logins.waits_for()
        words = f"no broker can be reached{waits_for and f': {waits_for}'}"
        yield Obstacle(words, since=engine.network.outage_since)
    if engine.logins is not None and (words := engine.logins.put_off(now)):
        yield Obstacle(words, key="credentials", is_wait=True)


def coordinator_obstacles(coordinator: Coordinator) -> Iterator[Obstacle]:
    """Yield an obstacle if a group's coordinator is not known."""
    if coordinator.target() is None:
        words = f"the coordinator of group {coordinator.group_id} is not known"
        yield Obstacle(_because(words, coordinator.last_error), coordinator.last_error, words)


def member_obstacles(member: Membership, held: str, unsettled: str, now: float) -> Iterator[Obstacle]:
    """Yield what keeps a member from its work.

    ``held`` begins the words of the obstacle that the membership is unconfirmed. ``unsettled`` is the key of the
    obstacle that the member is not settled, since the words of this obstacle change.
    """
    if member.unconfirmed is not None:
        yield Obstacle(f"{held}: {member.unconfirmed}")
    answered = member.stats.answered_at
    if not member.is_settled:
        yield Obstacle(f"the member is {member.situation}", key=unsettled)
    elif answered is not None and now - answered > 2 * member.heartbeat_interval + GRACE:
        yield Obstacle("heartbeats are not answered", since=answered)


def _because(words: str, error: Exception | None) -> str:
    return words if error is None else f"{words} (last error: {error})"


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
