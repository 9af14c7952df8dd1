"""Offsets as JSON, in options and in Spark's checkpoints: ``{"topic":{"0":23,"1":-2}}``.

The format is that of Spark's own Kafka connector (its ``JsonUtils``). Topics are sorted by name and partitions by
number: Spark compares offsets as text, and an idle stream would run empty batches for ever if the order changed.

Spark calls ``initialOffset()`` again when it repeats the first batch after a crash: if the second call returned newer
offsets, records would be skipped. So ``initialOffset()`` returns the constant ``{}``, and the end offset of the first
batch also contains the start of that batch, under ``@start``, which is no legal topic name.

The module ``order`` adds state of a stream under ``BARRIER_KEY``, which is no legal topic name either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..config.values import INT32_MAX, INT64_MAX
from ..errors import KafkaConfigurationError
from ..types import TopicPartition

Offsets = dict[TopicPartition, int]
#: An offset in Spark's sense, that of a whole stream, as PySpark passes it to a source: JSON objects as dicts.
Json = dict[str, Any]

LATEST = -1
EARLIEST = -2
START_KEY = "@start"

_OFFSETS = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
_ASSIGNMENT = '{"topicA":[0,1],"topicB":[2,4]}'


def parse_offsets(text: str, option: str) -> Offsets:
    """Return the offsets in an option such as ``startingOffsets``; -1 is the latest offset, -2 the earliest.

    Raises:
        KafkaConfigurationError: the text is not such JSON. The message names the faulty part.
    """
    return _partition_numbers(text, option, "an offset", EARLIEST, _OFFSETS)


def parse_timestamps(text: str, option: str) -> Offsets:
    """Return the timestamps, in ms since the epoch, in an option such as ``startingOffsetsByTimestamp``."""
    return _partition_numbers(text, option, "a time in ms since 1970", 0, _TIMESTAMPS)


def parse_assignment(text: str) -> list[TopicPartition]:
    """Return the partitions that the option ``assign`` names, sorted."""
    found: set[TopicPartition] = set()
    for topic, numbers in _object(text, "assign", _ASSIGNMENT).items():
        if not isinstance(numbers, list):
            wrong = f"the partitions of {topic!r} must be a list, not {json.dumps(numbers)}"
            raise _refused("assign", wrong, _ASSIGNMENT)
        for number in numbers:
            if not _is_whole(number, 0, INT32_MAX):
                raise _refused("assign", f"{json.dumps(number)} is not a partition number of {topic!r}", _ASSIGNMENT)
            found.add(TopicPartition(topic, number))
    if not found:
        raise _refused("assign", "it names no partition", _ASSIGNMENT)
    return sorted(found)


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """Return the offsets as a JSON object, sorted."""
    result: Json = {}
    for tp in sorted(offsets):
        result.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return result


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Return a stream's offsets, without ``@start``, from a checkpoint of this source or of Spark's own connector.

    Raises:
        KafkaConfigurationError: the value has another format.
    """
    found = {topic: one for topic, one in value.items() if topic != START_KEY} if isinstance(value, dict) else value
    try:
        return _numbers(found, "an offset", 0)
    except ValueError as error:
        raise KafkaConfigurationError(
            f"offset {json.dumps(found)[:200]} was not written by this source: {error}. If the checkpoint belongs to "
            "another source, give this query a checkpoint of its own"
        ) from None


def first_batch_start(value: Mapping[str, Any]) -> Offsets | None:
    """Return the start of the first batch if ``value`` is the end of that batch, else None."""
    start = value.get(START_KEY)
    return None if start is None else from_json(start)


def first_batch_end(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Json:
    """Return the end offset of a stream's first batch, with the start of that batch."""
    return {**to_json(end), START_KEY: to_json(start)}


def partition_names(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text: ``orders-0, orders-1``. At most twenty are named, the others counted."""
    names = [f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _partition_numbers(text: str, option: str, what: str, least: int, example: str) -> Offsets:
    value = _object(text, option, example)
    try:
        found = _numbers(value, what, least)
    except ValueError as error:
        raise _refused(option, str(error), example) from None
    if not found:
        raise _refused(option, "it names no partition", example)
    return found


def _numbers(value: object, what: str, least: int) -> Offsets:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object of topics")
    found: Offsets = {}
    for topic, numbers in value.items():
        if not isinstance(numbers, dict):
            raise ValueError(f"topic {topic!r} has {json.dumps(numbers)[:100]}, not a JSON object by partition")
        for name, number in numbers.items():
            if not (name.isascii() and name.isdigit()) or int(name) > INT32_MAX:
                raise ValueError(f"{name!r} is not a partition number of {topic!r}")
            if not _is_whole(number, least, INT64_MAX):
                raise ValueError(f"{topic}-{name}: {json.dumps(number)[:100]} is not {what}")
            found[TopicPartition(topic, int(name))] = number
    return found


def _object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_reject_duplicates)
    except ValueError as error:
        raise _refused(option, f"it is not JSON: {error}", example) from None
    if not isinstance(value, dict):
        raise _refused(option, f"{text[:100]!r} is not a JSON object", example)
    return value


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is named twice")
    return found


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _refused(option: str, why: str, example: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"{option}: {why}; write it like {example}")
