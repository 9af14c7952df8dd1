"""Convert columns to an Arrow record batch, without a Python object per record, unless records are large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..headers import NAMES
from .pieces import Int64s

try:
    import pyarrow as pa
except ImportError as exc:
    raise ImportError(f"to_arrow() needs pyarrow ({exc}): pip install 'thinconsumer[arrow]'") from exc

if TYPE_CHECKING:
    from .fields import Bytes, HeaderPlaces
    from .record_columns import RecordColumns

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: The schema of Spark's own Kafka source: Spark rejects a batch that differs even in a column's nullability or time
#: zone.
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", pa.list_(pa.field("element", HEADER))))
#: The first major version of pyarrow whose ``Array.from_buffers`` takes the buffers that views refer to.
VIEWS_PYARROW_MIN = 19
#: A view of up to so many bytes contains them; a longer one has the first four, and refers to a buffer for all.
INLINE_MAX = 12
#: By number of bytes: keeps the first so many of twelve; of more, which are not inside of the view, the first four.
_MASKS = np.array([b"\xff" * size for size in (*range(INLINE_MAX + 1), 4)], "S12").view(f"V{INLINE_MAX}")
#: Keys or values of a larger average size, in bytes, are copied one by one: pyarrow's ``take`` copies them twice.
LARGE_VALUE = 4096
#: The greatest timestamp in milliseconds that, converted to microseconds for Arrow, still fits into 64 bits.
MILLISECONDS_MAX = (2**63 - 1) // 1000


def to_arrow(columns: RecordColumns, names: Sequence[str], views: bool = False) -> pa.RecordBatch:
    """As :meth:`.RecordColumns.to_arrow`, with the columns ``names`` of ``SCHEMA_WITH_HEADERS``; makes no others."""
    if views and (version := int(pa.__version__.partition(".")[0])) < VIEWS_PYARROW_MIN:
        raise ImportError(f"views=True needs pyarrow {VIEWS_PYARROW_MIN} or newer, not {version}: upgrade pyarrow")
    data, count = pa.py_buffer(columns.data), len(columns)
    pieces = binary_view if views else binary
    arrays = []
    for name in names:
        if name == "key":
            array = pieces(data, columns.key_starts, columns.key_lengths)
        elif name == "value":
            array = pieces(data, columns.value_starts, columns.value_lengths)
        elif name == "topic":
            array = _repeated_string(columns.topic.encode(), count)
        elif name == "partition":
            array = _primitive_array(pa.int32(), np.full(count, columns.partition, np.int32))
        elif name == "offset":
            array = _primitive_array(pa.int64(), np.ascontiguousarray(columns.offsets))
        elif name == "timestamp":
            array = _primitive_array(pa.timestamp("us", tz="UTC"), _microseconds(columns.timestamps))
        elif name == "timestampType":
            array = _primitive_array(pa.int32(), columns.timestamp_types.astype(np.int32))
        else:
            kind, places = _type(name, views), columns.header_places
            array = pa.nulls(count, kind) if places is None else _headers(data, places, kind, pieces)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(tuple(names), views))


@lru_cache(maxsize=64)
def _schema(names: tuple[str, ...], views: bool) -> pa.Schema:
    return pa.schema([(name, _type(name, views)) for name in names])


def _type(name: str, views: bool) -> pa.DataType:
    if not views or name not in ("key", "value", "headers"):
        return SCHEMA_WITH_HEADERS.field(name).type
    if name != "headers":
        return pa.binary_view()
    return pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary_view())])))


def _microseconds(stamps: Int64s) -> Int64s:
    if len(stamps) and not -MILLISECONDS_MAX <= int(stamps.min()) <= int(stamps.max()) <= MILLISECONDS_MAX:
        stamps = np.clip(stamps, -MILLISECONDS_MAX, MILLISECONDS_MAX)
    return stamps * 1000


def _primitive_array(kind: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _repeated_string(text: bytes, count: int) -> pa.Array:
    # ``pa.repeat`` takes five times as long.
    places = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(places), pa.py_buffer(text * count)])


def binary(data: pa.Buffer, starts: Int64s, lengths: Int64s) -> pa.Array:
    """Return an array of slices of ``data``, which are in ascending order there; a length of -1 makes a null."""
    count = len(lengths)
    nulls = np.count_nonzero(lengths < 0)
    if nulls == count:
        return pa.nulls(count, pa.binary())
    if int(lengths.sum()) > LARGE_VALUE * count:
        return _binary_of_large(data, starts, lengths)
    # Make an Arrow array over all of ``data``: the wanted slices (empty ones for nulls) have even indexes, the bytes
    # between them odd ones. ``take`` copies the elements at even indexes, without a Python object for each.
    places = np.empty(2 * count + 1, np.int32)
    places[:-1:2] = starts
    np.add(starts, np.maximum(lengths, 0) if nulls else lengths, out=places[1::2], casting="unsafe")
    places[-1] = places[-2]
    everything = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(places), data])
    found = everything.take(_primitive_array(pa.int64(), np.arange(0, 2 * count, 2)))
    if not nulls:
        return found
    return pa.Array.from_buffers(pa.binary(), count, [_validity_bitmap(lengths >= 0), *found.buffers()[1:]])


def _binary_of_large(data: pa.Buffer, starts: Int64s, lengths: Int64s) -> pa.Array:
    """Return the same array as :func:`binary`, by copying slice by slice: faster for few large slices."""
    there = lengths >= 0
    sizes = np.where(there, lengths, 0)
    places = np.zeros(len(sizes) + 1, np.int32)
    sizes.cumsum(out=places[1:])
    whole = memoryview(data)
    copied = b"".join([whole[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist())])
    mask = None if there.all() else _validity_bitmap(there)
    return pa.Array.from_buffers(pa.binary(), len(sizes), [mask, pa.py_buffer(places), pa.py_buffer(copied)])


def _validity_bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def binary_view(data: pa.Buffer, starts: Int64s, lengths: Int64s) -> pa.Array:
    """Return an array of views into ``data``, in any order; a length of -1 makes a null. Copies up to 12 bytes each."""
    mask, count = None, len(lengths)
    shortest = int(lengths.min()) if count else 0
    if shortest < 0:
        mask, lengths = _validity_bitmap(lengths >= 0), np.maximum(lengths, 0)
    views, bytewise = np.empty((count, 4), np.uint32), np.frombuffer(data, np.uint8)
    views[:, 0] = lengths
    if shortest > INLINE_MAX:
        views[:, 1], views[:, 2], views[:, 3] = _first_bytes(bytewise, starts, 4).view(np.uint32), 0, starts
        return pa.Array.from_buffers(pa.binary_view(), count, [mask, pa.py_buffer(views), data])
    first = _first_bytes(bytewise, starts, INLINE_MAX).view(np.uint32).reshape(-1, 3)
    np.bitwise_and(first, _MASKS.take(lengths, mode="clip").view(np.uint32).reshape(-1, 3), out=views[:, 1:])
    buffers = [mask, pa.py_buffer(views)]
    if count and lengths.max() > INLINE_MAX:
        views[:, 3] |= np.where(lengths > INLINE_MAX, starts, 0).astype(np.uint32)
        buffers.append(data)
    return pa.Array.from_buffers(pa.binary_view(), count, buffers)


def _first_bytes(data: Bytes, starts: Int64s, width: int) -> npt.NDArray[np.void]:
    """Return the ``width`` bytes from each position on; zeros beyond the end of the data."""
    if len(data) < width:
        data = np.append(data, np.zeros(width, np.uint8))
    last = len(data) - width
    # Entry i of this array is made of the bytes from i on. The data are not copied.
    everywhere = np.ndarray((last + 1,), f"V{width}", data, 0, (1,))
    if not len(starts) or starts.max() <= last:
        return everywhere[starts]
    found = everywhere[np.minimum(starts, last)]
    late = starts > last
    found[late] = _first_bytes(np.append(data[last:], np.zeros(width, np.uint8)), starts[late] - last, width)
    return found


def _headers(
    data: pa.Buffer, places: HeaderPlaces, kind: pa.DataType, pieces: Callable[[pa.Buffer, Int64s, Int64s], pa.Array]
) -> pa.Array:
    begin, end = int(places.first[0]), int(places.first[-1])
    names = binary(data, places.name_starts[begin:end], places.name_lengths[begin:end])
    values = pieces(data, places.value_starts[begin:end], places.value_lengths[begin:end])
    children = pa.StructArray.from_arrays([_names(names), values], fields=list(kind.value_type))
    first = (places.first - begin).astype(np.int32)
    counts = np.diff(first)
    buffers = [_validity_bitmap(counts > 0), pa.py_buffer(first)]
    return pa.Array.from_buffers(kind, len(counts), buffers, children=[children])


def _names(raw: pa.Array) -> pa.Array:
    """Return header names as strings. Names that are all ASCII, the usual case, are reused without copying."""
    buffers = raw.buffers()
    if not len(buffers[2]) or np.frombuffer(buffers[2], np.uint8).max() < 128:
        return pa.Array.from_buffers(pa.string(), len(raw), buffers)
    distinct = raw.dictionary_encode()
    names = pa.array([NAMES[name] for name in distinct.dictionary.to_pylist()], pa.string())
    return names.take(distinct.indices)
