"""Report a consumer's health for liveness probes and dashboards, without I/O.

While calls are made, the monitor checks every partition about twice a second and records since when it has made no
progress. A consumer is stuck if an obstacle has lasted for half of the session timeout, or will not end by itself.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING

from ..errors import BrokerResponseError, KafkaError, RecordError, UnknownTopicOrPartitionError
from ..failures import OutageLog
from ..positions.partitions import Partition
from ..support.lazy_dataclass import dataclass
from ..types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .managers import ConsumerManagers

__all__ = ["Health", "HealthState"]

log = logging.getLogger(__name__)

#: Seconds between two checks of all partitions. A check in every step would slow down polls.
LOOK_EVERY = 0.5
#: Seconds more for each partition: until a new assignment is fetched from, a check looks at all partitions, which for
#: 10,000 takes a tenth of the time to the first record. At most ``LOOK_EVERY``, since a partition that is resumed
#: right after a check must not count as silent in the next one.
LOOK_LATER_PER_PARTITION = 50e-6
#: Tolerance in seconds: a heartbeat or Fetch counts as unanswered only this long after its response was due, and a
#: missing topic is logged only after it was missing for this long.
GRACE = 1.0
#: Maximum number of partitions that an obstacle's text names; it only counts the others.
NAMED_MAX = 5
#: A consumer is stuck after this many polls in a row have raised an error for the same record.
RECORD_ERRORS_MAX = 3


class HealthState(enum.Enum):
    """Summary of a consumer's health."""

    IDLE = "idle"  #: The consumer has neither a subscription nor assigned partitions.
    OK = "ok"
    #: The consumer joins, rebalances, looks up offsets or waits for a broker: it should continue by itself.
    WORKING = "working"
    STUCK = "stuck"  #: Something has prevented progress for too long, or will not end by itself.


@dataclass(frozen=True, slots=True)
class Health:
    """A consumer's health. Ages are in seconds; an age is None if the event has never happened."""

    state: HealthState
    reason: str  #: Everything that prevents progress, the most serious first; empty if nothing does.
    since: float | None  #: For how many seconds the first reason has prevented progress; None without a reason.
    group_state: str  #: The member's state (docs/states.md); empty without a group.
    generation_id: int
    member_id: str
    coordinator: int | None  #: Node id of the group's coordinator; None if unknown.
    assigned: int  #: Number of assigned partitions.
    last_poll_age: float | None
    last_heartbeat_age: float | None  #: Seconds since the last successful Heartbeat, JoinGroup or SyncGroup.
    last_fetch_age: float | None  #: Seconds since the last successful Fetch.
    last_error: Exception | None  #: The error behind the first part of :attr:`reason`, if it has one.


@dataclass(slots=True)
class Obstacle:
    """A reason why the consumer, or some of its partitions, makes no progress: an unreachable broker, for example."""

    words: str
    error: Exception | None = None
    #: The obstacle's identity from one check to the next if its ``words`` change; empty to use ``words``.
    key: str = ""
    #: When the obstacle began; None to use the time of the first check that found the obstacle.
    since: float | None = None
    final: bool = False  #: Whether the obstacle lasts until the application or an operator acts.
    #: Whether the obstacle ends when other partitions are read, however long that takes: then nothing is stuck.
    is_wait: bool = False


