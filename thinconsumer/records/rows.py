"""Build ``ConsumerRecord`` objects from columns, and apply deserializers to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TypeVar

from ..errors import DeserializationError
from ..types import ConsumerRecord, TopicPartition
from .columns import Columns
from .encoded_headers import RecordWithEncodedHeaders, new_record_with_encoded_headers

__all__ = ["build", "deserialize", "new_record"]

K = TypeVar("K")
V = TypeVar("V")
Raw = ConsumerRecord["bytes | None", "bytes | None"]

#: Makes a record from the tuple of its fields: the fastest way to instantiate a tuple subclass.
new_record: Callable[[tuple[object, ...]], Raw] = type.__call__.__get__(ConsumerRecord)


def build(
    topic: str, partition: int, leader_epoch: int, timestamp_type: int, columns: Columns, start: int = 0
) -> list[ConsumerRecord[bytes | None, bytes | None]]:
    """Return the records of a batch from offset ``start`` on as ``ConsumerRecord`` objects."""
    offsets, timestamps, keys, values, headers = columns
    if len(offsets) == 1:  # the iterators below take three times as long for a single record
        if offsets[0] < start:
            return []
        fields = topic, partition, leader_epoch, offsets[0], timestamps[0], timestamp_type
        return [new_record((*fields, keys[0], values[0], headers[0]))]
    rows = list(
        map(
            new_record,
            zip(
                repeat(topic), repeat(partition), repeat(leader_epoch), offsets, timestamps, repeat(timestamp_type),
                keys, values, headers,
            ),
        )
    )  # fmt: skip
    if rows and offsets[0] < start:
        del rows[: bisect_left(offsets, start)]
    return rows


def deserialize(
    records: Sequence[Raw],
    key_fn: Callable[[str, tuple[tuple[str, bytes | None], ...], bytes], K] | None,
    value_fn: Callable[[str, tuple[tuple[str, bytes | None], ...], bytes], V] | None,
    *,
    uses_headers: bool = True,
) -> tuple[list[ConsumerRecord[K | None, V | None]], DeserializationError | None]:
    """Apply the deserializers to keys and values; without a deserializer they stay bytes, and null stays null.

    The records are of one partition and of one class. A deserializer is called with topic, headers and bytes. Unless
    ``uses_headers``, it ignores the headers, and they are not decoded for it.

    Stops at the first record that cannot be deserialized. Returns the records before it, and the error to raise after
    they are consumed.
    """
    raw = [*records]
    if not raw:
        return [], None
    # Fields are taken and put together as columns, at C's speed: for each record, only the deserializers are called.
    *first, raw_keys, raw_values, headers = zip(*raw)
    topic, new = raw[0].topic, new_record
    if isinstance(raw[0], RecordWithEncodedHeaders):
        if uses_headers:
            headers = tuple(record.headers for record in raw)
        else:
            new = new_record_with_encoded_headers
    keys: list[object] = []
    values: list[object] = []
    error: DeserializationError | None = None
    field = "key"
    try:
        for key, value, some in zip(raw_keys, raw_values, headers):
            field = "key"
            keys.append(key if key is None or key_fn is None else key_fn(topic, some, key))
            field = "value"
            values.append(value if value is None or value_fn is None else value_fn(topic, some, value))
    except Exception as exc:  # noqa: BLE001  # user code may raise anything; the error reports it with the record
        error = _failed(raw[len(values)], field, exc)
    sizes = [[-1 if data is None else len(data) for data in column] for column in (raw_keys, raw_values)]
    # As long as the shortest column: ``values`` has no entry for a record that has failed.
    return list(map(new, zip(*first, keys, values, headers, *sizes))), error  # type: ignore[arg-type]


def _failed(record: ConsumerRecord[bytes | None, bytes | None], field: str, exc: Exception) -> DeserializationError:
    error = DeserializationError(
        f"the {field} deserializer failed for {record.topic}-{record.partition} at offset {record.offset}: "
        f"{type(exc).__name__}: {exc}; skip(error) or seek to {record.offset + 1} to continue after it",
        TopicPartition(record.topic, record.partition),
        record.offset,
        record.offset + 1,
        field=field,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        timestamp=record.timestamp,
    )
    error.__cause__ = exc
    return error
