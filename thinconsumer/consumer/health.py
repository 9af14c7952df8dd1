"""The health of a consumer: one value for liveness probes and dashboards, without any I/O.

Looks at every partition about twice a second while calls are made, and remembers since when one makes no progress.
Stuck is what has lasted for half a session, and whatever no waiting will cure.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import KafkaError, RecordError, UnknownTopicOrPartitionError
from ..failures import OutageLog
from ..group.classic.states import MemberState
from ..partitions import Partition
from ..types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .managers import ConsumerManagers

__all__ = ["Health", "HealthState"]

log = logging.getLogger(__name__)

#: How often to look, in seconds: every step would cost more than it tells.
LOOK_EVERY = 0.5
#: Seconds that an answer may take beyond the time for which the broker may hold it back.
GRACE = 1.0
#: Partitions that a reason names before it only counts.
NAMED_MAX = 5
#: Polls in a row that raise an error for the same record before the consumer counts as stuck.
RECORD_ERRORS_MAX = 3


class HealthState(enum.Enum):
    """What a probe should make of it."""

    IDLE = "idle"  #: Nothing is subscribed to or assigned.
    OK = "ok"
    WORKING = "working"  #: Joining, rebalancing, looking something up or failing over: it should pass.
    STUCK = "stuck"  #: It has not passed for too long, or will not by itself.


@dataclass(frozen=True, slots=True)
class Health:
    """A consumer's health. Ages are seconds since, None where there was none yet."""

    state: HealthState
    reason: str  #: What is in the way, the gravest first; empty when nothing is.
    since: float | None  #: For how many seconds it has been.
    group_state: str  #: A member's state in Kafka's words (docs/states.md); empty without a group.
    generation_id: int
    member_id: str
    coordinator: int | None  #: Node id, None while it is unknown.
    assigned: int  #: Partitions.
    last_poll_age: float | None
    last_heartbeat_age: float | None  #: Since the coordinator answered well: a heartbeat, join or sync.
    last_fetch_age: float | None  #: Since a fetch was answered well.
    last_error: Exception | None  #: Of what is in the way.


@dataclass(slots=True)
class Obstacle:
    """One reason why the consumer, or some of its partitions, make no progress."""

    words: str
    error: Exception | None = None
    key: str = ""  #: Stays the same while the obstacle lasts, where its words change; empty: the words do not.
    since: float | None = None  #: When progress was last seen; None: when the obstacle was first seen.
    final: bool = False  #: Waiting does not help.


