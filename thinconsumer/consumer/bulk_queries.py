"""Internal calls for Spark's source and the command ``mirror``: queries of many partitions, polls up to given offsets.

Spark's source plans reads of thousands of partitions: it gets all their metadata in one round trip, and all their
offsets in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..engine import to_seconds
from ..errors import UnknownTopicOrPartitionError
from ..fetch.collector import Form, PollResult
from ..support.calls import Call
from ..types import OffsetAndMetadata, TopicPartition
from ..wire import ZERO_UUID
from .consumer import Consumer
from .managers import ConsumerManagers

T = TypeVar("T")
Offsets = Mapping[TopicPartition, int]

__all__ = ["ask", "known_topic_id", "look_up", "partitions_of", "poll_up_to"]


def partitions_of(
    consumer: Consumer[Any, Any], topics: Iterable[str] | None, timeout_ms: float | None = None
) -> dict[str, list[int]]:
    """Return the partition numbers of these topics, by one request; topics that do not exist are omitted.

    None means all topics, without internal ones if the option ``exclude_internal_topics`` is set.
    """
    names = None if topics is None else list(topics)
    found = ask(consumer, lambda managers: managers.metadata.inquire(names, "partitions_of()"), timeout_ms)
    hidden = topics is None and consumer.config.exclude_internal_topics
    return {name: sorted(topic.partitions) for name, topic in found.items() if not (topic.internal and hidden)}


def known_topic_id(consumer: Consumer[Any, Any], topic: str) -> bytes | None:
    """Return a topic's id from cached metadata (no I/O): 16 zero bytes if unknown, None if the topic does not exist."""
    found = consumer._reader.managers.metadata.topics.get(topic)
    if found is None:
        return ZERO_UUID
    return None if isinstance(found.error, UnknownTopicOrPartitionError) else found.topic_id


def look_up(
    consumer: Consumer[Any, Any], questions: Sequence[Offsets], timeout_ms: float | None = None
) -> list[dict[TopicPartition, int]]:
    """Return the offset for each partition of each query in ``questions``; -1 if no record is as new as the timestamp.

    A query maps each partition to a timestamp in ms since 1970, or to -1 for the end (under read_committed the last
    stable offset), or to -2 for the start. All queries are in flight together: the client sends one ListOffsets request
    for each pair of leader and query.
    """
    reader = consumer._reader
    with consumer._shell.enter():
        calls = [reader.managers.lookups.ask(dict(question), "look_up()") for question in questions]
        whole: Call[None] = Call("look_up()")

        def settled() -> bool:
            left = [call for call in calls if not call.done]
            whole.last_error = next((call.last_error for call in left if call.last_error is not None), None)
            return not left or any(call.error is not None for call in calls)

        try:
            consumer._shell.complete(reader.wait(whole, timeout_ms, settled))
            failed = [call for call in calls if call.error is not None]
            answers = [call.result() for call in failed or calls]
        finally:
            for call in calls:
                call.abandoned = True
    return [{tp: found.offset for tp, found in answer.items()} for answer in answers]


def aborted_batches(consumer: Consumer[Any, Any]) -> int:
    """Return how many batches of aborted transactions the consumer has left out (read_committed)."""
    with consumer._shell.guard:
        return consumer._reader.managers.collector.aborted_batches


def known_positions(consumer: Consumer[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the position of each assigned partition that has one, with its leader epoch (no I/O).

    The last poll's records are included only after a further call, the record in hand of an iteration not at all.
    """
    with consumer._shell.guard:
        partitions = consumer._reader.partitions
        return {partition.tp: partitions.processed(partition) for partition in partitions if partition.has_position}


def ask(
    consumer: Consumer[Any, Any], question: Callable[[ConsumerManagers], Call[T]], timeout_ms: float | None = None
) -> T:
    """Wait for the call that ``question(managers)`` begins, and return the call's result."""
    with consumer._shell.enter():
        waiting = consumer._reader.wait(question(consumer._reader.managers), timeout_ms)
        return consumer._shell.complete(waiting)


def poll_up_to(
    consumer: Consumer[Any, Any], ends: Offsets, limit: int, timeout_ms: float, columns: bool = False
) -> PollResult:
    """Poll for records before these ends; return once there are any, all partitions are at their end, or time is up.

    A plain poll would wait until its timeout if the log ends with offsets that are never returned, such as a
    transaction marker. With ``columns``, the limit is in bytes and batches are returned whole, so that records and
    positions may lie beyond the ends.
    """
    with consumer._shell.enter():
        form = Form.COLUMNS if columns else Form.ROWS
        poll_result = consumer._reader.poll(to_seconds(timeout_ms), limit, ends, form)
    consumer._reader.poll_result = poll_result
    return poll_result
