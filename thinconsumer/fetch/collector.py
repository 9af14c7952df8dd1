"""Decode the records that one poll returns, and later advance the positions past them.

:meth:`Collector.gather` moves no position: it caches decoded batches, and returns a :class:`PollResult` that lists the
new positions. :meth:`Collector.settle` applies them. :meth:`Collector.gather_columns` does the same with whole batches,
decoded all at once and not cached, and :meth:`Collector.gather_raw` with whole batches that are not decoded. An
exception before the positions are settled, KeyboardInterrupt included, therefore neither skips nor repeats a record.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from ..config import ConsumerConfig
from ..errors import CorruptRecordError, DeserializationError, RecordError
from ..positions.partitions import Partition, Partitions, RecordInHand
from ..support.garbage_collection import garbage_collection_paused
from ..types import OffsetAndMetadata, TopicPartition
from .buffer import Buffer, Fetched
from .chunks import ChunkDecoder, Deserialize, PostponedError, Records, find_offset, part_of
from .record_sequence import RecordSequence

if TYPE_CHECKING:
    from ..records.columnar.decode import Decoded, Decoder
    from ..records.raw_batch import RawBatch

log = logging.getLogger(__name__)

#: A poll without deserializers that may return so many records pauses garbage collection: Python collects after every
#: 700 new objects.
MANY_RECORDS = 700


class Form(enum.Enum):
    """The form in which a poll returns records."""

    ROWS = "rows"  #: one object per record; the limit is a number of records
    COLUMNS = "columns"  #: decoded together; the limit is the decompressed size in bytes
    RAW = "raw"  #: whole batches, not decompressed; the limit is their size in bytes


class Move(NamedTuple):
    """The part of one ``Fetched`` that a poll returns, and the position of its partition after that part."""

    fetched: Fetched
    adds: int  #: Number of records that the poll returns from ``fetched``.
    chunk: int
    record: int
    offset: int
    epoch: int
    begin: tuple[int, int]  #: Where the move starts in ``fetched``: indices of chunk and record.


class Span(NamedTuple):
    """Batches of one ``Fetched`` that were added to the columnar decoder."""

    fetched: Fetched
    begin: int  #: The number that the decoder has given to the span's first batch.
    chunk: int  #: Index in ``fetched`` of the first batch after the span.
    error: RecordError | None  #: Why what follows the span cannot be returned; None if it can.
    reached: int = -1  #: The partition's end offset, if the batch at ``chunk`` begins at or after it; else -1.


class PollResult:
    """The records, columns or raw batches that one poll returns, and the position changes that are still to be made."""

    __slots__ = ("count", "moves", "records", "taken", "turns")

    def __init__(self) -> None:
        self.records: dict[TopicPartition, Any] = {}  #: What the poll returns, in the form that it was asked for.
        self.moves: list[Move] = []
        self.turns: list[Partition] = []  #: Partitions to move to the end of the round-robin order.
        self.count = 0
        #: If the application iterates over the consumer: how many of these records the iteration has returned so far.
        #: None if ``poll`` has returned all of them at once.
        self.taken: int | None = None


class Collector:
    """Returns buffered records to polls."""

    def __init__(
        self, settings: ConsumerConfig, partitions: Partitions, buffer: Buffer, deserialize: Deserialize | None
    ) -> None:
        self._check_crcs = settings.check_crcs
        self._partitions = partitions
        self._buffer = buffer
        self.chunk_decoder = ChunkDecoder(settings.check_crcs, buffer, deserialize)
        #: The batches in which the last poll found an error behind what it returned. The next poll looks at that error
        #: first.
        self._overdue: Fetched | None = None
        self.aborted_batches = 0  #: The number of aborted batches that positions have moved past.

    def gather(self, max_records: int, ends: Mapping[TopicPartition, int] | None = None) -> PollResult:
        """Return up to ``max_records`` records; with ``ends``, only those below their partition's offset in ``ends``.

        Of a partition that ``ends`` lacks, no record is returned.

        Raises ``RecordError`` for a record that cannot be returned, once all records before it were returned.
        """
        if self._overdue is not None:
            self._raise_overdue()
        decoder = self.chunk_decoder
        decoder.has_few = self._buffer.records < decoder.together_min
        decoder.later_records = min(decoder.poll_records, max_records)
        decoder.poll_records = max_records
        poll_result = PollResult()
        is_postponed = False
        for partition in filter(self._may_gather, list(self._buffer.queues)):
            end = partition.delivery_end
            if ends is not None:
                end = _first_end(ends.get(partition.tp, -1), end)
            is_postponed |= self._gather_from(partition, max_records, end, poll_result)
            if poll_result.count >= max_records or (is_postponed and poll_result.count):
                break
        if is_postponed and not poll_result.count and not poll_result.moves:
            return self.gather(max_records, ends)  # the second call first calls the deserializer again
        return poll_result

    #: :meth:`gather` for polls that may return :data:`MANY_RECORDS` or more. Not used with deserializers, which may
    #: make a lot of garbage.
    gather_many = garbage_collection_paused(gather)

    def gather_columns(self, max_bytes: int, ends: Mapping[TopicPartition, int] | None = None) -> PollResult:
        """Return whole batches as columns, until their decompressed size without batch headers reaches ``max_bytes``.

        With ``ends``, a partition is read up to its offset in ``ends``; the last batch may contain records beyond that
        offset. A partition that ``ends`` lacks has no such limit.

        Raises ``RecordError`` as :meth:`gather`, but no deserialization error.
        """
        from ..records.columnar.decode import Decoder  # needs numpy, which is optional

        self._raise_overdue(as_bytes=True)
        poll_result = PollResult()
        decoder = Decoder(self._check_crcs)
        spans: list[Span] = []
        for partition in filter(self._may_gather, list(self._buffer.queues)):
            end = _first_end(ends.get(partition.tp) if ends is not None else None, partition.delivery_end)
            for fetched in self._buffer.queue(partition):
                if not fetched.fresh:
                    break
                spans.append(self._span(fetched, max_bytes, decoder, end))
                if spans[-1].error is not None or spans[-1].reached >= 0 or decoder.size >= max_bytes:
                    break
            poll_result.turns.append(partition)
            if decoder.size >= max_bytes:
                break
        if spans:
            self._hand_over(spans, decoder.finish(), poll_result)
        return poll_result

    def gather_raw(self, max_bytes: int) -> PollResult:
        """Return whole batches, neither decompressed nor decoded, until their size reaches ``max_bytes``.

        Control batches, aborted batches (read_committed) and batches without records are left out.

        Raises ``RecordError`` as :meth:`gather`, for a batch with a wrong checksum or a corrupt header.
        """
        self._raise_overdue(as_bytes=True)
        poll_result = PollResult()
        size = 0
        for partition in filter(self._may_gather, list(self._buffer.queues)):
            batches: list[RawBatch] = []
            end = partition.delivery_end
            for fetched in self._buffer.queue(partition):
                if (
                    not fetched.fresh
                    or size >= max_bytes
                    or (end is not None and _place(fetched, poll_result)[0] >= end)
                ):
                    break
                taken, error = self._take_raw(fetched, max_bytes - size, end, poll_result)
                batches += taken
                size += sum(batch.size for batch in taken)
                if error is not None:
                    if not poll_result.moves:
                        self._raise(fetched, error)
                    self._overdue = fetched
                if error is not None or poll_result.moves[-1].chunk < fetched.count:
                    break
            if batches:
                poll_result.records[partition.tp] = batches
            poll_result.turns.append(partition)
            if size >= max_bytes:
                break
        return poll_result

    def first(self, poll_result: PollResult, count: int) -> PollResult:
        """Return the part of a poll result with its first ``count`` records."""
        part = PollResult()
        for move in poll_result.moves:
            if part.count + move.adds > count:
                fetched, cursor = move.fetched, move.fetched.cursor
                # If ``fetched`` is not at ``begin`` any more, an interrupted call has applied this move already.
                if count > part.count and (fetched.chunk, fetched.record) == move.begin:
                    partial, _ = self._drain(fetched, (cursor.offset, cursor.epoch), count - part.count, None, [])
                    part.moves += [partial] if partial is not None else []
                break
            part.moves.append(move)
            part.count += move.adds
        part.turns = list(dict.fromkeys(move.fetched.partition for move in part.moves))
        return part

    def in_hand(self, poll_result: PollResult, count: int) -> RecordInHand | None:
        """Return the ``count``-th record of an unsettled poll result as the record in hand; None if ``count`` is 0."""
        last = next((move for move in reversed(self.first(poll_result, count).moves) if move.adds), None)
        if last is None:
            return None
        partition = last.fetched.partition
        offset, epoch = partition.cursor.offset, partition.cursor.epoch
        for move in self.first(poll_result, count - 1).moves:
            if move.fetched.partition is partition:
                offset, epoch = move.offset, move.epoch
        return RecordInHand(partition, last.offset, OffsetAndMetadata(offset, "", epoch))

    def settle(self, poll_result: PollResult) -> None:
        """Advance the positions, and the round-robin order. An interrupted call can be repeated."""
        for fetched, _, chunk, record, offset, epoch, _ in poll_result.moves:
            if fetched.aborted is not None:
                self.aborted_batches += sum(fetched.verdicts[fetched.chunk : chunk])
            # Release the records. The entries stay, as None: the length of ``chunks`` counts batches.
            fetched.chunks[fetched.chunk : chunk] = [None] * (chunk - fetched.chunk)
            fetched.chunk = chunk
            fetched.record = record
            fetched.cursor.offset = offset
            fetched.cursor.epoch = epoch
        for partition in poll_result.turns:
            if self._buffer.head(partition) is not None:
                self._buffer.rotate(partition)

    def restart(self) -> None:
        """Forget the error that the next poll would raise first: after an engine restart, all records are fetched anew.

        Also forget at which records of unassigned partitions a deserializer has interrupted a poll.
        """
        self._overdue = None
        interrupted = self.chunk_decoder.interrupted
        self.chunk_decoder.interrupted = {tp: at for tp, at in interrupted.items() if tp in self._partitions}

    def _may_gather(self, partition: Partition) -> bool:
        """Return whether a buffered partition may have records to return; drop its stale batches."""
        has_batches = self._buffer.head(partition) is not None
        return has_batches and partition.may_hand_out and self._partitions.assigned.get(partition.tp) is partition

    def _raise_overdue(self, *, as_bytes: bool = False) -> None:
        overdue, self._overdue = self._overdue, None
        if overdue is None or overdue is not self._buffer.head(overdue.partition):
            return
        if overdue.partition.may_hand_out and self._partitions.get(overdue.partition.tp) is overdue.partition:
            error = self._error_at(overdue, as_bytes=as_bytes)
            if error is not None:
                self._raise(overdue, error)

    def _raise(self, fetched: Fetched, error: RecordError) -> NoReturn:
        if not isinstance(error, DeserializationError):
            if isinstance(error, CorruptRecordError) and fetched.chunk < fetched.count:
                _correct_end(error, fetched)
            self._buffer.break_off(fetched, error)
        # The broken partition goes last, so that it does not block the other partitions.
        self._buffer.rotate(fetched.partition)
        raise error

    def _gather_from(self, partition: Partition, max_records: int, end: int | None, poll_result: PollResult) -> bool:
        """Add records of the partition; return whether they end before the record of a PostponedError."""
        is_postponed = False
        parts: list[Records] = []
        cursor = partition.cursor
        place = cursor.offset, cursor.epoch
        for fetched in self._buffer.queues[partition]:
            if cursor is not fetched.cursor:
                break
            move, error = self._drain(fetched, place, max_records - poll_result.count, end, parts)
            if move is not None:
                poll_result.moves.append(move)
                poll_result.count += move.adds
                place = move.offset, move.epoch
            if error is not None:
                is_postponed = self._postpone(fetched, error, poll_result)
                break
            if poll_result.count >= max_records or (end is not None and place[0] >= end):
                break
        if parts:
            poll_result.records[partition.tp] = RecordSequence(parts)
        poll_result.turns.append(partition)
        return is_postponed

    def _postpone(self, fetched: Fetched, error: RecordError, poll_result: PollResult) -> bool:
        """Leave the error to the next poll, or raise it if this poll returns nothing before it.

        A PostponedError is never raised. Returns whether the error is a PostponedError.
        """
        is_postponed = isinstance(error, PostponedError)
        if not is_postponed and not poll_result.moves:
            self._raise(fetched, error)
        # A PostponedError does not replace another partition's error: it could do so in each poll.
        if not is_postponed or self._overdue is None:
            self._overdue = fetched
        return is_postponed

    def _drain(
        self, fetched: Fetched, place: tuple[int, int], room: int, end: int | None, parts: list[Records]
    ) -> tuple[Move | None, RecordError | None]:
        """Append up to ``room`` records below ``end`` to ``parts``; return the move past them, and any error there.

        ``place`` is the partition's position, and its leader epoch, after what the poll returns of it so far.
        """
        index, record = begin = fetched.chunk, fetched.record
        offset, epoch = place
        adds = 0
        error: RecordError | None = None
        while adds < room and index < fetched.count and (end is None or offset < end):
            chunk = self.chunk_decoder.chunk(fetched, index, record, room - adds)
            records, size = chunk.records, len(chunk.records)
            stop = min(size, record + room - adds)
            if end is not None and chunk.next_offset > end:
                stop = min(stop, find_offset(records, end))
            if stop > record:
                is_whole = stop - record == size and isinstance(records, list)
                parts.append(records if is_whole else part_of(records, record, stop))
                last = parts[-1][-1]
                offset, epoch = last.offset + 1, last.leader_epoch
                adds += stop - record
                record = stop
            if stop < size or chunk.error is not None:
                error = chunk.error if stop == size else None
                if end is not None and (records[stop] if error is None else error).offset >= end:
                    offset, error = end, None  # the offsets up to ``end`` have no records (compacted, or markers)
                break
            # The position moves past the batch's last offset even if no record has it: compaction removes records,
            # and control batches contain none for the application.
            offset, epoch = max(offset, chunk.next_offset), chunk.epoch
            index, record = index + chunk.batches, 0
        else:
            if adds < room and (end is None or offset < end):
                error = fetched.error
        is_move = (index, record) != begin or offset > place[0]
        return Move(fetched, adds, index, record, offset, epoch, begin) if is_move else None, error

    def _span(self, fetched: Fetched, max_bytes: int, decoder: Decoder, stop: int | None) -> Span:
        begin = len(decoder)
        end = fetched.count
        if stop is not None:
            end = fetched.batches.first_from(stop, fetched.chunk, end)
        error = self.chunk_decoder.add(decoder, fetched, fetched.chunk, end, size=max_bytes)
        chunk, reached = fetched.chunk + len(decoder) - begin, -1
        if error is None and chunk == end:
            if end < fetched.count:
                reached = cast(int, stop)
            else:
                error = fetched.error
        return Span(fetched, begin, chunk, error, reached)

    def _hand_over(self, spans: list[Span], decoded: Decoded, poll_result: PollResult) -> None:
        """Add the decoded columns to the poll result.

        Raise an error if the poll returns nothing before it, else leave it to the next poll.
        """
        broken: Partition | None = None
        begins: dict[Partition, int] = {}
        places: dict[Partition, tuple[int, int]] = {}  # the position of each partition after the spans so far
        for span in spans:
            fetched, partition = span.fetched, span.fetched.partition
            if partition is broken:
                continue
            chunk, error, end = span.chunk, span.error, span.begin + span.chunk - fetched.chunk
            for number in range(span.begin, end) if decoded.errors else ():
                if number in decoded.errors:
                    chunk, error, end = fetched.chunk + number - span.begin, decoded.errors[number], number
                    break
            offset, epoch = places.get(partition, (fetched.cursor.offset, fetched.cursor.epoch))
            if chunk > fetched.chunk or (chunk == span.chunk and span.reached > offset):
                if chunk > fetched.chunk:
                    last = fetched.batches[chunk - 1]
                    offset, epoch = max(offset, last.next_offset), last.leader_epoch
                if chunk == span.chunk:
                    offset = max(offset, span.reached)
                places[partition] = offset, epoch
                begin = begins.setdefault(partition, span.begin)
                columns = decoded.columns(partition.tp, begin, end, fetched.cursor.offset)
                adds = len(columns) - len(poll_result.records.get(partition.tp, ()))
                if len(columns):
                    poll_result.records[partition.tp] = columns
                poll_result.count += adds
                poll_result.moves.append(
                    Move(fetched, adds, chunk, 0, offset, epoch, (fetched.chunk, fetched.record))
                )  # fmt: skip
            if error is not None:
                if not poll_result.moves:
                    self._raise(fetched, error)
                self._overdue, broken = fetched, partition

    def _take_raw(
        self, fetched: Fetched, room: int, end: int | None, poll_result: PollResult
    ) -> tuple[list[RawBatch], RecordError | None]:
        """Return the next batches, up to ``end`` or until they have ``room`` bytes, and the error after them, if any.

        Adds the move past them to the poll result, also if none of these batches has records to return.
        """
        from ..records.raw_batch import RawBatch  # on demand: few programs read raw batches

        tp, batches = fetched.partition.tp, fetched.batches
        begin = index = fetched.chunk
        stop = fetched.count if end is None else batches.first_from(end, begin, fetched.count)
        offset, epoch = reached, _ = _place(fetched, poll_result)
        first = max(fetched.start, offset)
        taken: list[RawBatch] = []
        error: RecordError | None = None
        while index < stop and room > 0:
            batch = batches[index]
            try:
                is_aborted = self.chunk_decoder.is_aborted(fetched, index)
                if self._check_crcs and not is_aborted:
                    batch.check_crc(*tp)
            except RecordError as found:
                error = found
                break
            if batch.count and batch.next_offset > first and not batch.is_control and not is_aborted:
                taken.append(RawBatch(tp, batch.view, max(first, batch.base_offset) if batch.magic == 2 else first))
                room -= batch.size
            offset, epoch = max(offset, batch.next_offset), batch.leader_epoch
            index += 1
        if error is None and index == fetched.count:
            error = fetched.error
        if error is None and end is not None and index == stop < fetched.count:
            offset = max(offset, end)  # the offsets up to ``end`` have no batch
        adds = sum(batch.count for batch in taken)
        if index > begin or offset > reached:
            poll_result.moves.append(Move(fetched, adds, index, 0, offset, epoch, (begin, fetched.record)))
            poll_result.count += adds
        return taken, error

    def _error_at(self, fetched: Fetched, *, as_bytes: bool) -> RecordError | None:
        """Return the error at the position in ``fetched``, if any; with ``as_bytes``, call no deserializer for that."""
        if fetched.chunk >= fetched.count:
            return fetched.error
        if as_bytes:
            known = fetched.chunks[fetched.chunk] if fetched.chunk < len(fetched.chunks) else None
            if known is None or isinstance(known.error, (DeserializationError, PostponedError)):
                return None  # the caller decodes the batch, and finds other errors
            chunk = known
        else:
            chunk = self.chunk_decoder.chunk(fetched, fetched.chunk, fetched.record, calls_again=True)
        return chunk.error if fetched.record >= len(chunk.records) else None


def _correct_end(error: CorruptRecordError, fetched: Fetched) -> None:
    """Set the error's ``next_offset`` to the offset after the corrupt batch at the position.

    Mostly, this is where the next batch begins, since the header of the corrupt batch may be damaged, too.
    """
    low, high = fetched.cursor.offset, fetched.partition.high_watermark or 0
    end = fetched.batches.end_of_corrupt(fetched.chunk, low)
    error.next_offset = min(end, high) if high > low else end


def _place(fetched: Fetched, poll_result: PollResult) -> tuple[int, int]:
    """Return the partition's position, and its leader epoch, after what the poll returns of the partition so far."""
    last = poll_result.moves[-1] if poll_result.moves else None
    if last is not None and last.fetched.partition is fetched.partition:
        return last.offset, last.epoch
    return fetched.cursor.offset, fetched.cursor.epoch


def _first_end(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two end offsets; None stands for no end."""
    return one if other is None else other if one is None else min(one, other)
