"""The public Consumer: what users call, and what each call promises."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from ..calls import Call
from ..client import Shell
from ..config import ConsumerConfig
from ..config.typed import CONSUMER_HELP, ConsumerOptions
from ..config.values import HeadersDeserializer, TopicDeserializer
from ..driver import Driver
from ..errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError, RecordError
from ..fetch.lookups import ListedOffset
from ..metrics import MetricValues
from ..partitions import PositionEvent, PositionState, Reset
from ..types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .arguments import is_whole, topic_name, topic_partition, topic_partitions
from .batch_calls import BatchCalls
from .group_calls import GroupCalls
from .health import Health
from .iteration import Iteration
from .metrics_recorder import figures
from .reader import Reader

__all__ = ["Consumer"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Unpack  # not there when the program runs: it is no dependency

    Raw = bytes | None
    Deserialize: TypeAlias = Callable[[Any], T] | TopicDeserializer[T] | HeadersDeserializer[T]

EARLIEST, LATEST = Reset.EARLIEST, Reset.LATEST


class Consumer(GroupCalls, BatchCalls, Generic[K, V]):
    """Reads records from Kafka, without a thread: everything happens inside the calls you make.

    Options are those of :class:`thinconsumer.config.ConsumerConfig` (docs/options.md), under kafka-python's names.
    Constructing does no I/O. Use it in a ``with`` block, or call :meth:`close`.

    A question or a commit that runs out of time goes on for 5 s: the same call made again meanwhile returns its answer.

    Raises:
        KafkaConfigurationError: an option is unknown, wrong, or contradicts another; all problems at once.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Consumer[K, V],
            *topics: str,
            key_deserializer: Deserialize[K],
            value_deserializer: Deserialize[V],
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Consumer[K, Raw],
            *topics: str,
            key_deserializer: Deserialize[K],
            value_deserializer: None = None,
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Consumer[Raw, V],
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: Deserialize[V],
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Consumer[Raw, Raw],
            *topics: str,
            key_deserializer: None = None,
            value_deserializer: None = None,
            driver: Driver | None = None,
            **options: Unpack[ConsumerOptions],
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
        if topics and not isinstance(topics[0], str):
            instead = "Consumer.from_config({...})" if isinstance(topics[0], Mapping) else "subscribe([...])"
            raise KafkaConfigurationError(f"Consumer() takes topics by name, not {topics[0]!r}: write {instead}")
        if topics and config.group_id is None:
            raise KafkaConfigurationError(
                "topics without group_id: pass group_id, since a group shares topics out, or assign() partitions"
            )
        self._reader = Reader(config, driver)
        self._shell = self._reader.shell
        self._iteration = Iteration(self._reader)
        self._partitions = self._reader.partitions
        if topics:
            self.subscribe(topics)

    @property
    def config(self) -> ConsumerConfig:
        """The options of this consumer."""
        return self._reader.config

    # -- choose

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on. Positions of those that were assigned before are kept.

        With a ``group_id`` they begin where the group has committed, and :meth:`commit` works; no other member is told.
        Of those that go the position is committed (``enable_auto_commit``). Nothing at all means :meth:`unsubscribe`.

        Raises:
            IllegalStateError: topics were subscribed to.
        """
        tps = topic_partitions(partitions, "assign()")
        if not tps:
            self.unsubscribe()
            return
        with self._shell.change():
            if self._reader.managers.group is None:
                self._partitions.assign(tps)
            else:
                self._reader.managers.group.assign_by_hand(tps, self._shell.driver.now())

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned now."""
        with self._shell.enter():
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
            AuthorizationError: once for each answer of a broker that says so, until the ACL is there.
            NoBrokersAvailable: nothing could be reached for ``bootstrap_timeout_ms``; polling on tries on.
        """
        with self._shell.enter():
            poll_result = self._reader.poll(self._poll_seconds(timeout_ms), self._limit(max_records))
        # The last step, without a call behind it: whatever interrupts before has delivered nothing, so nothing is lost.
        if update_offsets:
            self._reader.poll_result = poll_result
        return poll_result.records

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Return the consumer itself: iterating is a loop over :meth:`poll`, and mixing both is safe."""
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record; stop after ``consumer_timeout_ms`` without one.

        That time counts from the first completed fetch on: a consumer that is still connecting is not out of data.
        """
        iteration = self._iteration
        record = iteration.peek()
        iteration.poll_result.taken = iteration.after
        return record

    def read_to_end(self, timeout_ms: float | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Yield every record up to the ends the assigned partitions have now, then stop.

        Records written later stay for the next read. Paused partitions are left out. In a group this member's share is
        waited for first. Raises ``KafkaTimeoutError`` when ``timeout_ms`` (default ``default_api_timeout_ms``) passes
        without progress.
        """
        with self._shell.enter():
            self._iteration.await_share(timeout_ms)
            tps = [p.tp for p in self._partitions if not p.paused]
        ends = self.end_offsets(tps, timeout_ms=timeout_ms)
        return self._iteration.read_to(ends, timeout_ms)

    def drive(self) -> None:
        """Keep alive, cheaply: I/O and deadlines, no records, no callbacks. Call it while processing takes long."""
        with self._shell.enter():
            self._reader.open_calls.drop_old(self._shell.run_once(self._shell.driver.now()))

    def wakeup(self) -> None:
        """Make the current call, or else the next one that waits, raise ``WakeupError``.

        Safe from signal handlers and other threads. Calls inside a callback go on: the poll around them raises.
        """
        self._shell.driver.wakeup()

    def fileno(self) -> int:
        """Return a descriptor that turns readable when there is I/O to do: then call ``poll(0)``.

        Raises ``io.UnsupportedOperation`` where the platform has none (Windows).
        """
        with self._shell.enter():
            return self._shell.driver.fileno()

    def wake_at(self) -> float:
        """Return when to poll next at the latest, in ``time.monotonic()`` seconds; now, while records are buffered."""
        with self._shell.enter():
            return self._reader.wake_at()

    def skip(self, error: RecordError) -> None:
        """Go on behind what ``error`` says cannot be handed out; a no-op if the position is past it already."""
        if not isinstance(error, RecordError):
            raise IllegalArgumentError(f"only a RecordError says what to skip, not {error!r}")
        with self._shell.change():
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
        if not is_whole(target, 0):
            raise IllegalArgumentError(f"an offset is a whole number from 0 on, not {target!r}")
        with self._shell.change():
            event = PositionEvent.SEEK if epoch < 0 else PositionEvent.SEEK_VALIDATED
            self._partitions.require(topic_partition(partition)).place(event, target, epoch)

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
        with self._shell.enter():
            found = self._partitions.require(topic_partition(partition))
            if found.state is PositionState.AWAITING_CALLBACK:
                found.move(PositionEvent.CALLBACK_DONE)  # asked from within it: the offset is wanted now
            call: Call[None] = Call(f"position of {found.tp.topic}-{found.tp.partition}")

            def settled() -> bool:
                if found.error is not None and not found.has_position:
                    raise found.error
                call.last_error = found.last_error
                return found.has_position

            self._reader.wait(call, timeout_ms, settled)
            return found.cursor.offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions; what is buffered is kept for :meth:`resume`."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._shell.enter():
            return {p.tp for p in self._partitions if p.paused}

    # -- ask

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return all topics this consumer may see."""
        with self._shell.enter():
            metadata = self._reader.managers.metadata
            found = self._reader.ask("topics", lambda: metadata.inquire(None, "topics()"), timeout_ms)
        hidden = self.config.exclude_internal_topics
        return {name for name, topic in found.items() if not (topic.internal and hidden)}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the topic's partition numbers, or None if there is no such topic. Always asks a broker."""
        topic = topic_name(topic, "partitions_for_topic()")
        with self._shell.enter():
            what = f"partitions_for_topic({topic!r})"
            found = self._reader.ask(what, lambda: self._reader.managers.metadata.inquire([topic], what), timeout_ms)
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
            if not is_whole(timestamp, 0):
                raise IllegalArgumentError(f"{tp}: a time is milliseconds since 1970, 0 or more, not {timestamp!r}")
        wanted = {topic_partition(tp): timestamp for tp, timestamp in timestamps.items()}
        found = self._look_up(wanted, "offsets_for_times", timeout_ms)
        return {
            tp: OffsetAndTimestamp(f.offset, f.timestamp, f.leader_epoch) if f.offset >= 0 else None
            for tp, f in ((tp, found[tp]) for tp in wanted)
        }

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before one. No I/O."""
        with self._shell.enter():
            return self._partitions.require(topic_partition(partition)).high_watermark

    def lag(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int | None]:
        """Return how many offsets each partition (default: all assigned) is behind, as of its last fetch. No I/O.

        None where it is not known: without a position, or while no Fetch has confirmed the end lately (half of
        ``session_timeout_ms``, without a group of ``request_timeout_ms``). Under read_committed behind the last stable
        offset, since nothing past it can be read.
        """
        with self._shell.enter():
            tps = self._partitions.tps() if partitions is None else topic_partitions(partitions, "lag()")
            return {tp: self._lag(tp) for tp in tps}

    def health(self) -> Health:
        """Return how this consumer is, for a liveness probe: what it does, what is in the way, since when. No I/O.

        As of the last call; one that has been too long ago is itself in the way. ``STUCK`` means that something has
        been in the way for half of ``session_timeout_ms`` (without a group: of ``request_timeout_ms``), or that waiting
        will not help.
        """
        with self._shell.stay():
            return self._reader.watch.report(self._reader.managers, self._shell.driver.now())

    def metrics(self, raw: bool = False) -> MetricValues:
        """Return what this consumer measures, by group and name, under Kafka's own names (docs/metrics.md). No I/O.

        ``raw`` is kafka-python's; its objects do not exist here.
        """
        if raw:
            raise IllegalArgumentError("metrics(raw=True) would return kafka-python's own objects: there are none here")
        with self._shell.stay():
            return figures(self._reader.managers, self._shell.driver.now())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until a broker has named the cluster; with ``refresh``, ask again even if one has.

        Never needed: other calls do it when they must. Useful at start-up, to fail early.
        """
        with self._shell.enter():
            if refresh or not self._reader.managers.metadata.nodes:
                metadata = self._reader.managers.metadata
                self._reader.ask("bootstrap", lambda: metadata.inquire([], "bootstrap()"), timeout_ms)

    def bootstrap_connected(self) -> bool:
        """Return whether any broker can be talked to right now. No I/O."""
        with self._shell.enter():
            return self._shell.engine.network.any_ready()

    # -- life

    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, *, leave_group: bool | None = None
    ) -> None:
        """Commit what was processed, give up all partitions, leave the group, and close every connection.

        Returns within ``timeout_ms`` (default 30 s) plus the time of the listener's callbacks; waits at most 0.2 s for
        brokers to forget fetch sessions. ``autocommit=False`` commits nothing by itself. ``leave_group`` (KIP-1092):
        whether the group is told; by default it is, but for a static member, which may come back. Closing again does
        nothing.
        """
        if not self._shell.closed:
            self._reader.close(timeout_ms, commit=autocommit, leave_group=leave_group)

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    def __del__(self) -> None:
        shell: Shell | None = getattr(self, "_shell", None)  # none when the options were refused
        if shell is not None and not shell.closed and self._shell.engine.network.any_open():
            words = f"unclosed {self!r}: call close(), or use a with block"
            warnings.warn(words, ResourceWarning, stacklevel=2, source=self)
            shell.driver.close()

    def __repr__(self) -> str:
        state = "closed" if self._shell.closed else repr(self._shell.engine.network)
        return f"<Consumer {self.config.client_id} {len(self._partitions)} partitions, {state}>"

    # -- inside

    def _limit(self, max_records: int | None) -> int:
        if max_records is None:
            return self.config.max_poll_records
        if not is_whole(max_records, 1):
            raise IllegalArgumentError(f"max_records must be a whole number from 1 on, not {max_records!r}")
        return max_records

    def _seek_to(self, partitions: tuple[TopicPartition, ...], mark: int, reason: str) -> None:
        with self._shell.change():
            tps = [topic_partition(tp) for tp in partitions] or list(self._partitions.tps())
            if not tps:
                raise IllegalStateError(
                    f"{reason}(): no partitions are assigned yet; call it in on_partitions_assigned, or once "
                    "assignment() is not empty, or set auto_offset_reset"
                )
            for found in [self._partitions.require(tp) for tp in tps]:
                found.ask_reset(Reset(mark, reason))

    def _set_paused(self, partitions: tuple[TopicPartition, ...], paused: bool) -> None:
        with self._shell.change():
            for found in [self._partitions.require(topic_partition(tp)) for tp in partitions]:
                found.paused = paused

    def _ends(
        self, partitions: Iterable[TopicPartition], mark: int, what: str, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(topic_partitions(partitions, f"{what}()"), mark)
        found = self._look_up(wanted, what, timeout_ms)
        return {tp: found[tp].offset for tp in wanted}

    def _look_up(
        self, wanted: dict[TopicPartition, int], what: str, timeout_ms: float | None
    ) -> dict[TopicPartition, ListedOffset]:
        with self._shell.enter():
            key = what, frozenset(wanted.items())
            return self._reader.ask(key, lambda: self._reader.managers.lookups.ask(wanted, what), timeout_ms)

    def _lag(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.require(tp)
        committed = self.config.isolation_level == "read_committed"
        end = partition.last_stable_offset if committed else partition.high_watermark
        is_stale = self._reader.watch.is_stale(self._reader.managers, partition, self._shell.driver.now())
        if end is None or is_stale or not partition.has_position:
            return None
        return max(0, end - partition.cursor.offset)


Consumer.__doc__ = f"{Consumer.__doc__}\n{CONSUMER_HELP}"
