"""Decode many batches to columns at once.

Batches of format 2 from all partitions go through :mod:`.walk` and :mod:`.fields` together. If records are few, or a
batch has an older format or is not proven well-formed, all batches go to the row decoder (:mod:`..columns`), which
alone raises errors about malformed records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import inf
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import RecordError
from ...support.garbage_collection import garbage_collection_paused
from ...support.lazy_dataclass import dataclass
from ...types import ConsumerRecord, TopicPartition
from .. import checksum, compression
from ..batch import CODEC_MASK, CONTROL, CRC_COVERS_FROM, HEADER_SIZE, LOG_APPEND_TIME, MAGIC_AT, RecordBatch
from ..batches import Batches
from ..columns import RECORD_SIZE_MIN, Columns
from ..columns import decode as decode_rows
from ..encoded_headers import USE
from ..rows import build
from ..varints import Malformed
from .fields import HeaderPlaces, read
from .lazy_rows import LazyRows, RowBuilder
from .pieces import Int64s
from .record_columns import RecordColumns, part_of
from .walk import walk

Rows: TypeAlias = list[ConsumerRecord["bytes | None", "bytes | None"]]
NO_ROWS = Columns([], [], [], [], [])
#: The checksum and the attributes of a batch of format 2.
_CRC_AND_ATTRIBUTES = Struct(">17xIh")
#: A batch header of format 2.
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
        ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4"),
    ]
)  # fmt: skip
#: Up to this many records and bytes, the row decoder is faster: each numpy call takes as long for 1 record as for 100.
SMALL_RECORDS_MAX = 80
SMALL_BYTES_MAX = 512 * 1024
#: Records of a larger average size, in bytes, are built immediately. Building a record only when it is read saves the
#: same time for any size, but the memory that is kept until then grows with the size.
LAZY_SIZE_MAX = 1024


class Decoded(NamedTuple):
    """The records of all batches, which are numbered in the order in which they were added."""

    flat: RecordColumns  #: The records of all partitions: ``topic`` is empty.
    first: list[int]  #: By batch number: the index of the first record. At the end: the count of records.
    errors: dict[int, RecordError]  #: By batch number: the errors of corrupt batches, which have no records.

    def columns(self, tp: TopicPartition, begin: int, end: int, start: int) -> RecordColumns:
        """Return the records of batches number ``begin`` to ``end`` (exclusive) from offset ``start`` on."""
        first, stop = self.first[begin], self.first[end]
        flat = self.flat
        if first < stop and flat.offsets[first] < start:
            first += int(np.searchsorted(flat.offsets[first:stop], start))
        return part_of(flat, tp, first, stop)


class DecodedRows(NamedTuple):
    """As :class:`Decoded`, with ``ConsumerRecord`` objects."""

    rows: Rows | RowBuilder
    first: list[int]
    errors: dict[int, RecordError]

    def records(self, tp: TopicPartition, begin: int, end: int, *, build: bool = False) -> Rows | LazyRows:
        """Return the records of a partition's batches with the numbers ``begin`` to ``end`` (exclusive).

        With ``build``, all are built now, and keep no other records in memory.
        """
        first, stop = self.first[begin], self.first[end]
        if isinstance(self.rows, list):
            return self.rows[first:stop]
        if build or self.rows.average_size > LAZY_SIZE_MAX:
            return self.rows.build(tp, first, stop)
        return LazyRows(self.rows, tp, first, stop)


@dataclass(slots=True, eq=False, repr=False)
class _Run:
    """Batches of one partition that follow one another in a response, with consecutive numbers."""

    batches: Batches
    tp: TopicPartition
    first: int  #: The number of the first batch.
    is_used: bool  #: Whether the records of the run are used; otherwise it is skipped as a whole.
    begin: int
    end: int  #: The run consists of the batches at the indices from ``begin`` on, before ``end``.
    #: The decompressed records of each batch; None if no batch of the run is compressed.
    bodies: list[bytes | memoryview] | None = None

    def starts(self) -> Int64s:
        """Return where each batch begins in its partition's bytes, and where the last one ends."""
        return np.frombuffer(self.batches.starts, np.int64)[self.begin : self.end + 1]

    def plain_body(self, index: int) -> memoryview:
        """Return the records of the batch at ``index``, which is not compressed."""
        starts = self.batches.starts
        return self.batches.source[starts[index] + HEADER_SIZE : starts[index + 1]]

    def body(self, index: int) -> bytes | memoryview:
        """Return the decompressed records of the batch at ``index``."""
        return self.plain_body(index) if self.bodies is None else self.bodies[index - self.begin]


