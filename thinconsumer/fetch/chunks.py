"""Decode fetched batches to chunks of records.

With numpy, the batches that the next polls return are decoded together: numpy takes about as long for one batch as for
ten. Without numpy, or if there are few records, batches are decoded one at a time.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ..errors import DeserializationError, RecordError
from ..positions.partitions import Partition
from ..support.imports import import_with_numpy
from ..types import ConsumerRecord, TopicPartition
from .buffer import Buffer, Chunk, Fetched
from .record_sequence import BUILT_MAX

if TYPE_CHECKING:
    from ..records.batch import RecordBatch
    from ..records.columnar.decode import DecodedRows, Decoder
    from ..records.columnar.lazy_rows import LazyRows

log = logging.getLogger(__name__)

Records = Sequence[ConsumerRecord[Any, Any]]
#: Batches of one response that were added to a decoder: the range of numbers that the decoder gave them, and the error
#: of the batch right after them, if that batch has one.
Added = tuple[Fetched, int, int, "RecordError | None"]
#: Deserializes records of one partition. Returns those before the first failure, and that failure or ``None``.
Deserialize = Callable[[TopicPartition, Records], tuple[Records, RecordError | None]]

#: The module that decodes many batches together; it needs numpy.
DECODER = f"{__name__.split('.')[0]}.records.columnar.decode"
#: About this many records are decoded together, of all partitions.
TOGETHER_RECORDS = 4000
#: About this many records are decoded first after a seek: a program that seeks after every few records drops the rest.
FIRST_RECORDS = 500
#: If the decoded records of the other partitions take more memory than this, no more records of a partition are decoded
#: than its share of ``TOGETHER_RECORDS``, or than the poll returns if that is more.
AHEAD_BYTES = 8 << 20
#: Approximate size of the columns of one record, besides its bytes.
COLUMNS_BYTES = 128
#: Records of at most so many partitions are decoded together: to look at each of thousands would take longer.
TURNS_MAX = 200
#: The decompressed size from which on more batches do not make decoding faster, but only take more memory.
FULL_BYTES = 4 << 20
#: Fewer records than this are decoded one batch at a time: each numpy call takes as long for one record as for 100.
TOGETHER_MIN = 80
#: A deserializer is called for at most this many records at once, and at most as many as the poll returns, unless a
#: batch has more.
DESERIALIZED_MAX = 500
#: If more partitions than this have decoded records that polls may not return (as while paused), batches are decoded
#: one at a time: the decoded records could take much more memory than the batches.
WITHHELD_MAX = 8

_offset = attrgetter("offset")


def find_offset(records: Records, offset: int) -> int:
    """Return the index of the first record with at least this offset."""
    if not isinstance(records, list):
        return cast("LazyRows", records).find(offset)
    if not records or records[0].offset >= offset:
        return 0
    return bisect_left(records, offset, key=_offset)


def part_of(records: Records, begin: int, end: int) -> Records:
    """Return the records ``begin`` to ``end`` (exclusive); more than ``BUILT_MAX`` may be built when read."""
    if isinstance(records, list) or end - begin <= BUILT_MAX:
        return records[begin:end]
    return cast("LazyRows", records).part(begin, end)


class PostponedError(RecordError):
    """Stands for a record at which a deserializer raised a ``BaseException``, such as KeyboardInterrupt, and so ended a
    poll; no poll raises this error.

    The next poll returns the records before that record; if there are any, only the poll after it calls the
    deserializer again. Otherwise, if the deserializer raised that exception each time, no poll would return them.
    """


class ChunkDecoder:
    """Returns the chunks of fetched batches, decoded when they are needed."""

    def __init__(self, check_crcs: bool, buffer: Buffer, deserialize: Deserialize | None) -> None:
        self._check_crcs = check_crcs
        self._buffer = buffer
        self.deserialize = deserialize  #: None: records are returned with the bytes of keys and values.
        self.has_numpy = True  #: False once the import has failed.
        #: Whether this poll has found too few records to decode them together; within a poll, they only become fewer.
        self.has_few = False
        self.together_min = TOGETHER_MIN
        self.poll_records = TOGETHER_RECORDS  #: The number of records that this poll may return.
        self.later_records = TOGETHER_RECORDS  #: The number that each of the next polls is expected to return.
        #: By partition: the offset of the record at which a deserializer has interrupted a poll, by a ``BaseException``
        #: that is no ``Exception``. ``ConsumerCore`` makes the entries.
        self.interrupted: dict[TopicPartition, int] = {}
        self._record_bytes = COLUMNS_BYTES  #: The average memory of a record among those decoded together last.

    def chunk(self, fetched: Fetched, index: int, record: int, room: int = 1, *, calls_again: bool = False) -> Chunk:
        """Return the chunk of the batch at ``index``.

        ``record``: the index in the chunk of the next record to return; ``room``: how many records the poll can still
        return. If no record is left before the chunk's DeserializationError, the deserializer is called again: its
        dependency (a schema registry, say) may be available again. With ``calls_again`` this holds for a
        PostponedError, too.
        """
        if index < len(fetched.chunks) and fetched.chunks[index] is None:
            # ``poll_batches`` has returned the first batches of a chunk of several.
            del fetched.chunks[index:]
        while index >= len(fetched.chunks):
            if self.has_few or not self._is_worth_numpy():
                # Only this statement records that a batch was decoded (see ``Fetched``).
                fetched.chunks.append(self._decode(fetched, len(fetched.chunks)))
            else:
                self._decode_together(fetched.partition, room)
        known = fetched.chunks[index]
        assert known is not None
        return (
            known if self.deserialize is None else self._with_deserializer(fetched, index, known, record, calls_again)
        )

    def _with_deserializer(self, fetched: Fetched, index: int, known: Chunk, record: int, calls_again: bool) -> Chunk:
        assert self.deserialize is not None
        if not known.is_deserialized:
            raw = known.records
            records, failure = self._deserialized(self.deserialize, fetched.partition.tp, raw)
            rest = _rest(raw, failure)
            known = known._replace(records=records, error=failure, is_deserialized=True, rest=rest)
            fetched.chunks[index] = known
        elif isinstance(known.error, DeserializationError) and record >= len(known.records):
            known = self._deserialize_rest(fetched, index, known)
        if calls_again and isinstance(known.error, PostponedError) and record >= len(known.records):
            known = self._deserialize_rest(fetched, index, known)
        return known

    def _deserialized(
        self, deserialize: Deserialize, tp: TopicPartition, records: Records
    ) -> tuple[Records, RecordError | None]:
        """Deserialize the records; if they have the offset in ``interrupted``, only those before it."""
        offset = self.interrupted.get(tp)
        stop = len(records) if offset is None else find_offset(records, offset)
        postponed: RecordError | None = None
        if offset is not None and stop < len(records) and records[stop].offset == offset:
            postponed = PostponedError("a deserializer has interrupted a poll", tp, offset, offset + 1)
            records = part_of(records, 0, stop)
        found, failure = deserialize(tp, records)
        return found, failure or postponed

    def is_aborted(self, fetched: Fetched, index: int) -> bool:
        """Whether read_committed skips batch ``index``. Each batch is evaluated once, in offset order.

        With ``check_crcs``, raises ``CorruptRecordError`` if the CRC of an aborted batch, which is not decoded, is
        wrong: with a corrupt producer id or offset range, valid records would be skipped as aborted ones.
        """
        if fetched.aborted is None:
            return False
        verdicts = fetched.verdicts
        while index >= len(verdicts):
            verdicts.append(fetched.aborted.skip(fetched.batches[len(verdicts)], self._check_crcs))
        if verdicts[index] and self._check_crcs:
            fetched.batches[index].check_crc(*fetched.partition.tp)
        return verdicts[index]

    def _is_worth_numpy(self) -> bool:
        """Whether to decode batches together; sets ``has_few`` to the opposite.

        Numpy has to be there, enough records have to wait, and at most WITHHELD_MAX partitions may have decoded records
        that polls may not return.
        """
        records, self.has_few = 0, True
        for partition in self._buffer.queues:
            if not partition.may_hand_out:
                continue
            for source in self._buffer.queue(partition):
                counts, begin = source.batches.counts, len(source.chunks)
                some = min(begin + self.together_min, source.count)
                records += sum(counts[begin:some])
                if records < self.together_min and some < source.count:
                    records += sum(counts[some : source.count])  # compaction has left batches without records
                if records >= self.together_min:
                    self.has_few = not self._load_numpy() or self._buffer.withheld() > WITHHELD_MAX
                    return not self.has_few
        return False

    def _load_numpy(self) -> bool:
        if self.has_numpy:
            try:
                import_with_numpy(DECODER)
            except ImportError as error:
                log.debug("records are decoded without numpy: %s", error)
                self.has_numpy = False
        return self.has_numpy

    def _decode_together(self, partition: Partition, room: int) -> None:
        """Decode what this and the next polls return; this poll takes ``room`` records, first from ``partition``."""
        from ..records.columnar.decode import Decoder  # needs numpy, which is optional

        decoder = Decoder(self._check_crcs)
        added: list[Added] = []
        for other, records in self._wanted(partition, room):
            added += self._add_batches(other, decoder, records)
            if decoder.size >= FULL_BYTES or decoder.records >= TOGETHER_RECORDS:
                break
        self._record_bytes = decoder.size // max(decoder.records, 1) + COLUMNS_BYTES
        decoded = decoder.rows(self.together_min)
        for source, begin, end, error in added:
            # Only this statement records that the batches were decoded (see ``Fetched``).
            source.chunks.extend(self._chunks_of(source, begin, end, error, decoded))

    def _wanted(self, partition: Partition, room: int) -> list[tuple[Partition, int]]:
        """Return how many records to decode of this partition and of others: at least what the next polls return.

        Polls return records of the partitions in turn: this poll can still return ``room``, and each later one is
        expected to return ``later_records``.
        """
        waiting, turns = self._buffer.waiting, self._buffer.next_turns(partition)
        others = (other for other in turns if other.may_hand_out)
        is_first = partition.cursor.offset == partition.cursor.begin
        share = (FIRST_RECORDS if is_first else TOGETHER_RECORDS) // min(len(turns) + 1, TURNS_MAX)
        wanted: list[tuple[Partition, int]] = []
        total = ahead = 0
        left = room - waiting(partition)
        for other in islice(others, TURNS_MAX - 1):
            left = left if left > 0 else self.later_records
            records, available, decoded = max(left, share), waiting(other), self._buffer.decoded(other)
            if decoded < min(records, available):
                wanted.append((other, records))
                total += min(records, available - decoded)
            ahead += decoded
            left -= available
        own = max(room, share)
        if not is_first and ahead * self._record_bytes <= AHEAD_BYTES:
            # The rest of ``TOGETHER_RECORDS`` is this partition's. Otherwise, if the partitions run out of decoded
            # records at different times, each decoding would have only one partition's share, too few records.
            own = max(own, TOGETHER_RECORDS - total)
        return [(partition, own), *wanted]

    def _chunks_of(
        self, source: Fetched, begin: int, end: int, error: RecordError | None, decoded: DecodedRows
    ) -> list[Chunk | None]:
        """Return an item for each batch: mostly one chunk for all of them, and None for those after the first.

        In ``decoded``, the batches have the numbers ``begin`` to ``end`` (exclusive); ``error`` is that of the batch
        after them.
        """
        chunks: list[Chunk | None] = []
        known = len(source.chunks) - begin  # the index in ``source`` of the batch with the number 0
        # A poll may return only a part of the last batch. With many partitions, the rest waits long for its turn: built
        # later, it would keep everything in memory that was decoded with it.
        last = end - 1 if len(self._buffer.queues) > TURNS_MAX else end
        while begin < end:
            stop = end if begin == last else last
            if self.deserialize is not None:
                # Deserializers may be slow: a poll must not call them for many more records than it returns.
                most = decoded.first[begin] + min(self.poll_records, DESERIALIZED_MAX)
                stop = min(stop, max(bisect_right(decoded.first, most, begin, end + 1) - 1, begin + 1))
            if decoded.errors:
                stop = next((number for number in range(begin, stop) if number in decoded.errors), stop)
            if begin == stop:
                stop += 1
                chunks.append(self._chunk_of(source, source.batches[known + begin], decoded.errors[begin]))
            else:
                rows = decoded.records(source.partition.tp, begin, stop, build=begin == last)
                chunks.append(self._chunk_of(source, source.batches[known + stop - 1], rows, stop - begin))
            chunks += [None] * (stop - begin - 1)
            begin = stop
        if error is not None:
            chunks.append(self._chunk_of(source, source.batches[known + end], error))
        return chunks

    def _add_batches(self, partition: Partition, decoder: Decoder, records: int) -> list[Added]:
        """Add the partition's next batches: at least one, until they have ``records`` or the decoder FULL_BYTES."""
        added: list[Added] = []
        records += decoder.records
        for source in self._buffer.queue(partition):
            if not source.fresh:
                break
            chunk, begin = len(source.chunks), len(decoder)
            error = self.add(decoder, source, chunk, source.count, records=records, size=FULL_BYTES)
            added.append((source, begin, len(decoder), error))
            if error is not None or decoder.records >= records or decoder.size >= FULL_BYTES:
                break
        return added

    def add(
        self, decoder: Decoder, source: Fetched, begin: int, end: int, *, records: float = inf, size: float = inf
    ) -> RecordError | None:
        """Add the batches ``begin`` to ``end`` as :meth:`.Decoder.add`, but of aborted ones use no records."""
        batches, tp = source.batches, source.partition.tp
        if source.aborted is None:
            return decoder.add(batches, tp, begin, end, records=records, size=size)
        error: RecordError | None = None
        for index in range(begin, end):
            try:
                is_aborted = self.is_aborted(source, index)
            except RecordError as found:
                return found
            if is_aborted:
                decoder.skip(batches, tp, index)
            else:
                error = decoder.add(batches, tp, index, index + 1)
            if error is not None or decoder.records >= records or decoder.size >= size:
                break
        return error

    def _decode(self, fetched: Fetched, index: int) -> Chunk:
        batch = fetched.batches[index]
        rows: Records = []
        error: RecordError | None = None
        # The position may be inside this batch: a poll has returned a part of a chunk of several batches, and then
        # ``poll_batches`` has moved past the first of these.
        start = max(fetched.start, fetched.cursor.offset)
        try:
            if fetched.aborted is None or not self.is_aborted(fetched, index):
                rows = batch.decode(*fetched.partition.tp, self._check_crcs, start=start)
        except RecordError as found:
            error = found
        is_deserialized = self.deserialize is None or not rows
        return Chunk(rows, batch.next_offset, batch.leader_epoch, error, is_deserialized)

    def _chunk_of(
        self, fetched: Fetched, batch: RecordBatch, decoded: Records | RecordError, batches: int = 1
    ) -> Chunk:
        """Return the chunk of ``batches`` successive batches, of which ``batch`` is the last one."""
        if isinstance(decoded, RecordError):
            return Chunk([], batch.next_offset, batch.leader_epoch, decoded)
        if skipped := find_offset(decoded, max(fetched.start, fetched.cursor.offset)):
            decoded = part_of(decoded, skipped, len(decoded))
        is_deserialized = self.deserialize is None or not decoded
        return Chunk(decoded, batch.next_offset, batch.leader_epoch, None, is_deserialized, batches)

    def _deserialize_rest(self, fetched: Fetched, index: int, known: Chunk) -> Chunk:
        """Call the deserializer again for the record that has failed; if that succeeds, for those after it, too."""
        assert self.deserialize is not None and known.error is not None
        tp, start = fetched.partition.tp, known.error.offset
        self.interrupted.pop(tp, None)
        raw = known.rest
        if not raw:
            kept = (n for n in range(index, index + known.batches) if not self.is_aborted(fetched, n))
            raw = [row for n in kept for row in fetched.batches[n].decode(*tp, self._check_crcs, start=start)]
        records = [*known.records]
        failure: RecordError | None = None
        for part in (raw[:1], raw[1:]):
            if failure is None:
                more, failure = self._deserialized(self.deserialize, tp, part)
                records += more
        known = fetched.chunks[index] = known._replace(records=records, error=failure, rest=_rest(raw, failure))
        return known


def _rest(raw: Records, failure: RecordError | None) -> Records:
    """Return the records to keep for the next try: to decode them anew each time would take long."""
    return part_of(raw, find_offset(raw, failure.offset), len(raw)) if failure is not None and failure.retriable else []
