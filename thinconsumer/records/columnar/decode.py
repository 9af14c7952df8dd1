"""Decode many batches to columns at once.

Batches of format 2 from all partitions go through :mod:`.walk` and :mod:`.fields` together. If records are few, or a
batch has an older format or is not proven well-formed, all batches go to the row decoder (:mod:`..columns`), which
alone rejects bytes and raises errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import RecordError
from ...garbage_collection import garbage_collection_paused
from ...types import ConsumerRecord, TopicPartition
from .. import checksum, compression
from ..batch import CONTROL, CRC_COVERS_FROM, HEADER_SIZE, LOG_APPEND_TIME, RecordBatch
from ..columns import RECORD_SIZE_MIN, Columns, Malformed
from ..columns import decode as decode_rows
from ..rows import build
from .fields import HeaderPlaces, read
from .flat_columns import FlatColumns
from .lazy_rows import LazyRows, RowBuilder
from .record_columns import RecordColumns
from .walk import walk

__all__ = ["Decoded", "DecodedRows", "Decoder"]

Int64s: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = list[ConsumerRecord["bytes | None", "bytes | None"]]
NO_ROWS = Columns([], [], [], [], [])
CODEC_MASK = 0x07
#: If a poll has at most this many records and bytes, the row decoder is faster: each numpy call takes about as long for
#: 1 record as for 100.
SMALL_RECORDS_MAX = 80
SMALL_BYTES_MAX = 512 * 1024
#: Records of a larger size on average, in bytes, are built at once. The time that is gained by building them later does
#: not depend on their size, but the memory that is kept until then does.
LAZY_SIZE_MAX = 1024


class Decoded(NamedTuple):
    """The records of all batches. A batch's number is its position in the order of the calls of :meth:`Decoder.add`."""

    flat: FlatColumns
    #: By batch number: the index of the batch's first record. One more entry at the end: the count of records.
    first: list[int]
    #: By batch number: the error of a corrupt batch. Such a batch has no records in ``flat``.
    errors: dict[int, RecordError]

    def columns(self, tp: TopicPartition, begin: int, end: int, start: int) -> RecordColumns:
        """Return the records of batches ``begin`` to ``end`` (exclusive) from offset ``start`` on."""
        first, stop = self.first[begin], self.first[end]
        flat = self.flat
        if first < stop and flat.offsets[first] < start:
            first += int(np.searchsorted(flat.offsets[first:stop], start))
        return RecordColumns(*tp, *flat).slice(first, stop)


class DecodedRows(NamedTuple):
    """The records of all batches, as in :class:`Decoded`, but as ``ConsumerRecord`` objects."""

    rows: Rows | RowBuilder
    first: list[int]
    errors: dict[int, RecordError]

    def records(self, tp: TopicPartition, begin: int, end: int) -> Rows | LazyRows:
        """Return the records of batches ``begin`` to ``end`` (exclusive), which are all of this partition."""
        first, stop = self.first[begin], self.first[end]
        if isinstance(self.rows, list):
            return self.rows[first:stop]
        if self.rows.average_size > LAZY_SIZE_MAX:
            return self.rows.build(tp, first, stop)
        return LazyRows(self.rows, tp, first, stop)


