"""Decode many batches to columns at once.

Batches of format 2 from all partitions go through :mod:`.walk` and :mod:`.fields` together, or through
:mod:`.small_batches` where numpy would be slower. Batches of older formats, and batches that these modules do not prove
well-formed, go to the row decoder one by one: it alone decides which bytes are accepted and which error is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import RecordError
from ...types import TopicPartition
from .. import compression
from ..batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, RecordBatch
from ..columns import RECORD_SIZE_MIN, Columns, Malformed
from ..columns import decode as decode_rows
from . import small_batches
from .fields import Fields, HeaderPlaces, read
from .record_columns import RecordColumns
from .walk import walk

__all__ = ["Decoded", "Decoder"]

Int64s: TypeAlias = npt.NDArray[np.int64]
NOTHING = np.zeros(0, np.int64)
CODEC_MASK = 0x07
#: Up to this many records are read faster one by one.
SMALL_RECORDS_MAX = 80


class FlatColumns(NamedTuple):
    """Columns of many batches over one buffer, from which :class:`RecordColumns` are sliced."""

    offsets: Int64s
    timestamps: Int64s
    timestamp_types: npt.NDArray[np.int8]
    leader_epochs: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint8]
    key_starts: Int64s
    key_lengths: Int64s
    value_starts: Int64s
    value_lengths: Int64s
    headers: HeaderPlaces | None


class BatchBodies(NamedTuple):
    """The positions of batches' records in one buffer, possibly with gaps between them."""

    data: bytes | memoryview
    begins: Int64s
    ends: Int64s


class Decoded(NamedTuple):
    """The records of all batches, which are numbered in the order of :meth:`Decoder.add`."""

    flat: FlatColumns
    first: list[int]  #: Index of each batch's first record; one more entry at the end.
    errors: dict[int, RecordError]  #: Errors of corrupt batches, which have no records.

    def columns(self, tp: TopicPartition, begin: int, end: int, start: int) -> RecordColumns:
        """Return the records of batches ``begin`` to ``end`` (exclusive) from offset ``start`` on."""
        first, stop = self.first[begin], self.first[end]
        flat = self.flat
        if first < stop and flat.offsets[first] < start:
            first += int(np.searchsorted(flat.offsets[first:stop], start))
        return RecordColumns(*tp, *flat).slice(first, stop)


