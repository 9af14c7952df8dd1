"""The requests of Spark's driver to the cluster: partitions, log offsets, committed offsets, commits, samples.

Log offsets of all partitions are looked up in one round trip. After most errors, a look-up is repeated with a new
consumer every ``fetchOffset.retryIntervalMs``, for up to ``fetchOffset.numRetries`` attempts in all. Commits and
samples are not repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ..consumer import Consumer
from ..consumer.bulk_queries import known_topic_id, look_up, partitions_of, poll_up_to
from ..errors import AuthorizationError, IllegalArgumentError, KafkaError, UnknownTopicOrPartitionError
from ..types import TopicPartition
from ..wire import ZERO_UUID
from .offsets import EARLIEST, LATEST, Offsets, partition_names
from .options import Selection, SourceOptions, consumer_config, errors_name_host
from .order import TopicOrder

log = logging.getLogger(__name__)

T = TypeVar("T")
Connect = Callable[[Mapping[str, Any]], Consumer[Any, Any]]

#: Limits of sampling records to estimate their size: partitions; records of each partition; bytes that a partition may
#: have in a Fetch response; milliseconds of each poll.
SAMPLED_PARTITIONS = 8
SAMPLED_RECORDS = 200
SAMPLED_BYTES = 65_536
SAMPLING_MS = 2000
#: Timeout of a commit in milliseconds: short, since micro-batches wait for a commit that the query does not need.
COMMIT_MS = 10_000
#: Pause after a failed commit, in seconds: without it, every micro-batch would wait for an unavailable coordinator.
COMMIT_PAUSE_S = 60.0


class Found(NamedTuple):
    """The result of :meth:`ClusterClient.offsets`: a dict of offsets for each dict of timestamps, in the same order."""

    offsets: list[dict[TopicPartition, int]]
    order: TopicOrder


class ClusterClient:
    """Sends requests with consumers that it creates on demand. A pickled copy, as Spark makes it, has none yet."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        connect: Connect = Consumer.from_config,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._connect = connect
        self._sleep = sleep
        self._clock = clock
        self._commit_failed_at: dict[str, float] = {}  #: When the last failed commit has failed, by group.
        self._consumer: Consumer[Any, Any] | None = None
        #: Consumers that fetch and commit offsets, by group. They never join the group.
        self._groups: dict[str, Consumer[Any, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_consumer": None, "_groups": {}, "_commit_failed_at": {}}

    def partitions(self, known: Mapping[TopicPartition, int] | None = None) -> dict[TopicPartition, bytes]:
        """Return the partitions that the options select, in order, each with its topic's id.

        ``known`` are the offsets of a running stream; None before its start. In a running stream, a topic or partition
        that the options name counts as deleted, and is left out, if it is missing in all attempts. One is not enough,
        since a broker's metadata may be outdated: a topic left out by mistake would later be read again, as a new one.

        Raises:
            UnknownTopicOrPartitionError: without ``known``, if a topic or a partition that the options name is missing.
        """
        try:
            return self._retry(lambda consumer: select_partitions(self._options.selection, consumer))
        except UnknownTopicOrPartitionError:
            if known is None:
                raise
        return self._retry(lambda consumer: select_partitions(self._options.selection, consumer, missing_ok=True))

    def offsets(self, *questions: Mapping[TopicPartition, int]) -> Found:
        """Return the offsets for each dict of ListOffsets timestamps, in one round trip.

        ``questions`` are these dicts. The ``order`` is looked up afterwards by the same consumer: its metadata then
        have all changes of partition counts below the log end offsets (see :class:`.TopicOrder`).
        """

        def request(consumer: Consumer[Any, Any]) -> Found:
            offsets = look_up(consumer, questions)
            topics = {tp.topic for question in questions for tp in question}
            return Found(offsets, TopicOrder.look_up(consumer, topics, self._options.order))

        return self._retry(request)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the log start offsets of these partitions."""
        question = dict.fromkeys(partitions, EARLIEST)
        (found,) = self._retry(lambda consumer: look_up(consumer, [question]))
        return found

    def latest(self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int]) -> Found:
        """Return the log end offsets of these partitions.

        If a log end is below the offset in ``known``, which the stream has reached, the broker that answered may be
        outdated: all log ends are requested again, with at most ``fetchOffset.numRetries`` attempts in all.
        """
        question = dict.fromkeys(partitions, LATEST)
        for attempt in range(1, self._options.fetch_offset_num_retries + 1):
            found = self.offsets(question)
            behind = [tp for tp, offset in found.offsets[0].items() if offset < known.get(tp, 0)]
            if not behind or attempt == self._options.fetch_offset_num_retries:
                break
            names = partition_names(behind)
            log.warning("%s: the broker's log end offset is below an offset already read; requesting it again", names)
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        return found

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return a group's committed offsets; None for partitions without one."""
        wanted = list(partitions)
        return self._retry(lambda _: self._group_consumer(group).committed(wanted)) if wanted else {}

    def commit(self, group: str, offsets: Offsets, *, last: bool = False) -> bool:
        """Commit for a group, so that tools can show the stream's lag; return whether the commit succeeded.

        A failure is logged. For ``COMMIT_PAUSE_S`` after it, only the ``last`` commit of a query is sent.
        """
        if not offsets:
            return True
        if not last and self._clock() < self._commit_failed_at.get(group, float("-inf")) + COMMIT_PAUSE_S:
            return False
        try:
            consumer = self._group_consumer(group)
            if group in self._commit_failed_at:
                # Leave out partitions that do not exist: an earlier commit may have failed because one was removed, as
                # the partition count of a counted topic can shrink.
                there = partitions_of(consumer, sorted({tp.topic for tp in offsets}), COMMIT_MS)
                offsets = {tp: offset for tp, offset in offsets.items() if tp.partition in there.get(tp.topic, ())}
            consumer.commit(offsets, COMMIT_MS)
        except KafkaError as error:
            self._commit_failed_at[group] = self._clock()
            if group in self._groups:
                self._groups.pop(group).close(autocommit=False, timeout_ms=0)
            log.warning("offsets were not committed for group %r (the query goes on): %s", group, error)
            return False
        return True

    def sizes(self, start: Offsets, end: Offsets) -> list[tuple[int, int]]:
        """Read a few records of the partitions with the most offsets to read, to estimate record sizes.

        Returns (number of offsets, bytes) of what was read from each partition. After an error the list is empty, and
        the error is only logged: if it lasts, the tasks that read the same records raise it.
        """
        largest = sorted(end, key=lambda tp: start.get(tp, 0) - end[tp])[:SAMPLED_PARTITIONS]
        begins = {tp: start[tp] for tp in largest if tp in start and start[tp] < end[tp]}
        try:
            return self._retry(lambda consumer: sample(consumer, begins, end), attempts=1) if begins else []
        except KafkaError as error:
            log.warning("no records could be sampled to estimate their size for maxBytesPerTrigger: %s", error)
            return []

    def close(self) -> None:
        """Close all connections; a later call connects again."""
        consumers = [*self._groups.values(), *([] if self._consumer is None else [self._consumer])]
        self._consumer, self._groups = None, {}
        for consumer in consumers:
            consumer.close(autocommit=False, timeout_ms=0)

    def _group_consumer(self, group: str) -> Consumer[Any, Any]:
        if group not in self._groups:
            self._groups[group] = self._new_consumer(**{"group.id": group, "enable.auto.commit": "false"})
        return self._groups[group]

    def _new_consumer(self, **ours: str) -> Consumer[Any, Any]:
        with errors_name_host(self._options.kafka):
            return self._connect(consumer_config(self._options.kafka, **ours))

    def _retry(self, request: Callable[[Consumer[Any, Any]], T], attempts: int | None = None) -> T:
        """Return the result of ``request``; after a KafkaError try again, up to ``attempts`` times in all.

        The default is ``fetchOffset.numRetries``. Authorization errors and illegal arguments are raised at once.
        """
        attempts = self._options.fetch_offset_num_retries if attempts is None else attempts
        for attempt in range(1, attempts + 1):
            try:
                if self._consumer is None:
                    ours = {"auto.offset.reset": "none", "max.partition.fetch.bytes": str(SAMPLED_BYTES)}
                    self._consumer = self._new_consumer(**ours)
                return request(self._consumer)
            except KafkaError as error:
                self.close()
                final = isinstance(error, (AuthorizationError, IllegalArgumentError))
                if final or attempt == attempts:
                    raise
                log.warning("attempt %d of %d to look up partitions or offsets failed: %s", attempt, attempts, error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        raise AssertionError("fetchOffset.numRetries must be at least 1")


def select_partitions(
    selection: Selection, consumer: Consumer[Any, Any], *, missing_ok: bool = False
) -> dict[TopicPartition, bytes]:
    """Return the partitions that match a selection, in order, each with its topic's id (16 zero bytes if unknown).

    Topics and partitions that are named but missing are left out with ``missing_ok``, else they are an error.
    """
    if selection.partitions is not None:
        # Check that the partitions exist: ListOffsets for a missing one would be retried until a timeout, and the
        # timeout error would not name the partition.
        there = partitions_of(consumer, sorted({tp.topic for tp in selection.partitions}))
        chosen = [tp for tp in selection.partitions if tp.partition in there.get(tp.topic, ())]
        if len(chosen) < len(selection.partitions) and not missing_ok:
            raise _unknown(f"partition {partition_names(set(selection.partitions) - set(chosen))}", "assign", "it")
    else:
        found = partitions_of(consumer, selection.names)
        missing = [name for name in selection.names or () if not found.get(name)]
        if missing and not missing_ok:
            raise _unknown(f"topic {', '.join(map(repr, missing))}", "subscribe", "the topic")
        every = [TopicPartition(name, number) for name in sorted(found) for number in found[name]]
        chosen = every if selection.names is not None else list(filter(selection.matches, every))
    return {tp: known_topic_id(consumer, tp.topic) or ZERO_UUID for tp in chosen}


def _unknown(what: str, option: str, it: str) -> UnknownTopicOrPartitionError:
    return UnknownTopicOrPartitionError(
        f"{what} does not exist on this cluster, or the client lacks DESCRIBE on it: correct the option {option}, "
        f"create {it}, or grant DESCRIBE",
        code=3,
        name="UNKNOWN_TOPIC_OR_PARTITION",
        retriable=True,
    )


def sample(consumer: Consumer[Any, Any], start: Offsets, end: Offsets) -> list[tuple[int, int]]:
    """Read a few records of each partition from ``start`` on; return (offsets, bytes) of each with records."""
    consumer.assign(start)
    for tp, offset in start.items():
        consumer.seek(tp, offset)
    ends = {tp: min(end[tp], offset + SAMPLED_RECORDS) for tp, offset in start.items()}
    spans: dict[TopicPartition, tuple[int, int]] = {}
    try:
        while spans.keys() != start.keys():
            found = poll_up_to(consumer, ends, SAMPLED_RECORDS, SAMPLING_MS).records
            if not found:
                break
            for tp, records in found.items():
                size = sum(_size(record) for record in records)
                spans[tp] = records[-1].offset + 1 - records[0].offset, size
    finally:
        consumer.unsubscribe()
    return list(spans.values())


def _size(record: Any) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
