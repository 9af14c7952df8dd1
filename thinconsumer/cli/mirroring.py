"""Copy record batches from one cluster to another, and commit what the other cluster has acknowledged.

A batch goes to the partition of the same number, as a records section without being decoded where that is possible
(:mod:`thinconsumer.records.section`). A partition's offset is committed up to the first batch without an
acknowledgement: after a crash no batch is missing, and those acknowledged after the last commit are written again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..consumer import Consumer
from ..consumer.bulk_queries import aborted_batches
from ..group import RebalanceListener
from ..produce import BufferFullError, Producer
from ..produce.batch import BatchFuture
from ..records.raw_batch import RawBatch
from ..records.section import RecordSection
from ..types import OffsetAndMetadata, TopicPartition
from .parsing import CommandError

#: Seconds between commits: after a crash, the batches of this time are written again.
COMMIT_S = 0.2
#: Timeout in milliseconds of the last commit before partitions are given up, and of the acknowledgements before it.
HANDOVER_MS = 20_000
#: Milliseconds to wait for acknowledgements before the source is polled again.
ACKNOWLEDGE_MS = 20

#: The count of batches that are copied as they are, and of aborted ones, in :attr:`Mirror.counts`.
UNCHANGED, ABORTED, TRANSACTIONAL = "unchanged", "aborted", "transactional"


class _Sent(NamedTuple):
    """A batch that was sent: the position after it, and its outcome."""

    position: OffsetAndMetadata
    future: BatchFuture


class Mirror(RebalanceListener):
    """Copies batches; the listener of the consumer that reads them.

    The consumer has ``enable_auto_commit=False``, and the producer ``max_block_ms=0``.
    """

    def __init__(
        self,
        consumer: Consumer[bytes | None, bytes | None],
        producer: Producer,
        targets: Mapping[str, str],
        clock: Callable[[], float],
    ) -> None:
        """``targets`` are the topics to write to, by the topic to read; ``clock`` returns monotonic seconds."""
        self._consumer, self._producer, self._targets, self._clock = consumer, producer, targets, clock
        self._sent: dict[TopicPartition, deque[_Sent]] = {}
        self._written: dict[TopicPartition, OffsetAndMetadata] = {}  #: Acknowledged positions, not committed yet.
        self._commit_at = clock() + COMMIT_S
        self._counts: Counter[str] = Counter()
        self._is_assigned = False
        self.records = 0  #: Records sent.
        self.size = 0  #: Their bytes as stored.

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of batches by what was done with them: unchanged, transactional, aborted, or encoded again for a
        reason of :class:`.Reencoded`."""
        return self._counts + Counter({ABORTED: aborted_batches(self._consumer)})

    def copy(self, timeout_ms: float) -> bool:
        """Poll once, send what came, and commit what is acknowledged, if that is due; return whether anything came.

        Raises:
            CommandError: a batch could not be written. The batches before it are acknowledged, and committed by
                :meth:`finish`.
            KafkaError: an error of a poll.
        """
        polled = self._consumer.poll_raw(0 if self._sent else timeout_ms)
        for tp, batches in polled.items():
            for batch in batches:
                self._send(tp, batch)
        self._producer.poll(0 if polled else ACKNOWLEDGE_MS if self._sent else 0)
        self._settle()
        if self._clock() >= self._commit_at:
            self._commit_at = self._clock() + COMMIT_S
            self._note_positions()
            if self._written:
                self._consumer.commit_async(self._written, self._committed)
                self._written = {}
        return bool(polled)

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """Keep positions whose commit has failed for the next one, unless there are later ones."""
        for tp, position in offsets.items() if error is not None else ():
            if tp in self._consumer.assignment():
                self._written.setdefault(tp, position)

    def finish(self) -> None:
        """Wait for acknowledgements, and commit; raise what keeps batches from being written or committed."""
        self._note_positions()
        self._hand_over([*self._sent, *self._written])

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether partitions are assigned, these have reached the given ends, and every batch is acknowledged."""
        if not self._is_assigned or self._sent:
            return False
        consumer = self._consumer
        return all(consumer.position(tp) >= ends[tp] for tp in consumer.assignment() if tp in ends)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Note that the member has an assignment, even an empty one."""
        self._is_assigned = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit what other members must not write again."""
        self._is_assigned = False
        self._hand_over(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Forget the partitions: another member writes again what was not committed."""
        self._is_assigned = False
        for tp in lost:
            self._sent.pop(tp, None)
            self._written.pop(tp, None)

    def _send(self, tp: TopicPartition, batch: RawBatch) -> None:
        section, reason = RecordSection.of(batch)
        what = TRANSACTIONAL if batch.is_transactional else UNCHANGED
        self._counts[what if reason is None else reason.value] += 1
        if section is None:
            return
        future = self._send_section(TopicPartition(self._targets[tp.topic], tp.partition), section)
        position = OffsetAndMetadata(batch.next_offset, "", batch.leader_epoch)
        self._sent.setdefault(tp, deque()).append(_Sent(position, future))
        self.records += len(section)
        self.size += batch.size

    def _send_section(self, target: TopicPartition, section: RecordSection) -> BatchFuture:
        """Send a section. While the producer has no room, only heartbeats go on."""
        while True:
            try:
                return self._producer.send_section(*target, section)
            except BufferFullError:
                self._producer.poll(ACKNOWLEDGE_MS)
                self._consumer.drive()

    def _settle(self) -> None:
        """Note the position after the acknowledged batches of each partition, up to the first without an outcome."""
        for tp, sent in list(self._sent.items()):
            while sent and sent[0].future.done:
                error = sent[0].future.error
                if error is not None:
                    source, target = f"{tp.topic}-{tp.partition}", f"{self._targets[tp.topic]}-{tp.partition}"
                    before = sent[0].position.offset
                    raise CommandError(
                        f"{target}: the batch before offset {before} of {source} could not be written: {error}"
                    ) from error
                self._written[tp] = sent.popleft().position
            if not sent:
                del self._sent[tp]

    def _note_positions(self) -> None:
        """Take the consumer's position where all is acknowledged: it may be behind control batches and aborted ones."""
        for tp in list(self._written):
            if tp not in self._sent and tp in self._consumer.assignment():
                offset = self._consumer.position(tp)
                if offset > self._written[tp].offset:
                    self._written[tp] = self._written[tp]._replace(offset=offset)

    def _hand_over(self, tps: Collection[TopicPartition]) -> None:
        """Commit these partitions as far as they are acknowledged, also if a batch could not be written."""
        try:
            self._producer.flush(HANDOVER_MS)
        finally:
            try:
                self._settle()
            finally:
                written = {tp: self._written.pop(tp) for tp in tps if tp in self._written}
                if written:
                    self._consumer.commit(written, timeout_ms=HANDOVER_MS)
