"""A member of simulations of ordered delivery that processes its records with workers: the real ones, and a pool on the
virtual clock, whose handlers take random times and fail at random.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from thinconsumer.errors import KafkaError
from thinconsumer.support.timers import NEVER
from thinconsumer.types import TopicPartition
from thinconsumer.workers import Workers
from thinconsumer.workers.calling import Pool, Result
from thinconsumer.workers.dispatcher import Job

from ..checkers.work_order import WorkOrderChecker
from .ordered import TURN_S, SimulatedMember
from .sim_workers import CALM_WORK_S, HandlerError

#: The longest wait of a commit. The other members stand still for so long.
COMMIT_MS = 3000


class WorkingMember(SimulatedMember):
    """A member with workers."""

    checker: WorkOrderChecker

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.work = self._knobs.work  # type: ignore[attr-defined]
        self.is_calm = False
        self.pool = OrderPool(self)
        self.workers = OrderWorkers(self)

    def _protocol(self) -> dict[str, Any]:
        return {**super()._protocol(), "default_api_timeout_ms": COMMIT_MS}

    def turn(self) -> None:
        """Step the workers, which polls and commits."""
        now = self._clock.now()
        due = now
        try:
            due = self.workers.step()
        except KafkaError as error:
            self.counts[type(error).__name__] += 1
        if self.pace < 1:
            self.next_at = max(now + TURN_S, min(due, self.pool.next_end, now + self.pace))
        else:
            self.next_at = now + self.pace * self.random.uniform(0.2, 1)

    def hurry(self) -> None:
        """Poll often from now on, with handlers that are quick and succeed."""
        super().hurry()
        self.is_calm = True

    def close(self) -> None:
        """End the workers, and leave the group."""
        try:
            self.workers.close()
        except KafkaError as error:
            self.counts[type(error).__name__] += 1
        self.checker.gave_up(self.name)
        super().close()

    def die(self) -> None:
        """End without a word, and the handlers with it."""
        self.checker.gave_up(self.name)
        super().die()

    def wait(self, until: float) -> None:
        """Let time pass until a handler has ended."""
        self._clock.advance_to(min(until, self.pool.next_end))
        self.driver.network.run_due()


class OrderWorkers(Workers):
    """The workers of a member, whose waits are on the virtual clock."""

    def __init__(self, member: WorkingMember) -> None:
        self.member = member
        super().__init__(
            member.consumer, lambda record: None, member.work.settings(), lambda call, settings: member.pool
        )

    def _select(self, watched: dict[int, bool], until: float) -> None:
        self.member.wait(until)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        self.member.checker.gave_up(self.member.name, set(partitions))
        super().lose(partitions)


class OrderPool(Pool):
    """Runs jobs on the virtual clock."""

    def __init__(self, member: WorkingMember) -> None:
        self._member = member
        self._running: list[tuple[float, Job[Any], bool]] = []  #: The end of each job, and whether it fails.

    @property
    def next_end(self) -> float:
        """When the next handler ends."""
        return min((end for end, _, _ in self._running), default=NEVER)

    def room(self) -> int:
        concurrency: int = self._member.work.concurrency
        return concurrency - len(self._running)

    def start(self, job: Job[Any]) -> None:
        member = self._member
        is_assigned = member.consumer._reader.partitions.get(job.lane.partition) is not None
        member.checker.began(member.name, job, is_assigned=is_assigned)
        seconds, fails = member.random.uniform(0, member.work.duration_s), member.random.random()
        if member.is_calm:
            seconds, fails = min(seconds, CALM_WORK_S), 1.0
        self._running.append((member.workers._now() + seconds, job, fails < member.work.failure_rate))

    def results(self) -> Iterable[Result]:
        member, now = self._member, self._member.workers._now()
        ended = sorted((one for one in self._running if one[0] <= now), key=lambda one: one[0])
        self._running = [one for one in self._running if one[0] > now]
        attempts = member.work.attempts
        for _, job, fails in ended:
            is_done = not fails or (attempts is not None and job.attempt >= attempts)
            member.checker.left(member.name, job, is_done=is_done)
        return [Result(job, None, HandlerError() if fails else None) for _, job, fails in ended]

    def stop(self, seconds: float) -> None:
        self._running.clear()