class Decoder:
    """Collects batches, in offset order within each partition, and decodes them in :meth:`finish`."""

    def __init__(
        self, check_crcs: bool = True, decompressed_bytes_max: int = compression.DECOMPRESSED_BYTES_MAX
    ) -> None:
        self._check_crcs = check_crcs
        self._limit = decompressed_bytes_max
        self._batches: list[RecordBatch] = []
        self._partitions: list[TopicPartition] = []
        #: By batch number: the decompressed records; empty if :meth:`add` has used the row decoder.
        self._bodies: list[bytes | memoryview] = []
        #: By batch number: the records of batches that :meth:`add` passed to the row decoder.
        self._row_decoded: dict[int, Columns] = {}
        self.size = 0  #: Decompressed size of all batches, in bytes.
        self.records = 0  #: Number of records of all batches, according to their headers.

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: RecordBatch, tp: TopicPartition) -> int:
        """Check and decompress a batch; return its number, counted from 0.

        Raises: CorruptRecordError, UnsupportedCodecError, as :meth:`RecordBatch.decode`, and does not add the batch.
        """
        body: bytes | memoryview = b""
        attributes, count = batch.attributes, batch.count
        plain = batch.magic == 2
        if plain:
            view = batch.view
            if self._check_crcs and checksum.crc32c(view[CRC_COVERS_FROM:]) != batch.crc:
                batch.check_crc(*tp)  # raises the error
            if not attributes & CONTROL:
                body = view[HEADER_SIZE:]
                if codec := attributes & CODEC_MASK:
                    try:
                        body = compression.decompress(codec, body, self._limit)
                    except compression.CodecError:
                        # The row decoder fails with the same fault, but its error names the partition and offsets.
                        batch.columns(*tp, check_crcs=False, decompressed_bytes_max=self._limit)
                        raise
        size = len(body)
        # Only batches of format 2 with records may be decoded together: a batch without records would take the last
        # record of the batch before it for its own, and a header that claims more records than its bytes can hold would
        # make ``walk`` allocate memory for them.
        if not (plain and 0 < count * RECORD_SIZE_MIN <= size):
            return self._add_row_decoded(batch, tp)
        # ``_batches`` is appended to last, as its length is the number of batches: if Ctrl-C interrupts before that
        # line, the batch does not count as added.
        self._bodies.append(body)
        self._partitions.append(tp)
        self._batches.append(batch)
        self.size += size
        self.records += count
        return len(self._batches) - 1

    def _add_row_decoded(self, batch: RecordBatch, tp: TopicPartition) -> int:
        """Decode a batch by the row decoder, and add its records; return its number, or raise its error."""
        found = batch.columns(*tp, self._check_crcs, decompressed_bytes_max=self._limit)
        if found is not None and found.offsets:
            self._row_decoded[len(self._batches)] = found
            self.size += sum(len(field) for field in (*found.keys, *found.values) if field)
        self._bodies.append(b"")
        self._partitions.append(tp)
        self._batches.append(batch)
        return len(self._batches) - 1

    def finish(self) -> Decoded:
        """Decode the added batches."""
        is_small = self.records <= SMALL_RECORDS_MAX and self.size <= SMALL_BYTES_MAX
        batches, bodies = ([], []) if is_small else self._plain()
        flat = _decode(batches, *_locate_bodies(batches, bodies)) if batches else None
        if flat is not None:
            return Decoded(flat, self._first_records(), {})
        errors: dict[int, RecordError] = {}
        rows = [self._decode_alone(number, body, errors) for number, body in enumerate(self._bodies)]
        counts = [len(columns.offsets) for columns in rows]
        return Decoded(_flat_of_rows(self._batches, rows, counts), [0, *accumulate(counts)], errors)

    def rows(self, records_min: int) -> DecodedRows:
        """Decode the added batches to ``ConsumerRecord`` objects; fewer than ``records_min`` one batch at a time."""
        batches, bodies = ([], []) if self.records < records_min else self._plain()
        if batches:
            # A copy, unlike in :meth:`finish`: records that are built later must not keep whole responses in memory.
            data, begins, ends = _join(bodies)
            flat = _decode(batches, data, begins, ends)
            if flat is not None:
                return DecodedRows(RowBuilder(flat, data), self._first_records(), {})
        return self._rows_alone()

    def _plain(self) -> tuple[list[RecordBatch], list[bytes | memoryview]]:
        """Return the batches with records, and their bodies; none if one of them was decoded alone."""
        if self._row_decoded:
            return [], []
        bodies = [body for body in self._bodies if body]
        return [batch for batch, body in zip(self._batches, self._bodies) if body], bodies

    def _first_records(self) -> list[int]:
        """Return the index of each batch's first record, and the count of records, if no batch was decoded alone."""
        counts = [batch.count if body else 0 for batch, body in zip(self._batches, self._bodies)]
        return [0, *accumulate(counts)]

    @garbage_collection_paused
    def _rows_alone(self) -> DecodedRows:
        """Decode each batch alone."""
        errors: dict[int, RecordError] = {}
        parts: list[Rows] = []
        for number, batch in enumerate(self._batches):
            columns = self._decode_alone(number, self._bodies[number], errors)
            parts.append(build(*self._partitions[number], batch.leader_epoch, batch.timestamp_type, columns))
        return DecodedRows(list(chain.from_iterable(parts)), [0, *accumulate(map(len, parts))], errors)

    def _decode_alone(self, number: int, body: bytes | memoryview, errors: dict[int, RecordError]) -> Columns:
        """Decode a batch by the row decoder; put its error into ``errors`` if it is corrupt."""
        try:
            return self._row_decoded.get(number) or self._decode_by_rows(number, body)
        except RecordError as error:
            errors[number] = error
            return NO_ROWS

    def _decode_by_rows(self, number: int, body: bytes | memoryview) -> Columns:
        """Decode a batch by the row decoder from ``body``, its decompressed records; empty if it has no records."""
        if not body:
            return NO_ROWS
        batch = self._batches[number]
        try:
            return decode_rows(batch, bytes(body))
        except Malformed:
            # ``Malformed`` names neither partition nor offset. Decoding the whole batch again fails with the same
            # fault, as a CorruptRecordError that names both.
            batch.columns(*self._partitions[number], False, decompressed_bytes_max=self._limit)
            raise