class HealthMonitor:
    """Checks the progress of each partition, and reports what prevents it.

    Each successful Fetch response counts as progress of its partitions, with or without new records. Partitions that
    are paused or have buffered records are not fetched, so no progress is expected of them.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience  #: Seconds without progress after which the consumer counts as stuck.
        self._outages = OutageLog(log)
        self._since: dict[str, float] = {}
        #: Texts of the errors for missing topics and partitions that the last check found.
        self._reported: set[str] = set()
        #: By partition: the last time at which no progress was expected of it, since it was paused or had buffered
        #: records. The time without progress counts from then on.
        self._excused: dict[TopicPartition, float] = {}
        self.checked_at = 0.0  #: When all partitions were checked last.
        self.check_every_s = 0.0  #: Seconds from that check to the next one; 0 before the first step.
        self._completed = 0
        self._fetched_at: float | None = None
        #: The last error that a poll raised for one record; None once the position is past that record.
        self._record: RecordError | None = None
        self._record_at = 0.0  #: When a poll first raised an error for the record of ``_record``.
        self._record_errors = 0  #: How many polls in a row have raised an error for the record of ``_record``.
        self.polled_at: float | None = None

    def check(self, managers: ConsumerManagers, now: float) -> bool:
        """Check all partitions; return whether that was done.

        The first call does not: of a new assignment the check could only find that nothing is known yet.
        """
        is_first = not self.check_every_s
        self.checked_at = now
        self.check_every_s = LOOK_EVERY + min(LOOK_EVERY, LOOK_LATER_PER_PARTITION * len(managers.partitions))
        if not is_first:
            self._look(managers, now)
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

    def is_stale(self, managers: ConsumerManagers, partition: Partition, now: float) -> bool:
        """Return whether no recent Fetch has confirmed the log end, so that the lag is unknown.

        A partition with buffered records may not be fetched for long. Its lag is still reported, as the distance to the
        last known end of the log.
        """
        confirmed_at = partition.confirmed_at
        return not managers.buffer.size_of(partition) and (confirmed_at is None or now - confirmed_at > self._patience)

    def report(self, managers: ConsumerManagers, now: float) -> Health:
        """Return the consumer's health."""
        obstacles = sorted(self._look(managers, now), key=lambda o: (not o.final, o.is_wait, self._begun(o, now)))
        first = obstacles[0] if obstacles else None
        since = None if first is None else max(0.0, now - self._begun(first, now))
        if first is None:
            busy = len(managers.partitions) or (
                managers.group is not None and managers.group.subscription.is_subscribed
            )
            state = HealthState.OK if busy else HealthState.IDLE
        else:
            stuck = first.final or (since is not None and since >= self._patience and not first.is_wait)
            state = HealthState.STUCK if stuck else HealthState.WORKING
        group = managers.group
        identity = None if group is None else group.member.identity
        stats = None if group is None else group.member.stats
        return Health(
            state,
            "; ".join(dict.fromkeys(obstacle.words for obstacle in obstacles)),
            since,
            group.member.state.value if group is not None else "",
            identity.generation_id if identity is not None else -1,
            identity.member_id if identity is not None else "",
            group.coordinator.node_id if group is not None else None,
            len(managers.partitions),
            _age(self.polled_at, now),
            _age(stats.answered_at if stats is not None else None, now),
            _age(self._fetched_at, now),
            first.error if first is not None else None,
        )

    def _begun(self, obstacle: Obstacle, now: float) -> float:
        return obstacle.since if obstacle.since is not None else self._since.get(obstacle.key or obstacle.words, now)

    def _look(self, managers: ConsumerManagers, now: float) -> list[Obstacle]:
        if managers.answers.completed != self._completed:
            self._completed, self._fetched_at = managers.answers.completed, now
        obstacles = [Obstacle(str(error), error, final=True) for error in managers.persistent_errors()]
        if managers.engine.network.outage_since is not None:
            waits_for = "" if managers.engine.logins is None else managers.engine.logins.waits_for()
            words = f"no broker can be reached{waits_for and f': {waits_for}'}"
            obstacles.append(Obstacle(words, since=managers.engine.network.outage_since))
        obstacles += [*self._group(managers, now), *self._broken(managers)]
        obstacles += [*self._missing(managers, now), *self._silent(managers, now), *self._held(managers)]
        if (error := managers.metadata.rejection) is not None:
            obstacles.append(Obstacle(f"metadata cannot be refreshed: {error}", error, "metadata"))
        for node_id in managers.planner.paced_nodes(now):
            words = f"broker {node_id} answers Fetch requests at once and without records"
            obstacles.append(Obstacle(words, is_wait=True))
        if all(obstacle.is_wait for obstacle in obstacles):
            # Successes between the refusals end every other obstacle.
            recurring = (one for outages in managers.outage_logs() for one in outages.recurring(now))
            obstacles += [Obstacle(f"again and again: {words}", since=at, is_wait=True) for words, at in recurring]
        self._since = {key: self._since.get(key, now) for key in (o.key or o.words for o in obstacles)}
        return obstacles

    def _group(self, managers: ConsumerManagers, now: float) -> Iterator[Obstacle]:
        group = managers.group
        if group is None:
            return
        coordinator, member = group.coordinator, group.member
        if (group.subscription.is_subscribed or group.commits.queue.calls) and coordinator.target() is None:
            words = f"the coordinator of group {coordinator.group_id} is not known"
            yield Obstacle(_because(words, coordinator.last_error), coordinator.last_error, words)
        if group.commits.last_error is not None and now - group.commits.failed_at < self._patience:
            yield Obstacle(f"commits fail: {group.commits.last_error}", group.commits.last_error, "commits")
        for name in sorted(group.own_topics() & managers.metadata.topics.keys()):
            error = managers.metadata.topics[name].error
            if error is not None and error.retriable and not isinstance(error, UnknownTopicOrPartitionError):
                yield Obstacle(str(error), error)
        if not group.subscription.is_subscribed:
            return
        if group.member.unconfirmed is not None:
            yield Obstacle(f"records are held back: {group.member.unconfirmed}")
        if not member.is_settled:
            words = f"the member is {member.state.value}"
            yield Obstacle(f"the member is {group.member.situation}", key=words)
        else:
            answered, interval = member.stats.answered_at, member.heartbeat_interval
            if answered is not None and now - answered > 2 * interval + GRACE:
                yield Obstacle("heartbeats are not answered", since=answered)

    def _broken(self, managers: ConsumerManagers) -> Iterator[Obstacle]:
        record = self._record
        partition = None if record is None else managers.partitions.get(record.partition)
        if record is None or partition is None or not 0 <= partition.cursor.offset <= record.offset:
            self._record = None
            return
        where = f"{record.partition.topic}-{record.partition.partition} stays at offset {record.offset}"
        words = f"{where}: raised {self._record_errors} times: {record}"
        yield Obstacle(words, record, since=self._record_at, final=self._record_errors >= RECORD_ERRORS_MAX)

    def _missing(self, managers: ConsumerManagers, now: float) -> Iterator[Obstacle]:
        missing = {str(error): error for error in managers.missing()}
        for words in self._reported - missing.keys():
            self._outages.recovered(words, now, f"no longer the case: {words}")
        self._reported = set(missing)
        for words, error in missing.items():
            self._outages.failed(words, now, words, subject=words, grace=GRACE)
            yield Obstacle(words, error)

    def _silent(self, managers: ConsumerManagers, now: float) -> Iterator[Obstacle]:
        """Yield an obstacle for each reason why partitions make no progress, with the names of those partitions."""
        found: dict[str, list[Partition]] = {}
        begun: dict[str, float] = {}
        excused, self._excused = self._excused, {}
        has_ready = managers.buffer.has_ready()
        for partition in self._suspects(managers, has_ready, now):
            # While records wait to be polled, Fetch requests may leave out a partition for want of room: no progress is
            # expected of it.
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
            words = self._why_silent(managers, partition, now - since)
            if words is not None:
                found.setdefault(words, []).append(partition)
                begun[words] = min(begun.get(words, now), since)
        for words, partitions in found.items():
            names = ", ".join(f"{p.tp.topic}-{p.tp.partition}" for p in partitions[:NAMED_MAX])
            more = len(partitions) - NAMED_MAX
            error = partitions[0].last_error
            text = f"{names}{f' and {more} more' if more > 0 else ''}: {words}"
            yield Obstacle(_because(text, error), error, since=begun[words])

    def _held(self, managers: ConsumerManagers) -> Iterator[Obstacle]:
        """Yield an obstacle for each partition that a gatekeeper holds."""
        for partition, words, is_wait in (one for keeper in managers.gatekeepers for one in keeper.held()):
            name = f"{partition.tp.topic}-{partition.tp.partition}"
            yield Obstacle(f"{name} is {words}", partition.last_error, f"{name} is held", is_wait=is_wait)

    def _suspects(self, managers: ConsumerManagers, has_ready: bool, now: float) -> list[Partition]:
        """Return the partitions that may make no progress, in the order of assignment.

        All others are in a fetch session that a response has confirmed lately, which takes one comparison for
        each session.
        """
        partitions, planner = managers.partitions, managers.planner
        found = {*partitions.unconfirmed(), *partitions.without_position(), *planner.targets.leaderless}
        found.update(managers.buffer.queues)
        for is_asking, listed in planner.sessions():
            confirmation = listed.confirmation
            if has_ready and not is_asking:
                confirmation.excused_at = now
            elif confirmation.at is not None:
                since = max(confirmation.at, confirmation.excused_at or 0.0)
                if now - since > self._silence_limit(managers):
                    found.update(p for p, _ in listed.cursors.values() if p.confirmation is confirmation)
        return sorted((p for p in found if partitions.get(p.tp) is p), key=lambda p: p.number)

    def _silence_limit(self, managers: ConsumerManagers) -> float:
        return managers.config.fetch_max_wait_ms / 1000 + GRACE

    def _why_silent(self, managers: ConsumerManagers, partition: Partition, silence: float) -> str | None:
        """Return a description of what the partition waits for; None if it has not waited for unusually long."""
        node_id = managers.planner.targets.node_for(partition, 0.0)
        if node_id is None:
            return "no leader is known"
        if not partition.has_position:
            return "no position is known"
        if silence <= self._silence_limit(managers):
            return None
        node = managers.metadata.nodes.get(node_id)
        where = f"broker {node_id}" if node is None else f"broker {node_id} ({node.host}:{node.port})"
        if isinstance(partition.last_error, BrokerResponseError):
            return f"{where} rejects each Fetch"
        return f"{where} answers no Fetch; check that it runs and can be reached"


def _because(words: str, error: Exception | None) -> str:
    return words if error is None else f"{words} (last error: {error})"


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
