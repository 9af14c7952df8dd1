"""The health and the metrics of a :class:`~thinconsumer.member.GroupMember`, without I/O."""

from __future__ import annotations

from collections.abc import Iterator

from .consumer.health import GRACE, HealthState, Obstacle
from .consumer.metrics_recorder import read_connections, read_member
from .engine.engine import Engine
from .group.classic.member import ClassicMember
from .group.coordinator import Coordinator
from .group.membership import MemberStats
from .metrics import CONSUMER, COORDINATOR, METRICS, ConsumerMetrics, MetricValues
from .support.lazy_dataclass import dataclass

__all__ = ["MemberHealth"]

#: Seconds between two looks for obstacles; a look in each step would slow down polls.
LOOK_EVERY = 0.5
#: The metrics that a member has, by their consumer's group: those of the sensors that are fed here.
GROUPS = {COORDINATOR: "member-coordinator-metrics", CONSUMER: "member-metrics"}
SENSORS = frozenset(
    {"heartbeat", "heartbeat_sent", "join", "sync", "rebalance", "failed_rebalance", "connection_opened",
     "connection_closed"}
)  # fmt: skip
CONNECTION_COUNT = "connection-count"


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """A group member's health. Ages are in seconds; an age is None if the event has never happened."""

    state: HealthState  #: OK, WORKING or STUCK.
    reason: str  #: Everything that prevents progress, the most serious first; empty if nothing does.
    since: float | None  #: For how many seconds the first reason has prevented progress; None without a reason.
    group_state: str  #: The member's state (docs/states.md).
    generation_id: int
    member_id: str
    coordinator: int | None  #: Node id of the group's coordinator; None if unknown.
    last_poll_age: float | None
    last_heartbeat_age: float | None  #: Seconds since the last successful Heartbeat, JoinGroup or SyncGroup.
    last_error: Exception | None  #: The error behind the first part of :attr:`reason`, if it has one.


class MemberHealthMonitor:
    """Notes since when what prevents a member's progress."""

    def __init__(self, engine: Engine, coordinator: Coordinator, member: ClassicMember, patience: float) -> None:
        self._engine = engine
        self._coordinator = coordinator
        self._member = member
        self._patience = patience  #: Seconds without progress after which the member counts as stuck.
        self._since: dict[str, float] = {}
        self._looked_at = -LOOK_EVERY
        self.polled_at: float | None = None  #: When the last poll began.

    def look(self, now: float) -> None:
        """Look for obstacles, if the last look is long enough ago."""
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            self._obstacles(now)

    def report(self, now: float) -> MemberHealth:
        """Return the member's health."""
        member = self._member
        found = sorted(self._obstacles(now), key=lambda obstacle: (not obstacle.final, self._begun(obstacle)))
        first = found[0] if found else None
        since = None if first is None else max(0.0, now - self._begun(first))
        state = HealthState.OK
        if first is not None:
            is_stuck = first.final or (since or 0.0) >= self._patience
            state = HealthState.STUCK if is_stuck else HealthState.WORKING
        return MemberHealth(
            state,
            "; ".join(obstacle.words for obstacle in found),
            since,
            member.state.value,
            member.identity.generation_id,
            member.identity.member_id,
            self._coordinator.node_id,
            _age(self.polled_at, now),
            _age(member.stats.answered_at, now),
            None if first is None else first.error,
        )

    def _begun(self, obstacle: Obstacle) -> float:
        return obstacle.since if obstacle.since is not None else self._since[obstacle.key or obstacle.words]

    def _obstacles(self, now: float) -> list[Obstacle]:
        found = list(self._look_for(now))
        self._since = {key: self._since.get(key, now) for key in (one.key or one.words for one in found)}
        return found

    def _look_for(self, now: float) -> Iterator[Obstacle]:
        member, coordinator = self._member, self._coordinator
        for error in (member.error, coordinator.error, self._engine.login_error()):
            if error is not None:
                yield Obstacle(str(error), error, final=True)
        if self._engine.network.outage_since is not None:
            yield Obstacle("no broker can be reached", since=self._engine.network.outage_since)
        if coordinator.target() is None:
            words, error = f"the coordinator of group {coordinator.group_id} is not known", coordinator.last_error
            yield Obstacle(words if error is None else f"{words} (last error: {error})", error, words)
        if member.unconfirmed is not None:
            yield Obstacle(f"the membership is not confirmed: {member.unconfirmed}", key="held")
        if not member.is_settled:
            yield Obstacle(f"the member is {member.state.value}", key="unsettled")
            return
        answered = member.stats.answered_at
        if answered is not None and now - answered > 2 * member.heartbeat_interval + GRACE:
            yield Obstacle("heartbeats are not answered", since=answered)


class MemberMetrics:
    """The metrics of a member: those of the consumer that are about its group and connections."""

    def __init__(self, engine: Engine, stats: MemberStats) -> None:
        self._engine = engine
        self._stats = stats
        self._metrics = ConsumerMetrics()

    def read(self, now: float) -> None:
        """Copy the counters. Of durations only the latest is kept there, so that this must be called often."""
        read_connections(self._metrics, self._engine.network, now)
        read_member(self._metrics, self._stats, now)

    def values(self, now: float) -> MetricValues:
        """Return the current value of every metric."""
        self.read(now)
        every = self._metrics.values(now, {CONNECTION_COUNT: float(self._engine.network.connection_counts()[1])})
        found: MetricValues = {group: {} for group in GROUPS.values()}
        for metric in METRICS:
            if metric.sensor in SENSORS or metric.name == CONNECTION_COUNT:
                found[GROUPS[metric.group]][metric.name] = every[metric.group][metric.name]
        return found


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
