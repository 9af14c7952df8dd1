"""Workers of an ``AsyncConsumer``: handlers are coroutines, each in a task of the event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import CORO_CREATED, getcoroutinestate, isawaitable
from types import TracebackType
from typing import Any

from ..aio import AsyncConsumer
from ..aio.listeners import CoroutineListener
from ..errors import CommitFailedError, IllegalArgumentError, KafkaTimeoutError, WakeupError
from ..types import TopicPartition
from .base import COMMITTED_MS, POLL_MAX, BaseWorkers
from .calling import Record, WrongHandlerError
from .dispatcher import Job
from .settings import WorkerSettings

#: The longest wait of a poll in seconds while partitions are paused, or dead letters are being written: nothing wakes
#: the poll when handlers have made room, or the producer has received something.
SHORT_S = 0.01
#: The longest wait of any other poll.
LONG_S = 1.0


class AsyncWorkers(BaseWorkers):
    """The workers of one subscribed ``AsyncConsumer`` in asyncio or uvloop; see :func:`run` for the keywords.

    In an ``async with`` block, :meth:`run` runs until :meth:`stop`. The end of the block waits for handlers that run,
    up to ``drain_timeout_ms``, cancels the others, and commits.
    """

    def __init__(
        self, consumer: AsyncConsumer[Any, Any], handler: Callable[[Any], Any], settings: WorkerSettings
    ) -> None:
        super().__init__(consumer, handler, settings)
        if settings.pool in ("threads", "processes"):
            raise IllegalArgumentError(f"pool={settings.pool!r} needs a Consumer: an AsyncConsumer has tasks")
        self._consumer = consumer
        #: By job that runs: its task. A task runs one job after the other while there are any.
        self._tasks: dict[Job[Record], asyncio.Task[None]] = {}
        self._ended = asyncio.Event()  #: Set when a job has ended, for the wait for those that are revoked.
        self._timer: asyncio.TimerHandle | None = None  #: Starts jobs whose backoff has ended.
        self._listener = self._group.subscription.listener
        user = self._listener.listener if isinstance(self._listener, CoroutineListener) else self._listener
        self._group.subscription.listener = consumer._checked(CoroutineWorkersListener(self, user))

    async def run(self) -> None:
        """Process records until :meth:`stop`, or until a handler has failed too often.

        Raises:
            HandlerFailedError: ``on_failure`` is "stop", and a handler has failed ``attempts`` times.
            KafkaError: as :meth:`AsyncConsumer.poll`.
        """
        while not self._stopping:
            await self.step()

    async def step(self) -> None:
        """Wait for records or for what else is due, and start handlers."""
        work = self._work
        self._has_all = False
        try:
            records = await self._consumer.poll(math.ceil(1000 * self._wait_s()), max_records=POLL_MAX)
        except WakeupError:
            if not self._stopping and work.stopped_by is None and not work.given_up:
                raise
            records = {}
        await self._feed(records)

    async def submit(self, records: Mapping[TopicPartition, Sequence[Record]]) -> None:
        """Do what :meth:`step` does for records that the application has polled: all that its poll has returned.

        Take what the handlers return from :meth:`results`, and call this after each poll, also an empty one: it starts
        handlers and commits. Records that the application leaves out count as finished.
        """
        if self._results is None:
            self._results = []
        await self._feed(records)
        self._has_all = False  # as the application polls next

    async def _feed(self, records: Mapping[TopicPartition, Sequence[Record]]) -> None:
        work = self._work
        if not_begun := self._take(records):
            await self.assign(not_begun)
        self._has_all = True
        self._start()
        self._write_dead_letters()
        self._commit_if_due()
        self._pause()
        if work.stopped_by is not None:  # the end waits for handlers that run, which may take for ever
            raise work.stopped_by

    def _wait_s(self) -> float:
        if self._paused or (self._dead_letters is not None and self._dead_letters.has_pending):
            return SHORT_S
        return max(0.0, min(LONG_S, self._commit_at - self._now()))

    def _start(self) -> None:
        """Start tasks for the jobs that are ready, and have this called again when a backoff has ended."""
        now = self._now()
        while len(self._tasks) < self._settings.concurrency and (job := self._work.next_job(now)) is not None:
            self._tasks[job] = asyncio.create_task(self._run(job))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or self._work.stopped_by is not None or len(self._tasks) >= self._settings.concurrency:
            return  # what is due would not be started: a timer in the past would be called without end
        if (retry := self._work.dispatcher.next_time()) is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, retry - now), self._start)

    async def _run(self, job: Job[Record]) -> None:
        task = self._tasks[job]
        while True:
            value, error = None, None
            try:
                call = self._call.handler(self._call.argument(job.records))
                if not isawaitable(call):
                    raise WrongHandlerError("with an AsyncConsumer the handler must be a coroutine function")
                value = await call
            except Exception as raised:  # noqa: BLE001 - the handler's: its records are tried again, or given up
                error = raised
            except BaseException as raised:
                if not isinstance(raised, asyncio.CancelledError) or _is_cancelled(task):
                    # Not by the workers, unless the partition is gone: the records must not stay unfinished for ever.
                    now = self._now()
                    self._work.dispatcher.repeat(job, now + self._settings.backoff_s(job.attempt))
                    raise
                error = RuntimeError(f"the handler has raised {raised!r}")  # of what it awaited
            finally:
                del self._tasks[job]
                self._ended.set()
            self._end(job, value, error)
            if error is not None:
                self._start()  # sets a timer for the backoff
                if self._results is None and (self._work.stopped_by is not None or self._work.given_up):
                    self._consumer.wakeup()
            following = self._work.next_job(self._now()) if len(self._tasks) < self._settings.concurrency else None
            if following is None:
                self._start()  # sets a timer, for which there was no room
                return
            self._tasks[following] = task
            job = following

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with partitions that were assigned; the listener awaits this."""
        if partitions:
            try:
                self._begin(await self._consumer.committed(partitions, True, COMMITTED_MS))
            except KafkaTimeoutError as error:
                self._not_read_in_time(error)

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Let the handlers of partitions that are revoked end, up to ``drain_timeout_ms``; commit; forget them."""
        try:
            await self._drain(partitions)
            await self._commit(partitions)
        except (CommitFailedError, KafkaTimeoutError) as error:
            self._not_committed_in_time(error)
        finally:
            self.lose(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that another member may own by now, and cancel their handlers."""
        gone = set(partitions)
        for job, task in list(self._tasks.items()):
            if job.lane.partition in gone:
                task.cancel()
                coroutine: Any = task.get_coro()
                if getcoroutinestate(coroutine) == CORO_CREATED:  # it never runs, and would keep its place
                    del self._tasks[job]
                    job.lane.running.discard(job)
        super().lose(partitions)

    async def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Start nothing more of the partitions, and wait until nothing of them runs, up to ``drain_timeout_ms``."""
        work = self._work
        for partition in partitions:
            work.dispatcher.close(partition)
        until = self._now() + self._settings.drain_timeout_ms / 1000
        while work.running(partitions) and (left := until - self._now()) > 0:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), left if self._dead_letters is None else min(left, SHORT_S))
            except asyncio.TimeoutError:
                pass
            self._write_dead_letters()

    async def _commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        if offsets := self._offsets(partitions):
            try:
                try:
                    await self._consumer.commit(offsets)
                except WakeupError:  # stop() was called after the last poll
                    await self._consumer.commit(offsets)
            except BaseException:
                self._work.not_committed(offsets)
                raise

    async def close(self) -> None:
        """Wait for handlers that run, up to ``drain_timeout_ms``, cancel the others, and commit."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._drain(list(self._work.dispatcher.lanes))
            await self._commit()
        finally:
            self._leave_consumer()
            self._group.subscription.listener = self._listener
            if self._timer is not None:
                self._timer.cancel()
            tasks = list(self._tasks.values())
            self.lose(list(self._work.dispatcher.lanes))
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._dead_letters is not None:
                self._dead_letters.close()

    async def __aenter__(self) -> AsyncWorkers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _is_cancelled(task: asyncio.Task[None]) -> bool:
    """Return whether the task may be what was cancelled, and not what it awaits: Python tells from 3.11 on."""
    return not hasattr(task, "cancelling") or task.cancelling() > 0


class CoroutineWorkersListener:
    """Passes rebalances to the workers, and to the listener that the application has subscribed with."""

    def __init__(self, workers: AsyncWorkers, listener: Any) -> None:
        self._workers = workers
        self._listener = listener

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._workers.assign(assigned)
        await self._pass("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        try:
            await self._workers.revoke(revoked)
        finally:
            await self._pass("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._workers.lose(lost)
        name = "on_partitions_lost"
        await self._pass(name if hasattr(self._listener, name) else "on_partitions_revoked", lost)

    async def _pass(self, name: str, partitions: Collection[TopicPartition]) -> None:
        if self._listener is not None:
            result = getattr(self._listener, name)(partitions)
            if isawaitable(result):
                await result

    def __getattr__(self, name: str) -> Any:
        return BaseWorkers.key_callback(self._listener, name)