def _decode(
    batches: Sequence[RecordBatch], data: bytes | memoryview, begins: Int64s, ends: Int64s
) -> FlatColumns | None:
    """Decode batches of at least one record each; return None unless every batch is proven to be well-formed.

    The records of each batch begin and end at these positions in ``data``.
    """
    bytewise = np.frombuffer(data, np.uint8)
    counts = _int64s([batch.count for batch in batches])
    stops = counts.cumsum()
    first, last = stops - counts, stops - 1
    places = walk(bytewise, begins, ends, counts)
    if places is None:
        return None
    record_ends = np.append(places[1:], 0)
    record_ends[last] = ends
    fields = read(bytewise, places, record_ends)
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
    if bad.any():
        return None
    deltas = fields.deltas
    if any(appended):
        deltas = np.where(_per_record(appended, counts, np.int64), 0, deltas)
    return FlatColumns(
        base.repeat(counts) + fields.offsets,
        _per_record(stamps, counts, np.int64) + deltas,  # a sum beyond 64 bits wraps around, as in Java
        _per_record([log // LOG_APPEND_TIME for log in appended], counts, np.int8),
        _per_record([batch.leader_epoch for batch in batches], counts, np.int32),
        bytewise,
        fields.key_starts,
        fields.key_lengths,
        fields.value_starts,
        fields.value_lengths,
        fields.headers,
    )


def _per_record(values: list[int], counts: Int64s, kind: type) -> npt.NDArray[Any]:
    """Return an array with the batch's value for each record. Faster if all batches have the same value."""
    if values.count(values[0]) == len(values):
        return np.full(int(counts.sum()), values[0], kind)
    return np.array(values, kind).repeat(counts)


def _locate_bodies(
    batches: Sequence[RecordBatch], bodies: Sequence[bytes | memoryview]
) -> tuple[bytes | memoryview, Int64s, Int64s]:
    """Return one buffer with all bodies, and where each begins and ends, possibly with gaps between them.

    The buffer is a part of the response, not copied, if no body was compressed.
    """
    response = batches[0].view.obj
    if any(isinstance(body, bytes) or body.obj is not response for body in bodies):
        return _join(bodies)
    sizes = _int64s([len(body) for body in bodies])
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
    # The result is cut to the range of these batches: the receive buffer around it may also hold other responses, which
    # the returned columns must not expose.
    low, high = int(begins.min()), int(ends.max())
    return whole[low:high], begins - low, ends - low


def _join(bodies: Sequence[bytes | memoryview]) -> tuple[bytes, Int64s, Int64s]:
    """Return a copy of all bodies, one after the other, and where each begins and ends."""
    sizes = _int64s([len(body) for body in bodies])
    ends = sizes.cumsum()
    return b"".join(bodies), ends - sizes, ends


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def _int64s(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _flat_of_rows(batches: Sequence[RecordBatch], rows: Sequence[Columns], counts: list[int]) -> FlatColumns:
    """Convert the row decoder's output to flat columns; ``counts`` has the number of records of each batch."""
    pieces: list[bytes | None] = []
    headers: list[int] = []
    parts: list[bytes | None] = []
    for columns in rows:
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
        _int64s([offset for columns in rows for offset in columns.offsets]),
        _int64s([stamp for columns in rows for stamp in columns.timestamps]),
        np.repeat(np.array([batch.timestamp_type for batch in batches], np.int8), counts),
        np.repeat(np.array([batch.leader_epoch for batch in batches], np.int32), counts),
        np.frombuffer(data + more, np.uint8),
        starts[::2], lengths[::2], starts[1::2], lengths[1::2], places,
    )  # fmt: skip


def _starts_and_lengths(pieces: Iterable[bytes | None], begin: int) -> tuple[Int64s, Int64s]:
    """Return starts and lengths of consecutive pieces, the first one at ``begin``; None has the length -1."""
    lengths = _int64s([-1 if piece is None else len(piece) for piece in pieces])
    taken = np.maximum(lengths, 0)
    return begin + np.cumsum(taken) - taken, lengths
