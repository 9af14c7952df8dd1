"""An AsyncConsumer that several tasks may call at once, and that rebalances between its polls: both as in aiokafka.

A call is a generator that looks at the state of the engine after each step, and keeps none of its own. So others may go
on between two of its steps, as calls of a coroutine listener do. Only polls take turns: one that goes on after it has
waited passes first what others have returned meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Mapping
from typing import Any

from ...aio import AsyncConsumer
from ...aio.consumer import GIVE_WAY_S
from ...aio.loops import Event, EventLoop
from ...config import ConsumerConfig
from ...driver import Driver
from ...engine import Guard, Waiting
from ...errors import NoOffsetForPartitionError, UnknownTopicOrPartitionError
from ...fetch.collector import PollResult
from ...fetch.record_sequence import RecordSequence
from ...positions.partitions import Partition
from ...types import ConsumerRecord, TopicPartition

log = logging.getLogger(__name__)

#: A poll of partitions that are all paused or not assigned ends at once: look again after so many seconds.
LOOK_AGAIN_S = 0.1
#: A poll raises the error of a partition again only at its end, since records of others come first. Calls that wait
#: for longer therefore poll every so many seconds: else they would never raise it.
POLL_S = 0.5
#: How long :meth:`SharedConsumer.until_assigned` waits for positions: a leader may be missing for long.
PLACE_S = 3.0
Ends = Mapping[TopicPartition, int]


class StoppedError(BaseException):
    """Ends the calls that wait when the consumer is stopped, as a cancellation would: no handler may keep it."""


class SharedConsumer(AsyncConsumer[Any, Any]):
    """The consumer below :class:`.AIOKafkaConsumer`."""

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        self.is_stopping = False  #: Whether calls that wait end with :class:`StoppedError`.
        self._is_stopped = False  #: Whether no poll may begin: also while :meth:`stop` itself waits.
        #: What calls wait for that go on after I/O, or when a step or their deadline is due. Each steps the engine.
        self._waits: dict[Event, float] = {}
        self._watchers: set[Event] = set()  #: What calls wait for that go on only after another call.
        self._turn = asyncio.Lock()  #: Held by the poll that steps or rebalances, and not while it waits for records.
        self._polling_task: object = None  #: The task that holds it.
        self._one = asyncio.Lock()  #: Held by a call for the next record of any partition: one of them waits.
        self._callback_task: object = None  #: The task in which a coroutine of the listener runs.
        self._rebalance: asyncio.Task[None] | None = None
        self._rebalance_failed = False  #: Whether the next poll of the application has to raise an error first.
        super()._set_up(config, driver, topics)

    # -- polls

    def next_polled(self) -> ConsumerRecord[Any, Any] | None:
        """Return the next record of an earlier poll of :meth:`get_one`; None if a poll has to come first."""
        iteration = self._iteration
        poll_result, now = iteration.poll_result, iteration.now()
        taken = poll_result.taken or 0
        if (
            poll_result is not self._reader.poll_result
            or taken >= poll_result.count
            or self._shell.step_interrupted
            or self._is_stopped
            or now >= iteration.drive_at
            or now >= self._gave_way_at + GIVE_WAY_S
        ):
            return None
        record: ConsumerRecord[Any, Any] = iteration.records[taken]
        poll_result.taken = taken + 1
        return record

    async def get_one(self, ends: Ends | None = None) -> ConsumerRecord[Any, Any]:
        """Return the next record; with ``ends``, of these partitions only. A cancelled call has taken none."""
        if ends is not None:
            found = await self.get_many(math.inf, 1, ends)
            return next(iter(found.values()))[0]
        iteration = self._iteration
        async with self._one:
            await self._give_way()
            while True:
                await self._take_turn(math.inf)
                try:
                    if iteration.must_poll():
                        poll_result = await self._poll_shared(self._polling(POLL_S, iteration.records_max))
                        if not poll_result.count:
                            continue
                        iteration.begin(poll_result)
                    poll_result = iteration.poll_result
                    taken = poll_result.taken or 0
                    record: ConsumerRecord[Any, Any] = iteration.records[taken]
                    poll_result.taken = taken + 1  # with no wait after it, which a cancellation could end
                    return record
                finally:
                    self._end_turn()

    async def get_many(
        self, seconds: float, limit: int, ends: Ends | None = None
    ) -> dict[TopicPartition, RecordSequence[Any, Any]]:
        """Return up to ``limit`` records as soon as there are any; an empty dict after so many seconds."""
        now, reader = self._iteration.now, self._reader
        deadline = now() + seconds
        await self._give_way()
        while await self._take_turn(deadline):
            until = max(now(), min(now() + POLL_S, deadline))
            try:
                poll_result: PollResult = await self._poll_shared(self._polling(until - now(), limit, ends))
                if poll_result.count or now() >= deadline:
                    reader.poll_result = poll_result
                    return poll_result.records
            finally:
                self._end_turn()
            if now() < until:
                await self._until_changed(min(deadline, now() + LOOK_AGAIN_S))
        return {}

    def _polling(self, seconds: float, limit: int, ends: Ends | None = None) -> Waiting[PollResult]:
        self._partitions.in_hand = None  # what was returned counts as processed, also the last record
        return (yield from self._reader.polling(seconds, limit, ends))

    async def until_assigned(self) -> None:
        """Wait until the partitions of the subscription are assigned, and a little for the positions of all partitions.

        A partition that starts at its end would otherwise miss records that are produced after the call.
        """
        await self._take_turn()
        try:
            await self._poll_shared(self._settling())
        finally:
            self._end_turn()

    def _settling(self) -> Waiting[None]:
        shell, subscriber = self._shell, self._reader.managers.subscriber
        while subscriber is not None and subscriber.subscription.is_subscribed and not subscriber.is_settled:
            try:
                yield from self._reader.polling(0, 1, {})
            except NoOffsetForPartitionError:
                pass  # the application's first poll raises it
            if not subscriber.is_settled:
                shell.engine.touch()  # the poll may have changed what is due
                shell.run_once((yield math.inf))
        now = self._iteration.now()
        deadline = now + PLACE_S
        while any(p.error is None for p in self._partitions.without_position()) and now < deadline:
            now = yield from shell.run_callbacks(shell.run_once((yield deadline)))

    async def _poll_shared(self, waiting: Waiting[Any]) -> Any:
        self._rebalance_failed = False
        return await self._run(waiting, self._shell.quiet_entry)

    async def _take_turn(self, deadline: float | None = None) -> bool:
        """Wait for the turn to poll; return whether it was taken.

        With a ``deadline``, wait also until there is something to poll, and no listener runs, until then at most.
        """
        while deadline is None or await self._until_readable(deadline):
            await self._turn.acquire()
            self._polling_task = asyncio.current_task()
            if deadline is None or (self.is_reading and not self._shell.in_callback and not self._is_stopped):
                return True
            self._end_turn()
        return False

    def _end_turn(self) -> None:
        """Release the turn, unless the call has ended while it waited for records."""
        if self._polling_task is asyncio.current_task():
            self._polling_task = None
            self._turn.release()

    async def _until_readable(self, deadline: float) -> bool:
        """Wait until there is something to poll, and no listener runs; return whether that is so by the deadline."""
        if self._is_stopped:
            raise StoppedError
        while self._shell.in_callback or not self.is_reading:
            if self._iteration.now() >= deadline:
                return False
            await self._until_changed(deadline)
        return True

    # -- calls that do not poll

    async def until_topics_exist(self) -> None:
        """Wait until the brokers have created the topics that are to be read.

        Raises:
            UnknownTopicOrPartitionError: a topic does not exist after ``request_timeout_ms``.
        """
        deadline = self._iteration.now() + self.config.request_timeout_ms / 1000
        for topic in {*self.subscription(), *(tp.topic for tp in self.assignment())}:
            while await self.partitions_for_topic(topic) is None:
                if self._iteration.now() >= deadline:
                    raise UnknownTopicOrPartitionError(
                        f"topic {topic!r} does not exist", code=3, name="UNKNOWN_TOPIC_OR_PARTITION", api="Metadata"
                    )
                await asyncio.sleep(self.config.retry_backoff_ms / 1000)

    @property
    def is_reading(self) -> bool:
        """Whether there is a subscription, or partitions are assigned."""
        return bool(self._partitions.assigned) or self._reader.managers.is_subscribed

    @property
    def is_settled(self) -> bool:
        """Whether the share of the subscribed topics is assigned, which may be no partition."""
        subscriber = self._reader.managers.subscriber
        return subscriber is not None and subscriber.is_settled

    def partition(self, tp: TopicPartition) -> Partition | None:
        """Return the state of an assigned partition; None for another."""
        return self._partitions.get(tp)

    def fetched_at(self, partition: Partition) -> int | None:
        """Return when a Fetch response has confirmed the partition's end last, in ms since 1970, or None."""
        at, driver = partition.confirmed_at, self._shell.driver
        return None if at is None else int(1000 * (driver.wall_time() - (driver.now() - at)))

    def known_partitions(self, topic: str) -> set[int] | None:
        """Return the partition numbers of a topic by the last metadata; None without any."""
        found = self._reader.managers.metadata.topics.get(topic)
        return set(found.partitions) or None if found is not None else None

    def abandon(self) -> None:
        """Close the connections without a wait, since nothing refers to the application's consumer any more."""
        if not self._shell.closed:
            self._shell.close()

    def unsubscribe_now(self) -> None:
        """Give up all partitions without a commit; the loop sends the request to leave. No listener is called.

        A commit would have to be answered before the request to leave, and this call cannot wait.
        """
        group, whole_topics = self._reader.managers.group, self._reader.managers.whole_topics
        with self._shell.change():
            if group is not None:
                group.revocation.cancel()
                self._partitions.assign(())
                group.member.leave("the consumer unsubscribed", self._shell.driver.now())
                group.subscription.clear()
            elif whole_topics is not None:
                whole_topics.unsubscribed()
            self._partitions.assign(())

    async def stop(self) -> None:
        """End all calls that wait, commit if auto-commit is on, leave the group, and close."""
        if self._callback_task is not None and self._callback_task is asyncio.current_task():
            self._shell.refuse_in_callback("stop()")
        self.is_stopping = self._is_stopped = True
        self._wake()
        if self._rebalance is not None:
            await asyncio.wait([self._rebalance])
        while self._waits or self._watchers:
            await asyncio.sleep(0)  # until the tasks that were woken have seen it
        async with self._turn:
            self.is_stopping = False  # for the waits of close()
            group = self._reader.managers.group
            if not self._shell.closed and not self._shell.step_interrupted:
                self._reader.settle()
                self._partitions.in_hand = None  # the application has it, which counts as processed
            if group is not None:
                group.subscription.listener = None
            try:
                await self.close()
            finally:
                self.is_stopping = True

    # -- how calls share the engine

    def _check(self) -> None:
        """Raise ConcurrentAccessError for a call in another thread or loop."""
        if self._loop is not None:
            self._loop.task()

    def _end(self) -> None:
        self._shell.engine.touch()
        self._set_alarm()
        self._wake()

    def _wake(self) -> None:
        for event in (*self._waits, *self._watchers):
            event.set()

    def _ready(self) -> None:
        if self._waits:
            for event in self._waits:
                event.set()
            self._is_told = True
        else:
            super()._ready()

    def _set_alarm(self) -> None:
        super()._set_alarm()
        if self._waits and self._loop is not None and not self._shell.closed:
            now = self._shell.driver.now()
            self._loop.alarm(max(0.0, min(*self._waits.values(), self._step_at(now)) - now))

    async def _pause(self, loop: EventLoop, deadline: float) -> None:
        event, group = asyncio.Event(), self._reader.managers.group
        self._waits[event] = deadline
        is_poll = loop.task() is self._polling_task is not self._callback_task
        # Others may poll while this one waits for records, but not while it rebalances.
        shares = is_poll and (group is None or not group.has_work(self._shell.driver.now()))
        try:
            self._set_alarm()
            if shares:
                self._end_turn()
            await self._until_set(event)
        finally:
            del self._waits[event]
        if shares:
            await self._take_turn()
            self._pass_returned()
        # A listener that a commit has called, for example, decides about the records that a poll may return.
        while self._shell.in_callback and loop.task() is self._polling_task is not self._callback_task:
            await self._until_told()

    def _pass_returned(self) -> None:
        """Move the positions past what another poll has returned, so that the poll that goes on does not return it."""
        if self._reader.poll_result is not None and not self._shell.step_interrupted:
            with self._shell.guard:
                self._reader.settle()
            self._partitions.in_hand = None

    async def _until_changed(self, deadline: float) -> None:
        """Wait for another call, or until the deadline. The loop drives the engine meanwhile."""
        left = None if deadline == math.inf else max(0.0, deadline - self._shell.driver.now())
        await self._until_told(left)

    async def _until_told(self, seconds: float | None = None) -> None:
        event = asyncio.Event()
        self._watchers.add(event)
        # No ``wait_for``: before Python 3.12 it may keep a cancellation that comes with the end of the wait.
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, event.set)
        try:
            await self._until_set(event)
        finally:
            self._watchers.discard(event)
            if timer is not None:
                timer.cancel()

    async def _until_set(self, event: Event) -> None:
        if not self.is_stopping:
            await event.wait()
        self._gave_way_at = self._shell.driver.now()
        if self.is_stopping:
            raise StoppedError

    async def _in_callback(self, coroutine: Awaitable[None]) -> None:
        before, self._callback_task = self._callback_task, asyncio.current_task()
        try:
            await super()._in_callback(coroutine)
        finally:
            self._callback_task = before
            self._wake()

    async def _run(self, waiting: Waiting[Any], entry: Guard) -> Any:
        self._wake()  # the first step may receive what other calls wait for: they look after it
        try:
            return await super()._run(waiting, entry)
        finally:
            self._task = None  # the calls of several tasks do not end in the reverse order
            self._wake()

    def _drive(self) -> None:
        super()._drive()
        group, shell = self._reader.managers.group, self._shell
        if group is None or self._rebalance is not None or self._rebalance_failed or self._turn.locked():
            return
        if group.has_work(shell.driver.now()) and not (shell.in_callback or shell.step_interrupted):
            self._rebalance = asyncio.ensure_future(self._rebalance_now())

    async def _rebalance_now(self) -> None:
        """Do what a rebalance waits for, such as the listener's calls: the application may not poll for long."""
        try:
            await self._take_turn()
            try:
                await self._poll_shared(self._attending())
            finally:
                self._end_turn()
        except StoppedError:
            pass
        except Exception:
            self._rebalance_failed = True  # the next poll tries again, and raises the error
            log.exception("a rebalance between two polls failed: the next poll goes on with it")
        finally:
            self._rebalance = None
            if not self._shell.closed:
                self._set_alarm()

    def _attending(self) -> Waiting[None]:
        self._partitions.in_hand = None
        yield from self._shell.run_callbacks(self._shell.driver.now())
