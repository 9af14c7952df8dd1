"""Arrow arrays of deserialized values, for the columns that ``poll_batches`` returns. It needs pyarrow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DeserializerNotReadyError, IllegalArgumentError, KafkaTimeoutError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["deserialized_array", "json_array"]

OnBadValue = Literal["raise", "null"]
ON_BAD_VALUE = ("raise", "null")


def json_array(
    values: pa.Array | pa.ChunkedArray,
    type: pa.DataType,  # noqa: A002 - as in pa.array
    on_bad_value: OnBadValue = "raise",
) -> pa.Array:
    """Return the JSON values of a column of bytes or text as an array of ``type``, mostly a struct; null stays null.

    pyarrow.json reads all values at once, in about a third of the time that it takes value by value. Fields that the
    type has and a value lacks are null; fields that the type lacks are left out.

    ``on_bad_value`` is for values that are no JSON of this type: "raise", or "null" in their place.

    Raises:
        ValueError: a value is bad, and ``on_bad_value`` is "raise". The text has its index.
        pyarrow.ArrowNotImplementedError: JSON cannot be read as this type, such as a map or a dictionary.
    """
    import pyarrow as pa

    _check(on_bad_value)
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    parts = _json(column, type, on_bad_value, 0)
    return pa.concat_arrays(parts) if parts else pa.nulls(0, type)


def deserialized_array(
    values: pa.Array | pa.ChunkedArray,
    deserializer: Callable[[bytes], Any],
    type: pa.DataType,  # noqa: A002 - as in pa.array
    on_bad_value: OnBadValue = "raise",
    *,
    timeout_ms: float = 30_000,
) -> pa.Array:
    """Return what a deserializer, such as an AvroDeserializer, returns for a column of bytes; null stays null.

    It is called for one value after the other. While it is not ready, as during the lookup of a schema, the call waits
    for up to ``timeout_ms``.

    Raises:
        ValueError: a value is bad, and ``on_bad_value`` is "raise". The text has its index.
        KafkaTimeoutError: the deserializer was not ready in time.
        pyarrow.ArrowException: what the deserializer has returned does not fit ``type``.
    """
    import pyarrow as pa

    _check(on_bad_value)
    deadline = time.monotonic() + timeout_ms / 1000
    found: list[Any] = []
    for index, data in enumerate(values.to_pylist()):
        try:
            found.append(None if data is None else _ready(deserializer, data, deadline))
        except KafkaTimeoutError:
            raise
        except Exception as error:
            if on_bad_value == "raise":
                raise ValueError(f"value {index}: {error!r}") from error
            found.append(None)
    return pa.array(found, type)


def _ready(deserializer: Callable[[bytes], Any], data: bytes, deadline: float) -> Any:
    while True:
        try:
            return deserializer(data)
        except DeserializerNotReadyError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise KafkaTimeoutError(f"the deserializer is not ready: {error}") from error
            time.sleep(min(left, max(error.retry_after_ms / 1000, 0.001)))


def _json(column: pa.Array, kind: pa.DataType, on_bad_value: str, first: int) -> list[pa.Array]:
    """Return parts of the array; a part with a bad value is halved until it is found."""
    import pyarrow as pa

    count = len(column)
    if not count:
        return []
    try:
        return [_parsed(column, kind)]
    except pa.ArrowInvalid as error:
        if count > 1:
            half = count // 2
            before = _json(column[:half], kind, on_bad_value, first)
            return before + _json(column[half:], kind, on_bad_value, first + half)
        if on_bad_value == "raise":
            raise ValueError(f"value {first}: {error}") from error
        return [pa.nulls(1, kind)]


def _parsed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array of JSON values; raise ArrowInvalid if one of them is none of this type."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    text = pc.fill_null(column.cast(pa.string()), "null")  # the cast fails for what is not UTF-8: the reader would not
    # Each value is in an object of its own, in which it begins and ends: two halves of a value never make one.
    lines = pc.binary_join_element_wise('{"v":', text, "}", "")
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    data = whole[0].as_buffer()
    table = json.read_json(
        pa.BufferReader(data),
        read_options=json.ReadOptions(use_threads=False, block_size=max(data.size, 1)),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), newlines_in_values=True, unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(column):
        raise pa.ArrowInvalid("a value is more than one JSON value")
    return pa.concat_arrays(table.column(0).chunks)


def _check(on_bad_value: str) -> None:
    if on_bad_value not in ON_BAD_VALUE:
        raise IllegalArgumentError(f"on_bad_value must be 'raise' or 'null', not {on_bad_value!r}")
