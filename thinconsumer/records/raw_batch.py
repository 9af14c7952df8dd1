"""A record batch as the log stores it, neither decompressed nor decoded: what ``Consumer.poll_raw`` returns."""

from __future__ import annotations

from ..types import ConsumerRecord, TopicPartition
from .batch import DELETE_HORIZON, HEADER_SIZE, RecordBatch
from .compression import Codec

__all__ = ["RawBatch"]


class RawBatch:
    """One record batch of a partition: its bytes, and the fields of its header.

    In the formats 0 and 1 (before Kafka 0.11) a batch is one message, which contains others if it is compressed. The
    bytes are a part of the received Fetch response and keep all of it in memory: copy them (``bytes(batch.data)``) to
    keep a batch for longer than the next polls.
    """

    __slots__ = ("_header", "partition", "start", "topic")
    topic: str
    partition: int

    def __init__(self, tp: TopicPartition, data: bytes | memoryview, start: int) -> None:
        """``data`` are the bytes of one batch. Their number and their checksum are not verified."""
        self._header = RecordBatch(memoryview(data))
        self.topic, self.partition = tp
        #: The first offset to use. If the position was inside the batch, as after a seek, the batch begins with records
        #: below ``start``, which :meth:`.Consumer.poll` would not return.
        self.start: int = start

    @property
    def data(self) -> memoryview:
        """The whole batch, with its header."""
        return self._header.view

    @property
    def records(self) -> memoryview:
        """The records section behind the header, compressed as ``codec`` says; the whole message in formats 0 and 1."""
        return self._header.view[HEADER_SIZE:] if self._header.magic == 2 else self._header.view

    @property
    def base_offset(self) -> int:
        """The offset of the first record as written; of the last record, for a compressed batch of format 0 or 1."""
        return self._header.base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last one, which is the position after the batch."""
        return self._header.next_offset

    @property
    def count(self) -> int:
        """The number of records according to the header; 1 in formats 0 and 1."""
        return self._header.count

    @property
    def codec(self) -> str:
        """The compression: "none", "gzip", "snappy", "lz4", "zstd"; "codec 5", for example, if it is unknown."""
        code = self._header.codec
        return Codec(code).name.lower() if code in Codec._value2member_map_ else f"codec {code}"

    @property
    def magic(self) -> int:
        """The message format: 0, 1 or 2."""
        return self._header.magic

    @property
    def timestamp_type(self) -> int:
        """0 for CreateTime, 1 for LogAppendTime, -1 for none (format 0)."""
        return self._header.timestamp_type

    @property
    def first_timestamp(self) -> int | None:
        """The first record's timestamp in ms since the epoch; -1 for none; None if compaction replaced it (KIP-534).

        With LogAppendTime, and for a compressed batch of format 1, this is :attr:`max_timestamp`.
        """
        if self._header.timestamp_type == 1:
            return self._header.max_timestamp
        return None if self.has_delete_horizon else self._header.base_timestamp

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the records in ms since the epoch; -1 for none."""
        return self._header.max_timestamp

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the batch; -1 if unknown."""
        return self._header.leader_epoch

    @property
    def producer_id(self) -> int:
        """The id of an idempotent or transactional producer; -1 for other producers."""
        return self._header.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer; -1 without a ``producer_id``."""
        return self._header.producer_epoch

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self._header.is_transactional

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction has put the time for removing tombstones in place of the first timestamp (KIP-534)."""
        return self._header.magic == 2 and bool(self._header.attributes & DELETE_HORIZON)

    @property
    def is_compacted(self) -> bool:
        """Whether the batch has fewer records than offsets, or a delete horizon: compaction has rewritten it."""
        header = self._header
        return header.magic == 2 and (
            header.next_offset - header.base_offset != header.count or self.has_delete_horizon
        )

    def decode(self) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records from ``start`` on, without deserializers.

        Raises:
            CorruptRecordError: the checksum is wrong, or the records cannot be decoded.
            UnsupportedCodecError: the package for the codec is not installed, or the codec is unknown.
        """
        return self._header.decode(self.topic, self.partition, start=self.start)

    @property
    def size(self) -> int:
        """The size of the batch in bytes, with its header."""
        return self._header.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RawBatch):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.base_offset, self.start))

    def __reduce__(self) -> tuple[type[RawBatch], tuple[TopicPartition, bytes, int]]:
        return RawBatch, (TopicPartition(self.topic, self.partition), bytes(self.data), self.start)

    def __repr__(self) -> str:
        return (
            f"<RawBatch {self.topic}-{self.partition} offsets {self.base_offset} to {self.next_offset - 1}, "
            f"{self.count} records, {self.codec}, {self.size} bytes{', transactional' * self.is_transactional}>"
        )