class Decoder:
    """Collects batches, in offset order within each partition, and decodes them in :meth:`finish` or :meth:`rows`."""

    def __init__(self, check_crcs: bool = True) -> None:
        self._check_crcs = check_crcs
        self._runs: list[_Run] = []
        #: By batch number: how many records the batch adds to those that are decoded together.
        self._counts: list[int] = []
        #: By batch number: the records of batches that :meth:`add` passed to the row decoder.
        self._row_decoded: dict[int, Columns] = {}
        self.size = 0  #: Approximate decompressed size, in bytes, of all batches that :meth:`add` has taken.
        self.records = 0  #: Number of records of all batches that :meth:`add` has taken.

    def __len__(self) -> int:
        return len(self._counts)

    def add(
        self,
        batches: Batches,
        tp: TopicPartition,
        begin: int = 0,
        end: int | None = None,
        *,
        records: float = inf,
        size: float = inf,
    ) -> RecordError | None:
        """Check and decompress the batches ``begin`` to ``end`` (exclusive). Each gets the next number, from 0 on.

        Stops after the batch with which all batches added so far reach ``records`` records or ``size`` decompressed
        bytes. Also stops before a batch that it finds corrupt or cannot decompress, and returns its CorruptRecordError
        or UnsupportedCodecError.
        """
        run = self._run(batches, begin, tp, is_used=True)
        source, starts, counts, is_mixed = batches.source, batches.starts, batches.counts, batches.is_mixed
        compute = checksum.crc32c if self._check_crcs else None
        unpack, decompress = _CRC_AND_ATTRIBUTES.unpack_from, compression.decompress
        all_counts, all_records, all_bytes, bodies = self._counts, self.records, self.size, run.bodies
        error: RecordError | None = None
        stop = starts[begin]
        for index in range(begin, len(counts) if end is None else end):
            start, stop, count = stop, starts[index + 1], counts[index]
            crc, attributes = unpack(source, start)
            is_usual = not (attributes & CONTROL or (is_mixed and source[start + MAGIC_AT] != 2)) and (
                compute is None or compute(source[start + CRC_COVERS_FROM : stop]) == crc
            )
            body, length = None, stop - start - HEADER_SIZE
            if is_usual and attributes & CODEC_MASK:
                try:
                    body = decompress(attributes & CODEC_MASK, source[start + HEADER_SIZE : stop])
                    length = len(body)
                except compression.CodecError:
                    is_usual = False
            # Only batches of format 2 with records may be decoded together. A batch without records would take the last
            # record of the batch before it for its own. For a header that claims more records than the bytes can hold,
            # ``walk`` would allocate too much memory.
            is_usual = is_usual and 0 < count * RECORD_SIZE_MIN <= length
            if not is_usual:
                try:
                    count, length = self._decode_by_rows(batches[index], tp)
                except RecordError as found:
                    error = found
                    break
                body = b""
            if bodies is not None or body:
                if bodies is None:
                    bodies = run.bodies = [run.plain_body(before) for before in range(run.begin, index)]
                bodies.append(run.plain_body(index) if body is None else body)
            all_counts.append(count if is_usual else 0)
            all_records += count
            all_bytes += length
            if all_records >= records or all_bytes >= size:
                break
        run.end = run.begin + len(all_counts) - run.first
        self.records, self.size = all_records, all_bytes
        return error

    def skip(self, batches: Batches, tp: TopicPartition, index: int) -> None:
        """Give the next number to a batch, but use none of its records."""
        self._run(batches, index, tp, is_used=False).end = index + 1
        self._counts.append(0)

    def _run(self, batches: Batches, begin: int, tp: TopicPartition, *, is_used: bool) -> _Run:
        """Return the run for the batch at ``begin``: the last run if the batch continues it, else a new one."""
        last = self._runs[-1] if self._runs else None
        if last is None or last.batches is not batches or last.end != begin or last.is_used != is_used:
            last = _Run(batches, tp, len(self._counts), is_used, begin, begin)
            self._runs.append(last)
        return last

    def _decode_by_rows(self, batch: RecordBatch, tp: TopicPartition) -> tuple[int, int]:
        """Pass the next batch to the row decoder; return its records' number and size. Raises as ``batch.columns``."""
        if self._check_crcs:
            batch.check_crc(*tp)
        found = NO_ROWS if batch.is_control else batch.columns(*tp, self._check_crcs)
        if not found.offsets:
            return 0, 0
        self._row_decoded[len(self._counts)] = found
        return len(found.offsets), sum(len(field) for field in (*found.keys, *found.values) if field)

    def finish(self) -> Decoded:
        """Decode the added batches to columns."""
        is_small = self.records <= SMALL_RECORDS_MAX and self.size <= SMALL_BYTES_MAX
        found = None if is_small or self._row_decoded else self._decode_together(may_share=True, locate_headers=True)
        if found is not None:
            return Decoded(found[0], [0, *accumulate(self._counts)], {})
        errors: dict[int, RecordError] = {}
        alone = [(batch, columns) for batch, _, columns in self._each(errors)]
        return Decoded(_flat_of_rows(alone), [0, *accumulate(len(columns.offsets) for _, columns in alone)], errors)

    @garbage_collection_paused
    def rows(self, records_min: int) -> DecodedRows:
        """Decode the added batches to ``ConsumerRecord`` objects.

        Batches are decoded one at a time if they have fewer than ``records_min`` records together, or if one of them
        has an older format or is not proven to be well-formed.
        """
        if self.records >= records_min and not self._row_decoded:
            # Records that are built later must not keep whole responses in memory, as columns do.
            found = self._decode_together(may_share=False, locate_headers=USE.is_common(self.records))
            if found is not None:
                return DecodedRows(RowBuilder(*found), [0, *accumulate(self._counts)], {})
        errors: dict[int, RecordError] = {}
        parts = [
            build(*tp, batch.leader_epoch, batch.timestamp_type, columns) for batch, tp, columns in self._each(errors)
        ]
        return DecodedRows(list(chain.from_iterable(parts)), [0, *accumulate(map(len, parts))], errors)

    def _decode_together(
        self, *, may_share: bool, locate_headers: bool
    ) -> tuple[RecordColumns, bytes | memoryview, Int64s | None] | None:
        """Return the columns, their bytes, and maybe where each record ends (see :func:`_decode`).

        Returns None if no batch has records, or one is not proven to be well-formed. With ``may_share``, the bytes may
        be a part of the receive buffer; otherwise they are a copy.
        """
        runs = [run for run in self._runs if run.is_used and run.end > run.begin]
        counts_of_runs = [self._counts[run.first : run.first + run.end - run.begin] for run in runs]
        counts = np.array([*chain.from_iterable(counts_of_runs)], np.int64)
        used = counts > 0
        if not used.any():
            return None
        data, begins, ends = _locate_bodies(runs, may_share)
        # Headers are concatenated as opaque bytes: to concatenate arrays with fields takes ten times as long.
        heads = np.concatenate([_heads(run) for run in runs]).view(_HEADER)
        if not used.all():
            counts, begins, ends, heads = counts[used], begins[used], ends[used], heads[used]
        found = _decode(heads, counts, data, begins, ends, locate_headers)
        return None if found is None else (found[0], data, found[1])

    def _each(self, errors: dict[int, RecordError]) -> Iterator[tuple[RecordBatch, TopicPartition, Columns]]:
        """Decode each batch alone, by the row decoder; put the error of a corrupt one into ``errors``."""
        for run in self._runs:
            for number, index in enumerate(range(run.begin, run.end), run.first):
                batch, columns = run.batches[index], self._row_decoded.get(number, NO_ROWS)
                if self._counts[number]:
                    try:
                        columns = decode_rows(batch, bytes(run.body(index)))
                    except Malformed as fault:
                        errors[number] = batch.corrupt(*run.tp, str(fault))
                        errors[number].__cause__ = fault
                yield batch, run.tp, columns