class Decoder:
    """Collects batches, in offset order within each partition, and decodes them in :meth:`finish`."""

    def __init__(
        self, check_crcs: bool = True, decompressed_bytes_max: int = compression.DECOMPRESSED_BYTES_MAX
    ) -> None:
        self._check_crcs = check_crcs
        self._limit = decompressed_bytes_max
        self._batches: list[RecordBatch] = []
        self._partitions: list[TopicPartition] = []
        self._bodies: list[bytes | memoryview] = []  #: Empty for batches decoded by the row decoder.
        self._row_decoded: dict[int, Columns] = {}  #: Output of the row decoder, by batch number.
        self.size = 0  #: Decompressed size of all batches, in bytes.

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: RecordBatch, tp: TopicPartition) -> None:
        """Check and decompress a batch; it gets the next number, counted from 0.

        Raises: CorruptRecordError, UnsupportedCodecError, as :meth:`RecordBatch.decode`; the batch is not added then.
        """
        body: bytes | memoryview = b""
        attributes, count = batch.attributes, batch.count
        plain = batch.magic == 2
        if plain:
            if self._check_crcs:
                batch.check_crc(*tp)
            if not attributes & CONTROL:
                body = batch.view[HEADER_SIZE:]
                if attributes & CODEC_MASK:
                    body = self._decompress(batch, tp, attributes & CODEC_MASK, body)
        size = len(body)
        # A batch without records, or with fewer bytes than its records need, would break assumptions of walk.
        if not (plain and 0 < count * RECORD_SIZE_MIN <= size):
            self._add_row_decoded(batch, tp)
            return
        # The batch counts once it is in _batches, which comes last: an interrupt (Ctrl-C) before adds nothing.
        self._bodies.append(body)
        self._partitions.append(tp)
        self._batches.append(batch)
        self.size += size

    def _decompress(self, batch: RecordBatch, tp: TopicPartition, codec: int, body: memoryview) -> bytes:
        try:
            return compression.decompress(codec, body, self._limit)
        except compression.CodecError:
            batch.columns(*tp, check_crcs=False, decompressed_bytes_max=self._limit)  # raises the complete error
            raise

    def _add_row_decoded(self, batch: RecordBatch, tp: TopicPartition) -> None:
        """Add a batch decoded by the row decoder, or raise its error."""
        found = batch.columns(*tp, self._check_crcs, decompressed_bytes_max=self._limit)
        if found is not None:
            self._row_decoded[len(self._batches)] = found
            self.size += sum(len(field) for field in (*found.keys, *found.values) if field)
        self._bodies.append(b"")
        self._partitions.append(tp)
        self._batches.append(batch)

    def finish(self) -> Decoded:
        """Decode the added batches."""
        plain = [number for number, body in enumerate(self._bodies) if body]
        batches = [self._batches[number] for number in plain]
        found: FlatColumns = _EMPTY
        rejected: list[int] = []
        bodies: BatchBodies | None = None
        if plain:
            bodies = _locate_bodies(batches, [self._bodies[number] for number in plain])
            found, bad = _decode(batches, bodies)
            rejected = [plain[index] for index in bad]
        counts = [0] * len(self._batches)
        for number, batch in zip(plain, batches):
            counts[number] = batch.count
        errors: dict[int, RecordError] = {}
        for number in rejected:
            try:
                self._row_decoded[number] = self._decode_by_rows(number)
            except RecordError as error:
                errors[number] = error
                self._row_decoded[number] = Columns([], [], [], [], [])
        if self._row_decoded:
            found = self._merge(found, bodies)
            for number, columns in self._row_decoded.items():
                counts[number] = len(columns.offsets)
        return Decoded(found, [0, *accumulate(counts)], errors)

    def _decode_by_rows(self, number: int) -> Columns:
        """Decode an already decompressed batch by the row decoder."""
        batch = self._batches[number]
        try:
            return decode_rows(batch, bytes(self._bodies[number]))
        except Malformed:
            # Raises the same error with partition and offsets.
            batch.columns(*self._partitions[number], False, decompressed_bytes_max=self._limit)
            raise

    def _merge(self, found: FlatColumns, bodies: BatchBodies | None) -> FlatColumns:
        """Return all records in the order of batches, from ``found`` and from the row decoder."""
        pieces: list[FlatColumns] = []
        row_decoded: list[tuple[RecordBatch, Columns]] = []
        begin = at = 0  # record indexes in found
        first = place = 0  # batch indexes in found
        for number, (batch, body) in enumerate(zip(self._batches, self._bodies)):
            columns = self._row_decoded.get(number)
            if columns is not None:
                if bodies is not None and begin < at:
                    pieces.append(_slice(found, begin, at, bodies, first, place))
                row_decoded.append((batch, columns))
            elif row_decoded:
                pieces.append(_flat_of_rows(row_decoded))
                row_decoded = []
            if body and bodies is not None:
                at, place = at + batch.count, place + 1
            if columns is not None:
                begin, first = at, place
        if bodies is not None and begin < at:
            pieces.append(_slice(found, begin, at, bodies, first, place))
        if row_decoded:
            pieces.append(_flat_of_rows(row_decoded))
        return _join(pieces)


