"""The public Consumer: polling, iteration, positions, pauses and offsets; ``group_calls`` has the calls for groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from ..config import ConsumerConfig
from ..config.options import OptionsHelp
from ..config.values import HeadersDeserializer, TopicDeserializer
from ..driver import Driver
from ..engine import Shell, to_seconds
from ..errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError, RecordError
from ..fetch.chunks import DECODER
from ..fetch.collector import Form
from ..fetch.leader_queries import ListedOffset
from ..fetch.record_sequence import RecordSequence
from ..metrics import MetricValues
from ..positions.partitions import Reset
from ..positions.states import PositionEvent, PositionState
from ..support.calls import Call
from ..support.imports import import_with_numpy
from ..types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .arguments import is_whole, topic_name, topic_partition, topic_partitions
from .core import ConsumerCore
from .group_calls import GroupCalls
from .health import Health
from .iteration import Iteration
from .metrics_recorder import figures, record_returned

__all__ = ["Consumer"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Unpack  # for type checkers only: not a runtime dependency

    from ..config.typed import ConsumerOptions
    from ..records.columnar.record_columns import RecordColumns
    from ..records.raw_batch import RawBatch

    Raw = bytes | None
    Deserialize: TypeAlias = Callable[[Any], T] | TopicDeserializer[T] | HeadersDeserializer[T]

EARLIEST, LATEST = Reset.EARLIEST, Reset.LATEST
#: Default ``max_bytes`` of ``poll_batches`` and ``poll_raw``. Calls that return more take longer per byte, since the
#: processor then waits for memory.
MAX_BYTES = 8 << 20
#: Upper limit of ``max_bytes``: positions in the bytes of one result must fit into 31 bits, and the last batch may
#: exceed the limit by 256 MB.
MAX_BYTES_LIMIT = 1 << 30


class Consumer(GroupCalls, Generic[K, V]):
    """A Kafka consumer without threads: all I/O happens inside its method calls.

    ``topics`` are subscribed to, see :meth:`subscribe`. ``driver`` does the I/O; by default with sockets.
    Options are those of :class:`thinconsumer.config.ConsumerConfig` (docs/options.md), under kafka-python's names.
    Constructing connects to no broker. Use it in a ``with`` block, or call :meth:`close`.

    A query or commit that times out is kept for 5 s: repeating the same call within that time continues to wait for it.

    Raises:
        KafkaConfigurationError: options are unknown, invalid or contradictory.
    """

    _warned_of_seconds = False

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
        """Build a consumer from options under Kafka's own dotted names; values may be typed or strings.

        ``Consumer.from_config({"bootstrap.servers": "localhost:9092", "fetch.min.bytes": "1"})``
        """
        consumer: Consumer[Any, Any] = cls.__new__(cls)
        consumer._set_up(ConsumerConfig.from_config(config), driver, topics)
        return consumer

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        if topics and not isinstance(topics[0], str):
            instead = "Consumer.from_config({...})" if isinstance(topics[0], Mapping) else "subscribe([...])"
            raise KafkaConfigurationError(f"Consumer() takes topics by name, not {topics[0]!r}: write {instead}")
        self._reader = ConsumerCore(config, driver)
        self._shell = self._reader.shell
        self._iteration = Iteration(self._reader)
        self._partitions = self._reader.partitions
        self._max_poll_records = config.max_poll_records
        if topics:
            self.subscribe(topics)

    @property
    def config(self) -> ConsumerConfig:
        """The options of this consumer."""
        return self._reader.config

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions. Partitions that stay assigned keep their positions.

        With a ``group_id``, new partitions start at the group's committed offsets, and :meth:`commit` works; the group
        is not rebalanced. The positions of removed partitions are committed if ``enable_auto_commit`` is set. An empty
        collection does the same as :meth:`unsubscribe`.

        Raises:
            IllegalStateError: the consumer is subscribed to topics.
        """
        tps = topic_partitions(partitions, "assign()")
        if not tps:
            self.unsubscribe()
            return
        with self._shell.change():
            if (subscriber := self._reader.managers.subscriber) is None:
                self._partitions.assign(tps)
            else:
                subscriber.assign_by_hand(tps, self._shell.driver.now())

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._shell.quiet_entry:
            return self._partitions.tps()

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, RecordSequence[K, V]]:
        """Return available records, waiting up to ``timeout_ms`` for the first ones; ``{}`` if none arrive.

        Returns at most ``max_records`` (default: option ``max_poll_records``), in offset order within each partition.
        A partition's records are a :class:`RecordSequence`, a read-only list; a long one builds records only when read.
        With ``update_offsets=False`` the positions do not change, and the next poll returns the same records again.

        Raises:
            WakeupError: :meth:`wakeup` was called.
            RecordError: the next record of a partition cannot be returned; :meth:`skip` it or :meth:`seek`.
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: under ``auto_offset_reset="none"``.
            AuthorizationError: an ACL is missing, or the login or TLS handshake is rejected; raised once for each
                rejection.
            NoBrokersAvailable: no broker was reachable for ``bootstrap_timeout_ms``; further polls try again.
        """
        with self._shell.quiet_entry:
            limit = self._max_poll_records if max_records is None else self._limit(max_records, "max_records")
            is_plain = type(timeout_ms) is int and timeout_ms >= 0
            poll_result = self._reader.poll(timeout_ms / 1000 if is_plain else self._poll_seconds(timeout_ms), limit)
        # This assignment must be the last statement, with no call after it. If an exception such as KeyboardInterrupt
        # comes earlier, the positions do not change, and the next poll returns the same records.
        if update_offsets:
            self._reader.poll_result = poll_result
        return poll_result.records

    def poll_batches(self, timeout_ms: float = 0, max_bytes: int | None = None) -> dict[TopicPartition, RecordColumns]:
        """Return records as columns: numpy arrays, and on request an Arrow batch (:meth:`RecordColumns.to_arrow`).

        Waits, moves positions and raises errors as :meth:`poll` does; both methods can be used in turn. Returns whole
        batches, until their decompressed size reaches ``max_bytes`` (default: 8 MB). Deserializers are not applied:
        keys and values are bytes.

        Raises:
            ImportError: numpy is not installed (``pip install 'thinconsumer[arrow]'``).
        """
        try:
            import_with_numpy(DECODER)
        except ImportError as exc:
            raise ImportError(f"poll_batches() needs numpy ({exc}): pip install 'thinconsumer[arrow]'") from exc
        limit = self._max_bytes(max_bytes)
        with self._shell.quiet_entry:
            poll_result = self._reader.poll(self._poll_seconds(timeout_ms), limit, form=Form.COLUMNS)
        # This assignment must be the last statement, as in poll: otherwise an exception could lose the records.
        self._reader.poll_result = poll_result
        return poll_result.records

    def poll_raw(self, timeout_ms: float = 0, max_bytes: int | None = None) -> dict[TopicPartition, list[RawBatch]]:
        """Return whole record batches as the log stores them, neither decompressed nor decoded.

        Waits, moves positions and raises errors as :meth:`poll` does; the three methods can be used in turn. Returns
        batches until their size reaches ``max_bytes`` (default: 8 MB). Checksums are verified (``check_crcs``).
        Control batches and batches without records are left out. Batches of aborted and open transactions are left out
        only with ``isolation_level="read_committed"``. If the position is inside a batch, the batch is returned whole,
        and its ``start`` is the position. Deserializers are not applied. If records of a partition are held until other
        partitions are read, only batches that begin before the held records are returned.
        """
        limit = self._max_bytes(max_bytes)
        with self._shell.quiet_entry:
            poll_result = self._reader.poll(self._poll_seconds(timeout_ms), limit, form=Form.RAW)
        # This assignment must be the last statement, as in poll: otherwise an exception could lose the batches.
        self._reader.poll_result = poll_result
        return poll_result.records

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Return the consumer itself. Iteration calls :meth:`poll`, so a program may use both in turn."""
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record; stop the iteration after ``consumer_timeout_ms`` without one.

        The timeout does not run before the first successful Fetch, so a slow connection does not end the iteration.
        """
        iteration = self._iteration
        poll_result = iteration.poll_result
        taken = poll_result.taken or 0
        # Nearly each record comes without a call of ``prepare``, which would take as long as the rest of this method.
        if (
            poll_result is not self._reader.poll_result
            or taken >= poll_result.count
            or self._shell.step_interrupted
            or iteration.now() >= iteration.drive_at
        ):
            poll_result = iteration.prepare()
            taken = poll_result.taken or 0
        record = iteration.records[taken]
        # The last statement, with no call after it: as in ``poll``, a KeyboardInterrupt must not come between counting
        # a record and returning it.
        poll_result.taken = taken + 1
        return record

    def read_to_end(self, timeout_ms: float | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Yield every record up to the end offsets of the assigned partitions at the time of this call, then stop.

        Records written later are not returned. Paused partitions are skipped. In a group, the call first waits until
        the group has assigned partitions. Raises ``KafkaTimeoutError`` if ``timeout_ms`` (default
        ``default_api_timeout_ms``) passes without progress.
        """
        with self._shell.enter():
            self._iteration.await_share(timeout_ms)
            tps = [p.tp for p in self._partitions if not p.paused]
        # Not ``end_offsets``: it may return the result of an earlier call that timed out, without newer records.
        wanted = dict.fromkeys(tps, LATEST)
        found = self._look_up(wanted, "read_to_end", timeout_ms, may_be_old=False)
        return self._iteration.read_to({tp: found[tp].offset for tp in tps}, timeout_ms)

    def drive(self) -> None:
        """Do pending I/O, heartbeats included, without returning records or running callbacks.

        Call it from time to time while the application processes records for long: the group's coordinator removes a
        member that sends no heartbeat for the session timeout.
        """
        with self._shell.enter():
            self._reader.open_calls.drop_old(self._shell.run_once(self._shell.driver.now()))

    def wakeup(self) -> None:
        """Make the call in progress, or else the next call that does I/O, raise ``WakeupError``.

        Safe to call from signal handlers and other threads. ``close`` and ``unsubscribe`` do not raise the error. If
        user code, such as a listener, is running at that moment, the calls that it makes continue; then the poll that
        runs the user code raises.
        """
        self._shell.driver.wakeup()

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when there is I/O to do: then call ``poll(0)``.

        Raises ``io.UnsupportedOperation`` where the platform has none (Windows).
        """
        with self._shell.quiet_entry:
            return self._shell.driver.fileno()

    def wake_at(self) -> float:
        """Return when to call :meth:`poll` again at the latest, in ``time.monotonic()`` seconds.

        Returns the current time if buffered records can be returned.
        """
        managers, shell = self._reader.managers, self._shell
        with shell.quiet_entry:
            is_withheld = managers.group is not None and managers.group.member.unconfirmed
            return shell.driver.now() if managers.buffer.has_ready() and not is_withheld else shell.wake_at()

    def skip(self, error: RecordError) -> None:
        """Move the position past the record that ``error`` names; do nothing if the position is already past it."""
        if not isinstance(error, RecordError):
            raise IllegalArgumentError(f"skip() takes a RecordError raised by poll(), not {error!r}")
        with self._shell.change():
            partition = self._partitions.require(error.partition)
            if partition.has_position and partition.cursor.offset < error.next_offset:
                partition.place(PositionEvent.SEEK, error.next_offset)

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position, and drop the partition's buffered records.

        If an ``OffsetAndMetadata`` has a leader epoch, the position is first checked for log truncation (KIP-320).
        """
        epoch = offset.leader_epoch if isinstance(offset, OffsetAndMetadata) else -1
        target = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if not is_whole(target, 0):
            raise IllegalArgumentError(f"an offset is a whole number from 0 on, not {target!r}")
        with self._shell.change():
            event = PositionEvent.SEEK if epoch < 0 else PositionEvent.SEEK_VALIDATED
            self._partitions.require(topic_partition(partition)).place(event, target, epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the log start of these partitions (default: all assigned). Later calls look up the offset."""
        self._seek_to(partitions, EARLIEST, "seek_to_beginning")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Seek to the end of these partitions (default: all assigned); under read_committed the last stable offset.

        Later calls look up the offset.
        """
        self._seek_to(partitions, LATEST, "seek_to_end")

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the partition's position, the offset of the next record to return; look it up if it is unknown.

        No I/O and no heartbeat if the position is known. Raises the errors that :meth:`poll` raises for this partition,
        and ``KafkaTimeoutError``.
        """
        with self._shell.enter():
            found = self._partitions.require(topic_partition(partition))
            if found.state is PositionState.AWAITING_CALLBACK:
                # Inside on_partitions_assigned: look up the position now, without waiting for the callback to end.
                found.move(PositionEvent.CALLBACK_DONE)
            call: Call[None] = Call(f"position of {found.tp.topic}-{found.tp.partition}")

            def settled() -> bool:
                if found.error is not None and not found.has_position:
                    raise found.error
                call.last_error = found.last_error
                return found.has_position

            self._reader.wait(call, timeout_ms, settled)
            return found.cursor.offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions. Buffered records are kept for :meth:`resume`."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        with self._shell.enter():
            return {p.tp for p in self._partitions if p.paused}

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the topics that this consumer may describe, without internal ones (``exclude_internal_topics``)."""
        with self._shell.enter():
            metadata, calls = self._reader.managers.metadata, self._reader.open_calls
            found = calls.wait("topics", lambda: metadata.inquire(None, "topics()"), timeout_ms)
        hidden = self.config.exclude_internal_topics
        return {name for name, topic in found.items() if not (topic.internal and hidden)}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the topic's partition numbers, or None if it does not exist; cached metadata are not used."""
        topic = topic_name(topic, "partitions_for_topic()")
        with self._shell.enter():
            what, metadata = f"partitions_for_topic({topic!r})", self._reader.managers.metadata
            found = self._reader.open_calls.wait(what, lambda: metadata.inquire([topic], what), timeout_ms)
        return set(found[topic].partitions) if topic in found else None

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition. Positions do not change."""
        return self._ends(partitions, EARLIEST, "beginning_offsets", timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition; under read_committed the last stable offset."""
        return self._ends(partitions, LATEST, "end_offsets", timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and time of the first record at or after each timestamp (ms since the epoch), or None."""
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
        """Return the partition's high watermark from its last Fetch response; None if unknown. No I/O."""
        with self._shell.enter():
            return self._partitions.require(topic_partition(partition)).high_watermark

    def lag(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int | None]:
        """Return each partition's lag (default: all assigned) as of its last Fetch response. No I/O.

        A partition's lag is None if the partition has no position, or if it has no buffered records and no Fetch has
        confirmed the log end within half of ``session_timeout_ms`` (without a group: of ``request_timeout_ms``).
        """
        with self._shell.enter():
            tps = self._partitions.tps() if partitions is None else topic_partitions(partitions, "lag()")
            return {tp: self._lag(tp) for tp in tps}

    def health(self) -> Health:
        """Return the consumer's health for a liveness probe: its state, and what keeps it from progress. No I/O.

        The report reflects the state at the consumer's last call; a last call too long ago is itself an obstacle.
        ``STUCK`` means that an obstacle has lasted for half of ``session_timeout_ms`` (without a group: of
        ``request_timeout_ms``), or will not end without intervention. An obstacle beside which there is progress, such
        as a partition that only waits until other partitions are read, never counts as ``STUCK``.
        """
        with self._shell.guard:
            return self._reader.watch.report(self._shell.driver.now())

    def metrics(self, raw: bool = False) -> MetricValues:
        """Return the consumer's metrics by group and name, under Kafka's own names (docs/metrics.md). No I/O.

        ``raw`` exists for compatibility with kafka-python; ``raw=True`` raises ``IllegalArgumentError``.
        """
        if raw:
            raise IllegalArgumentError("metrics(raw=True) is not supported: use the values of metrics()")
        with self._shell.guard:
            record_returned(self._reader)
            return figures(self._reader.managers, self._shell.driver.now())

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the client has received metadata; with ``refresh``, request and wait for new metadata in any case.

        Optional, since the other calls that need metadata wait for it. Useful to fail early at start-up.
        """
        with self._shell.enter():
            metadata = self._reader.managers.metadata
            if refresh or not metadata.nodes:
                self._reader.open_calls.wait("bootstrap", lambda: metadata.inquire([], "bootstrap()"), timeout_ms)

    def bootstrap_connected(self) -> bool:
        """Return whether a connection to any broker is ready for requests. No I/O."""
        with self._shell.enter():
            return self._shell.engine.network.any_ready()

    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, *, leave_group: bool | None = None
    ) -> None:
        """Commit processed records, give up all partitions, leave the group, and close all connections.

        Returns within ``timeout_ms`` (default 30 s) plus the duration of the listener's callbacks. Of that time, it
        waits at most 60 % for commits, so that the request to leave the group is sent in any case, and at most 0.2 s
        for brokers to close fetch sessions. ``timeout_ms=0`` is best effort: requests are written if their connections
        are ready, and no response is awaited. ``autocommit=False`` disables the automatic commit.
        ``leave_group`` (KIP-1092) says whether to leave the group for good; by default every member does except a
        static one, which may rejoin. A second call does nothing.

        Raises:
            IllegalArgumentError: ``autocommit`` is no bool. As in kafka-python, the first argument is not the timeout.
        """
        if not isinstance(autocommit, bool):
            raise IllegalArgumentError(f"autocommit is a bool, not {autocommit!r}: is timeout_ms={autocommit!r} meant?")
        if not self._shell.closed:
            self._reader.close(timeout_ms, commit=autocommit, leave_group=leave_group)

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    def __del__(self) -> None:
        shell: Shell | None = getattr(self, "_shell", None)  # no _shell if the constructor raised for invalid options
        if shell is not None and not shell.closed and self._shell.engine.network.any_open():
            words = f"unclosed {self!r}: call close(), or use a with block"
            warnings.warn(words, ResourceWarning, stacklevel=2, source=self)
            shell.driver.close()

    def __repr__(self) -> str:
        state = "closed" if self._shell.closed else repr(self._shell.engine.network)
        return f"<Consumer {self.config.client_id} {len(self._partitions)} partitions, {state}>"

    def _poll_seconds(self, timeout_ms: float) -> float:
        """Return a poll's timeout in seconds; warn once if it looks like confluent-kafka's timeout in seconds."""
        # No warning for more than two decimals: such a float was probably computed, as the time left until a deadline.
        seconds = isinstance(timeout_ms, float) and 0 < timeout_ms < 50 and round(timeout_ms, 2) == timeout_ms
        if seconds and not self._warned_of_seconds:
            self._warned_of_seconds = True
            words = f"poll({timeout_ms!r}) waits {timeout_ms!r} milliseconds: for seconds write {timeout_ms * 1000:.0f}"
            warnings.warn(words, UserWarning, stacklevel=3)
        return to_seconds(timeout_ms)

    def _max_bytes(self, max_bytes: int | None) -> int:
        return min(MAX_BYTES if max_bytes is None else self._limit(max_bytes, "max_bytes"), MAX_BYTES_LIMIT)

    @staticmethod
    def _limit(value: int, name: str) -> int:
        if not is_whole(value, 1):
            raise IllegalArgumentError(f"{name} must be a whole number from 1 on, not {value!r}")
        return value

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
        self, wanted: dict[TopicPartition, int], what: str, timeout_ms: float | None, *, may_be_old: bool = True
    ) -> dict[TopicPartition, ListedOffset]:
        with self._shell.enter():
            key, lookups = (what, frozenset(wanted.items())), self._reader.managers.lookups
            ask = partial(lookups.ask, wanted, what)
            return self._reader.open_calls.wait(key, ask, timeout_ms, lambda call: may_be_old)

    def _lag(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.require(tp)
        committed = self.config.isolation_level == "read_committed"
        end = partition.last_stable_offset if committed else partition.high_watermark
        is_stale = self._reader.watch.is_stale(partition, self._shell.driver.now())
        if end is None or is_stale or not partition.has_position:
            return None
        return max(0, end - partition.cursor.offset)


Consumer.__doc__ = OptionsHelp(Consumer.__doc__)  # type: ignore[assignment]
