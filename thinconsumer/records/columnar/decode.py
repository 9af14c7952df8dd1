"""Many batches to columns, all of them at once.

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
#: So few records are read faster one by one.
FEW_RECORDS = 80


class Flat(NamedTuple):
    """Columns of many batches, over the bytes of all of them: what :class:`RecordColumns` is cut from."""

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


class Bodies(NamedTuple):
    """Where the bodies of batches are, side by side or with something in between."""

    data: bytes | memoryview
    begins: Int64s
    ends: Int64s


class Decoded(NamedTuple):
    """The outcome, by the numbers that :meth:`Decoder.add` gave."""

    flat: Flat
    first: list[int]  #: By batch: its first record; one more at the end.
    errors: dict[int, RecordError]  #: Batches that nobody can read; they have no records.

    def columns(self, tp: TopicPartition, begin: int, end: int, start: int) -> RecordColumns:
        """Return the records of batches ``begin`` to before ``end``, those below offset ``start`` left out."""
        first, stop = self.first[begin], self.first[end]
        flat = self.flat
        if first < stop and flat.offsets[first] < start:
            first += int(np.searchsorted(flat.offsets[first:stop], start))
        return RecordColumns(*tp, *flat).slice(first, stop)


class Decoder:
    """Takes batches, in the order of their partitions' offsets, and decodes them in :meth:`finish`."""

    def __init__(
        self, check_crcs: bool = True, decompressed_bytes_max: int = compression.DECOMPRESSED_BYTES_MAX
    ) -> None:
        self._check_crcs = check_crcs
        self._limit = decompressed_bytes_max
        self._batches: list[RecordBatch] = []
        self._partitions: list[TopicPartition] = []
        self._bodies: list[bytes | memoryview] = []  #: Empty for what the row decoder has read.
        self._read: dict[int, Columns] = {}  #: What it has read, by number.
        self.size = 0  #: Bytes, as they are after decompression.

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
        # Without records, or with fewer bytes than they would need: not for those who rely on either.
        if not (plain and 0 < count * RECORD_SIZE_MIN <= size):
            self._add_read(batch, tp)
            return
        # In this order: an exception between two of them leaves nothing behind that counts.
        self._bodies.append(body)
        self._partitions.append(tp)
        self._batches.append(batch)
        self.size += size

    def _decompress(self, batch: RecordBatch, tp: TopicPartition, codec: int, body: memoryview) -> bytes:
        try:
            return compression.decompress(codec, body, self._limit)
        except compression.CodecError:
            batch.columns(*tp, check_crcs=False, decompressed_bytes_max=self._limit)  # raises it in its own words
            raise

    def _add_read(self, batch: RecordBatch, tp: TopicPartition) -> None:
        """Take a batch through the row decoder, for its records or its error."""
        found = batch.columns(*tp, self._check_crcs, decompressed_bytes_max=self._limit)
        if found is not None:
            self._read[len(self._batches)] = found
            self.size += sum(len(field) for field in (*found.keys, *found.values) if field)
        self._bodies.append(b"")
        self._partitions.append(tp)
        self._batches.append(batch)

    def finish(self) -> Decoded:
        """Decode what was added."""
        plain = [number for number, body in enumerate(self._bodies) if body]
        batches = [self._batches[number] for number in plain]
        found: Flat = _EMPTY
        apart: list[int] = []
        bodies: Bodies | None = None
        if plain:
            bodies = _side_by_side(batches, [self._bodies[number] for number in plain])
            found, bad = _decode(batches, bodies)
            apart = [plain[index] for index in bad]
        counts = [0] * len(self._batches)
        for number, batch in zip(plain, batches):
            counts[number] = batch.count
        errors: dict[int, RecordError] = {}
        for number in apart:
            try:
                self._read[number] = self._by_rows(number)
            except RecordError as error:
                errors[number] = error
                self._read[number] = Columns([], [], [], [], [])
        if self._read:
            found = self._put_together(found, bodies)
            for number, columns in self._read.items():
                counts[number] = len(columns.offsets)
        return Decoded(found, [0, *accumulate(counts)], errors)

    def _by_rows(self, number: int) -> Columns:
        """Have the row decoder read a batch that is decompressed already."""
        batch = self._batches[number]
        try:
            return decode_rows(batch, bytes(self._bodies[number]))
        except Malformed:
            batch.columns(*self._partitions[number], False, decompressed_bytes_max=self._limit)  # raises it in full
            raise

    def _put_together(self, found: Flat, bodies: Bodies | None) -> Flat:
        """All records in the order of batches: those in ``found``, and those read apart."""
        pieces: list[Flat] = []
        apart: list[tuple[RecordBatch, Columns]] = []
        begin = at = 0  # records of found
        first = place = 0  # batches that found was made of
        for number, (batch, body) in enumerate(zip(self._batches, self._bodies)):
            columns = self._read.get(number)
            if columns is not None:
                if bodies is not None and begin < at:
                    pieces.append(_cut(found, begin, at, bodies, first, place))
                apart.append((batch, columns))
            elif apart:
                pieces.append(_of_rows(apart))
                apart = []
            if body and bodies is not None:
                at, place = at + batch.count, place + 1
            if columns is not None:
                begin, first = at, place
        if bodies is not None and begin < at:
            pieces.append(_cut(found, begin, at, bodies, first, place))
        if apart:
            pieces.append(_of_rows(apart))
        return _join(pieces)


