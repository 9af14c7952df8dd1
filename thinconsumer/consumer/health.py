"""How a consumer is: one value for liveness probes and dashboards, without any I/O (USERS B8).

Looks at what the rooms know anyway, about twice a second while calls are made, and remembers since when something is
in the way. Decides only what counts as stuck: anything that has been in the way for half a session, and whatever no
waiting will cure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..group.classic.states import MemberState
from ..types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..engine import Engine

__all__ = ["Health", "HealthState"]

#: How often to look, in seconds: every step would cost more than it tells.
LOOK_EVERY = 0.5
#: When the broker may hold fetches back for long, one more round trip's worth of patience, in seconds.
GRACE = 1.0


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
    """One thing in the way."""

    words: str
    error: Exception | None = None
    since: float | None = None  #: Known exactly; else it counts from when it was first seen.
    final: bool = False  #: Waiting will not help.


class HealthMonitor:
    """Notices obstacles and since when they are there."""

    def __init__(self, default_timeout: float) -> None:
        self._patience = default_timeout
        self._since: dict[str, float] = {}
        self._look_at = 0.0
        self._completed = 0
        self._fetched_at: float | None = None
        self.polled_at: float | None = None

    def step(self, engine: Engine, now: float) -> bool:
        """Look, if it is time to; return whether it was."""
        due = now >= self._look_at
        if due:
            self._look_at = now + LOOK_EVERY
            self._look(engine, now)
        return due

    def report(self, engine: Engine, now: float) -> Health:
        """Return how things are."""
        obstacles = sorted(self._look(engine, now), key=lambda o: (not o.final, self._begun(o, now)))
        first = obstacles[0] if obstacles else None
        since = None if first is None else max(0.0, now - self._begun(first, now))
        if first is None:
            busy = len(engine.partitions) or (engine.group is not None and engine.group.subscription.is_subscribed)
            state = HealthState.OK if busy else HealthState.IDLE
        else:
            stuck = first.final or (since is not None and since >= self._patience)
            state = HealthState.STUCK if stuck else HealthState.WORKING
        group = engine.group
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
            len(engine.partitions),
            _age(self.polled_at, now),
            _age(stats.answered_at if stats is not None else None, now),
            _age(self._fetched_at, now),
            first.error if first is not None else None,
        )

    # -- inside

    def _begun(self, obstacle: Obstacle, now: float) -> float:
        return obstacle.since if obstacle.since is not None else self._since.get(obstacle.words, now)

    def _look(self, engine: Engine, now: float) -> list[Obstacle]:
        if engine.answers.completed != self._completed:
            self._completed, self._fetched_at = engine.answers.completed, now
        obstacles = [*self._final(engine), *self._outage(engine), *self._group(engine, now), *self._positions(engine)]
        obstacles += self._fetching(engine, now) if not obstacles else []
        self._since = {o.words: self._since.get(o.words, now) for o in obstacles}
        return obstacles

    def _final(self, engine: Engine) -> Iterator[Obstacle]:
        for error in engine.persistent_errors():
            yield Obstacle(str(error), error, final=True)

    def _outage(self, engine: Engine) -> Iterator[Obstacle]:
        since = engine.network.outage_since
        if since is not None:
            yield Obstacle("no broker can be reached", since=since)

    def _group(self, engine: Engine, now: float) -> Iterator[Obstacle]:
        group = engine.group
        if group is None:
            return
        coordinator, member = group.coordinator, group.member
        if (group.subscription.is_subscribed or not group.commits.idle) and coordinator.target() is None:
            yield Obstacle("the group's coordinator is not known", coordinator.last_error)
        if not group.subscription.is_subscribed:
            return
        if group.held is not None:
            yield Obstacle(f"records are held back: {group.held}")
        if member.state is not MemberState.STABLE:
            yield Obstacle(f"the member is {member.state.value}")
        else:
            answered, interval = member.stats.answered_at, engine.config.heartbeat_interval_ms / 1000
            if answered is not None and now - answered > 2 * interval + GRACE:
                yield Obstacle("heartbeats are not answered", since=answered)
        if group.commits.trouble is not None:
            yield Obstacle("commits fail", group.commits.trouble)

    def _positions(self, engine: Engine) -> Iterator[Obstacle]:
        lost: list[TopicPartition] = []
        trouble: Exception | None = None
        for partition in engine.partitions:
            if not partition.has_position and not partition.paused and partition.error is None:
                lost.append(partition.tp)
                trouble = trouble or partition.trouble
            elif engine.metadata.leader(partition.tp) is None and not partition.paused:
                lost.append(partition.tp)
        if lost:
            first = f"{lost[0].topic}-{lost[0].partition}"
            words = f"partition {first} has no position or no leader"
            yield Obstacle(words if len(lost) == 1 else f"{words}, and others", trouble)

    def _fetching(self, engine: Engine, now: float) -> list[Obstacle]:
        wanted = any(partition.may_fetch(now) for partition in engine.partitions)
        silence = now - self._fetched_at if self._fetched_at is not None else 0.0
        if wanted and not engine.buffer.has_ready() and silence > engine.config.fetch_max_wait_ms / 1000 + GRACE:
            return [Obstacle("fetches are not answered", since=self._fetched_at)]
        return []


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
