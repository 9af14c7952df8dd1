"""The public calls of a consumer that never wait: positions, pauses, what is known, metrics and health."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from ..config import ConsumerConfig
from ..driver import Driver
from ..engine import Shell, to_seconds
from ..errors import IllegalArgumentError, IllegalStateError, KafkaConfigurationError, RecordError
from ..fetch.chunks import DECODER
from ..fetch.collector import PollResult
from ..fetch.record_sequence import RecordSequence
from ..metrics import MetricValues
from ..positions.partitions import Reset
from ..positions.states import PositionEvent
from ..support.imports import import_with_numpy
from ..support.shown import shown
from ..types import OffsetAndMetadata, TopicPartition
from .arguments import is_whole, topic_partition, topic_partitions
from .core import ConsumerCore
from .group_calls import GroupCalls
from .health import Health
from .iteration import Iteration
from .metrics_recorder import figures, record_returned
from .queries import EARLIEST, LATEST, Queries

__all__ = ["PlainCalls", "check_autocommit", "require_numpy"]

K = TypeVar("K")
V = TypeVar("V")

#: Default ``max_bytes`` of ``poll_batches`` and ``poll_raw``. Calls that return more take longer per byte, since the
#: processor then waits for memory.
MAX_BYTES = 8 << 20
#: Upper limit of ``max_bytes``: positions in the bytes of one result must fit into 31 bits, and the last batch may
#: exceed the limit by 256 MB.
MAX_BYTES_LIMIT = 1 << 30


def require_numpy() -> None:
    """Raise ImportError with advice if ``poll_batches`` cannot work, since numpy is not installed."""
    try:
        import_with_numpy(DECODER)
    except ImportError as exc:
        raise ImportError(f"poll_batches() needs numpy ({exc}): pip install 'thinconsumer[arrow]'") from exc


def check_autocommit(autocommit: object) -> None:
    """Raise IllegalArgumentError if the first argument of ``close`` is no bool: a timeout may be meant."""
    if not isinstance(autocommit, bool):
        raise IllegalArgumentError(
            f"autocommit is a bool, not {shown(autocommit)}: is timeout_ms={shown(autocommit)} meant?"
        )


class PlainCalls(GroupCalls, Generic[K, V]):
    """The base class of :class:`Consumer` and of the consumer for event loops."""

    _warned_of_seconds = False

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        if topics and not isinstance(topics[0], str):
            name = type(self).__name__
            instead = f"{name}.from_config({{...}})" if isinstance(topics[0], Mapping) else "subscribe([...])"
            raise KafkaConfigurationError(f"{name}() takes topics by name, not {shown(topics[0])}: write {instead}")
        self._reader = ConsumerCore(config, driver)
        self._shell = self._reader.shell
        self._iteration = Iteration(self._reader)
        if self._reader.interceptors is not None:
            from .interceptors import InterceptedIteration  # on demand, as the interceptors

            self._iteration = InterceptedIteration(self._reader, self._reader.interceptors)
        self._queries = Queries(self._reader)
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
            self._unassign()
            return
        with self._shell.change():
            if (subscriber := self._reader.managers.subscriber) is None:
                self._partitions.assign(tps)
            else:
                subscriber.assign_by_hand(tps, self._shell.driver.now())

    def _unassign(self) -> None:
        """Give up all partitions, for :meth:`assign` without any."""
        raise NotImplementedError

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        with self._shell.quiet_entry:
            return self._partitions.tps()

    def wakeup(self) -> None:
        """Make the call in progress, or else the next call that does I/O, raise ``WakeupError``.

        Safe to call from signal handlers and other threads. ``close`` and ``unsubscribe`` do not raise the error. If
        user code, such as a listener, is running at that moment, the calls that it makes continue; then the poll that
        runs the user code raises.
        """
        self._shell.driver.wakeup()

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
            raise IllegalArgumentError(f"an offset is a whole number from 0 on, not {shown(target)}")
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

    def bootstrap_connected(self) -> bool:
        """Return whether a connection to any broker is ready for requests. No I/O."""
        with self._shell.enter():
            return self._shell.engine.network.any_ready()

    def __del__(self) -> None:
        shell: Shell | None = getattr(self, "_shell", None)  # no _shell if the constructor raised for invalid options
        if shell is not None and not shell.closed and self._shell.engine.network.any_open():
            words = f"unclosed {self!r}: call close(), or use a with block"
            warnings.warn(words, ResourceWarning, stacklevel=2, source=self)
            shell.driver.close()

    def __repr__(self) -> str:
        state = "closed" if self._shell.closed else repr(self._shell.engine.network)
        return f"<{type(self).__name__} {self._reader.config.client_id} {len(self._partitions)} partitions, {state}>"

    def _poll_seconds(self, timeout_ms: float) -> float:
        """Return a poll's timeout in seconds; warn once if it looks like confluent-kafka's timeout in seconds."""
        # No warning for more than two decimals: such a float was probably computed, as the time left until a deadline.
        seconds = isinstance(timeout_ms, float) and 0 < timeout_ms < 50 and round(timeout_ms, 2) == timeout_ms
        if seconds and not self._warned_of_seconds:
            self._warned_of_seconds = True
            words = f"poll({timeout_ms!r}) waits {timeout_ms!r} milliseconds: for seconds write {timeout_ms * 1000:.0f}"
            warnings.warn(words, UserWarning, stacklevel=3)
        return to_seconds(timeout_ms)

    def _intercepted(self, poll_result: PollResult) -> dict[TopicPartition, RecordSequence[K, V]]:
        """Return the records that a poll returns: those of its result, or what the interceptors make of them."""
        interceptors = self._reader.interceptors
        if interceptors is None or not poll_result.count:
            return poll_result.records
        with self._shell.guard:
            return interceptors.on_consume(poll_result.records)

    def _max_bytes(self, max_bytes: int | None) -> int:
        return min(MAX_BYTES if max_bytes is None else self._limit(max_bytes, "max_bytes"), MAX_BYTES_LIMIT)

    @staticmethod
    def _limit(value: int, name: str) -> int:
        if not is_whole(value, 1):
            raise IllegalArgumentError(f"{name} must be a whole number from 1 on, not {shown(value)}")
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

    def _lag(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.require(tp)
        committed = self._reader.config.isolation_level == "read_committed"
        end = partition.last_stable_offset if committed else partition.high_watermark
        is_stale = self._reader.watch.is_stale(partition, self._shell.driver.now())
        if end is None or is_stale or not partition.has_position:
            return None
        return max(0, end - partition.cursor.offset)
