"""Write the arguments and results of public calls as JSON, and read them again."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, ValuesView
from functools import partial
from typing import Any

from ..errors import RecordError
from ..types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, SubscriptionPattern, TopicPartition
from .frames import masked_metadata

#: Larger numbers are recorded as this one, and lists that are nested deeper as objects: no call takes either.
_INT_END, _DEPTH_MAX = 1 << 10_000, 20


def encoded(value: object, depth: int = 0) -> Any:
    """Return a value as JSON. Sets keep the order in which they are iterated; of an unknown object its type is kept."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return max(-_INT_END, min(int(value), _INT_END))  # a text of larger ones would be an error of its own
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    inner = partial(encoded, depth=depth + 1)
    if isinstance(value, TopicPartition):
        return {"tp": [*map(inner, value)]}
    if isinstance(value, OffsetAndMetadata):
        return {"offset": [inner(value.offset), _masked(value.metadata), inner(value.leader_epoch)]}
    if isinstance(value, OffsetAndTimestamp):
        return {"time": [*map(inner, (value.offset, value.timestamp, value.leader_epoch))]}
    if isinstance(value, ConsumerRecord):
        return {"record": [*map(inner, (value.topic, value.partition, value.leader_epoch, value.offset))]}
    if isinstance(value, RecordError):
        return {"error": [*map(inner, (*value.partition, value.offset, value.next_offset))]}
    if isinstance(value, SubscriptionPattern):
        return {"broker_pattern": value.pattern}
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        return {"pattern": [value.pattern, value.flags]}
    if depth < _DEPTH_MAX:
        if isinstance(value, Mapping):
            return {"map": [[inner(key), inner(item)] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [*map(inner, value)]}
        if isinstance(value, Set):
            return {"set": [*map(inner, value)]}
        if isinstance(value, (list, deque, range, ValuesView)):
            return [*map(inner, value)]
    return {"object": type(value).__name__}


def _masked(metadata: object) -> Any:
    try:
        return masked_metadata(metadata)  # type: ignore[arg-type]
    except (AttributeError, UnicodeError):  # no text that can be sent
        return encoded(object())


def without_iterators(value: Any) -> Any:
    """Return an argument that can be iterated twice: to record it, and by the call."""
    return [*value] if isinstance(value, Iterator) else value


#: By the key of an encoded object: what makes the object of the value.
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "tp": lambda v: TopicPartition(*map(decoded, v)),
    "offset": lambda v: OffsetAndMetadata(*map(decoded, v)),
    "time": lambda v: OffsetAndTimestamp(*v),
    "record": lambda v: ConsumerRecord(v[0], v[1], v[2], v[3], 0, 0, None, None, ()),
    "error": lambda v: RecordError("a record", TopicPartition(*v[:2]), *v[2:]),
    "broker_pattern": SubscriptionPattern,
    "pattern": lambda v: re.compile(*v),
    "map": lambda v: {decoded(key): decoded(item) for key, item in v},
    "set": lambda v: [decoded(item) for item in v],  # the order of a set would depend on the process
    "tuple": lambda v: tuple(map(decoded, v)),
    "object": lambda v: object(),
}


def decoded(value: Any) -> Any:
    """Return the argument of which ``value`` is the JSON."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        return _DECODERS[kind](content)
    return value


def same_result(recorded: Any, found: object) -> bool:
    """Return whether a call has returned what the trace has; sets in any order."""
    return bool(_sorted(recorded) == _sorted(encoded(found)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict) and ("set" in value or "map" in value):
        return {kind: sorted(map(repr, items)) for kind, items in value.items()}
    return value


def methods_of(listener: object, names: Iterable[str]) -> list[str]:
    """Return which of these methods a listener has."""
    return [name for name in names if hasattr(listener, name)]
