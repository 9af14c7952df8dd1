"""The workers of a simulated member: the real ones, with a pool, a producer and waits on the virtual clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from thinconsumer.config.values import DeadLetter
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.workers import Workers
from thinconsumer.workers.calling import Pool, Result
from thinconsumer.workers.dead_letters import DeadLetters
from thinconsumer.workers.dispatcher import Job
from thinconsumer_testing.simulation.driver import Crashed, SimDriver
from thinconsumer_testing.simulation.observed import ObservedConsumer

from .member import DEPTH_MAX

if TYPE_CHECKING:
    from .parallel_member import ParallelMember

#: The longest time of a handler after the faults, in seconds.
CALM_WORK_S = 0.1


class HandlerError(Exception):
    """Raised by a simulated handler."""


class SimWorkers(Workers):
    """The workers of a simulated member, whose waits are on the virtual clock."""

    def __init__(self, actor: ParallelMember) -> None:
        self.actor = actor
        settings, writes = actor.settings(), isinstance(actor.settings().on_failure, DeadLetter)
        super().__init__(
            CallsOfWorkers(actor),  # type: ignore[arg-type]
            lambda record: None,
            replace(settings, on_failure="skip") if writes else settings,  # else a producer would open sockets
            lambda call, settings: actor.pool,
        )
        if isinstance(settings.on_failure, DeadLetter):
            self._settings = self._work.settings = settings
            self._dead_letters = actor.pool.letters = SimDeadLetters(actor, settings.on_failure.topic)

    def _select(self, watched: dict[int, bool], until: float) -> None:
        pool, world = self.actor.pool, self.actor.world
        if world.depth > DEPTH_MAX and not self.actor.is_calm:
            until = min(until, world.now() + 0.05)  # other actors' calls on the stack wait for this one
        with self.actor.interrupts.suspended():
            world.wait(pool, until)  # type: ignore[arg-type]
        if pool.driver.is_dead:
            raise Crashed(self.actor.name)


class SimDeadLetters(DeadLetters):
    """Writes dead letters over a simulated driver, and reports those that count as written."""

    def __init__(self, actor: ParallelMember, topic: str) -> None:
        self._actor = actor
        name = f"{actor.name}-letters"
        self.driver = SimDriver(actor.world, actor._network, name, lambda *event: None)
        self.driver.on_mail = actor._mail
        config = actor.consumer.raw.config
        super().__init__(replace(config, client_id=name), topic, actor.group, self.driver)

    def poll(self) -> Iterator[tuple[Job[Any], Exception | None]]:
        for job, failure in super().poll():
            if failure is None:
                self._actor.was_written(job)
            yield job, failure


class CallsOfWorkers:
    """The consumer of the workers: reports calls to the checkers, and limits the time of those that wait."""

    def __init__(self, actor: ParallelMember) -> None:
        self._actor = actor
        self._observed: ObservedConsumer = actor.consumer
        self._raw = actor.consumer.raw
        self.seek = self._observed.seek

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Any:
        with self._actor.interrupts.suspended():
            return self._observed.poll(timeout_ms, max_records)

    def pause(self, *tps: TopicPartition) -> None:
        if tps:
            self._observed.pause(*sorted(tps))

    def resume(self, *tps: TopicPartition) -> None:
        if tps:
            self._observed.resume(*sorted(tps))

    def committed(self, tps: Collection[TopicPartition], metadata: Literal[True], timeout_ms: int) -> Any:
        with self._actor.interrupts.suspended():
            return self._raw.committed(tps, metadata, self._actor._timeout(timeout_ms))

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        with self._actor.interrupts.suspended():
            self._raw.commit(offsets, timeout_ms=self._actor._timeout(2000))


class SimPool(Pool):
    """Runs jobs on the virtual clock."""

    def __init__(self, actor: ParallelMember) -> None:
        self._actor = actor
        self._member = actor.member
        self.driver = actor.driver
        self.letters: SimDeadLetters | None = None
        self._room = actor.work.concurrency
        self._ended: list[tuple[Result, bool]] = []
        self.started = 0
        self._is_stopped = False
        self.random = actor.world.streams(f"actor/{actor.name}/handlers")

    @property
    def has_mail(self) -> bool:
        """Whether a wait for results is over."""
        letters = self.letters
        if letters is not None and letters.has_pending and letters.driver.has_mail:
            return True
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
        attempts, on_failure = self._actor.work.attempts, self._actor.settings().on_failure
        is_skipped = fails and attempts is not None and job.attempt >= attempts and on_failure == "skip"
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

    def stop(self, seconds: float) -> None:
        self._is_stopped = True