def _decode(
    heads: npt.NDArray[np.void], counts: Int64s, data: bytes | memoryview, begins: Int64s, ends: Int64s,
    locate_headers: bool,
) -> tuple[RecordColumns, Int64s | None] | None:  # fmt: skip
    """Decode batches of at least one record each. Their records begin and end at ``begins`` and ``ends`` in ``data``.

    Returns None unless every batch is proven to be well-formed. Otherwise returns the columns and, if there are headers
    and ``locate_headers`` is False, where each record ends (else None).
    """
    bytewise = np.frombuffer(data, np.uint8)
    stops = counts.cumsum()
    first, last = stops - counts, stops - 1
    places = walk(bytewise, begins, ends, counts)
    if places is None:
        return None
    record_ends = np.append(places[1:], 0)
    record_ends[last] = ends
    fields = read(bytewise, places, record_ends, locate_headers=locate_headers)
    appended = heads["attributes"].astype(np.int64) & LOG_APPEND_TIME > 0
    bad = fields.bad
    bad[last] |= fields.offsets[last] > heads["last_offset_delta"]
    if (fields.offsets != np.arange(len(bad)) - first.repeat(counts)).any():
        falls = np.empty(len(bad), bool)
        falls[1:] = fields.offsets[1:] <= fields.offsets[:-1]
        falls[first] = fields.offsets[first] < 0
        bad |= falls
    if bad.any():
        return None
    deltas, stamps = fields.deltas, heads["base_timestamp"].astype(np.int64)
    if appended.any():
        deltas = np.where(appended.repeat(counts), 0, deltas)
        stamps = np.where(appended, heads["max_timestamp"].astype(np.int64), stamps)
    flat = RecordColumns(
        "",
        -1,
        heads["base_offset"].astype(np.int64).repeat(counts) + fields.offsets,
        _per_record(stamps, counts) + deltas,  # a sum beyond 64 bits wraps around, as in Java
        _per_record(appended.astype(np.int8), counts),
        _per_record(heads["leader_epoch"].astype(np.int32), counts),
        bytewise,
        fields.key_starts,
        fields.key_lengths,
        fields.value_starts,
        fields.value_lengths,
        fields.headers,
    )
    return flat, record_ends if fields.has_headers and not locate_headers else None


