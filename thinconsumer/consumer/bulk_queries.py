"""Internal calls for readers of fixed ranges: many questions at once, and polls that end at given offsets.

Spark's source plans reads of thousands of partitions and has to know all of it in one round trip; the public calls
answer one question each. Owns no state: each function is one call of the consumer that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..calls import Call
from ..errors import UnknownTopicOrPartitionError
from ..fetch.collector import Records
from ..types import TopicPartition
from ..wire import ZERO_UUID
from .arguments import to_seconds
from .consumer import Consumer

if TYPE_CHECKING:
    from ..records.columnar.record_columns import RecordColumns

__all__ = ["known_topic_id", "look_up", "partitions_of", "poll_columns_up_to", "poll_up_to"]


def partitions_of(
    consumer: Consumer[Any, Any], topics: Iterable[str] | None, timeout_ms: float | None = None
) -> dict[str, list[int]]:
    """Return the partition numbers of these topics, or of all there are; topics that do not exist are left out.

    One request, whatever the number of topics. Internal topics are hidden as ``Consumer.topics`` hides them, unless
    they are named.
    """
    reader, shell = consumer._reader, consumer._shell
    with shell.enter():
        names = None if topics is None else list(topics)
        found = reader.wait(reader.managers.metadata.inquire(names, "partitions_of()"), timeout_ms)
    hidden = topics is None and consumer.config.exclude_internal_topics
    return {name: sorted(topic.partitions) for name, topic in found.items() if not (topic.internal and hidden)}


def known_topic_id(consumer: Consumer[Any, Any], topic: str) -> bytes | None:
    """Return a topic's id as the consumer's metadata has it now; sends nothing.

    Sixteen zero bytes while no broker has named one; None once a broker has answered that the topic does not exist.
    """
    found = consumer._reader.managers.metadata.topics.get(topic)
    if found is None:
        return ZERO_UUID
    return None if isinstance(found.error, UnknownTopicOrPartitionError) else found.topic_id


def look_up(
    consumer: Consumer[Any, Any], questions: Sequence[Mapping[TopicPartition, int]], timeout_ms: float | None = None
) -> list[dict[TopicPartition, int]]:
    """Return an offset for each partition of each question; -1 where no record is as young as the time asked for.

    A question is a time in ms since 1970, -1 (the end; under read_committed the last stable offset) or -2 (the start).
    All are under way at once: one ListOffsets for each leader and question.
    """
    reader, shell = consumer._reader, consumer._shell
    with shell.enter():
        calls = [reader.managers.lookups.ask(dict(question), "look_up()") for question in questions]
        whole: Call[None] = Call("look_up()")

        def settled() -> bool:
            left = [call for call in calls if not call.done]
            whole.last_error = next((call.last_error for call in left if call.last_error is not None), None)
            return not left or any(call.error is not None for call in calls)

        try:
            reader.wait(whole, timeout_ms, settled)
            failed = [call for call in calls if call.error is not None]
            answers = [call.result() for call in failed or calls]
        finally:
            for call in calls:
                call.abandoned = True
    return [{tp: found.offset for tp, found in answer.items()} for answer in answers]


def poll_up_to(
    consumer: Consumer[Any, Any], ends: Mapping[TopicPartition, int], *, max_records: int, timeout_ms: float
) -> dict[TopicPartition, Records]:
    """Poll for records before these ends; return as soon as there are any, or once all partitions are at their end.

    A log may end in what is never handed out, such as the mark that ends a transaction: a plain poll would wait there.
    """
    reader, shell = consumer._reader, consumer._shell
    with shell.enter():
        poll_result = reader.poll(to_seconds(timeout_ms), max_records, ends)
    reader.poll_result = poll_result
    return poll_result.records


def poll_columns_up_to(
    consumer: Consumer[Any, Any], ends: Mapping[TopicPartition, int], *, max_bytes: int, timeout_ms: float
) -> dict[TopicPartition, RecordColumns]:
    """Poll for columns; return as soon as there are any, or once all partitions are at their end.

    Whole batches come, so that the last records may be behind the ends, and the positions too.
    """
    reader, shell = consumer._reader, consumer._shell
    with shell.enter():
        poll_result = reader.poll(to_seconds(timeout_ms), max_bytes, ends, columns=True)
    reader.poll_result = poll_result
    return poll_result.columns
