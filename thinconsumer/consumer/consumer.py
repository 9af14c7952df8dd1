"""The public Consumer: polls, iteration, and calls that wait; ``plain_calls`` and ``group_calls`` have the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

from ..config import ConsumerConfig
from ..config.options import OptionsHelp
from ..config.values import INT64_MAX, HeadersDeserializer, TopicDeserializer
from ..driver import Driver
from ..fetch.collector import Form
from ..fetch.record_sequence import RecordSequence
from ..support.imports import import_uninterrupted, variable
from ..types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .arguments import ToCommit
from .plain_calls import PlainCalls, check_autocommit, require_numpy
from .queries import EARLIEST, LATEST

__all__ = ["Consumer"]

#: With this environment variable, consumers write traces as with the option ``trace``.
TRACE_VARIABLE = "THINCONSUMER_TRACE"
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Self, Unpack  # for type checkers only: not a runtime dependency

    from ..config.typed import ConsumerOptions
    from ..records.columnar.record_columns import RecordColumns
    from ..records.raw_batch import RawBatch

    Raw = bytes | None
    Deserialize: TypeAlias = Callable[[Any], T] | TopicDeserializer[T] | HeadersDeserializer[T]


class Consumer(PlainCalls[K, V]):
    """A Kafka consumer without threads: all I/O happens inside its method calls.

    ``topics`` are subscribed to, see :meth:`subscribe`. ``driver`` does the I/O; by default with sockets.
    Options are those of docs/options.md, under kafka-python's names.
    Constructing connects to no broker. Use it in a ``with`` block, or call :meth:`close`.

    A query or commit that times out is kept for 5 s: repeating the same call within that time continues to wait for it.

    Raises:
        KafkaConfigurationError: options are unknown, invalid or contradictory.
    """

    def __new__(cls, *topics: str, **options: Any) -> Self:
        if cls is Consumer and (options.get("trace") or variable(TRACE_VARIABLE)):
            # By name: few programs record traces, and the client does not depend on that room.
            return cast("Self", object.__new__(import_module("thinconsumer.replay").RecordingConsumer))
        return object.__new__(cls)

    if TYPE_CHECKING:
        # Not in PlainCalls, for AsyncConsumer, too: mypy would infer Consumer[Never, Never] from inherited overloads.
        # One signature with type variables that default to bytes would accept Consumer[str, str] without deserializers.

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
        consumer: Consumer[Any, Any] = object.__new__(cls)
        consumer._set_up(ConsumerConfig.from_config(config), driver, topics)
        return consumer

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
            is_plain = type(timeout_ms) is int and 0 <= timeout_ms <= INT64_MAX
            poll_result = self._reader.poll(timeout_ms / 1000 if is_plain else self._poll_seconds(timeout_ms), limit)
        records = poll_result.records if self._reader.interceptors is None else self._intercepted(poll_result)
        # This assignment must be the last statement, with no call after it. If an exception such as KeyboardInterrupt
        # comes earlier, the positions do not change, and the next poll returns the same records.
        if update_offsets:
            self._reader.poll_result = poll_result
        return records

    def poll_batches(self, timeout_ms: float = 0, max_bytes: int | None = None) -> dict[TopicPartition, RecordColumns]:
        """Return records as columns: numpy arrays, and on request an Arrow batch (:meth:`RecordColumns.to_arrow`).

        Waits, moves positions and raises errors as :meth:`poll` does; both methods can be used in turn. Returns whole
        batches, until their decompressed size reaches ``max_bytes`` (default: 8 MB). Deserializers are not applied:
        keys and values are bytes.

        Raises:
            ImportError: numpy is not installed (``pip install 'thinconsumer[arrow]'``).
        """
        require_numpy()
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
            if not poll_result.count:
                raise StopIteration
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
            ends = self._shell.complete(self._iteration.find_ends(timeout_ms))
        return self._iteration.read_to(ends, timeout_ms)

    def drive(self) -> None:
        """Do pending I/O, heartbeats included, without returning records or running callbacks.

        Call it from time to time while the application processes records for long: the group's coordinator removes a
        member that sends no heartbeat for the session timeout.
        """
        with self._shell.enter():
            self._reader.open_calls.drop_old(self._shell.run_once(self._shell.driver.now()))

    def keep_alive(self) -> AbstractContextManager[None]:
        """Let an interval timer of the system do what :meth:`drive` does while the block computes, waits or sleeps.

        For work that takes longer than the session timeout. Five times a second, a signal handler steps the client
        between two bytecodes of the block: heartbeats, fetches and commits go on. Positions stay, no callback runs, no
        token provider or ``resolver`` is called, and ``max_poll_interval_ms`` counts. Log lines and errors wait for the
        next call. Blocks may be nested, also those of several consumers; other calls are allowed.

        The block uses SIGALRM and ITIMER_REAL; an alarm that was set before comes at its time. Code in the block may
        not set another one for longer. Functions of C libraries may return early with EINTR, and the client does
        not work while such a function runs. See docs/groups.md.

        Raises:
            IllegalStateError: in another thread than the main one, on Windows, in a callback, or if SIGALRM belongs to
                an event loop. Call :meth:`drive`, or let another process do the work.
        """
        # On demand: few programs need it. After an import that Ctrl-C cuts off, a lock of all imports may stay taken.
        block: AbstractContextManager[None] = import_uninterrupted(f"{__package__}.keep_alive").KeepAlive(self._reader)
        return block

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

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the partition's position, the offset of the next record to return; look it up if it is unknown.

        No I/O and no heartbeat if the position is known. Raises the errors that :meth:`poll` raises for this partition,
        and ``KafkaTimeoutError``.
        """
        with self._shell.enter():
            return self._shell.complete(self._queries.position(partition, timeout_ms))

    def unsubscribe(self) -> None:
        """Give up all partitions, including those assigned by hand, and leave the group.

        First commits the offsets of processed records (``enable_auto_commit``) and calls the listener.
        Waits at most 60 % of ``default_api_timeout_ms`` for commits, including those of ``commit_async``, and then at
        most 5 s until the request to leave is written.
        """
        with self._shell.change():
            self._shell.complete(self._queries.unsubscribe())

    def commit(self, offsets: ToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has accepted them.

        ``offsets``: the *next* offset to read, by partition, or the last processed record; default: the positions of
        the assigned partitions, which are after every returned record. Retriable failures are retried within
        ``timeout_ms`` (default ``default_api_timeout_ms``).

        Raises:
            CommitFailedError: with the reason; after ``unknown_member`` and ``illegal_generation`` the partitions are
                lost, and the next poll calls ``on_partitions_lost``.
            RebalanceInProgressError: a rebalance is in progress, and may assign the partitions to another member.
            PartitionNotOwnedError: this member is subscribed, and neither owns the partitions that the error names nor
                is revoking them. The other offsets were written. See ``allow_foreign_commits``.
            AuthorizationError: an ACL is missing.
            IllegalArgumentError: an offset, a leader epoch or metadata cannot be encoded; nothing is committed.
            IllegalStateError: there is no ``group_id``.
        """
        with self._shell.enter():
            self._shell.complete(self._queries.commit(offsets, timeout_ms))

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...
    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...
    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the offset that the group has committed for a partition, or None; for several partitions, a dict.

        With ``metadata``, return an :class:`OffsetAndMetadata` instead of an int. The offset is requested from the
        coordinator: there is no cache.
        """
        with self._shell.enter():
            return self._shell.complete(self._queries.committed(partition, metadata, timeout_ms))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the topics that this consumer may describe, without internal ones (``exclude_internal_topics``)."""
        with self._shell.enter():
            return self._shell.complete(self._queries.topics(timeout_ms))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the topic's partition numbers, or None if it does not exist; cached metadata are not used."""
        with self._shell.enter():
            return self._shell.complete(self._queries.partitions_for_topic(topic, timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition. Positions do not change."""
        with self._shell.enter():
            return self._shell.complete(self._queries.ends(partitions, EARLIEST, "beginning_offsets", timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition; under read_committed the last stable offset."""
        with self._shell.enter():
            return self._shell.complete(self._queries.ends(partitions, LATEST, "end_offsets", timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and time of the first record at or after each timestamp (ms since the epoch), or None."""
        with self._shell.enter():
            return self._shell.complete(self._queries.offsets_for_times(timestamps, timeout_ms))

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the client has received metadata; with ``refresh``, request and wait for new metadata in any case.

        Optional, since the other calls that need metadata wait for it. Useful to fail early at start-up.
        """
        with self._shell.enter():
            self._shell.complete(self._queries.bootstrap(timeout_ms, refresh))

    def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id under which this consumer pushes metrics to brokers (KIP-714), as Kafka's tools show it.

        Raises:
            IllegalStateError: it pushes none, see ``enable_metrics_push``.
            UnsupportedVersionError: the broker takes no metrics.
        """
        with self._shell.enter():
            return self._shell.complete(self._queries.client_instance_id(timeout_ms))

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
        check_autocommit(autocommit)
        if not self._shell.closed:
            with self._shell.guard:
                self._shell.complete(self._reader.close(timeout_ms, commit=autocommit, leave_group=leave_group))

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    def _unassign(self) -> None:
        self.unsubscribe()


Consumer.__doc__ = OptionsHelp(Consumer.__doc__)  # type: ignore[assignment]
