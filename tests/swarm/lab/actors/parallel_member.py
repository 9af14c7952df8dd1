"""A group member that processes its records with workers: the real ones, with a pool on the virtual clock.

Handlers take random times and fail at random. A job goes on while its member waits in a call, stalls, or drains a
partition that is revoked, and ends without a result if its process dies. The process may get Ctrl-C in any line of the
workers' code; it then ends as a ``with`` block does.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from thinconsumer.errors import KafkaError
from thinconsumer.support.timers import NEVER
from thinconsumer.types import TopicPartition
from thinconsumer.workers import HandlerFailedError, WorkerSettings
from thinconsumer.workers.dispatcher import Job
from thinconsumer_testing.simulation.actors.application import SPINS_MAX
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, LOST, REVOKED

from ..checkers.work import WorkChecker
from ..work_knobs import WorkKnobs
from .interrupts import Interrupts
from .member import MemberActor
from .sim_workers import SimPool, SimWorkers

#: How long handlers are waited for after the faults, in ms.
CALM_DRAIN_MS = 2000
#: An interrupt comes after at most so many lines of workers' code.
LINES_MAX = 200


class ParallelMember(MemberActor):
    """A simulated member with workers. ``work`` and ``work_checker`` are set before it starts."""

    work: WorkKnobs
    work_checker: WorkChecker
    workers: SimWorkers

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.interrupts = Interrupts()
        self._signals = self.world.streams(f"actor/{self.name}/signals")

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
        try:
            with self._calling(polls=True), self._interrupted():
                started = self.pool.started
                due = self.workers.step()
        except KeyboardInterrupt as error:
            self.note("interrupted", "%s", str(error))
            self.work_checker.counts["interrupts"] += 1
            self._restart()
            return NEVER
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
            self._restart()
        else:
            super()._cope_with(error)

    def _restart(self) -> None:
        """End as the program does after an error, and start it again."""
        self.close()
        self.world.call_later(1.0, lambda: None if self.is_running else self.start())

    def _interrupted(self) -> AbstractContextManager[None]:
        """Return a context that a signal may interrupt."""
        is_now = not self.is_calm and self._signals.random() < self.work.interrupt_rate
        return self.interrupts.after(self._signals.randint(1, LINES_MAX) if is_now else 0)

    def was_written(self, job: Job[Any]) -> None:
        """Take note that the workers take the dead letters of a job for written."""
        self.work_checker.written(self.member, job)
        self.jury.tell("processed", self.member, job.records)

    def crash(self, *, silently: bool = False) -> None:
        """Kill the process, and the handlers in it."""
        if self.is_running:
            self.workers._selector.close()
            if self.pool.letters is not None:
                self.pool.letters.driver.die(silently=silently)
        super().crash(silently=silently)

    def _close_client(self, timeout_ms: int, commit: bool) -> None:
        try:
            with self._interrupted():
                self.workers.close()
        except KeyboardInterrupt as error:
            self.note("interrupted", "at the end, %s", str(error))
        finally:
            if self.is_running:  # it may have crashed
                super()._close_client(timeout_ms, commit)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Let the workers read what is committed."""
        with self._in_callback(ASSIGNED, assigned):
            self.work_checker.reading(self.member, assigned)
            with self.interrupts.resumed():
                self.workers.assign(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Let the workers drain and commit."""
        with self._in_callback(REVOKED, revoked):
            if not self.workers._closed:
                with self.interrupts.resumed():
                    self.workers.revoke(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Let the workers forget the partitions."""
        with self._in_callback(LOST, lost):
            self.workers.lose(lost)
