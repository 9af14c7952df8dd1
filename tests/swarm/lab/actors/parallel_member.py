"""A group member that processes its records with workers: the real ones, with a pool on the virtual clock.

Handlers take random times and fail at random. A job goes on while its member waits in a call, stalls, or drains a
partition that is revoked, and ends without a result if its process dies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Literal

from thinconsumer.errors import KafkaError
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.workers import HandlerFailedError, Workers, WorkerSettings
from thinconsumer.workers.calling import Result
from thinconsumer.workers.dispatcher import Job
from thinconsumer_testing.simulation.actors.application import SPINS_MAX
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, LOST, REVOKED
from thinconsumer_testing.simulation.driver import Crashed
from thinconsumer_testing.simulation.observed import ObservedConsumer

from ..checkers.work import WorkChecker
from ..work_knobs import WorkKnobs
from .member import DEPTH_MAX, MemberActor

#: The longest time of a handler after the faults, in seconds.
CALM_WORK_S = 0.1
#: How long handlers are waited for then, in ms.
CALM_DRAIN_MS = 2000


class HandlerError(Exception):
    """Raised by a simulated handler."""


class ParallelMember(MemberActor):
    """A simulated member with workers. ``work`` and ``work_checker`` are set before it starts."""

    work: WorkKnobs
    work_checker: WorkChecker
    workers: SimWorkers

    def calm(self) -> None:
        """Let handlers be quick and succeed from now on, and wait for them before partitions are given up."""
        super().calm()
        self.workers._settings = self.settings()

    def settings(self) -> WorkerSettings:
        """Return the settings of the workers."""
        settings = self.work.settings()
        return replace(settings, drain_timeout_ms=CALM_DRAIN_MS) if self.is_calm else settings

    def _subscribe(self) -> None:
        super()._subscribe()
        self.pool = SimPool(self)
        self.workers = SimWorkers(self)
        # The member reports its callbacks to the checkers, and calls the workers inside of that.
        self.workers._group.subscription.listener = self

    def _poll(self) -> float:
        with self._calling(polls=True):
            started = self.pool.started
            due = self.workers.step()
        now = self.world.now()
        self._spins = self._spins + 1 if due <= now and started == self.pool.started else 0
        if self._spins > SPINS_MAX:
            self.world.accuse(f"{self.name} is in a busy loop: step() was due at once {self._spins} times")
        self._sleeps = True
        return due

    def _process(self) -> None:
        pass

    def _cope_with(self, error: KafkaError) -> None:
        if isinstance(error, HandlerFailedError):
            self.close()
            self.world.call_later(1.0, lambda: None if self.is_running else self.start())
        else:
            super()._cope_with(error)

    def crash(self, *, silently: bool = False) -> None:
        """Kill the process, and the handlers in it."""
        if self.is_running:
            self.workers._selector.close()
        super().crash(silently=silently)

    def _close_client(self, timeout_ms: int, commit: bool) -> None:
        try:
            self.workers.close()
        finally:
            super()._close_client(timeout_ms, commit)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Let the workers read what is committed."""
        with self._in_callback(ASSIGNED, assigned):
            self.work_checker.reading(self.member, assigned)
            self.workers.assign(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Let the workers drain and commit."""
        with self._in_callback(REVOKED, revoked):
            if not self.workers._closed:
                self.workers.revoke(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Let the workers forget the partitions."""
        with self._in_callback(LOST, lost):
            self.workers.lose(lost)


class SimWorkers(Workers):
    """The workers of a simulated member, whose waits are on the virtual clock."""

    def __init__(self, actor: ParallelMember) -> None:
        self.actor = actor
        super().__init__(
            CallsOfWorkers(actor),  # type: ignore[arg-type]
            lambda record: None,
            actor.settings(),
            lambda call, settings: actor.pool,
        )

    def _select(self, watched: dict[int, bool], until: float) -> None:
        pool, world = self.actor.pool, self.actor.world
        if world.depth > DEPTH_MAX and not self.actor.is_calm:
            until = min(until, world.now() + 0.05)  # other actors' calls on the stack wait for this one
        world.wait(pool, until)  # type: ignore[arg-type]
        if pool.driver.is_dead:
            raise Crashed(self.actor.name)


class CallsOfWorkers:
    """The consumer of the workers: reports calls to the checkers, and limits the time of those that wait."""

    def __init__(self, actor: ParallelMember) -> None:
        self._actor = actor
        self._observed: ObservedConsumer = actor.consumer
        self._raw = actor.consumer.raw
        self.poll, self.seek = self._observed.poll, self._observed.seek

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def pause(self, *tps: TopicPartition) -> None:
        if tps:
            self._observed.pause(*sorted(tps))

    def resume(self, *tps: TopicPartition) -> None:
        if tps:
            self._observed.resume(*sorted(tps))

    def committed(self, tps: Collection[TopicPartition], metadata: Literal[True], timeout_ms: int) -> Any:
        return self._raw.committed(tps, metadata, self._actor._timeout(timeout_ms))

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._raw.commit(offsets, timeout_ms=self._actor._timeout(2000))


class SimPool:
    """Implements :class:`thinconsumer.workers.calling.Pool` on the virtual clock."""

    def __init__(self, actor: ParallelMember) -> None:
        self._actor = actor
        self._member = actor.member
        self.driver = actor.driver
        self._room = actor.work.concurrency
        self._ended: list[tuple[Result, bool]] = []
        self.started = 0
        self._is_stopped = False
        self.random = actor.world.streams(f"actor/{actor.name}/handlers")

    @property
    def has_mail(self) -> bool:
        """Whether a wait for results is over."""
        return bool(self._ended) or self.driver.is_dead

    def room(self) -> int:
        return self._room

    def start(self, job: Job[Any]) -> None:
        actor, knobs, random = self._actor, self._actor.work, self.random
        self._room -= 1
        self.started += 1
        if actor.world.trace.enabled:
            actor.note("begins", "%s-%d: %s, attempt %d", *job.lane.partition, str(job.offsets), job.attempt)
        actor.work_checker.began(self._member, job)
        fails, dies = random.random() < knobs.failure_rate, random.random() < knobs.crash_rate
        seconds = random.uniform(0, knobs.duration_s)
        if actor.is_calm:
            fails = dies = False
            seconds = min(seconds, CALM_WORK_S)
        if dies:
            actor.crash(silently=random.random() < 0.3)
            actor.world.call_later(random.uniform(0.1, 5), lambda: None if actor.is_running else actor.start())
            raise Crashed(actor.name)
        actor.world.call_later(seconds, lambda: self._end(job, fails))

    def _end(self, job: Job[Any], fails: bool) -> None:
        if self.driver.is_dead or self._is_stopped:
            return
        knobs, attempts = self._actor.work, self._actor.work.attempts
        is_skipped = fails and attempts is not None and job.attempt >= attempts and knobs.on_failure == "skip"
        # A handler may fail after it has processed its records, and is then called again.
        if not fails or is_skipped or self.random.random() < 0.3:
            self._actor.jury.tell("processed", self._member, job.records)
        self._ended.append((Result(job, None, HandlerError() if fails else None), not fails or is_skipped))
        self._actor._mail()

    def results(self) -> Iterable[Result]:
        ended, self._ended = self._ended, []
        self._room += len(ended)
        for result, is_done in ended:
            self._actor.work_checker.left(result.job, is_done=is_done)
        return [result for result, _ in ended]

    def watched(self) -> Iterable[tuple[int, bool]]:
        return ()

    def stop(self, seconds: float) -> None:
        self._is_stopped = True