class HealthMonitor:
    """Follows the progress of each partition, and names what it waits for.

    A partition makes progress while a broker answers for it: each good Fetch answer confirms where its log ends, be it
    that nothing is new. Partitions that are paused, or have records waiting for a poll, ask for nothing.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience  #: Seconds without progress before a consumer counts as stuck.
        self._outages = OutageLog(log)
        self._since: dict[str, float] = {}
        self._reported: set[str] = set()  #: What was missing when last looked at.
        #: When each partition was last not expected to be answered for; then its silence begins.
        self._excused: dict[TopicPartition, float] = {}
        self._look_at = 0.0
        self._completed = 0
        self._fetched_at: float | None = None
        self._record: RecordError | None = None  #: The record that polls raise an error for, ...
        self._record_at = 0.0  #: ... since when, ...
        self._record_errors = 0  #: ... and how often in a row.
        self.polled_at: float | None = None

    def step(self, managers: ConsumerManagers, now: float) -> bool:
        """Look, if it is time to; return whether it was."""
        due = now >= self._look_at
        if due:
            self._look_at = now + LOOK_EVERY
            self._look(managers, now)
        return due

    def record_failed(self, error: KafkaError, now: float) -> None:
        """Note that a poll raises ``error``, which may be about one record."""
        if not isinstance(error, RecordError):
            return
        last = self._record
        if last is None or (last.partition, last.offset) != (error.partition, error.offset):
            self._record_at, self._record_errors = now, 0
        self._record = error
        self._record_errors += 1

    def is_stale(self, managers: ConsumerManagers, partition: Partition, now: float) -> bool:
        """Return whether the end of the log was not confirmed lately, so that the lag is unknown.

        With records waiting for a poll the known end is late, but the lag is not 0.
        """
        confirmed_at = partition.confirmed_at
        return not managers.buffer.held(partition) and (confirmed_at is None or now - confirmed_at > self._patience)

    def report(self, managers: ConsumerManagers, now: float) -> Health:
        """Return the consumer's health."""
        obstacles = sorted(self._look(managers, now), key=lambda o: (not o.final, self._begun(o, now)))
        first = obstacles[0] if obstacles else None
        since = None if first is None else max(0.0, now - self._begun(first, now))
        if first is None:
            busy = len(managers.partitions) or (
                managers.group is not None and managers.group.subscription.is_subscribed
            )
            state = HealthState.OK if busy else HealthState.IDLE
        else:
            stuck = first.final or (since is not None and since >= self._patience)
            state = HealthState.STUCK if stuck else HealthState.WORKING
        group = managers.group
        identity = None if group is None else group.identity
        stats = None if group is None else group.member.stats
        return Health(
            state,
            "; ".join(obstacle.words for obstacle in obstacles),
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

    # -- inside

    def _begun(self, obstacle: Obstacle, now: float) -> float:
        return obstacle.since if obstacle.since is not None else self._since.get(obstacle.key or obstacle.words, now)

    def _look(self, managers: ConsumerManagers, now: float) -> list[Obstacle]:
        if managers.answers.completed != self._completed:
            self._completed, self._fetched_at = managers.answers.completed, now
        obstacles = [
            *self._final(managers),
            *self._outage(managers),
            *self._group(managers, now),
            *self._broken(managers),
        ]
        obstacles += [*self._missing(managers, now), *self._silent(managers, now)]
        self._since = {key: self._since.get(key, now) for key in (o.key or o.words for o in obstacles)}
        return obstacles

    def _final(self, managers: ConsumerManagers) -> Iterator[Obstacle]:
        for error in managers.persistent_errors():
            yield Obstacle(str(error), error, final=True)

    def _outage(self, managers: ConsumerManagers) -> Iterator[Obstacle]:
        since = managers.engine.network.outage_since
        if since is not None:
            yield Obstacle("no broker can be reached", since=since)

    def _group(self, managers: ConsumerManagers, now: float) -> Iterator[Obstacle]:
        group = managers.group
        if group is None:
            return
        coordinator, member = group.coordinator, group.member
        if (group.subscription.is_subscribed or not group.commits.idle) and coordinator.target() is None:
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
        if group.held is not None:
            yield Obstacle(f"records are held back: {group.held}")
        if member.state is not MemberState.STABLE:
            yield Obstacle(f"the member is {member.state.value}")
        else:
            answered, interval = member.stats.answered_at, managers.config.heartbeat_interval_ms / 1000
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
            self._outages.succeeded(words, now, f"No longer so: {words}")
        self._reported = set(missing)
        for words, error in missing.items():
            self._outages.failed(words, now, words, grace=GRACE)
            yield Obstacle(words, error)

    def _silent(self, managers: ConsumerManagers, now: float) -> Iterator[Obstacle]:
        """Name the partitions that no broker answers for, together by reason."""
        found: dict[str, list[Partition]] = {}
        begun: dict[str, float] = {}
        excused, self._excused = self._excused, {}
        for partition in managers.partitions:
            since = self._silent_since(managers, partition, excused, now)
            words = None if since is None else self._why_silent(managers, partition, now - since)
            if words is not None and since is not None:
                found.setdefault(words, []).append(partition)
                begun[words] = min(begun.get(words, now), since)
        for words, partitions in found.items():
            names = ", ".join(f"{p.tp.topic}-{p.tp.partition}" for p in partitions[:NAMED_MAX])
            more = len(partitions) - NAMED_MAX
            error = partitions[0].last_error
            text = f"{names}{f' and {more} more' if more > 0 else ''}: {words}"
            yield Obstacle(_because(text, error), error, since=begun[words])

    def _silent_since(
        self, managers: ConsumerManagers, partition: Partition, excused: dict[TopicPartition, float], now: float
    ) -> float | None:
        """Return since when the partition waits for a broker; None while it does not, or has raised its error."""
        idle = partition.paused or partition.pending_revocation or partition.callback_pending
        # Without room in the buffer nothing is asked for before the next poll.
        full = managers.buffer.has_ready() and not managers.planner.is_asking(partition, now)
        if idle or (full and partition.has_position) or managers.buffer.held(partition):
            self._excused[partition.tp] = now
            return None
        since = self._excused[partition.tp] = excused.get(partition.tp, now)
        if partition.error is not None:
            return None
        return since if partition.confirmed_at is None else max(since, partition.confirmed_at)

    def _why_silent(self, managers: ConsumerManagers, partition: Partition, silence: float) -> str | None:
        """Return what the partition waits for; None while that is not too long."""
        node_id = managers.planner.node_for(partition, 0.0)
        if node_id is None:
            return "no leader is known"
        if not partition.has_position:
            return "no position is known"
        if silence <= managers.config.fetch_max_wait_ms / 1000 + GRACE:
            return None
        node = managers.metadata.nodes.get(node_id)
        where = f"broker {node_id}" if node is None else f"broker {node_id} ({node.host}:{node.port})"
        return f"{where} answers no Fetch; check that it runs and can be reached"


def _because(words: str, error: Exception | None) -> str:
    return words if error is None else f"{words} (last error: {error})"


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
