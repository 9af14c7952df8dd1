"""The driver's questions to the cluster: which partitions there are, where their logs begin and end, what is committed.

Owns one consumer without assignment, made when it is first needed and never pickled: Spark copies readers between
processes. A question about all partitions is one round trip. What fails is tried again with a new consumer, as the
options ``fetchOffset.numRetries`` and ``fetchOffset.retryIntervalMs`` say. Decides nothing about the answers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..consumer import Consumer
from ..consumer.bulk_queries import known_topic_id, look_up, partitions_of, poll_up_to
from ..errors import AuthorizationError, IllegalArgumentError, KafkaError, UnknownTopicOrPartitionError
from ..types import TopicPartition
from ..wire import ZERO_UUID
from .offsets import EARLIEST, LATEST, Offsets, show
from .options import Assigned, Selection, SourceOptions, Topics, consumer_config

log = logging.getLogger(__name__)

T = TypeVar("T")
Connect = Callable[[Mapping[str, Any]], Consumer[Any, Any]]

#: How many partitions are looked into to learn how large records are, and how many records of each.
SAMPLED_PARTITIONS = 8
SAMPLED_RECORDS = 200
SAMPLED_BYTES = 65_536
SAMPLING_MS = 2000
#: A commit is a courtesy: no query waits for it longer than this, ...
COMMIT_MS = 10_000
#: ... and not in every micro-batch while it does not work; seconds.
COMMIT_PAUSE_S = 60.0


class Lookup:
    """Asks the cluster; picklable, without its connections."""

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
        self._commit_at: dict[str, float] = {}  #: When to try again to commit for a group.
        self._consumer: Consumer[Any, Any] | None = None
        #: For groups' offsets, by group. None of them is ever a member.
        self._groups: dict[str, Consumer[Any, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_consumer": None, "_groups": {}, "_commit_at": {}}

    def partitions(self, known: Mapping[TopicPartition, int] | None = None) -> dict[TopicPartition, bytes]:
        """Return the partitions that the options choose, in order, each with its topic's id.

        A topic that a stream has read, and thus ``known``, may have been deleted: it is left out, but only after
        asking as often as may be. One broker that has not heard of it yet would have all of it read once more.

        Raises:
            UnknownTopicOrPartitionError: a topic or a partition that is named does not exist.
        """
        try:
            return self._again(lambda consumer: choose(self._options.selection, consumer))
        except UnknownTopicOrPartitionError:
            if known is None:
                raise
        return self._again(lambda consumer: choose(self._options.selection, consumer, missing_ok=True))

    def offsets(self, *questions: Mapping[TopicPartition, int]) -> list[dict[TopicPartition, int]]:
        """Return the answers to questions of :func:`~thinconsumer.consumer.bulk_queries.look_up`, in one round trip."""
        return self._again(lambda consumer: look_up(consumer, questions))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where logs begin."""
        (found,) = self.offsets(dict.fromkeys(partitions, EARLIEST))
        return found

    def latest(self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Return where logs end. An end before the ``known`` one is asked for again: some answers are out of date."""
        question = dict.fromkeys(partitions, LATEST)
        for attempt in range(1, self._options.fetch_offset_num_retries + 1):
            (found,) = self.offsets(question)
            behind = [tp for tp, offset in found.items() if offset < known.get(tp, 0)]
            if not behind or attempt == self._options.fetch_offset_num_retries:
                break
            log.warning("the logs of %s end before where they ended once: asking again", show(behind))
            self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        return found

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return what a group has committed; None where it has not."""
        wanted = list(partitions)

        def ask(_: Consumer[Any, Any]) -> dict[TopicPartition, int | None]:
            found: dict[TopicPartition, int | None] = self._of_group(group).committed(wanted)
            return found

        return self._again(ask) if wanted else {}

    def commit(self, group: str, offsets: Offsets, *, last: bool = False) -> bool:
        """Commit for a group, so that tools see how far a stream is; return whether that was done.

        What goes wrong is told and nothing more. After that nothing is tried for a while, but for the ``last`` one.
        """
        if not offsets:
            return True
        if not last and self._clock() < self._commit_at.get(group, float("-inf")):
            return False
        try:
            self._of_group(group).commit(offsets, COMMIT_MS)
        except KafkaError as error:
            self._commit_at[group] = self._clock() + COMMIT_PAUSE_S
            if group in self._groups:
                self._groups.pop(group).close(autocommit=False, timeout_ms=0)
            log.warning("offsets were not committed for group %r, which the query does not need: %s", group, error)
            return False
        return True

    def sizes(self, start: Offsets, end: Offsets) -> list[tuple[int, int]]:
        """Return (offsets, bytes of key, value and headers) of a few records at the beginning of the largest ranges.

        Nothing, if they cannot be read. Whoever has to read them says why, and knows whether that is an error.
        """
        largest = sorted(end, key=lambda tp: start.get(tp, 0) - end[tp])[:SAMPLED_PARTITIONS]
        begins = {tp: start[tp] for tp in largest if tp in start and start[tp] < end[tp]}
        try:
            return self._again(lambda consumer: sample(consumer, begins, end), attempts=1) if begins else []
        except KafkaError as error:
            log.warning("no records could be looked at to learn how large they are: %s", error)
            return []

    def close(self) -> None:
        """Hang up; what comes later connects again."""
        consumers = [*self._groups.values(), *([] if self._consumer is None else [self._consumer])]
        self._consumer, self._groups = None, {}
        for consumer in consumers:
            consumer.close(autocommit=False, timeout_ms=0)

    # -- inside

    def _of_group(self, group: str) -> Consumer[Any, Any]:
        if group not in self._groups:
            ours = {"group.id": group, "enable.auto.commit": "false"}
            self._groups[group] = self._connect(consumer_config(self._options.kafka, **ours))
        return self._groups[group]

    def _again(self, ask: Callable[[Consumer[Any, Any]], T], attempts: int | None = None) -> T:
        """Ask until there is an answer, as often as the options allow."""
        attempts = self._options.fetch_offset_num_retries if attempts is None else attempts
        for attempt in range(1, attempts + 1):
            try:
                if self._consumer is None:
                    ours = {"auto.offset.reset": "none", "max.partition.fetch.bytes": str(SAMPLED_BYTES)}
                    self._consumer = self._connect(consumer_config(self._options.kafka, **ours))
                return ask(self._consumer)
            except KafkaError as error:
                self.close()
                final = isinstance(error, (AuthorizationError, IllegalArgumentError))
                if final or attempt == attempts:
                    raise
                log.warning("attempt %d to get offsets from Kafka failed: %s", attempt, error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        raise AssertionError("there is at least one attempt")


def choose(
    selection: Selection, consumer: Consumer[Any, Any], *, missing_ok: bool = False
) -> dict[TopicPartition, bytes]:
    """Return the partitions that a selection means on this cluster, in order, each with its topic's id."""
    chosen = _choose(selection, consumer, missing_ok=missing_ok)
    return {tp: known_topic_id(consumer, tp.topic) or ZERO_UUID for tp in chosen}


def _choose(selection: Selection, consumer: Consumer[Any, Any], *, missing_ok: bool) -> list[TopicPartition]:
    if isinstance(selection, Assigned):
        # Asking a leader for what has none would take until the time is over, and would not say which one it is.
        there = partitions_of(consumer, sorted({tp.topic for tp in selection.partitions}))
        chosen = [tp for tp in selection.partitions if tp.partition in there.get(tp.topic, ())]
        if len(chosen) < len(selection.partitions) and not missing_ok:
            raise _unknown(f"partition {show(set(selection.partitions) - set(chosen))}", "assign", "it")
        return chosen
    if isinstance(selection, Topics):
        found = partitions_of(consumer, selection.names)
        missing = [name for name in selection.names if not found.get(name)]
        if missing and not missing_ok:
            raise _unknown(f"topic {', '.join(map(repr, missing))}", "subscribe", "the topic")
    else:
        everything = partitions_of(consumer, None)
        found = {name: numbers for name, numbers in everything.items() if selection.pattern.fullmatch(name)}
    return [TopicPartition(name, number) for name in sorted(found) for number in found[name]]


def _unknown(what: str, option: str, it: str) -> UnknownTopicOrPartitionError:
    return UnknownTopicOrPartitionError(
        f"no {what} on this cluster, or it may not be seen: correct the option {option}, create {it}, or grant "
        "DESCRIBE on it",
        code=3,
        name="UNKNOWN_TOPIC_OR_PARTITION",
        retriable=True,
    )


def sample(consumer: Consumer[Any, Any], start: Offsets, end: Offsets) -> list[tuple[int, int]]:
    """Read a few records from each start on; return how many offsets they span and how large they are."""
    consumer.assign(start)
    for tp, offset in start.items():
        consumer.seek(tp, offset)
    ends = {tp: min(end[tp], offset + SAMPLED_RECORDS) for tp, offset in start.items()}
    spans: dict[TopicPartition, tuple[int, int]] = {}
    try:
        while spans.keys() != start.keys():
            found = poll_up_to(consumer, ends, max_records=SAMPLED_RECORDS, timeout_ms=SAMPLING_MS)
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
