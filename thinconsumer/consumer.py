"""The public Consumer: a shell around engine and driver that turns timeouts into deadlines and steps both.

Owns the order within a call and what a call promises: bounded, one user at a time, positions moved in the very last
step. Every decision about brokers, offsets and records is made elsewhere.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .calls import Call
from .config import ConsumerConfig, Deserializer
from .driver import Driver
from .engine import Engine
from .errors import (
    AuthorizationError,
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaError,
    RecordError,
    WakeupError,
)
from .fetch.collector import Handover
from .net import Guard, SelectorDriver
from .partitions import PositionEvent, Reset
from .records.rows import deserialize
from .types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = ["Consumer"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
if TYPE_CHECKING:
    Raw = bytes | None

#: Offsets of ListOffsets; a time before 1970 would collide with the protocol's marks.
EARLIEST, LATEST = Reset.EARLIEST, Reset.LATEST
#: While iterating, how often connections and deadlines are looked after between two records; seconds.
DRIVE_EVERY = 0.05
#: How long closing waits for brokers to forget fetch sessions; seconds. A Fetch that is still out delays that answer by
#: up to fetch_max_wait_ms, and a program that wants to end should not hang for it.
GOODBYE = 0.2


class Consumer(Generic[K, V]):
    """Reads records from Kafka, without a thread: everything happens inside the calls you make.

    Options are those of :class:`thinconsumer.config.ConsumerConfig` (docs/options.md), under kafka-python's names.
    Constructing does no I/O. Use it in a ``with`` block, or call :meth:`close`.

    Raises:
        KafkaConfigurationError: an option is unknown, wrong, or contradicts another; all problems at once.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Consumer[Raw, Raw], *topics: str, **options: Any) -> None: ...
        @overload
        def __init__(
            self: Consumer[Raw, V], *topics: str, value_deserializer: Callable[[Any], V], **options: Any
        ) -> None: ...
        @overload
        def __init__(
            self: Consumer[K, Raw], *topics: str, key_deserializer: Callable[[Any], K], **options: Any
        ) -> None: ...
        @overload
        def __init__(
            self: Consumer[K, V],
            *topics: str,
            key_deserializer: Callable[[Any], K],
            value_deserializer: Callable[[Any], V],
            **options: Any,
        ) -> None: ...

    def __init__(self, *topics: str, driver: Driver | None = None, **options: Any) -> None:
        self._set_up(ConsumerConfig.from_options(**options), driver, topics)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str, driver: Driver | None = None) -> Consumer[Any, Any]:
        """Build a consumer from the dotted names of Kafka's own documentation, values typed or as text.

        ``Consumer.from_config({"bootstrap.servers": "localhost:9092", "fetch.min.bytes": "1"})``
        """
        consumer: Consumer[Any, Any] = cls.__new__(cls)
        consumer._set_up(ConsumerConfig.from_config(config), driver, topics)
        return consumer

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        self._closed = True  # until everything below has worked: __del__ must not warn about half a consumer
        if topics or config.group_id is not None:
            raise KafkaConfigurationError(
                "subscriptions and group_id are not supported yet: leave both out and assign() partitions"
            )
        self.config = config
        self._driver = driver if driver is not None else _driver(config)
        self._guard = Guard()
        self._engine = Engine(config, self._driver.random, _deserializer(config))
        self._partitions = self._engine.partitions
        #: What the last poll returned; its positions move when the next call begins, see _enter.
        self._handover: Handover | None = None
        self._feed: _Feed | None = None
        self._raised: KafkaError | None = None  #: The persistent error that the last poll raised.
        self._closed = False

    # -- choose

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on. Positions of those that were assigned before are kept."""
        tps = list(dict.fromkeys(_topic_partition(tp) for tp in partitions))
        with self._enter():
            self._partitions.assign(tps)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned now."""
        with self._enter():
            return self._partitions.tps()

    # -- read

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return records that are there, waiting up to ``timeout_ms`` for the first ones; ``{}`` when none came.

        At most ``max_records`` (default: option ``max_poll_records``), in offset order within each partition. With
        ``update_offsets=False`` positions stay, and the next poll returns the same records again.

        Raises:
            WakeupError: :meth:`wakeup` was called.
            RecordError: what comes next in a partition cannot be handed out; :meth:`skip` it or :meth:`seek`.
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: under ``auto_offset_reset="none"``.
            AuthorizationError: from every poll, until the ACL is there.
            NoBrokersAvailable: nothing could be reached for ``bootstrap_timeout_ms``; polling on tries on.
        """
        with self._enter():
            handover = self._poll(_seconds(timeout_ms), self._limit(max_records), None)
        # The last step, without a call behind it: whatever interrupts before has delivered nothing, so nothing is lost.
        if update_offsets:
            self._handover = handover
        return handover.records

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Return the consumer itself: iterating is a loop over :meth:`poll`, and mixing both is safe."""
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record; stop after ``consumer_timeout_ms`` without one.

        That time counts from the first completed fetch on: a consumer that is still connecting is not out of data.
        """
        feed = self._feed
        if feed is None or feed.taken >= len(feed.records):
            feed = self._refill()
        elif self._driver.now() >= feed.drive_at:
            self._drive_between(feed)
        record: ConsumerRecord[K, V] = feed.records[feed.taken]
        feed.taken += 1
        return record

    def read_to_end(self, timeout_ms: float | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Yield every record up to the ends the assigned partitions have now, then stop.

        Records written later stay for the next read. Paused partitions are left out. Raises ``KafkaTimeoutError``
        when ``timeout_ms`` (default ``default_api_timeout_ms``) passes without progress.
        """
        with self._enter():
            tps = [p.tp for p in self._partitions if not p.paused]
        ends = self.end_offsets(tps, timeout_ms=timeout_ms)
        return self._read_to(ends, timeout_ms)

    def drive(self) -> None:
        """Keep alive, cheaply: I/O and deadlines, no records, no callbacks. Call it while processing takes long."""
        with self._enter():
            self._turn(self._driver.now())

    def wakeup(self) -> None:
        """Make the current call, or else the next one that waits, raise ``WakeupError``.

        Safe from signal handlers and other threads.
        """
        self._driver.wakeup()

    def fileno(self) -> int:
        """Return a descriptor that turns readable when there is I/O to do: then call ``poll(0)``.

        Raises ``io.UnsupportedOperation`` where the platform has none (Windows).
        """
        with self._enter():
            return self._driver.fileno()

    def wake_at(self) -> float:
        """Return when to poll next at the latest, in ``time.monotonic()`` seconds; now, while records are buffered."""
        with self._enter():
            if self._engine.buffer.has_ready():
                return self._driver.now()
            return self._engine.wake_at()

    def skip(self, error: RecordError) -> None:
        """Go on behind what ``error`` says cannot be handed out; a no-op if the position is past it already."""
        with self._enter():
            partition = self._partitions.require(error.partition)
            if partition.has_position and partition.cursor.offset < error.next_offset:
                partition.place(PositionEvent.SEEK, error.next_offset)

    # -- move

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position; what was fetched for the old one is dropped.

        An ``OffsetAndMetadata`` with a leader epoch is validated first: its log may have been truncated (KIP-320).
        """
        epoch = offset.leader_epoch if isinstance(offset, OffsetAndMetadata) else -1
        target = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if not _is_whole(target, 0):
            raise IllegalArgumentError(f"an offset is a whole number from 0 on, not {target!r}")
        with self._enter():
            event = PositionEvent.SEEK if epoch < 0 else PositionEvent.SEEK_VALIDATED
            self._partitions.require(_topic_partition(partition)).place(event, target, epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first offset there is; all assigned partitions when none are named. Looked up by the next poll."""
        self._seek_to(partitions, EARLIEST, "seek_to_beginning")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the end (under read_committed: the last stable offset); all assigned partitions when none are named."""
        self._seek_to(partitions, LATEST, "seek_to_end")

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to hand out, looking it up if there is none yet.

        Raises what :meth:`poll` raises for this partition, and ``KafkaTimeoutError``.
        """
        with self._enter():
            found = self._partitions.require(_topic_partition(partition))
            call: Call[None] = Call(f"position of {found.tp.topic}-{found.tp.partition}")

            def settled() -> bool:
                if found.error is not None and not found.has_position:
                    raise found.error
                return found.has_position

            self._wait(call, timeout_ms, settled)
            return found.cursor.offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions; what is buffered is kept for :meth:`resume`."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._enter():
            return {p.tp for p in self._partitions if p.paused}

    # -- ask

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return all topics this consumer may see."""
        with self._enter():
            call = self._engine.metadata.inquire(None, "topics()")
            found = self._wait(call, timeout_ms)
        hidden = self.config.exclude_internal_topics
        return {name for name, topic in found.items() if not (topic.internal and hidden)}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the topic's partition numbers, or None if there is no such topic. Always asks a broker."""
        with self._enter():
            call = self._engine.metadata.inquire([topic], f"partitions_for_topic({topic!r})")
            found = self._wait(call, timeout_ms)
        return set(found[topic].partitions) if topic in found else None

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset there is, per partition. Positions stay."""
        return self._ends(partitions, EARLIEST, "beginning_offsets", timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record, per partition; under read_committed the last stable offset."""
        return self._ends(partitions, LATEST, "end_offsets", timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (ms since the epoch); None where no record is that young."""
        for tp, timestamp in timestamps.items():
            if not _is_whole(timestamp, 0):
                raise IllegalArgumentError(f"{tp}: a time is milliseconds since 1970, 0 or more, not {timestamp!r}")
        wanted = {_topic_partition(tp): timestamp for tp, timestamp in timestamps.items()}
        with self._enter():
            found = self._wait(self._engine.look_up(wanted, "offsets_for_times"), timeout_ms)
        return {
            tp: OffsetAndTimestamp(f.offset, f.timestamp, f.leader_epoch) if f.offset >= 0 else None
            for tp, f in ((tp, found[tp]) for tp in wanted)
        }

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before one. No I/O."""
        with self._enter():
            return self._partitions.require(_topic_partition(partition)).high_watermark

    def lag(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int | None]:
        """Return how many offsets each partition (default: all assigned) is behind, as of its last fetch. No I/O.

        None where it is not known yet: without a position or a fetch. Under read_committed behind the last stable
        offset, since nothing past it can be read.
        """
        with self._enter():
            tps = self._partitions.tps() if partitions is None else [_topic_partition(tp) for tp in partitions]
            return {tp: self._lag(tp) for tp in tps}

    def bootstrap_connected(self) -> bool:
        """Return whether any broker can be talked to right now. No I/O."""
        with self._enter():
            return self._engine.links.any_ready()

    # -- life

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Close every connection; brokers are told to forget this consumer's fetch sessions if that takes no longer
        than ``timeout_ms`` (and at most 0.2 s). Closing again does nothing."""
        if self._closed:
            return
        with self._guard:
            self._closed = True
            try:
                self._driver.check_process()
            except IllegalStateError:
                self._driver.close()  # a forked child: the connections are the parent's to end
                return
            limit = GOODBYE if timeout_ms is None else min(_seconds(timeout_ms), GOODBYE)
            self._say_goodbye(self._driver.now() + limit)
            self._driver.close()
            for deserializer in (self.config.key_deserializer, self.config.value_deserializer):
                if deserializer is not None:
                    deserializer.close()

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._engine.links.any_open():
            warnings.warn(f"unclosed {self!r}: call close(), or use a with block", ResourceWarning, source=self)
            self._driver.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else repr(self._engine.links)
        return f"<Consumer {self.config.client_id} {len(self._partitions)} partitions, {state}>"

    # -- inside: entering, stepping, waiting

    def _enter(self) -> Guard:
        """Begin a public call: check it may run, and first of all move what the last one returned."""
        if self._closed:
            raise IllegalStateError("this consumer is closed")
        self._driver.check_process()
        self._settle()
        return self._guard

    def _settle(self) -> None:
        handover = self._handover
        if handover is not None:
            self._engine.collector.settle(handover)
            self._handover = None
        feed = self._feed
        if feed is not None:
            self._engine.collector.settle(self._engine.collector.first(feed.handover, feed.taken))
            self._feed = None

    def _turn(self, deadline: float) -> float:
        """One round: wait for I/O until ``deadline``, let everything follow from it, return the time."""
        driver, engine = self._driver, self._engine
        driver.step(engine, min(deadline, engine.wake_at()))
        now = driver.now()
        if engine.step(now, driver.wall_time()):
            # What was just asked for leaves before anything is decoded: the broker works while we do.
            driver.step(engine, now)
        if driver.take_wakeup():
            raise WakeupError("wakeup() was called")
        return now

    def _poll(self, seconds: float, limit: int, ends: Mapping[TopicPartition, int] | None) -> Handover:
        engine = self._engine
        if not self._partitions:
            raise IllegalStateError("nothing to read: assign() partitions first")
        deadline = self._driver.now() + seconds
        now = self._turn(self._driver.now())
        while True:
            if self._must_raise(now < deadline):
                now = self._turn(deadline)
                continue
            handover = engine.collector.gather(limit, ends)
            if handover.count:
                return handover
            if handover.moves:
                engine.collector.settle(handover)
                continue
            outage = engine.outage(now)
            if outage is not None:
                raise outage
            if now >= deadline:
                return handover
            now = self._turn(deadline)

    def _must_raise(self, may_wait: bool) -> bool:
        """Raise what every poll has to raise; return whether to wait for a fresh answer first.

        An ACL may have been granted since the last poll raised: only a new answer tells, and it is on its way.
        """
        for error in self._engine.persistent_errors():
            if may_wait and error is self._raised and isinstance(error, AuthorizationError):
                return True
            self._raised = error
            raise error
        self._raised = None
        return False

    def _wait(self, call: Call[T], timeout_ms: float | None, settled: Callable[[], bool] | None = None) -> T:
        """Step until the call is settled; raise its error, or ``KafkaTimeoutError``."""
        seconds = _seconds(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        deadline = self._driver.now() + seconds
        done = settled or (lambda: call.done)
        try:
            now = self._turn(self._driver.now())
            while not done():
                outage = self._engine.outage(now)
                if outage is not None:
                    raise outage
                if now >= deadline:
                    raise self._engine.timeout_error(call, seconds)
                now = self._turn(deadline)
        finally:
            call.abandoned = True
        return call.result()

    # -- inside: iterating

    def _refill(self) -> _Feed:
        with self._enter():
            handover = self._poll_for_iteration()
            self._feed = feed = _Feed(handover, self._driver.now() + DRIVE_EVERY)
            return feed

    def _poll_for_iteration(self) -> Handover:
        """Poll until there are records, or ``consumer_timeout_ms`` has passed since fetching has begun to work."""
        limit = self.config.consumer_timeout_ms / 1000
        began = self._driver.now()
        counting = self._engine.answers.completed > 0
        while True:
            left = began + limit - self._driver.now() if counting else math.inf
            handover = self._poll(max(0.0, min(left, 0.1 if not counting else left)), self.config.max_poll_records, None)
            if handover.count:
                return handover
            if counting and self._driver.now() >= began + limit:
                raise StopIteration
            if not counting and self._engine.answers.completed:
                counting, began = True, self._driver.now()

    def _drive_between(self, feed: _Feed) -> None:
        with self._guard:
            self._turn(self._driver.now())
            feed.drive_at = self._driver.now() + DRIVE_EVERY

    def _read_to(self, ends: Mapping[TopicPartition, int], timeout_ms: float | None) -> Iterator[ConsumerRecord[K, V]]:
        patience = _seconds(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            with self._enter():
                behind = [p for p in self._partitions if p.tp in ends and not p.paused]
                behind = [p for p in behind if not p.has_position or p.cursor.offset < ends[p.tp]]
                if not behind:
                    return
                handover = self._poll(patience, self.config.max_poll_records, ends)
                if not handover.count:
                    call: Call[None] = Call(f"read_to_end, {len(behind)} partitions behind, {behind[0].tp} first")
                    raise self._engine.timeout_error(call, patience)
            self._handover = handover
            for records in handover.records.values():
                yield from records

    # -- inside: small things

    def _limit(self, max_records: int | None) -> int:
        if max_records is None:
            return self.config.max_poll_records
        if not _is_whole(max_records, 1):
            raise IllegalArgumentError(f"max_records must be a whole number from 1 on, not {max_records!r}")
        return max_records

    def _seek_to(self, partitions: tuple[TopicPartition, ...], mark: int, reason: str) -> None:
        with self._enter():
            tps = [_topic_partition(tp) for tp in partitions] or list(self._partitions.tps())
            for found in [self._partitions.require(tp) for tp in tps]:
                found.ask_reset(Reset(mark, reason))

    def _set_paused(self, partitions: tuple[TopicPartition, ...], paused: bool) -> None:
        with self._enter():
            for found in [self._partitions.require(_topic_partition(tp)) for tp in partitions]:
                found.paused = paused

    def _ends(
        self, partitions: Iterable[TopicPartition], mark: int, what: str, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys((_topic_partition(tp) for tp in partitions), mark)
        with self._enter():
            found = self._wait(self._engine.look_up(wanted, what), timeout_ms)
        return {tp: found[tp].offset for tp in wanted}

    def _lag(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.require(tp)
        committed = self.config.isolation_level == "read_committed"
        end = partition.last_stable_offset if committed else partition.high_watermark
        if end is None or not partition.has_position:
            return None
        return max(0, end - partition.cursor.offset)

    def _say_goodbye(self, deadline: float) -> None:
        engine, driver = self._engine, self._driver
        waiting = engine.close(driver.now())
        try:
            while waiting and driver.now() < deadline:
                driver.step(engine, deadline)
                waiting = engine.closing(driver.now())
        finally:
            engine.links.close(driver.now())
            driver.step(engine, driver.now())


class _Feed:
    """What iteration hands out one by one. Every other call settles what was taken and drops the rest."""

    __slots__ = ("drive_at", "handover", "records", "taken")

    def __init__(self, handover: Handover, drive_at: float) -> None:
        self.handover = handover
        self.records = [record for found in handover.records.values() for record in found]
        self.taken = 0
        self.drive_at = drive_at


def _topic_partition(tp: object) -> TopicPartition:
    """Return a TopicPartition from anything of its shape, kafka-python's own class too."""
    if isinstance(tp, tuple) and len(tp) == 2 and isinstance(tp[0], str) and isinstance(tp[1], int):
        return tp if isinstance(tp, TopicPartition) else TopicPartition(tp[0], tp[1])
    raise IllegalArgumentError(f"expected a TopicPartition(topic, partition), not {tp!r}")


def _is_whole(value: object, least: int) -> bool:
    """Return whether it is an int of Kafka's INT64, and not one of Python's bools."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _seconds(timeout_ms: object) -> float:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, (int, float)) or not timeout_ms >= 0:
        raise IllegalArgumentError(f"a timeout is a number of milliseconds from 0 on, not {timeout_ms!r}")
    return timeout_ms / 1000


def _deserializer(config: ConsumerConfig) -> Any:
    key, value = config.key_deserializer, config.value_deserializer
    if key is None and value is None:
        return None
    return functools.partial(_deserialize, key, value)


def _deserialize(
    key: Deserializer | None, value: Deserializer | None, tp: TopicPartition, records: list[ConsumerRecord[Any, Any]]
) -> Any:
    return deserialize(records, key.call if key else None, value.call if value else None)


def _driver(config: ConsumerConfig) -> Driver:
    return SelectorDriver(
        selector=config.selector,
        resolver=config.resolver,
        receive_buffer_bytes=config.receive_buffer_bytes,
        send_buffer_bytes=config.send_buffer_bytes,
        socket_options=config.socket_options,
    )
