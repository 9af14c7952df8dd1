"""The public AsyncConsumer, and the link between its calls and the event loop.

A call is a generator of :mod:`thinconsumer.consumer`, the same as that of ``Consumer``. Where it yields, the task waits
until the loop says that there is I/O or that the time has come. While no call waits, the loop itself steps the engine.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ..config import ConsumerConfig
from ..config.build import ConfigurationWarning
from ..config.options import OptionsHelp
from ..consumer.arguments import ToCommit
from ..consumer.plain_calls import PlainCalls, check_autocommit, require_numpy
from ..consumer.queries import EARLIEST, LATEST
from ..driver import Driver
from ..engine import Guard, Waiting
from ..errors import ConcurrentAccessError, IllegalArgumentError, IllegalStateError
from ..fetch.collector import Form
from ..fetch.record_sequence import RecordSequence
from ..types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .listeners import CoroutineListener
from .loops import Event, EventLoop, UnsupportedLoopError, running_loop

__all__ = ["AsyncConsumer"]

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Unpack  # for type checkers only: not a runtime dependency

    from ..config.typed import ConsumerOptions
    from ..consumer.consumer import Deserialize, Raw
    from ..records.columnar.record_columns import RecordColumns
    from ..records.raw_batch import RawBatch

#: A task that reads buffered records never has to wait. After this many seconds it lets other tasks run.
GIVE_WAY_S = 0.005
#: Shortest time in seconds between two steps that the loop makes only because one is due: a due step that finds nothing
#: to do must not keep the loop busy.
PAUSE_S = 0.001


@contextmanager
def _without_session_warning() -> Iterator[None]:
    """Leave out the warning that no heartbeats are sent between two calls: here the loop sends them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "max.poll.interval.ms=.* is above session", ConfigurationWarning)
        yield


