"""aiokafka's consumer, on top of :class:`thinconsumer.aio.AsyncConsumer`."""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections.abc import Awaitable, Collection, Iterable, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, TypeVar

from ...config.values import INT64_MAX
from ...consumer.arguments import topic_partition
from ...errors import CommitFailedError, IllegalStateError, KafkaError
from ...positions.partitions import Partition
from ...types import OffsetAndMetadata as OwnOffsetAndMetadata
from ...types import TopicPartition as OwnTopicPartition
from ..patterns import beginning
from ..peer_types import AIOKAFKA
from .abc import ConsumerRebalanceListener
from .errors import ConsumerStoppedError, IllegalOperation
from .listener import AIOKafkaListenerCalls
from .options import Tokens, translate
from .shared_consumer import SharedConsumer, StoppedError
from .structs import OffsetAndTimestamp, partition_of, partitions_of, record_of

__all__ = ["AIOKafkaConsumer"]

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Without ``max_poll_records``, ``getmany`` returns all records that are buffered.
ALL_BUFFERED = 1 << 31


class AIOKafkaConsumer:
    """aiokafka's consumer: its keywords, calls, results and exceptions. For asyncio and uvloop.

    Options that aiokafka does not have are those of :class:`thinconsumer.Consumer`, such as ``group_protocol``. As with
    aiokafka, several tasks may call at once, records count as consumed when they are returned, and rebalances go on
    while the application awaits something else. docs/migrating.md lists what differs.

    Raises:
        KafkaConfigurationError: options are unknown, invalid or contradictory; it is a ValueError, too.
        RuntimeError: no event loop is running, and none is passed.
    """

    _closed = True  # for __del__, if the constructor raises

    def __init__(self, *topics: str, loop: asyncio.AbstractEventLoop | None = None, **options: Any) -> None:
        if loop is not None:
            warnings.warn("the argument loop is deprecated", DeprecationWarning, stacklevel=2)
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._max_records = options.pop("max_poll_records", None)
        self._check_limit(self._max_records, "max_poll_records")
        with AIOKAFKA.adopting():
            self._consumer = SharedConsumer(**translate(options))
        self._closed = False
        self._started = False
        if topics:
            self.subscribe(topics)

    # -- start and end

    async def start(self) -> None:
        """Connect to the cluster; if there is a subscription, wait until partitions are assigned.

        Raises:
            NoBrokersAvailable: no broker answers within ``bootstrap_timeout_ms``; it is a KafkaConnectionError, too.
        """
        if self._closed or self._started:
            raise IllegalStateError("the consumer was stopped" if self._closed else "start() was called twice")
        provider = self._consumer.config.sasl_oauth_token_provider
        if isinstance(provider, Tokens):
            await provider.fetch()
        # Later than NoBrokersAvailable, which names the cause for each address.
        await self._ask(self._consumer.bootstrap(2 * self._consumer.config.bootstrap_timeout_ms + 1000))
        await self._ask(self._consumer.until_topics_exist())
        await self._ask(self._consumer.until_assigned())
        self._started = True

    async def stop(self) -> None:
        """Commit what was consumed if ``enable_auto_commit`` is set, leave the group, and close all connections.

        Calls that wait end: ``getmany`` returns nothing, others raise ``ConsumerStoppedError``.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._consumer.stop()
        except KafkaError:
            log.exception("while the consumer was stopped")

    async def __aenter__(self) -> AIOKafkaConsumer:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __del__(self) -> None:
        if not self._closed:
            warnings.warn(f"Unclosed AIOKafkaConsumer {self!r}", ResourceWarning, stacklevel=2, source=self)
            self._consumer.abandon()
            self._loop.call_exception_handler({"consumer": self, "message": "Unclosed AIOKafkaConsumer"})

    # -- subscription and assignment

    def subscribe(
        self, topics: Collection[str] = (), pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Subscribe to topics, or to all topics whose names begin with a match of ``pattern``.

        Raises:
            TypeError: neither topics nor pattern, or both; no list, set or tuple; no ``ConsumerRebalanceListener``.
            ValueError: the pattern is not valid.
            IllegalStateError: partitions were assigned by hand.
        """
        if bool(topics) == bool(pattern):
            raise TypeError("subscribe() takes either topics or a pattern")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError(f"listener is a ConsumerRebalanceListener, not {listener!r}")
        if topics and not isinstance(topics, (tuple, set, list)):
            raise TypeError(f"topics are a list of names, not {topics!r}")
        calls = None if listener is None or self._has_no_group else AIOKafkaListenerCalls(listener)
        with AIOKAFKA.adopting():
            is_member = not self._has_no_group and bool(self._consumer.subscription())
            if pattern:
                self._consumer.subscribe(pattern=beginning(pattern), listener=calls)
            else:
                self._consumer.subscribe(topics, listener=calls)
            if is_member:  # a new listener is called for the partitions that the member has, too
                self._consumer.enforce_rebalance("the consumer subscribed again")

    def unsubscribe(self) -> None:
        """Give up all partitions, also those assigned by hand, and leave the group.

        The listener is not called, and nothing is committed: await :meth:`commit` before, if needed.
        """
        with AIOKAFKA.adopting():
            self._consumer.unsubscribe_now()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; for a pattern, those that match it."""
        return frozenset(self._consumer.subscription())

    def assign(self, partitions: Iterable[OwnTopicPartition]) -> None:
        """Assign exactly these partitions, without a rebalance.

        Raises:
            IllegalStateError: the consumer is subscribed to topics.
        """
        partitions = list(partitions)
        with AIOKAFKA.adopting():
            if partitions:
                self._consumer.assign(partitions)
            elif self._consumer.subscription():
                raise IllegalStateError("the consumer is subscribed to topics")
            else:
                self._consumer.unsubscribe_now()

    def assignment(self) -> set[Any]:
        """Return the assigned partitions."""
        return partitions_of(self._consumer.assignment())

    # -- records

    async def getone(self, *partitions: OwnTopicPartition) -> Any:
        """Return the next record, of these partitions only if some are given; wait for one.

        A cancelled call has consumed nothing.

        Raises:
            ConsumerStoppedError: :meth:`stop` was called, before or during the call.
        """
        self._check_open()
        if not partitions:
            record = self._consumer.next_polled()
            if record is not None:
                return record_of(record)
        return record_of(await self._ask(self._consumer.get_one(_ends(partitions))))

    async def getmany(
        self, *partitions: OwnTopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[Any, list[Any]]:
        """Return records as soon as there are any, or nothing after ``timeout_ms``.

        At most ``max_records`` are returned; by default ``max_poll_records``, and without that all buffered ones.

        Raises:
            ConsumerStoppedError: :meth:`stop` was called before.
            ValueError: ``max_records`` is not a positive int.
        """
        self._check_open()
        self._check_limit(max_records, "max_records")
        limit = max_records or self._max_records or ALL_BUFFERED
        try:
            found = await self._ask(self._consumer.get_many(timeout_ms / 1000, limit, _ends(partitions)))
        except ConsumerStoppedError:
            return {}
        return {partition_of(tp): list(map(record_of, records)) for tp, records in found.items()}

    def __aiter__(self) -> AIOKafkaConsumer:
        self._check_open()
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # -- offsets and positions

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """Commit ``offsets``, by default all that were consumed, and wait until the coordinator has accepted them.

        A value is the next offset, or a pair of that and a text.

        Raises:
            IllegalOperation: there is no ``group_id``.
            IllegalStateError: a partition is not assigned.
            CommitFailedError: the group has rebalanced, or the coordinator rejects the commit.
            ValueError, TypeError: ``offsets`` is no such mapping.
        """
        self._require_group()
        found = None if offsets is None else _to_commit(offsets)
        with AIOKAFKA.adopting():
            if not self._consumer.is_reading:
                raise IllegalStateError("Not subscribed to any topics")
            if not self._consumer.assignment() and (found or not self._consumer.is_settled):
                if self._started and not found:
                    raise CommitFailedError("the partitions were revoked", reason="rebalance_in_progress")
                raise IllegalStateError("No partitions assigned")
            self._require_assigned(found or ())
        await self._ask(self._consumer.commit(found))

    async def committed(self, partition: OwnTopicPartition) -> int | None:
        """Return the group's committed offset, or None.

        Raises:
            IllegalOperation: there is no ``group_id``.
        """
        self._require_group()
        return await self._ask(self._consumer.committed(topic_partition(partition)))

    async def position(self, partition: OwnTopicPartition) -> int:
        """Return the offset of the next record to return, and look it up if it is not known.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        return await self._ask(self._consumer.position(partition))

    def seek(self, partition: OwnTopicPartition, offset: int) -> None:
        """Set the position.

        Raises:
            ValueError: the offset is no int from 0 on.
            IllegalStateError: the partition is not assigned.
        """
        with AIOKAFKA.adopting():
            self._consumer.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: OwnTopicPartition) -> bool:
        """Set the positions of these partitions, by default of all assigned ones, to their log start offsets."""
        tps = self._to_seek(partitions)
        self._consumer.seek_to_beginning(*tps)
        return await self._found(tps)

    async def seek_to_end(self, *partitions: OwnTopicPartition) -> bool:
        """Set the positions of these partitions, by default of all assigned ones, to their end offsets."""
        tps = self._to_seek(partitions)
        self._consumer.seek_to_end(*tps)
        return await self._found(tps)

    async def seek_to_committed(self, *partitions: OwnTopicPartition) -> dict[Any, int | None]:
        """Set the positions of these partitions, by default of all assigned ones, to the group's committed offsets.

        Returns the committed offsets, None for partitions without one, which keep their positions.
        """
        tps = self._to_seek(partitions)
        self._require_group()
        committed = await self._ask(self._consumer.committed(tps))
        for tp, offset in committed.items():
            if offset is not None:
                self.seek(tp, offset)
        return {partition_of(tp): offset for tp, offset in committed.items()}

    async def offsets_for_times(self, timestamps: Mapping[OwnTopicPartition, int]) -> dict[Any, Any]:
        """Return offset and time of the first record at or after each timestamp (ms since 1970), or None."""
        wanted = {topic_partition(tp): int(timestamp) for tp, timestamp in timestamps.items()}
        found = await self._ask(self._consumer.offsets_for_times(wanted))
        return {
            partition_of(tp): None if value is None else OffsetAndTimestamp(value.offset, value.timestamp)
            for tp, value in found.items()
        }

    async def beginning_offsets(self, partitions: Iterable[OwnTopicPartition]) -> dict[Any, int]:
        """Return the log start offset of each partition."""
        found = await self._ask(self._consumer.beginning_offsets(partitions))
        return {partition_of(tp): offset for tp, offset in found.items()}

    async def end_offsets(self, partitions: Iterable[OwnTopicPartition]) -> dict[Any, int]:
        """Return the high watermark of each partition; under read_committed the last stable offset."""
        found = await self._ask(self._consumer.end_offsets(partitions))
        return {partition_of(tp): offset for tp, offset in found.items()}

    # -- what is known without a request

    def highwater(self, partition: OwnTopicPartition) -> int | None:
        """Return the high watermark from the last Fetch response, or None."""
        return self._assigned(partition).high_watermark

    def last_stable_offset(self, partition: OwnTopicPartition) -> int | None:
        """Return the last stable offset from the last Fetch response, or None; -1 without read_committed."""
        found = self._assigned(partition)
        return found.last_stable_offset if self._consumer.config.isolation_level == "read_committed" else -1

    def last_poll_timestamp(self, partition: OwnTopicPartition) -> int | None:
        """Return when :meth:`highwater` was confirmed last, in milliseconds since 1970; None before."""
        return self._consumer.fetched_at(self._assigned(partition))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partition numbers, or None if the client has no metadata of it."""
        return self._consumer.known_partitions(topic)

    async def topics(self) -> set[str]:
        """Return the topics that this consumer may describe."""
        return await self._ask(self._consumer.topics())

    # -- pauses

    def pause(self, *partitions: OwnTopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        with AIOKAFKA.adopting():
            self._consumer.pause(*_checked(partitions))

    def resume(self, *partitions: OwnTopicPartition) -> None:
        """Return records of these partitions again."""
        with AIOKAFKA.adopting():
            self._consumer.resume(*_checked(partitions))

    def paused(self) -> set[Any]:
        """Return the paused partitions."""
        return partitions_of(self._consumer.paused())

    # -- helpers

    async def _ask(self, call: Awaitable[T]) -> T:
        """Await a call; let its error be aiokafka's, too."""
        try:
            return await call
        except StoppedError:
            raise ConsumerStoppedError from None
        except KafkaError as error:
            AIOKAFKA.adopt(error)
            raise

    # FastStream's listener, which each of its subscribers has, reads these three for its log lines.

    @property
    def _group_id(self) -> str | None:
        return self._consumer.config.group_id

    @property
    def _coordinator(self) -> SimpleNamespace:
        return SimpleNamespace(member_id=self._consumer.group_metadata().member_id)

    @property
    def _subscription(self) -> SimpleNamespace:
        return SimpleNamespace(topics=self.subscription())

    @property
    def _has_no_group(self) -> bool:
        return self._group_id is None

    def _require_group(self) -> None:
        if self._has_no_group:
            raise IllegalOperation("Requires group_id")

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerStoppedError

    @staticmethod
    def _check_limit(limit: object, name: str) -> None:
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ValueError(f"`{name}` is a positive int, not {limit!r}")

    def _require_assigned(self, partitions: Iterable[OwnTopicPartition]) -> None:
        assigned = self._consumer.assignment()
        for tp in partitions:
            if tp not in assigned:
                raise AIOKAFKA.adopt(IllegalStateError(f"Partition {tp} is not assigned"))

    def _to_seek(self, partitions: tuple[OwnTopicPartition, ...]) -> list[OwnTopicPartition]:
        """Return these partitions, by default all assigned ones."""
        tps = _checked(partitions) or list(self._consumer.assignment())
        if not tps:
            raise AIOKAFKA.adopt(IllegalStateError("No partitions are currently assigned"))
        self._require_assigned(tps)
        return tps

    async def _found(self, tps: list[OwnTopicPartition]) -> bool:
        for tp in tps:
            await self._ask(self._consumer.position(tp))
        return True

    def _assigned(self, tp: OwnTopicPartition) -> Partition:
        found = self._consumer.partition(topic_partition(tp))
        if found is None:
            raise AssertionError(f"Partition {tp} is not assigned")
        return found