def _decode(batches: Sequence[RecordBatch], bodies: Bodies) -> tuple[Flat, list[int]]:
    """Decode these batches, of one record at least each; return their columns, and which are not proven to be so."""
    bytewise = np.frombuffer(bodies.data, np.uint8)
    counts = _of_batches([batch.count for batch in batches])
    stops = counts.cumsum()
    first, last = stops - counts, stops - 1
    if stops[-1] > FEW_RECORDS:
        fields = _read(bytewise, bodies.begins, bodies.ends, counts)
    else:
        fields = small_batches.read(*bodies, counts)
    appended = [batch.attributes & LOG_APPEND_TIME for batch in batches]
    stamps = [batch.max_timestamp if log else batch.base_timestamp for batch, log in zip(batches, appended)]
    base = _of_batches([batch.base_offset for batch in batches])
    room = _of_batches([batch.next_offset for batch in batches]) - base
    bad = fields.bad
    bad[last] |= fields.offsets[last] >= room
    if (fields.offsets != np.arange(len(bad)) - first.repeat(counts)).any():
        falls = np.empty(len(bad), bool)
        falls[1:] = fields.offsets[1:] <= fields.offsets[:-1]
        falls[first] = fields.offsets[first] < 0
        bad |= falls
    deltas = fields.deltas
    if any(appended):
        deltas = np.where(_of_each(appended, counts, np.int64), 0, deltas)
    flat = Flat(
        base.repeat(counts) + fields.offsets,
        _of_each(stamps, counts, np.int64) + deltas,  # wraps like Java's
        _of_each([log // LOG_APPEND_TIME for log in appended], counts, np.int8),
        _of_each([batch.leader_epoch for batch in batches], counts, np.int32),
        bytewise,
        fields.key_starts,
        fields.key_lengths,
        fields.value_starts,
        fields.value_lengths,
        fields.headers,
    )
    return flat, _batches_of(bad, first)


def _of_each(values: list[int], counts: Int64s, kind: type) -> npt.NDArray[Any]:
    """What is said of each batch, for each of its records; mostly it is the same for all of them."""
    if values.count(values[0]) == len(values):
        return np.full(int(counts.sum()), values[0], kind)
    return np.array(values, kind).repeat(counts)


def _read(data: npt.NDArray[np.uint8], begins: Int64s, ends: Int64s, counts: Int64s) -> Fields:
    """Read many records between each of ``begins`` and its end."""
    places = walk(data, begins, ends, counts)
    stops = np.empty_like(places)
    stops[:-1] = places[1:]
    stops[counts.cumsum() - 1] = ends
    lost = places < 0
    if lost.any():
        places[lost] = stops[lost] = 0
    fields = read(data, places, stops)
    return fields._replace(bad=fields.bad | lost)


def _side_by_side(batches: Sequence[RecordBatch], bodies: Sequence[bytes | memoryview]) -> Bodies:
    """Something that all these bodies are in: the response or a part of it, if none of them was compressed."""
    sizes = _of_batches([len(body) for body in bodies])
    response = batches[0].view.obj
    if any(isinstance(body, bytes) or body.obj is not response for body in bodies):
        ends = sizes.cumsum()
        return Bodies(b"".join(bodies), ends - sizes, ends)
    whole = memoryview(response).toreadonly()
    origin = _address(whole) - HEADER_SIZE
    places: list[int] = []
    source, shift = None, 0
    for batch in batches:
        if batch.source is not source:
            source = batch.source
            shift = _address(source) - origin
        places.append(shift + batch.at)
    begins = _of_batches(places)
    ends = begins + sizes
    # Not all of it: behind the response, what it was received into may hold the rest of another one.
    low, high = int(begins.min()), int(ends.max())
    return Bodies(whole[low:high], begins - low, ends - low)


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def _of_batches(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _batches_of(records: npt.NDArray[np.bool_], first: Int64s) -> list[int]:
    """The batches that any of these records are in."""
    if not records.any():
        return []
    found: list[int] = np.unique(np.searchsorted(first, np.flatnonzero(records), side="right") - 1).tolist()
    return found


def _cut(flat: Flat, begin: int, end: int, bodies: Bodies, first: int, last: int) -> Flat:
    """Some records of ``flat``, and the bytes they are in, which are those of some bodies."""
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
    return Flat(
        flat.offsets[part], flat.timestamps[part], flat.timestamp_types[part], flat.leader_epochs[part],
        flat.data[byte_begin:byte_end], flat.key_starts[part] - byte_begin, flat.key_lengths[part],
        flat.value_starts[part] - byte_begin, flat.value_lengths[part], headers,
    )  # fmt: skip


def _join(pieces: list[Flat]) -> Flat:
    """The pieces' records behind one another, and their bytes, too: whoever copies keys relies on their order."""
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
    return Flat(
        values("offsets"), values("timestamps"), values("timestamp_types"), values("leader_epochs"), values("data"),
        places("key_starts"), values("key_lengths"), places("value_starts"), values("value_lengths"), headers,
    )  # fmt: skip


def _join_headers(pieces: list[Flat], shifts: list[int]) -> HeaderPlaces:
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


def _of_rows(batches: list[tuple[RecordBatch, Columns]]) -> Flat:
    """What the row decoder has read, as if it had been read here."""
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
    starts, lengths = _laid_out(pieces, 0)
    header_starts, header_lengths = _laid_out(parts, len(data))
    places = None
    if parts:
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(headers)))
        places = HeaderPlaces(
            first, header_starts[::2], header_lengths[::2], header_starts[1::2], header_lengths[1::2]
        )  # fmt: skip
    return Flat(
        _of_batches([offset for _, columns in batches for offset in columns.offsets]),
        _of_batches([stamp for _, columns in batches for stamp in columns.timestamps]),
        np.repeat(np.array([batch.timestamp_type for batch, _ in batches], np.int8), counts),
        np.repeat(np.array([batch.leader_epoch for batch, _ in batches], np.int32), counts),
        np.frombuffer(data + more, np.uint8),
        starts[::2], lengths[::2], starts[1::2], lengths[1::2], places,
    )  # fmt: skip


def _laid_out(pieces: Iterable[bytes | None], begin: int) -> tuple[Int64s, Int64s]:
    """Where pieces are that follow one another, and how long they are."""
    lengths = _of_batches([-1 if piece is None else len(piece) for piece in pieces])
    taken = np.maximum(lengths, 0)
    return begin + np.cumsum(taken) - taken, lengths


_EMPTY = Flat(
    NOTHING, NOTHING, np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0, np.uint8), NOTHING, NOTHING, NOTHING,
    NOTHING, None,
)  # fmt: skip
