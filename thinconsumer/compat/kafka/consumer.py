"""kafka-python's ``KafkaConsumer`` as its users know it, on this package's :class:`Consumer`.

It adds what differs: the classes of values and errors, which arguments are wrong, defaults and the eager constructor.
docs/migrating.md has the differences that are left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from inspect import getmembers, isfunction
from typing import Any, ClassVar, TypeVar

from ...config import ConsumerConfig
from ...consumer import Consumer
from ...consumer.arguments import ToCommit, refuse_async
from ...consumer.group_calls import CommitCallback
from ...consumer.iteration import Iteration
from ...driver import Driver
from ...errors import ConcurrentAccessError, IllegalStateError, KafkaTimeoutError, NoBrokersAvailable, WakeupError
from ...fetch.collector import PollResult
from ...group.offsets.commit_queue import log_failure
from ...types import OffsetAndMetadata as OwnOffset
from ...types import SubscriptionPattern
from ...types import TopicPartition as OwnPartition
from ..patterns import beginning
from ..peer_types import KAFKA_PYTHON
from .errors import BootstrapTimeoutError
from .future import Future
from .listener import ConvertingListener
from .options import DEFAULT_CONFIG, all_values, commit_callback, own_options
from .structs import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    MemberState,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    offset_of,
    partition_of,
    record_of,
    time_of,
)

__all__ = ["KafkaConsumer"]

T = TypeVar("T")


class KafkaConsumer(Consumer[Any, Any]):
    """A consumer with the options, calls, values and errors of kafka-python's class of the same name.

    As there, the constructor waits for a broker, at most ``bootstrap_timeout_ms``, unless ``api_version`` is given.
    There is no thread: heartbeats are sent inside calls. All that :class:`thinconsumer.Consumer` has works, too.

    Raises:
        KafkaConfigurationError: options are unknown, invalid or contradictory.
        BootstrapTimeoutError: no broker answered the constructor in time. It is both kafka-python's
            ``KafkaTimeoutError`` and the ``NoBrokersAvailable`` of its versions before 3.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = DEFAULT_CONFIG
    _iteration: _Iteration

    def __init__(self, *topics: str, driver: Driver | None = None, **configs: Any) -> None:
        self._set_up(ConsumerConfig.from_options(**own_options(configs)), driver, topics)
        self._values = all_values(self._reader.config, configs)
        if configs.get("api_version") is None:
            self._await_broker()

    def _set_up(self, config: ConsumerConfig, driver: Driver | None, topics: tuple[str, ...]) -> None:
        super()._set_up(config, driver, topics)
        self._iteration = _Iteration(self._reader)
        self._values = all_values(config, {})

    def _await_broker(self) -> None:
        try:
            self.bootstrap(self._reader.config.bootstrap_timeout_ms)
        except (KafkaTimeoutError, NoBrokersAvailable) as error:
            outage = self._reader.managers.engine.network.outage(self._shell.driver.now())
            self.close(timeout_ms=0)
            raise BootstrapTimeoutError(str(error), {} if outage is None else outage.causes) from None
        except BaseException:
            self.close(timeout_ms=0)
            raise

    def __enter__(self) -> KafkaConsumer:
        return self

    @property
    def config(self) -> dict[str, Any]:  # type: ignore[override]
        """Every option by name, as it was given, or its default. Changes have no effect."""
        return self._values

    def poll(  # type: ignore[override]
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return available records by partition, waiting up to ``timeout_ms`` for the first ones."""
        if max_records is not None and not isinstance(max_records, int):
            raise TypeError(f"max_records is an int, not {max_records!r}")
        try:
            limit = self._max_poll_records if max_records is None else self._limit(max_records, "max_records")
            with self._shell.quiet_entry:
                poll_result = self._reader.poll(self._poll_seconds(timeout_ms), limit)
                found = {partition_of(tp): [*map(record_of, records)] for tp, records in poll_result.records.items()}
        except BaseException as error:
            if self._iteration.close_if_due() and isinstance(error, WakeupError):
                return {}
            KAFKA_PYTHON.adopt(error)
            raise
        # The last statement, as in Consumer.poll: an exception before it loses no record.
        if update_offsets:
            self._reader.poll_result = poll_result
        return found

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions. As in kafka-python, another thread may call this at any time."""
        return {*map(partition_of, self._partitions.tps())}

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {*map(partition_of, super().paused())}

    def subscribe(
        self,
        topics: Iterable[str] | None = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
        *,
        exclude: str | re.Pattern[str] | None = None,
    ) -> None:
        """Subscribe to topics, or to all whose names begin with a match of ``pattern``; see :meth:`Consumer.subscribe`.

        Raises:
            ValueError: neither topics nor pattern are given, or a name is illegal.
            IllegalStateError: both are given, or partitions were assigned by hand.
            TypeError: ``topics`` is no list, or ``listener`` lacks a method.
        """
        topics = () if topics is None else topics
        if isinstance(topics, str) or not isinstance(topics, Iterable):
            raise TypeError(f"topics is a list of names, not {topics!r}")
        names = list(topics)
        if names and pattern:
            raise IllegalStateError("subscribe() takes topics or a pattern, not both")
        found = pattern or None
        if found is not None and not isinstance(found, SubscriptionPattern):
            found = beginning(found)
        super().subscribe(names, found, listener, exclude=exclude)

    def _checked(self, listener: Any) -> Any:
        if listener is None:
            return None
        for name in ("on_partitions_assigned", "on_partitions_revoked"):
            if not callable(getattr(listener, name, None)):
                raise TypeError(f"listener is a ConsumerRebalanceListener, not {listener!r}, which has no {name}")
        return ConvertingListener(super()._checked(listener))

    def subscription(self) -> set[str] | None:  # type: ignore[override]
        """Return the subscribed topics, or those that match the pattern; None without a subscription."""
        topics = super().subscription()
        return topics if topics or self._reader.managers.is_subscribed else None

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:  # type: ignore[override]
        """Return the offset of the next record to return; None if it is not known within ``timeout_ms``."""
        require_partitions(partition)
        try:
            return super().position(partition, timeout_ms)
        except KafkaTimeoutError:
            if timeout_ms is None:
                raise
            return None

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the partition's high watermark from its last Fetch response; None if unknown."""
        require_partitions(partition)
        return super().highwater(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions."""
        require_partitions(*partitions)
        super().pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        require_partitions(*partitions)
        super().resume(*partitions)

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        """Set the position. Raises ValueError for a partition that is not assigned, or no offset."""
        self._require_assigned(partition)
        super().seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the log start of these partitions (default: all assigned; ValueError if there are none)."""
        self._require_assigned(*partitions)
        super().seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Seek to the end of these partitions (default: all assigned; ValueError if there are none)."""
        self._require_assigned(*partitions)
        super().seek_to_end(*partitions)

    def _require_assigned(self, *partitions: TopicPartition) -> None:
        require_partitions(*partitions)
        assigned = self._partitions.tps()
        for tp in partitions:
            if tp not in assigned:
                raise ValueError(f"Unassigned partition: {tp}")
        if not assigned:
            raise ValueError("No partitions are currently assigned")

    def commit_async(self, offsets: ToCommit | None = None, callback: CommitCallback | None = None) -> Future:  # type: ignore[override]
        """Queue a commit, which later calls send; return a future that is done in a later call.

        ``callback(offsets, error_or_None)`` runs in a later ``poll``, ``commit``, ``unsubscribe`` or ``close``.
        """
        refuse_async(callback, "the callback")
        future, default = Future(), self._reader.config.default_offset_commit_callback
        told: Any = (default or log_failure) if callback is None else commit_callback(callback)

        def done(committed: dict[OwnPartition, OwnOffset], error: Exception | None) -> None:
            if error is None:
                future.success(None)
            else:
                future.failure(KAFKA_PYTHON.adopt(error))
            told(committed, error)

        super().commit_async(offsets, done)
        return future

    def committed(  # type: ignore[override]
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Return the group's committed offset, or with ``metadata`` an ``OffsetAndMetadata``; None if there is none."""
        require_partitions(partition)
        found = super().committed(partition, True, timeout_ms)
        return found if found is None else offset_of(found) if metadata else found.offset

    def group_metadata(self) -> ConsumerGroupMetadata:  # type: ignore[override]
        """Return the member's identity in its group, and whether it has its assignment; also without a group.

        As in kafka-python, another thread may call this at any time.
        """
        group = self._reader.managers.group
        if group is None:
            return ConsumerGroupMetadata(group_id=None)
        member = group.member
        if member.is_settled:
            state = MemberState.STABLE
        else:
            has_begun = member.rebalancing or member.identity.is_member
            state = MemberState.REBALANCING if has_begun else MemberState.UNJOINED
        return ConsumerGroupMetadata(*member.identity[:4], state)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the topic's partition numbers, which are none if it does not exist."""
        return super().partitions_for_topic(topic, timeout_ms) or set()

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition, within ``request_timeout_ms`` by default."""
        return self._by_partition(super().beginning_offsets(partitions, self._query_ms(timeout_ms)))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition, within ``request_timeout_ms`` by default."""
        return self._by_partition(super().end_offsets(partitions, self._query_ms(timeout_ms)))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, or None, within ``request_timeout_ms`` by default."""
        whole = {tp: int(timestamp) for tp, timestamp in timestamps.items()}
        found = super().offsets_for_times(whole, self._query_ms(timeout_ms))
        return self._by_partition({tp: None if at is None else time_of(at) for tp, at in found.items()})

    def _query_ms(self, timeout_ms: float | None) -> float:
        return self._reader.config.request_timeout_ms if timeout_ms is None else timeout_ms

    @staticmethod
    def _by_partition(found: Mapping[OwnPartition, T]) -> dict[TopicPartition, T]:
        return {partition_of(tp): value for tp, value in found.items()}

    def bootstrap_connected(self) -> bool:
        """Return whether a connection to any broker is ready for requests; False once the consumer is closed."""
        return not self._shell.closed and super().bootstrap_connected()

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics by group and name; None with ``metrics_enabled=False``."""
        return super().metrics(raw) if self._values["metrics_enabled"] else None

    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, *, leave_group: bool | None = None
    ) -> None:
        """Commit, leave the group, and close all connections, within ``request_timeout_ms`` by default.

        As in kafka-python, and unlike :meth:`Consumer.close`, the record that an iteration returned last is committed.
        Another thread or a signal handler may call this during another call: that call ends, and closes the consumer.
        """
        if not self._shell.closed:
            try:
                with self._shell.guard:
                    if autocommit:
                        self._reader.settle()
                        self._reader.partitions.in_hand = None
            except ConcurrentAccessError:
                self._iteration.close_due = partial(self.close, autocommit, timeout_ms, leave_group=leave_group)
                self.wakeup()
                return
        self._iteration.is_closing = True
        try:
            super().close(autocommit, self._query_ms(timeout_ms), leave_group=leave_group)
        finally:
            self._iteration.is_closing = False


class _Iteration(Iteration):
    """Returns records of kafka-python's class one by one; ends if the consumer is closed."""

    #: Closes the consumer. A ``close`` during another call sets it, and that call runs it when it ends.
    close_due: Callable[[], None] | None = None
    is_closing = False  #: Whether ``close`` runs, maybe in another thread.

    def prepare(self) -> PollResult:
        if self._shell.closed or self.is_closing:
            return PollResult()
        try:
            return super().prepare()
        except BaseException as error:
            if self.close_if_due() and isinstance(error, WakeupError):
                return PollResult()
            KAFKA_PYTHON.adopt(error)
            raise

    def close_if_due(self) -> bool:
        """Close the consumer if ``close`` was called during the call that ends; return whether it was."""
        if self.close_due is None or self._shell.in_callback:
            return False
        close, self.close_due = self.close_due, None
        close()
        return True

    def listed(self, poll_result: PollResult) -> list[Any]:
        return [*map(record_of, super().listed(poll_result))]


def require_partitions(*partitions: object) -> None:
    """Raise TypeError for what is no TopicPartition, kafka-python's or this package's."""
    for tp in partitions:
        if not isinstance(tp, (TopicPartition, OwnPartition)):
            raise TypeError(f"expected a TopicPartition, not {tp!r}")


def _adopting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method, which lets the errors that it raises be instances of kafka-python's classes, too.

    If it ends with an exception, and ``close`` was called meanwhile, it closes the consumer. ``IllegalStateError``
    replaces the error of the wakeup with which that ``close`` has ended it.
    """
    name = method.__name__

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except BaseException as error:
            if name != "__init__" and args[0]._iteration.close_if_due() and isinstance(error, WakeupError):
                raise KAFKA_PYTHON.adopt(IllegalStateError("this consumer is closed")) from None
            KAFKA_PYTHON.adopt(error)
            raise

    return call


# ``poll`` and ``_Iteration`` do it themselves: Ctrl-C in a function around theirs would lose the records they return.
for _name, _method in getmembers(KafkaConsumer, isfunction):
    if _name == "__init__" or not (_name.startswith("_") or _name == "poll"):
        setattr(KafkaConsumer, _name, _adopting(_method))