def _per_record(values: npt.NDArray[Any], counts: Int64s) -> npt.NDArray[Any]:
    """Return an array with the batch's value for each record; faster if all batches have the same value."""
    if (values == values[0]).all():
        return np.full(int(counts.sum()), values[0], values.dtype)
    return values.repeat(counts)


def _heads(run: _Run) -> npt.NDArray[np.void]:
    """Return the bytes of each batch's header in the run."""
    source = run.batches.source
    # Entry i of this array is made of the bytes from i on. The data are not copied.
    everywhere = np.ndarray((len(source) - HEADER_SIZE + 1,), f"V{HEADER_SIZE}", source, 0, (1,))
    return everywhere[run.starts()[:-1]]


def _locate_bodies(runs: Sequence[_Run], may_share: bool) -> tuple[bytes | memoryview, Int64s, Int64s]:
    """Return one buffer with all batches' records, and where those of each batch begin and end.

    With ``may_share``, the buffer is a part of the receive buffer, not a copy, if no batch is compressed and all are in
    the same receive buffer.
    """
    if any(run.bodies is not None for run in runs):
        bodies = [run.body(index) for run in runs for index in range(run.begin, run.end)]
        sizes = np.array([len(body) for body in bodies], np.int64)
        ends = sizes.cumsum()
        return b"".join(bodies), ends - sizes, ends
    response = runs[0].batches.source.obj
    data: bytes | memoryview
    if may_share and all(run.batches.source.obj is response for run in runs):
        whole = memoryview(response).toreadonly()
        origin = _address(whole)
        places = [run.starts() + (_address(run.batches.source) - origin) for run in runs]
        # Cut to the range of these batches: the returned columns must not expose other responses in the receive buffer.
        low, high = int(min(place[0] for place in places)), int(max(place[-1] for place in places))
        data, places = whole[low:high], [place - low for place in places]
    else:
        # Batch headers are copied, too: one copy for each run is faster than one for each batch.
        copied = [run.batches.source[run.batches.starts[run.begin] : run.batches.starts[run.end]] for run in runs]
        stops = accumulate(map(len, copied))
        data = b"".join(copied)
        places = [run.starts() + (stop - run.batches.starts[run.end]) for run, stop in zip(runs, stops)]
    begins = np.concatenate([place[:-1] for place in places]) + HEADER_SIZE
    return data, begins, np.concatenate([place[1:] for place in places])


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def _flat_of_rows(alone: Sequence[tuple[RecordBatch, Columns]]) -> RecordColumns:
    """Convert the row decoder's output to columns."""
    pieces: list[bytes | None] = []
    headers: list[int] = []
    parts: list[bytes | None] = []
    for _, columns in alone:
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
        first = np.array([0, *accumulate(headers)], np.int64)
        places = HeaderPlaces(first, header_starts[::2], header_lengths[::2], header_starts[1::2], header_lengths[1::2])
    counts = [len(columns.offsets) for _, columns in alone]
    return RecordColumns(
        "", -1,
        np.array([offset for _, columns in alone for offset in columns.offsets], np.int64),
        np.array([stamp for _, columns in alone for stamp in columns.timestamps], np.int64),
        np.repeat(np.array([batch.timestamp_type for batch, _ in alone], np.int8), counts),
        np.repeat(np.array([batch.leader_epoch for batch, _ in alone], np.int32), counts),
        np.frombuffer(data + more, np.uint8),
        starts[::2], lengths[::2], starts[1::2], lengths[1::2], places,
    )  # fmt: skip


def _starts_and_lengths(pieces: Iterable[bytes | None], begin: int) -> tuple[Int64s, Int64s]:
    """Return starts and lengths of consecutive pieces, the first one at ``begin``; None has the length -1."""
    lengths = np.array([-1 if piece is None else len(piece) for piece in pieces], np.int64)
    taken = np.maximum(lengths, 0)
    return begin + np.cumsum(taken) - taken, lengths
