"""Workers of a ``Consumer``: the loop that polls it, feeds the handlers and commits what they have finished."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any

from ..consumer import Consumer
from ..errors import CommitFailedError, IllegalArgumentError, KafkaTimeoutError, WakeupError
from ..types import TopicPartition
from .base import COMMITTED_MS, POLL_MAX, BaseWorkers
from .calling import HandlerCall, InlinePool, Pool, Record
from .settings import WorkerSettings

#: The handlers of an inline pool run for at most so many seconds between two polls.
INLINE_S = 0.05
#: The shortest time in seconds for which results are left in their pipes while every worker has more to do.
SPARE_MIN_S = 0.001


def make_pool(call: HandlerCall, settings: WorkerSettings) -> Pool:
    """Start the pool that the settings name."""
    if settings.pool == "inline":
        return InlinePool(call)
    if settings.pool == "threads":
        from .threads import ThreadPool

        return ThreadPool(call, settings.concurrency)
    if settings.pool == "processes":
        from .processes import ProcessPool

        return ProcessPool(call, settings.concurrency)
    raise IllegalArgumentError("pool='tasks' needs an AsyncConsumer")


class Workers(BaseWorkers):
    """The workers of one subscribed consumer; see :func:`run` for the keywords.

    In a ``with`` block, :meth:`run` runs until :meth:`stop`; or a program with a loop of its own calls :meth:`step` and
    :meth:`wait`. The end of the block waits for handlers that run, up to ``drain_timeout_ms``, and commits.
    """

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        handler: Callable[[Any], Any],
        settings: WorkerSettings,
        pool: Callable[[HandlerCall, WorkerSettings], Pool] = make_pool,
    ) -> None:
        if iscoroutinefunction(handler):  # called here, it would do nothing, and its records would count as finished
            raise IllegalArgumentError("a coroutine function as handler needs an AsyncConsumer")
        super().__init__(consumer, handler, settings)
        self._consumer = consumer
        # Not epoll, which drops a descriptor that is closed: that of the next worker process often has the same number.
        self._selector: selectors.BaseSelector = getattr(selectors, "PollSelector", selectors.SelectSelector)()
        self._pool = pool(self._call, settings)
        self._listener = self._group.subscription.listener
        self._group.subscription.listener = WorkersListener(self, self._listener)

    def run(self) -> None:
        """Process records until :meth:`stop`, or until a handler has failed too often.

        Raises:
            HandlerFailedError: ``on_failure`` is "stop", and a handler has failed ``attempts`` times.
            KafkaError: as :meth:`Consumer.poll`.
        """
        try:
            while not self._stopping:
                self.wait(self.step())
        except WakeupError:
            if not self._stopping:
                raise

    def step(self) -> float:
        """Poll, take results, start handlers and commit, all without waiting; return when to call this again.

        That is in the time of ``time.monotonic()``, and earlier if :meth:`wait` says so.
        """
        self._has_all = False
        return self._feed(self._consumer.poll(0, max_records=POLL_MAX))

    def submit(self, records: Mapping[TopicPartition, Sequence[Record]]) -> float:
        """Do what :meth:`step` does for records that the application has polled: all that its poll has returned.

        Take what the handlers return from :meth:`results`, and call this after each poll, also an empty one: it takes
        results, starts handlers and commits. Records that the application leaves out count as finished.
        """
        if self._results is None:
            self._results = []
        until = self._feed(records)
        self._has_all = False  # as the application polls next
        return until

    def _feed(self, records: Mapping[TopicPartition, Sequence[Record]]) -> float:
        work, pool = self._work, self._pool
        if not_begun := self._take(records):
            self.assign(not_begun)
        self._has_all = True
        self._take_results()
        busy_until = self._now() + INLINE_S
        while pool.room() and (now := self._now()) < busy_until and (job := work.next_job(now)) is not None:
            try:
                pool.start(job)
            except BaseException:
                if isinstance(pool, InlinePool):  # cut off by Ctrl-C or sys.exit, so that it has no result to wait for
                    work.dispatcher.repeat(job, now)
                raise
            if isinstance(pool, InlinePool):
                self._take_results()
        self._write_dead_letters()
        self._commit_if_due()
        self._pause()
        if work.stopped_by is not None:  # the end waits for handlers that run, which may take for ever
            raise work.stopped_by
        return self._next_time()

    def _take_results(self) -> None:
        for job, value, error in self._pool.results():
            self._end(job, value, error)

    def _next_time(self) -> float:
        times = [self._commit_at, self._consumer.wake_at()]
        if self._dead_letters is not None:
            times.append(self._dead_letters.wake_at())
        # Without room, what is ready waits for a result: its time would be in the past, and the loop would never wait.
        if self._pool.room():
            if (retry := self._work.dispatcher.next_time()) is not None:
                times.append(retry)
            if self._work.dispatcher.has_ready:
                times.append(self._now())
        return min(times)

    def wait(self, until: float) -> None:
        """Wait until there is I/O or a result, or the time ``until`` has come."""
        if (spare := self._pool.before_wait()) < 0:
            return
        if (spare := min(spare, until - self._now())) > SPARE_MIN_S:
            time.sleep(spare)  # not woken by each result: one call of step() then takes many
        self._select({self._consumer.fileno(): False}, until)

    def _select(self, watched: dict[int, bool], until: float) -> None:
        """Wait for the pool and other descriptors, each with whether to wait for writing, too."""
        watched.update(self._pool.watched())
        if self._dead_letters is not None and self._dead_letters.has_pending:
            # At other times a connection that the broker closes would be readable for ever: nothing reads it.
            watched[self._dead_letters.fileno()] = False
        known = self._selector.get_map()
        for descriptor in set(known) - set(watched):
            self._selector.unregister(descriptor)
        for descriptor, writes in watched.items():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
            if descriptor not in known:
                self._selector.register(descriptor, events)
            elif known[descriptor].events != events:
                self._selector.modify(descriptor, events)
        if (seconds := until - self._now()) > 0:
            self._selector.select(seconds)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with partitions that were assigned; the listener calls this."""
        if partitions:
            try:
                self._begin(self._consumer.committed(partitions, True, COMMITTED_MS))
            except KafkaTimeoutError as error:
                self._not_read_in_time(error)

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Let the handlers of partitions that are revoked end, up to ``drain_timeout_ms``; commit; forget them."""
        try:
            self._drain(partitions)
            self._commit(partitions)
        except (CommitFailedError, KafkaTimeoutError) as error:
            self._not_committed_in_time(error)
        finally:
            self.lose(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that another member may own by now, and begin nothing more of them."""
        super().lose(partitions)
        self._pool.take_back(partitions)

    def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Start nothing more of the partitions, and wait until nothing of them runs, up to ``drain_timeout_ms``."""
        work = self._work
        for partition in partitions:
            work.dispatcher.close(partition)
        self._pool.take_back(partitions)
        self._take_results()
        until = self._now() + self._settings.drain_timeout_ms / 1000
        while work.running(partitions) and self._now() < until:
            self._select({}, until if self._dead_letters is None else min(until, self._dead_letters.wake_at()))
            self._take_results()
            self._write_dead_letters()

    def _commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        if offsets := self._offsets(partitions):
            try:
                try:
                    self._consumer.commit(offsets)
                except WakeupError:  # stop() was called after the last poll
                    self._consumer.commit(offsets)
            except BaseException:
                self._work.not_committed(offsets)
                raise

    def close(self) -> None:
        """Wait for handlers that run, up to ``drain_timeout_ms``, and commit. The consumer stays open."""
        if self._closed:
            return
        self._closed = True
        try:
            self._drain(list(self._work.dispatcher.lanes))
            self._commit()
        finally:
            self._leave_consumer()
            if isinstance(self._group.subscription.listener, WorkersListener):
                self._group.subscription.listener = self._listener
            self._selector.close()
            self._pool.stop(0.0)
            if self._dead_letters is not None:
                self._dead_letters.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WorkersListener:
    """Passes rebalances to the workers, and to the listener that the application has subscribed with."""

    def __init__(self, workers: Workers, listener: Any) -> None:
        self._workers = workers
        self._listener = listener

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._workers.assign(assigned)
        if self._listener is not None:
            self._listener.on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        try:
            self._workers.revoke(revoked)
        finally:
            if self._listener is not None:
                self._listener.on_partitions_revoked(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._workers.lose(lost)
        if self._listener is not None:
            getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)(lost)

    def __getattr__(self, name: str) -> Any:
        return BaseWorkers.key_callback(self._listener, name)
