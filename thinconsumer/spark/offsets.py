"""Offsets as JSON: what users write into options, and what Spark keeps in a checkpoint.

The text is that of Spark's own Kafka connector (its ``JsonUtils``): ``{"topic":{"0":23,"1":-2}}``. Spark tells two
offsets apart by their text alone, so that the same offsets have to give the same text always: topics by name,
partitions by number. Otherwise a stream at rest would run empty batches for ever.

An initial offset is asked for again when the first batch is repeated after a crash, and what is the latest offset then
is another one. Hence the initial offset is the constant ``{}``, and the end of the first batch carries where that
batch began, under ``@start``, which no topic can be called. Knows no cluster and no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import KafkaConfigurationError
from ..types import TopicPartition

Offsets = dict[TopicPartition, int]
#: An offset as Spark hands it to us and takes it from us: JSON objects as dicts.
Json = dict[str, Any]

LATEST = -1
EARLIEST = -2
START_KEY = "@start"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_OFFSETS = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
_ASSIGNMENT = '{"topicA":[0,1],"topicB":[2,4]}'


def parse_offsets(text: str, option: str) -> Offsets:
    """Return what an option such as ``startingOffsets`` names; -1 is the latest offset and -2 the earliest.

    Raises:
        KafkaConfigurationError: it is no such JSON; says where it is wrong.
    """
    return _partition_numbers(text, option, "an offset", EARLIEST, _OFFSETS)


def parse_timestamps(text: str, option: str) -> Offsets:
    """Return times by partition, in milliseconds since 1970, from an option such as ``startingOffsetsByTimestamp``."""
    return _partition_numbers(text, option, "a time in ms since 1970", 0, _TIMESTAMPS)


def parse_assignment(text: str) -> list[TopicPartition]:
    """Return the partitions that the option ``assign`` names, in order."""
    found: set[TopicPartition] = set()
    for topic, numbers in _object(text, "assign", _ASSIGNMENT).items():
        if not isinstance(numbers, list):
            raise _refused("assign", f"partitions of {topic!r} are a list, not {json.dumps(numbers)}", _ASSIGNMENT)
        for number in numbers:
            if not _is_whole(number, 0, INT32_MAX):
                raise _refused("assign", f"{topic!r} has no partition {json.dumps(number)}", _ASSIGNMENT)
            found.add(TopicPartition(topic, number))
    if not found:
        raise _refused("assign", "it names no partition", _ASSIGNMENT)
    return sorted(found)


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """Return the offsets as a JSON object, the same whatever order they are in."""
    result: Json = {}
    for tp in sorted(offsets):
        result.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return result


def to_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the offsets as the official connector writes them, without blanks."""
    return json.dumps(to_json(offsets), separators=(",", ":"))


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Return the offsets of a stream, from a checkpoint of ours or of the official connector.

    Raises:
        KafkaConfigurationError: something else has written the checkpoint.
    """
    return _read({topic: numbers for topic, numbers in value.items() if topic != START_KEY})


def start_of(value: Mapping[str, Any]) -> Offsets | None:
    """Return where the first batch began, if this is where it ends; else None."""
    start = value.get(START_KEY)
    return None if start is None else _read(start)


def first_end(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Json:
    """Return the end of a stream's first batch, which remembers that batch's start."""
    return {**to_json(end), START_KEY: to_json(start)}


def show(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as words for an error: ``orders-0, orders-1``; of many the first ones and how many more."""
    names = [f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


# -- inside


def _read(value: object) -> Offsets:
    try:
        return _numbers(value, "an offset", 0)
    except ValueError as error:
        raise KafkaConfigurationError(
            f"offset {json.dumps(value)[:200]} is none of this source: {error}; was the checkpoint written by another "
            "source? Then give this query a checkpoint of its own"
        ) from None


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
        raise ValueError("it is no JSON object of topics")
    found: Offsets = {}
    for topic, numbers in value.items():
        if not isinstance(numbers, dict):
            raise ValueError(f"under {topic!r} stands {json.dumps(numbers)[:100]} and no object of its partitions")
        for name, number in numbers.items():
            if not (name.isascii() and name.isdigit()) or int(name) > INT32_MAX:
                raise ValueError(f"{topic!r} has no partition {name!r}")
            if not _is_whole(number, least, INT64_MAX):
                raise ValueError(f"{topic}-{name}: {json.dumps(number)[:100]} is not {what}")
            found[TopicPartition(topic, int(name))] = number
    return found


def _object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_no_twins)
    except ValueError as error:
        raise _refused(option, f"it is no JSON: {error}", example) from None
    if not isinstance(value, dict):
        raise _refused(option, "it is no JSON object", example)
    return value


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is named twice")
    return found


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _refused(option: str, why: str, example: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"{option}: {why}; write it like {example}")