class AsyncConsumer(PlainCalls[K, V]):
    """A Kafka consumer for asyncio, uvloop and trio, without threads: the event loop drives it between its calls.

    Options, results and errors are those of :class:`thinconsumer.Consumer`; calls that may wait are awaited. It belongs
    to the loop in which its first call is awaited. Use it in an ``async with`` block, or await :meth:`close`.

    While the application awaits something else, heartbeats, commits and fetches go on, as with ``Consumer.drive``. Only
    polls return records, move positions and call listeners, whose methods may be coroutines. A call may be cancelled at
    any time: a cancelled poll has returned nothing, and the next one returns the same records. While one task awaits a
    call, calls of other tasks raise ``ConcurrentAccessError``, except ``health``, ``metrics`` and ``wakeup``.

    Raises:
        KafkaConfigurationError: options are unknown, invalid or contradictory.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: AsyncConsumer[K, V],
            *topics: str,
            key_deserializer: Deserialize[K],
            value_deserializer: Deserialize[V],
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: AsyncConsumer[K, Raw],
            *topics: str,
            key_deserializer: Deserialize[K],
            value_deserializer: None = None,
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: AsyncConsumer[Raw, V],
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: Deserialize[V],
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: AsyncConsumer[Raw, Raw],
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: None = None,
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...

    def __init__(self, *topics: str, driver: Driver | None = None, **options: Any) -> None:
        with _without_session_warning():
            config = ConsumerConfig.from_options(**options)
        self._set_up(config, driver, topics)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *topics: str, driver: Driver | None = None
    ) -> AsyncConsumer[Any, Any]:
        """Build a consumer from options under Kafka's own dotted names, as :meth:`Consumer.from_config`."""
        consumer: AsyncConsumer[Any, Any] = cls.__new__(cls)
        with _without_session_warning():
            checked = ConsumerConfig.from_config(config)
        consumer._set_up(checked, driver, topics)
        return consumer

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        self._loop: EventLoop | None = None
        self._task: object = None  #: The task whose call waits, or runs a coroutine of the listener; else None.
        self._due: Event | None = None  #: What that call waits for, until there is I/O or its time has come.
        self._is_told = False  #: Whether that call was told to go on, and the loop has not called :meth:`_ready` since.
        self._has_failed = False  #: Whether a step by the loop has failed, so that the loop makes none.
        self._gave_way_at = 0.0  #: When a call has last let other tasks run.
        self._driven_at = 0.0  #: When the loop or a call has last stepped the engine; 0 if never.
        super()._set_up(config, driver, topics)
        shell = self._shell
        shell.leave_waits_to_loop(self._begin, self._end)
        shell.before_close = self._leave_loop
        #: The guard of ``close``: it does not move the positions past the last result, as ``close`` decides about that.
        self._closing = shell.guard.entry(self._check, None)

    # -- calls that wait

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, RecordSequence[K, V]]:
        """Return available records, waiting up to ``timeout_ms`` for the first ones; see :meth:`Consumer.poll`."""
        limit = self._max_poll_records if max_records is None else self._limit(max_records, "max_records")
        seconds = self._poll_seconds(timeout_ms)
        poll_result = await self._poll(self._reader.polling(seconds, limit))
        records = self._intercepted(poll_result)
        # As in Consumer.poll, nothing may come between this assignment and the end of the call, and so no ``await``.
        if update_offsets:
            self._reader.poll_result = poll_result
        return records

    async def poll_batches(
        self, timeout_ms: float = 0, max_bytes: int | None = None
    ) -> dict[TopicPartition, RecordColumns]:
        """Return records as columns; see :meth:`Consumer.poll_batches`."""
        require_numpy()
        limit, seconds = self._max_bytes(max_bytes), self._poll_seconds(timeout_ms)
        poll_result = await self._poll(self._reader.polling(seconds, limit, form=Form.COLUMNS))
        self._reader.poll_result = poll_result
        return poll_result.records

    async def poll_raw(
        self, timeout_ms: float = 0, max_bytes: int | None = None
    ) -> dict[TopicPartition, list[RawBatch]]:
        """Return whole record batches as the log stores them; see :meth:`Consumer.poll_raw`."""
        limit, seconds = self._max_bytes(max_bytes), self._poll_seconds(timeout_ms)
        poll_result = await self._poll(self._reader.polling(seconds, limit, form=Form.RAW))
        self._reader.poll_result = poll_result
        return poll_result.records

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Return the consumer itself. Iteration calls :meth:`poll`, so a program may use both in turn."""
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record; stop the iteration after ``consumer_timeout_ms`` without one."""
        iteration = self._iteration
        poll_result, now = iteration.poll_result, iteration.now()
        taken = poll_result.taken or 0
        if (
            poll_result is not self._reader.poll_result
            or taken >= poll_result.count
            or self._shell.step_interrupted
            or self._task is not None
            or now >= iteration.drive_at
            or now >= self._gave_way_at + GIVE_WAY_S
        ):
            await self._give_way()
            self._check()
            while iteration.must_poll():
                poll_result = await self._poll(iteration.poll())
                if not poll_result.count:
                    raise StopAsyncIteration
                iteration.begin(poll_result)
            poll_result = iteration.poll_result
            taken = poll_result.taken or 0
        record: ConsumerRecord[K, V] = iteration.records[taken]
        poll_result.taken = taken + 1  # the last statement, with no ``await`` after it
        return record

    def read_to_end(self, timeout_ms: float | None = None) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over every record up to the present end offsets, then stop; see :meth:`Consumer.read_to_end`.

        The end offsets are those when the first record is requested.
        """
        return ReadToEnd(self, timeout_ms)

    async def commit(self, offsets: ToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has accepted them; see :meth:`Consumer.commit`.

        If the call is cancelled, the offsets may be committed nevertheless.
        """
        await self._wait(self._queries.commit(offsets, timeout_ms))

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...
    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...
    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    async def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the offset that the group has committed for a partition, or None; see :meth:`Consumer.committed`."""
        return await self._wait(self._queries.committed(partition, metadata, timeout_ms))

    async def unsubscribe(self) -> None:
        """Give up all partitions, also those assigned by hand, and leave the group; see :meth:`Consumer.unsubscribe`.

        If the call is cancelled, the partitions are given up, and the loop sends the request to leave.
        """
        self._shell.engine.agenda.touch()
        await self._wait(self._queries.unsubscribe())

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to return, and look it up if unknown; see :meth:`Consumer.position`."""
        return await self._wait(self._queries.position(partition, timeout_ms))

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the topics that this consumer may describe; see :meth:`Consumer.topics`."""
        return await self._wait(self._queries.topics(timeout_ms))

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the topic's partition numbers, or None if it does not exist."""
        return await self._wait(self._queries.partitions_for_topic(topic, timeout_ms))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition. Positions do not change."""
        return await self._wait(self._queries.ends(partitions, EARLIEST, "beginning_offsets", timeout_ms))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition; under read_committed the last stable offset."""
        return await self._wait(self._queries.ends(partitions, LATEST, "end_offsets", timeout_ms))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and time of the first record at or after each timestamp (ms since the epoch), or None."""
        return await self._wait(self._queries.offsets_for_times(timestamps, timeout_ms))

    async def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the client has received metadata; see :meth:`Consumer.bootstrap`."""
        await self._wait(self._queries.bootstrap(timeout_ms, refresh))

    async def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id under which this consumer pushes metrics; see :meth:`Consumer.client_instance_id`."""
        return await self._wait(self._queries.client_instance_id(timeout_ms))

    async def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, *, leave_group: bool | None = None
    ) -> None:
        """Commit processed records, give up all partitions, leave the group, and close all connections.

        See :meth:`Consumer.close`. If the call is cancelled, it waits for nothing more: requests are written if their
        connections are ready, and everything is closed.
        """
        check_autocommit(autocommit)
        closing = self._reader.close(timeout_ms, commit=autocommit, leave_group=leave_group)
        if self._loop is None:  # no call has waited yet: nothing is to be waited for, also in a loop that is refused
            self._shell.blocks = True
            with self._closing:
                self._shell.complete(closing)
            return
        if not self._shell.closed:
            await self._run(closing, self._closing)
        await self._loop.ended()

    async def __aenter__(self) -> AsyncConsumer[K, V]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(autocommit=error is None)

    # -- how calls wait

    async def _poll(self, waiting: Waiting[T]) -> T:
        await self._give_way()
        return await self._run(waiting, self._shell.quiet_entry)

    async def _wait(self, waiting: Waiting[T]) -> T:
        return await self._run(waiting, self._shell.enter())

    async def _run(self, waiting: Waiting[T], entry: Guard) -> T:
        """Run a call: a step at once, then one whenever there is I/O or its time has come; return its result."""
        loop, guard = self._loop or self._enter_loop(), self._shell.guard
        try:
            with entry:
                self._note_step(self._shell.driver.now())
                pause = next(waiting)
        except StopIteration as end:
            self._set_alarm()
            return end.value  # type: ignore[no-any-return]
        outer, self._task = self._task, loop.task()
        try:
            while True:
                try:
                    await (self._pause(loop, pause) if isinstance(pause, (int, float)) else self._in_callback(pause))
                except Exception as error:  # noqa: BLE001 - of a coroutine listener, handled as a plain listener's
                    with guard:
                        pause = waiting.throw(error)
                except BaseException as error:
                    self._cut_off(waiting, error)
                    raise
                else:
                    with guard:
                        now = self._shell.driver.now()
                        self._note_step(now)
                        pause = waiting.send(now)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            self._task = outer
            self._set_alarm()

    async def _pause(self, loop: EventLoop, deadline: float) -> None:
        """Wait until there is I/O, or a step is due, or the deadline has come."""
        now = self._shell.driver.now()
        outer, self._due = self._due, loop.event()
        try:
            loop.alarm(max(0.0, min(deadline, self._step_at(now)) - now))
            await self._due.wait()
        finally:
            self._due = outer
        self._gave_way_at = self._shell.driver.now()

    async def _in_callback(self, coroutine: Awaitable[None]) -> None:
        """Run a coroutine of the listener, which may make calls; meanwhile the loop drives the engine."""
        shell = self._shell
        before, shell.in_callback = shell.in_callback, True
        self._set_alarm()
        try:
            await coroutine
        finally:
            shell.in_callback = before

    def _cut_off(self, waiting: Waiting[Any], error: BaseException) -> None:
        """End a call that was cancelled. What it does at its end is done without a wait: each wait raises the error."""
        with self._shell.guard:
            while True:
                try:
                    waiting.throw(error)
                except BaseException as raised:  # noqa: BLE001 - the cancellation is what the caller raises
                    if raised is not error and not isinstance(raised, StopIteration):
                        log.info("while a cancelled call ended: %r", raised)
                    return

    async def _give_way(self) -> None:
        """Let other tasks run, if this one has not for a while. Cancelled here, a call has not begun."""
        now = self._shell.driver.now()
        if now >= self._gave_way_at + GIVE_WAY_S:
            self._gave_way_at = now
            await (self._loop or self._enter_loop()).give_way()

    # -- the loop

    def _enter_loop(self) -> EventLoop:
        if self._shell.closed:
            raise IllegalStateError("this consumer is closed")
        loop = running_loop(self._ready)
        try:
            loop.watch(self._shell.driver.fileno())
        except io.UnsupportedOperation as error:
            raise UnsupportedLoopError(
                f"an event loop cannot watch this consumer ({error}): on Windows, or with such a selector, use a "
                "Consumer in a thread, as with asyncio.to_thread"
            ) from None
        self._loop = loop
        return loop

    def _leave_loop(self) -> None:
        if self._loop is not None:
            self._loop.unwatch()

    def _check(self) -> None:
        """Raise ConcurrentAccessError for a call of another task, thread or loop than the one that may call now."""
        task = None if self._loop is None else self._loop.task()
        if self._task is not None and not (self._shell.in_callback and task is self._task):
            raise ConcurrentAccessError(
                "another task awaits a call of this consumer: only health(), metrics() and wakeup() may be called"
            )

    def _begin(self) -> None:
        self._check()
        self._shell.begin()

    def _end(self) -> None:
        self._shell.engine.touch()
        if self._task is None or self._shell.in_callback:
            self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the loop step the engine when that is due; for a consumer that is closed, do nothing."""
        shell, loop = self._shell, self._loop
        if loop is not None and not shell.closed:
            if self._has_failed:
                self._has_failed = False
                loop.watch(shell.driver.fileno())
            now = shell.driver.now()
            loop.alarm(max(PAUSE_S, self._step_at(now) - now))

    def _step_at(self, now: float) -> float:
        """Return when to step at the latest, in a group at least twice in each heartbeat interval.

        If steps came only when heartbeats are due, a late one would look to the member as if the program were away.
        """
        group, due = self._reader.managers.group, self._shell.step_at(now)
        return due if group is None else min(due, now + group.member.heartbeat_interval / 2)

    def _ready(self) -> None:
        """Go on with the call that waits, or else step the engine: there is I/O, or the alarm's time has come."""
        if self._due is not None:
            self._due.set()
            self._is_told = True
        elif self._is_told:
            # The loop has reported the same bytes again, before the task of the call could run and receive them. A step
            # for that would cost as much as the call's own. If there are more bytes, the loop reports them once more.
            self._is_told = False
            self._set_alarm()
        elif not self._shell.closed:
            self._drive()

    def _drive(self) -> None:
        """Step the engine, as ``Consumer.drive``, but without moving the positions past the last result."""
        shell, reader, now = self._shell, self._reader, self._shell.driver.now()
        if not shell.step_interrupted:
            self._note_step(now)
            try:
                with shell.guard:
                    reader.open_calls.drop_old(now)
                    reader.attend(now)
                    shell.run_due(now, may_wake=False)
                self._set_alarm()
            except Exception:
                log.exception("a step by the event loop failed: the next call of the consumer goes on")
        if shell.step_interrupted:
            # Until the next call, which makes new connections: the descriptor may stay readable.
            self._has_failed = True
            self._leave_loop()

    def _note_step(self, now: float) -> None:
        """Log it once if the engine could not step for longer than a session lasts, as the loop was blocked."""
        before, self._driven_at = self._driven_at, now
        group, limit = self._reader.managers.group, self.config.session_timeout_ms
        if group is not None and before and now - before > limit / 1000 and group.member.identity.is_member:
            log.warning(
                "group %s: the event loop was blocked for %.1f s, longer than session_timeout_ms=%d: no heartbeat was "
                "sent; let blocking work run in a thread, as with asyncio.to_thread",
                self.config.group_id,
                now - before,
                limit,
            )

    def _checked(self, listener: Any) -> Any:
        group = self._reader.managers.group
        if listener is None or group is None:
            return listener
        return CoroutineListener(listener, self._shell, group.revocation)

    def _unassign(self) -> None:
        if self._reader.managers.group is not None:
            raise IllegalArgumentError("assign() without partitions would have to wait: await unsubscribe()")
        with self._shell.change():
            self._partitions.assign(())


class ReadToEnd(Generic[K, V]):
    """Iterates up to the end offsets. No generator, since trio complains about one that is left before its end."""

    def __init__(self, consumer: AsyncConsumer[K, V], timeout_ms: float | None) -> None:
        self._consumer = consumer
        self._timeout_ms = timeout_ms
        self._ends: Mapping[TopicPartition, int] | None = None
        self._records: Iterator[ConsumerRecord[K, V]] = iter(())

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        consumer, iteration = self._consumer, self._consumer._iteration
        await consumer._give_way()
        while (record := next(self._records, None)) is None:
            if self._ends is None:
                self._ends = await consumer._wait(iteration.find_ends(self._timeout_ms))
            poll_result = await consumer._poll(iteration.poll_to(self._ends, self._timeout_ms))
            if poll_result is None:
                raise StopAsyncIteration
            iteration.begin(poll_result)
            self._records = iteration.rest_of(poll_result)
        return record


AsyncConsumer.__doc__ = OptionsHelp(AsyncConsumer.__doc__)  # type: ignore[assignment]
