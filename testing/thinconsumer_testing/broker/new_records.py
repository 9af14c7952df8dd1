"""Check what users give to ``produce``, and say in their words what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.records.builder import NewRecord

#: The longest text of a value in an error.
_SHOWN_MAX = 40


def as_list(values: Iterable[Any]) -> list[Any]:
    """Return the values as a list.

    Raises:
        IllegalArgumentError: ``values`` is no list of values, such as a single value, which may be iterable, too, or
            there is no value: a batch has one at least.
    """
    kind = type(values).__name__
    if isinstance(values, (str, bytes, bytearray, NewRecord)):
        raise IllegalArgumentError(f"values is a single {kind}: give a list, [{_encoded(values)}]")
    if values is None:
        raise IllegalArgumentError("values is None: give a list, [None] for a record without a value")
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise IllegalArgumentError(f"values is of type {kind}: give a list, [b'one', NewRecord(b'two', key=b'2')]")
    found = list(values)
    if not found:
        raise IllegalArgumentError("values is empty: give one at least, [None] for a record without a value")
    return found


def new_records(values: Iterable[Any]) -> list[NewRecord]:
    """Return a record for each value; raise IllegalArgumentError if a key, value or header is not bytes."""
    records = [value if isinstance(value, NewRecord) else NewRecord(value) for value in values]
    for record in records:
        _check("value", record.value)
        _check("key", record.key)
        for name, data in _pairs(record.headers):
            _check(f"header {name!r}", data)
    return records


def missing_topic(topic: str) -> LookupError:
    """Return the error for a topic that does not exist."""
    create = f"create it with create_topic({topic!r}, 1), or with the fixture kafka_topic"
    return LookupError(f"topic {topic!r} does not exist in this broker: {create}")


def _check(what: str, data: Any) -> None:
    if isinstance(data, str):
        raise IllegalArgumentError(f"{what} is a str: encode it, {_encoded(data)}")
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        kind = type(data).__name__
        raise IllegalArgumentError(f"{what} is of type {kind}: write bytes, such as json.dumps(...).encode(), or None")


def _encoded(value: Any) -> str:
    """Return Python code for the value as bytes."""
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN_MAX else "value"
    return f"{shown}.encode()" if isinstance(value, str) else shown


def _pairs(headers: Any) -> Sequence[tuple[str, Any]]:
    try:
        # An iterator is refused: the check would use it up, and the records would be written without headers.
        if isinstance(headers, Sequence) and all(isinstance(name, str) for name, _ in headers):
            return headers
    except (TypeError, ValueError):
        pass
    raise IllegalArgumentError("headers are pairs of a str and bytes or None: [('trace', b'1')]")