def _checked(partitions: tuple[OwnTopicPartition, ...]) -> list[OwnTopicPartition]:
    if not all(isinstance(tp, tuple) for tp in partitions):
        raise TypeError("partitions are TopicPartition objects")
    return [topic_partition(tp) for tp in partitions]


def _ends(partitions: tuple[OwnTopicPartition, ...]) -> dict[OwnTopicPartition, int] | None:
    return {topic_partition(tp): INT64_MAX for tp in partitions} if partitions else None


def _to_commit(offsets: object) -> dict[OwnTopicPartition, Any]:
    """Return the offsets to commit; raise aiokafka's ValueError or TypeError."""
    if not offsets or not isinstance(offsets, Mapping):
        raise ValueError(f"commit() takes a mapping of partitions to offsets, not {offsets!r}")
    return {_key(tp): _value(value) for tp, value in offsets.items()}


def _key(tp: object) -> OwnTopicPartition:
    if not isinstance(tp, tuple):
        raise TypeError(f"Key should be TopicPartition instance, not {tp!r}")
    return topic_partition(tp)


def _value(value: object) -> Any:
    if not isinstance(value, tuple):
        return value
    if len(value) != 2:
        raise ValueError(f"an offset to commit is an int, or a pair of an int and a str, not {value!r}")
    if not isinstance(value[1], str):
        raise TypeError(f"Metadata should be a string, not {value[1]!r}")
    return OwnOffsetAndMetadata(value[0], value[1])
