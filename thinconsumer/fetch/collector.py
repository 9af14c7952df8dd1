"""Handing over: decode as much as one poll returns, and move positions in its very last step.

Owns the two steps. :meth:`Collector.gather` decodes, batch by batch, and changes nothing but its own cache of decoded
batches; the :class:`Handover` it returns says which positions would move where. :meth:`Collector.settle` moves them.
:meth:`Collector.gather_columns` is the same for whole batches, all decoded at once, of which nothing is kept. So an
exception anywhere in between, KeyboardInterrupt too, has delivered nothing and lost nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..errors import DeserializationError, RecordError
from ..partitions import Partition, Partitions, RecordInHand
from ..records.batch import RecordBatch
from ..types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from .buffer import Buffer, Chunk, Fetched
from .settings import FetchSettings

if TYPE_CHECKING:
    from ..records.columnar.decode import Decoded, Decoder
    from ..records.columnar.record_columns import RecordColumns

log = logging.getLogger(__name__)

Records = list[ConsumerRecord[Any, Any]]
#: Applied to the records of one batch: returns how many of them came through, and what stopped the next one.
Deserialize = Callable[[TopicPartition, Records], tuple[Records, RecordError | None]]

_offset_of = attrgetter("offset")


class Move(NamedTuple):
    """How far one ``Fetched`` is handed over, and where its partition is then."""

    fetched: Fetched
    adds: int  #: Records of the handover that are from here.
    chunk: int
    record: int
    offset: int
    epoch: int
    begin: tuple[int, int]  #: Where in ``fetched`` it starts: chunk and record.


class Span(NamedTuple):
    """Batches of one ``Fetched`` on their way to becoming columns."""

    fetched: Fetched
    begin: int  #: The decoder's number of the first of them.
    indices: list[int]  #: Where in ``fetched`` the decoder's batches are; others of it have nothing to decode.
    chunk: int  #: Where in ``fetched`` the span ends, ...
    error: RecordError | None  #: ... and what stands there, if that cannot be handed out.
    reached: int = -1  #: The end that was asked for, if what stands there begins behind it.


@dataclass(slots=True)
class PollResult:
    """What one poll returns, and what follows once it has returned."""

    records: dict[TopicPartition, Records] = field(default_factory=dict)
    columns: dict[TopicPartition, RecordColumns] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    turns: list[Partition] = field(default_factory=list)  #: Partitions that had their turn.
    count: int = 0
    #: How many of the records have been used: iteration hands them out one by one. None: all.
    taken: int | None = None


class Collector:
    """Hands buffered records over."""

    def __init__(
        self, settings: FetchSettings, partitions: Partitions, buffer: Buffer, deserialize: Deserialize | None
    ) -> None:
        self._check_crcs = settings.check_crcs
        self._partitions = partitions
        self._buffer = buffer
        self._deserialize = deserialize
        #: A broken record found after good ones of the same poll: the next poll raises it before anything else.
        self._overdue: Fetched | None = None

    def gather(self, max_records: int, ends: Mapping[TopicPartition, int] | None = None) -> PollResult:
        """Return up to ``max_records`` records, of each partition in ``ends`` only those before that offset.

        Raises ``RecordError`` when the next thing due cannot be handed out.
        """
        self._raise_overdue()
        poll_result = PollResult()
        for partition in self._due():
            end = ends.get(partition.tp, -1) if ends is not None else None
            self._gather_from(partition, max_records, end, poll_result)
            if poll_result.count >= max_records:
                break
        if self._buffer.starving and not poll_result.moves:
            self._buffer.make_room()
        return poll_result

    def gather_columns(self, max_bytes: int, ends: Mapping[TopicPartition, int] | None = None) -> PollResult:
        """Return whole batches, as columns, up to the one with which they reach ``max_bytes``, headers not counted.

        Of each partition in ``ends`` only batches that begin before that offset; what they hold behind it comes, too.

        Raises ``RecordError`` as :meth:`gather`. No deserializer sees them, so that none is in their way either.
        """
        from ..records.columnar.decode import Decoder  # needs numpy, which nobody else does

        self._raise_overdue(as_bytes=True)
        poll_result = PollResult()
        decoder = Decoder(self._check_crcs)
        spans: list[Span] = []
        for partition in self._due():
            self._buffer.head(partition)
            end = ends.get(partition.tp) if ends is not None else None
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
        if self._buffer.starving and not poll_result.moves:
            self._buffer.make_room()
        return poll_result

    def first(self, poll_result: PollResult, count: int) -> PollResult:
        """Return the part of a handover that covers its first ``count`` records."""
        part = PollResult()
        for move in poll_result.moves:
            if part.count + move.adds > count:
                if count > part.count and (move.fetched.chunk, move.fetched.record) == move.begin:
                    part.moves.append(self._partial(move.fetched, count - part.count))
                break  # else it has been settled already: what was interrupted there is being repeated
            part.moves.append(move)
            part.count += move.adds
        part.turns = list(dict.fromkeys(move.fetched.partition for move in part.moves))
        return part

    def in_hand(self, poll_result: PollResult, count: int) -> RecordInHand | None:
        """Return the last of the first ``count`` records of a poll result that is not settled yet."""
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
        """Move the positions, and let the next partitions have their turn."""
        self.place(poll_result)
        for partition in poll_result.turns:
            self._buffer.head(partition)
            self._buffer.rotate(partition)

    def place(self, poll_result: PollResult) -> None:
        """Move the positions. Repeating it changes nothing, so an interrupted one is simply repeated."""
        for fetched, _, chunk, record, offset, epoch, _ in poll_result.moves:
            # Lets go of the memory of what was handed over; its place in the list keeps the count.
            nothing = [None] * (chunk - fetched.chunk)
            fetched.chunks[fetched.chunk : chunk] = nothing
            fetched.batches[fetched.chunk : chunk] = nothing
            fetched.chunk = chunk
            fetched.record = record
            fetched.cursor.offset = offset
            fetched.cursor.epoch = epoch

    def restart(self) -> None:
        """Forget the record that the next poll would have raised an error for; it is fetched again."""
        self._overdue = None

    # -- inside

    def _due(self) -> Iterator[Partition]:
        """Yield the partitions that may have something to hand over, the one whose turn it is first."""
        for partition in self._buffer.turns():
            if partition.may_hand_out and self._partitions.get(partition.tp) is partition:
                yield partition
            else:
                self._buffer.head(partition)  # lets go of what has become stale

    def _raise_overdue(self, *, as_bytes: bool = False) -> None:
        overdue, self._overdue = self._overdue, None
        if overdue is None or overdue is not self._buffer.head(overdue.partition):
            return
        if overdue.partition.may_hand_out and self._partitions.get(overdue.partition.tp) is overdue.partition:
            error = self._error_at(overdue)
            if error is not None and not (as_bytes and isinstance(error, DeserializationError)):
                self._raise(overdue, error)

    def _raise(self, fetched: Fetched, error: RecordError) -> NoReturn:
        if not isinstance(error, DeserializationError):
            self._buffer.break_off(fetched, error)
        # Whoever comes next is not held up by this one: its turn is over.
        self._buffer.rotate(fetched.partition)
        raise error

    def _gather_from(self, partition: Partition, max_records: int, end: int | None, poll_result: PollResult) -> None:
        found: Records = []
        self._buffer.head(partition)  # lets go of what has become stale or empty at its front
        for fetched in self._buffer.queue(partition):
            if not fetched.fresh:
                break
            error = self._drain(fetched, max_records - poll_result.count - len(found), end, found, poll_result)
            if error is not None:
                if not found and not poll_result.count and not poll_result.moves:
                    self._raise(fetched, error)
                self._overdue = fetched
                break
            if poll_result.count + len(found) >= max_records:
                break
        if found:
            poll_result.records[partition.tp] = found
            poll_result.count += len(found)
        poll_result.turns.append(partition)

    def _drain(
        self, fetched: Fetched, room: int, end: int | None, found: Records, poll_result: PollResult
    ) -> RecordError | None:
        """Add up to ``room`` records; return what stands right behind them if it cannot be handed out."""
        index, record = fetched.chunk, fetched.record
        offset, epoch = fetched.cursor.offset, fetched.cursor.epoch
        before = len(found)
        error: RecordError | None = None
        while room > 0 and index < len(fetched.batches):
            if end is not None and offset >= end:
                break
            chunk = self._chunk(fetched, index, record)
            stop = min(len(chunk.records), record + room)
            if end is not None and chunk.next_offset > end:
                stop = min(stop, bisect_left(chunk.records, end, key=_offset_of))
            if stop > record:
                found += chunk.records[record:stop] if record or stop < len(chunk.records) else chunk.records
                offset, epoch = chunk.records[stop - 1].offset + 1, chunk.epoch
                room -= stop - record
                record = stop
            if stop < len(chunk.records):
                if end is not None and chunk.records[stop].offset >= end:
                    offset = end  # compaction left nothing in between: this is as far as it goes
                break
            if chunk.error is not None:
                if end is not None and chunk.error.offset >= end:
                    offset = end
                else:
                    error = chunk.error
                break
            # Past the batch's last offset, records or not: compaction leaves holes, control batches yield none.
            offset, epoch = max(offset, chunk.next_offset), chunk.epoch
            index, record = index + 1, 0
        if error is None and room > 0 and index >= len(fetched.batches) and (end is None or offset < end):
            error = fetched.error
        begin = fetched.chunk, fetched.record
        if (index, record) != begin or offset > fetched.cursor.offset:
            poll_result.moves.append(Move(fetched, len(found) - before, index, record, offset, epoch, begin))
        return error

    def _span(self, fetched: Fetched, max_bytes: int, decoder: Decoder, stop: int | None) -> Span:
        """Give the decoder what is next in ``fetched``."""
        index, begin, tp = fetched.chunk, len(decoder), fetched.partition.tp
        indices: list[int] = []
        error: RecordError | None = None
        judged = fetched.aborted is not None
        while index < len(fetched.batches) and decoder.size < max_bytes:
            batch = fetched.batches[index]
            assert batch is not None
            # An old format's compressed set says only where it ends.
            if stop is not None and batch.magic == 2 and batch.base_offset >= stop:
                return Span(fetched, begin, indices, index, None, stop)
            try:
                if judged and self._is_aborted(fetched, index):
                    self._check(batch, tp)
                else:
                    decoder.add(batch, tp)
                    indices.append(index)
            except RecordError as found:
                error = found
                break
            index += 1
        if index >= len(fetched.batches):
            error = fetched.error
        return Span(fetched, begin, indices, index, error)

    def _hand_over(self, spans: list[Span], decoded: Decoded, poll_result: PollResult) -> None:
        """Fill the handover; raise the first error, if nothing can be handed over before it."""
        broken: Partition | None = None
        begins: dict[Partition, int] = {}
        for span in spans:
            fetched, partition = span.fetched, span.fetched.partition
            if partition is broken:
                continue
            chunk, error, end = span.chunk, span.error, span.begin + len(span.indices)
            for number in range(span.begin, end) if decoded.errors else ():
                if number in decoded.errors:
                    chunk, error, end = span.indices[number - span.begin], decoded.errors[number], number
                    break
            offset, epoch = fetched.cursor.offset, fetched.cursor.epoch
            if chunk > fetched.chunk or (chunk == span.chunk and span.reached > offset):
                if chunk > fetched.chunk:
                    last = fetched.batches[chunk - 1]
                    assert last is not None
                    offset, epoch = max(offset, last.next_offset), last.leader_epoch
                if chunk == span.chunk:
                    offset = max(offset, span.reached)
                begin = begins.setdefault(partition, span.begin)
                columns = decoded.columns(partition.tp, begin, end, fetched.cursor.offset)
                adds = len(columns) - len(poll_result.columns.get(partition.tp, ()))
                if len(columns):
                    poll_result.columns[partition.tp] = columns
                poll_result.count += adds
                poll_result.moves.append(
                    Move(fetched, adds, chunk, 0, offset, epoch, (fetched.chunk, fetched.record))
                )  # fmt: skip
            if error is not None:
                if not poll_result.moves:
                    self._raise(fetched, error)
                self._overdue, broken = fetched, partition

    def _partial(self, fetched: Fetched, count: int) -> Move:
        """Return the move that hands over ``count`` records of what ``fetched`` holds decoded."""
        poll_result = PollResult()
        self._drain(fetched, count, None, [], poll_result)
        return poll_result.moves[0]

    def _error_at(self, fetched: Fetched) -> RecordError | None:
        """Return the error that stands exactly where the handing over of ``fetched`` has come to."""
        if fetched.chunk >= len(fetched.batches):
            return fetched.error
        chunk = self._chunk(fetched, fetched.chunk, fetched.record)
        return chunk.error if fetched.record >= len(chunk.records) else None

    def _chunk(self, fetched: Fetched, index: int, record: int) -> Chunk:
        if index < len(fetched.chunks):
            known = fetched.chunks[index]
            assert known is not None
            if isinstance(known.error, DeserializationError) and record >= len(known.records):
                # What the deserializer depends on (a schema registry, say) may have come back.
                fetched.chunks[index] = known = self._deserialize_rest(fetched, index, known)
            return known
        while index >= len(fetched.chunks):
            chunk = self._decode(fetched, len(fetched.chunks))
            # The one statement that says a batch has been decoded.
            fetched.chunks.append(chunk)
        found = fetched.chunks[index]
        assert found is not None
        return found

    def _deserialize_rest(self, fetched: Fetched, index: int, known: Chunk) -> Chunk:
        batch = fetched.batches[index]
        assert batch is not None and self._deserialize is not None
        tp = fetched.partition.tp
        raw = batch.decode(tp.topic, tp.partition, self._check_crcs, start=fetched.start)
        records, failure = self._deserialize(tp, raw[len(known.records) :])
        return Chunk(known.records + records, known.next_offset, known.epoch, failure)

    def _decode(self, fetched: Fetched, index: int) -> Chunk:
        batch = fetched.batches[index]
        assert batch is not None
        epoch = batch.leader_epoch
        tp = fetched.partition.tp
        try:
            if self._is_aborted(fetched, index):
                self._check(batch, tp)
                return Chunk([], batch.next_offset, epoch)
            # A batch begins where its producer began it, which may be below what was asked for.
            records = batch.decode(tp.topic, tp.partition, self._check_crcs, start=fetched.start)
        except RecordError as error:
            return Chunk([], batch.next_offset, epoch, error)
        if self._deserialize is None or not records:
            return Chunk(records, batch.next_offset, epoch)
        records, failure = self._deserialize(tp, records)
        return Chunk(records, batch.next_offset, epoch, failure)

    def _is_aborted(self, fetched: Fetched, index: int) -> bool:
        """Whether batch ``index`` is not to be handed out under read_committed. Judged once each, in their order."""
        if fetched.aborted is None:
            return False
        verdicts = fetched.verdicts
        while index >= len(verdicts):
            batch = fetched.batches[len(verdicts)]
            assert batch is not None
            verdicts.append(fetched.aborted.skip(batch, self._check_crcs))
        return verdicts[index]

    def _check(self, batch: RecordBatch, tp: TopicPartition) -> None:
        """Nobody decodes an aborted batch, and flipped bits make another producer's look aborted, or longer."""
        if self._check_crcs:
            batch.check_crc(tp.topic, tp.partition)