def _decode(batches: Sequence[RecordBatch], bodies: BatchBodies) -> tuple[FlatColumns, list[int]]:
    """Decode batches of at least one record each; return their columns, and the batches not proven well-formed."""
    bytewise = np.frombuffer(bodies.data, np.uint8)
    counts = _int64s([batch.count for batch in batches])
    stops = counts.cumsum()
    first, last = stops - counts, stops - 1
    if stops[-1] > SMALL_RECORDS_MAX:
        fields = _read(bytewise, bodies.begins, bodies.ends, counts)
    else:
        fields = small_batches.read(*bodies, counts)
    appended = [batch.attributes & LOG_APPEND_TIME for batch in batches]
    stamps = [batch.max_timestamp if log else batch.base_timestamp for batch, log in zip(batches, appended)]
    base = _int64s([batch.base_offset for batch in batches])
    room = _int64s([batch.next_offset for batch in batches]) - base
    bad = fields.bad
    bad[last] |= fields.offsets[last] >= room
    if (fields.offsets != np.arange(len(bad)) - first.repeat(counts)).any():
        falls = np.empty(len(bad), bool)
        falls[1:] = fields.offsets[1:] <= fields.offsets[:-1]
        falls[first] = fields.offsets[first] < 0
        bad |= falls
    deltas = fields.deltas
    if any(appended):
        deltas = np.where(_per_record(appended, counts, np.int64), 0, deltas)
    flat = FlatColumns(
        base.repeat(counts) + fields.offsets,
        _per_record(stamps, counts, np.int64) + deltas,  # wraps at 64 bits, as in Java
        _per_record([log // LOG_APPEND_TIME for log in appended], counts, np.int8),
        _per_record([batch.leader_epoch for batch in batches], counts, np.int32),
        bytewise,
        fields.key_starts,
        fields.key_lengths,
        fields.value_starts,
        fields.value_lengths,
        fields.headers,
    )
    return flat, _batch_indexes(bad, first)


def _per_record(values: list[int], counts: Int64s, kind: type) -> npt.NDArray[Any]:
    """Repeat each batch's value for all of its records; faster if all values are equal."""
    if values.count(values[0]) == len(values):
        return np.full(int(counts.sum()), values[0], kind)
    return np.array(values, kind).repeat(counts)


def _read(data: npt.NDArray[np.uint8], begins: Int64s, ends: Int64s, counts: Int64s) -> Fields:
    """Read the records of each batch, ``counts`` many between ``begins`` and ``ends``."""
    places = walk(data, begins, ends, counts)
    stops = np.empty_like(places)
    stops[:-1] = places[1:]
    stops[counts.cumsum() - 1] = ends
    is_bad = places < 0
    if is_bad.any():
        places[is_bad] = stops[is_bad] = 0
    fields = read(data, places, stops)
    return fields._replace(bad=fields.bad | is_bad)


def _locate_bodies(batches: Sequence[RecordBatch], bodies: Sequence[bytes | memoryview]) -> BatchBodies:
    """Return one buffer with all bodies: a part of the response without copying it, if no body was compressed."""
    sizes = _int64s([len(body) for body in bodies])
    response = batches[0].view.obj
    if any(isinstance(body, bytes) or body.obj is not response for body in bodies):
        ends = sizes.cumsum()
        return BatchBodies(b"".join(bodies), ends - sizes, ends)
    whole = memoryview(response).toreadonly()
    origin = _address(whole) - HEADER_SIZE
    places: list[int] = []
    source, shift = None, 0
    for batch in batches:
        if batch.source is not source:
            source = batch.source
            shift = _address(source) - origin
        places.append(shift + batch.at)
    begins = _int64s(places)
    ends = begins + sizes
    # Only this range: the receive buffer may be longer than the response and hold remains of another one.
    low, high = int(begins.min()), int(ends.max())
    return BatchBodies(whole[low:high], begins - low, ends - low)


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def _int64s(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _batch_indexes(records: npt.NDArray[np.bool_], first: Int64s) -> list[int]:
    """Return the indexes of the batches that contain these records."""
    if not records.any():
        return []
    found: list[int] = np.unique(np.searchsorted(first, np.flatnonzero(records), side="right") - 1).tolist()
    return found


def _slice(flat: FlatColumns, begin: int, end: int, bodies: BatchBodies, first: int, last: int) -> FlatColumns:
    """Return records ``begin`` to ``end`` of ``flat``, over the bytes of bodies ``first`` to ``last`` (exclusive)."""
    byte_begin, byte_end = int(bodies.begins[first:last].min()), int(bodies.ends[first:last].max())
    part = slice(begin, end)
    headers = flat.headers
    if headers is not None:
        names = slice(int(headers.first[begin]), int(headers.first[end]))
        headers = HeaderPlaces(
            headers.first[begin : end + 1] - headers.first[begin],
            headers.name_starts[names] - byte_begin,
            headers.name_lengths[names],
            headers.value_starts[names] - byte_begin,
            headers.value_lengths[names],
        )
    return FlatColumns(
        flat.offsets[part], flat.timestamps[part], flat.timestamp_types[part], flat.leader_epochs[part],
        flat.data[byte_begin:byte_end], flat.key_starts[part] - byte_begin, flat.key_lengths[part],
        flat.value_starts[part] - byte_begin, flat.value_lengths[part], headers,
    )  # fmt: skip


def _join(pieces: list[FlatColumns]) -> FlatColumns:
    """Concatenate the pieces' records and bytes in the same order, on which :func:`.arrow.binary` relies."""
    if not pieces:
        return _EMPTY
    shifts = [0, *np.cumsum([len(piece.data) for piece in pieces]).tolist()]

    def places(name: str) -> Int64s:
        return np.concatenate([getattr(piece, name) + shift for piece, shift in zip(pieces, shifts)])

    def values(name: str) -> Any:
        return np.concatenate([getattr(piece, name) for piece in pieces])

    headers = None
    if any(piece.headers for piece in pieces):
        headers = _join_headers(pieces, shifts)
    return FlatColumns(
        values("offsets"), values("timestamps"), values("timestamp_types"), values("leader_epochs"), values("data"),
        places("key_starts"), values("key_lengths"), places("value_starts"), values("value_lengths"), headers,
    )  # fmt: skip


def _join_headers(pieces: list[FlatColumns], shifts: list[int]) -> HeaderPlaces:
    every = [
        piece.headers or HeaderPlaces(np.zeros(len(piece.offsets) + 1, np.int64), *[NOTHING] * 4) for piece in pieces
    ]
    counts = np.concatenate([np.diff(headers.first) for headers in every])
    return HeaderPlaces(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
        np.concatenate([headers.name_starts + shift for headers, shift in zip(every, shifts)]),
        np.concatenate([headers.name_lengths for headers in every]),
        np.concatenate([headers.value_starts + shift for headers, shift in zip(every, shifts)]),
        np.concatenate([headers.value_lengths for headers in every]),
    )


def _flat_of_rows(batches: list[tuple[RecordBatch, Columns]]) -> FlatColumns:
    """Convert output of the row decoder."""
    counts = [len(columns.offsets) for _, columns in batches]
    pieces: list[bytes | None] = []
    headers: list[int] = []
    parts: list[bytes | None] = []
    for _, columns in batches:
        for key, value, some in zip(columns.keys, columns.values, columns.headers):
            pieces += (key, value)
            headers.append(len(some))
            for name, content in some:
                parts += (name.encode(), content)
    data = b"".join([piece for piece in pieces if piece])
    more = b"".join([part for part in parts if part])
    starts, lengths = _starts_and_lengths(pieces, 0)
    header_starts, header_lengths = _starts_and_lengths(parts, len(data))
    places = None
    if parts:
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(headers)))
        places = HeaderPlaces(
            first, header_starts[::2], header_lengths[::2], header_starts[1::2], header_lengths[1::2]
        )  # fmt: skip
    return FlatColumns(
        _int64s([offset for _, columns in batches for offset in columns.offsets]),
        _int64s([stamp for _, columns in batches for stamp in columns.timestamps]),
        np.repeat(np.array([batch.timestamp_type for batch, _ in batches], np.int8), counts),
        np.repeat(np.array([batch.leader_epoch for batch, _ in batches], np.int32), counts),
        np.frombuffer(data + more, np.uint8),
        starts[::2], lengths[::2], starts[1::2], lengths[1::2], places,
    )  # fmt: skip


def _starts_and_lengths(pieces: Iterable[bytes | None], begin: int) -> tuple[Int64s, Int64s]:
    """Return starts and lengths of consecutive pieces, the first one at ``begin``; None has the length -1."""
    lengths = _int64s([-1 if piece is None else len(piece) for piece in pieces])
    taken = np.maximum(lengths, 0)
    return begin + np.cumsum(taken) - taken, lengths


_EMPTY = FlatColumns(
    NOTHING, NOTHING, np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0, np.uint8), NOTHING, NOTHING, NOTHING,
    NOTHING, None,
)  # fmt: skip
