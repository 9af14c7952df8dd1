"""Copy topics to another cluster, or to other topics, batch by batch and without decoding them.

Records keep their partition, order, codec, headers and timestamps (where the target's compression.type is producer, and
its message.timestamp.type CreateTime). The target topics must exist, with at least as many partitions. Batches that are
compacted, of an old format or with log append time are encoded again, and so is a batch if the copy begins inside it;
batches of aborted transactions are left out.

The command is a member of the group --group, and continues at its committed offsets. After a crash or a failover,
batches that were written since the last commit (up to five commits a second) are written again; none is left out.
Several mirrors with one group share the partitions.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..consumer import Consumer
from ..consumer.bulk_queries import aborted_batches, known_positions
from ..errors import KafkaError
from ..group import RebalanceListener
from ..produce import BufferFullError, Producer, ProducerSettings
from ..produce.batch import BatchFuture
from ..records.raw_batch import RawBatch
from ..records.section import RecordSection
from ..sockets.secured import open_driver
from ..types import OffsetAndMetadata, TopicPartition
from .cluster import connected_admin, partitions_of
from .consume import CLOSE_TIMEOUT_MS, POLL_MS, BytesConsumer, exit_on_sigterm, is_behind, partitions_to_read
from .output import ProgressLine
from .parsing import (
    CommandError,
    Parser,
    PartitionsOf,
    UsageError,
    add_client,
    add_cluster,
    client_config,
    command_config,
)

DELIVERY_TIMEOUT_MS = 30_000
#: Maximum size of a batch; a larger batch in the source is an error. Brokers accept this size only if configured to.
BATCH_BYTES_MAX = 32 << 20
BUFFER_BYTES = 64 << 20
#: Seconds between commits: after a crash, the batches of this time are written again.
COMMIT_S = 0.2
#: Timeout in milliseconds when partitions are given up: for acknowledgements, and then again for the last commit.
HANDOVER_MS = 20_000
#: The same two timeouts when the command ends: after Ctrl-C the user waits for both.
END_ACKNOWLEDGE_MS, END_COMMIT_MS = 3000, 2000
#: Maximum milliseconds of one wait for acknowledgements, during which the consumer neither sends nor receives.
ACKNOWLEDGE_MS = 20
#: How many partitions an error names.
NAMED_MAX = 5
#: Keys of :attr:`Mirror.counts`.
UNCHANGED, ABORTED, TRANSACTIONAL = "unchanged", "aborted", "transactional"


def describe(parser: Parser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC[=TARGET]", nargs="+", type=_topic_and_target, help="topic to copy, and its other name"
    )
    add_cluster(parser)
    parser.add_argument("--to", metavar="HOST:PORT", help="brokers of the target cluster (default: the same cluster)")
    parser.add_argument(
        "--to-command-config",
        metavar="FILE",
        type=command_config,
        help="a properties file for the clients of the target (default: --command-config)",
    )
    parser.add_argument("--group", metavar="ID", required=True, help="the consumer group that keeps the offsets")
    parser.add_argument("--until-end", action="store_true", help="stop where the topics ended when the command started")
    add_client(parser, "consumer")


def run(options: argparse.Namespace) -> int:
    targets: dict[str, str] = dict(options.topics)
    _check_targets(options, targets)
    settings = ProducerSettings.from_config(
        client_config(
            _target_options(options),
            ProducerSettings.options(),
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_request_size=BATCH_BYTES_MAX,
            buffer_memory=BUFFER_BYTES,
            max_block_ms=0,
        )
    )
    config = client_config(
        options,
        group_id=options.group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    progress = ProgressLine(options.progress)
    started = time.monotonic()
    with exit_on_sigterm(), Producer(settings, driver=open_driver(settings)) as producer:
        consumer: BytesConsumer = Consumer.from_config(config)
        mirror = Mirror(consumer, producer, targets, time.monotonic)
        try:
            _copy(consumer, mirror, options, progress)
        finally:
            try:
                mirror.finish()
            finally:
                producer.close(timeout_ms=0)  # finish() has waited
                consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)
                seconds = max(time.monotonic() - started, 0.001)
                progress.say(f"{_how_far(mirror)}, {mirror.records / seconds:,.0f} records/s")
    return 0


def _copy(consumer: BytesConsumer, mirror: Mirror, options: argparse.Namespace, progress: ProgressLine) -> None:
    consumer.subscribe(dict(options.topics), listener=mirror)
    ends = None
    if options.until_end:
        ends = consumer.end_offsets(
            partitions_to_read(consumer, [PartitionsOf(name, None) for name, _ in options.topics])
        )
    while ends is None or not mirror.has_reached(ends):
        mirror.copy(POLL_MS if ends is None else 100)
        progress.update(lambda: _how_far(mirror))


def _how_far(mirror: Mirror) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(mirror.counts.items()))
    return f"{mirror.records:,} records, {mirror.size / 1e6:,.1f} MB; batches: {kinds or 'none'}"


def _check_targets(options: argparse.Namespace, targets: Mapping[str, str]) -> None:
    """Raise UsageError if a topic is its own target and no other cluster is named, or two topics have the same target.

    Raise CommandError if a topic or its target does not exist, or the target has fewer partitions.
    """
    is_same = options.to is None and options.to_command_config is None
    for topic, target in targets.items():
        if is_same and topic == target:
            raise UsageError(f"{topic} cannot be copied to itself: name another cluster (--to) or topic ({topic}=NAME)")
    if len(set(targets.values())) < len(options.topics):
        raise UsageError("each topic needs a target of its own")
    with connected_admin(options) as (_, sources), connected_admin(_target_options(options)) as (_, found):
        for topic, target in targets.items():
            wanted, count = len(partitions_of(sources, topic)), len(partitions_of(found, target))
            if count < wanted:
                raise CommandError(f"the target {target} has {count} partitions, but {topic} has {wanted}: expand it")


def _target_options(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options with which clients of the target cluster are made."""
    target = {"bootstrap_server": options.to or options.bootstrap_server, "property": ()}
    if options.to_command_config is not None:
        target |= {"command_config": options.to_command_config, "bootstrap_server": options.to}
    return argparse.Namespace(**{**vars(options), **target})


def _topic_and_target(text: str) -> tuple[str, str]:
    topic, equals, target = text.partition("=")
    if not topic or (equals and not target):
        raise argparse.ArgumentTypeError(f"{text!r}: write TOPIC or TOPIC=TARGET")
    return topic, target or topic


class _Sent(NamedTuple):
    position: OffsetAndMetadata  #: After the batch.
    future: BatchFuture


class Mirror(RebalanceListener):
    """Copies each batch to the partition of the same number; the listener of the consumer that reads the batches.

    A partition's offset is committed up to the first batch without an acknowledgement. The consumer must have
    ``enable_auto_commit=False``, and the producer ``max_block_ms=0``.
    """

    def __init__(
        self, consumer: BytesConsumer, producer: Producer, targets: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        """``targets`` are the topics to write to, by the topic to read; ``clock`` returns monotonic seconds."""
        self._consumer, self._producer, self._targets, self._clock = consumer, producer, targets, clock
        self._sent: dict[TopicPartition, deque[_Sent]] = {}
        #: The position of each partition up to which every batch is acknowledged or left out.
        self._acknowledged: dict[TopicPartition, OffsetAndMetadata] = {}
        #: The newest positions that :meth:`copy` has begun to commit, without those of failed commits.
        self._queued: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed_at = clock()
        self._counts: Counter[str] = Counter()
        self._is_assigned = False
        self.records = 0  #: Number of records sent.
        self.size = 0  #: Bytes of the batches sent, as the source stores them.

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of batches by what was done with them: unchanged, transactional, aborted, or encoded again for a
        reason of :class:`.Reencoded`."""
        return self._counts + Counter({ABORTED: aborted_batches(self._consumer)})

    def copy(self, timeout_ms: float) -> None:
        """Poll once, send the batches, and commit what is acknowledged, if a commit is due.

        Raises:
            CommandError: a batch could not be written. :meth:`finish` commits what was acknowledged before it.
            KafkaError: an error of a poll, or the producer does not accept a batch, which may be too large.
        """
        polled = self._consumer.poll_raw(0 if self._sent else timeout_ms)
        for tp, batches in polled.items():
            for batch in batches:
                self._send(tp, batch)
        self._producer.poll(0 if polled else ACKNOWLEDGE_MS if self._sent else 0)
        self._settle()
        is_due = self._clock() >= self._committed_at + COMMIT_S
        if is_due or not polled:
            self._note_positions()
        if is_due:
            self._committed_at = self._clock()
            new = {tp: position for tp, position in self._acknowledged.items() if self._queued.get(tp) != position}
            if new:
                self._consumer.commit_async(new, self._committed)
                self._queued.update(new)

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """Have the next commit include the partitions of a commit that has failed."""
        for tp in offsets if error is not None else ():
            self._queued.pop(tp, None)

    def finish(self) -> None:
        """Wait for acknowledgements, and commit; raise CommandError if a batch is not written or a commit has failed.

        Does not use the consumer's positions: if a call of :meth:`copy` was interrupted, the positions are after
        batches that were polled and not sent.
        """
        try:
            self._hand_over([*self._sent, *self._acknowledged], END_ACKNOWLEDGE_MS, END_COMMIT_MS)
        except KafkaError as error:
            raise CommandError(
                f"{self._in_doubt()} may be written twice, once more by the next run: {error}"
            ) from error
        finally:
            self._sent.clear()  # or the consumer would wait for them once more when it closes

    def _in_doubt(self) -> str:
        """Describe the batches that the target may have although their offsets are not committed."""
        unknown = []
        for (topic, number), sent in self._sent.items():
            count = "1 batch" if len(sent) == 1 else f"{len(sent)} batches"
            unknown.append(f"{count} before offset {sent[-1].position.offset} of {topic}-{number}")
        more = [f"those of {len(unknown) - NAMED_MAX} more partitions"] if len(unknown) > NAMED_MAX else []
        return ", ".join(unknown[:NAMED_MAX] + more) or "the batches since the last commit"

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether partitions are assigned, all have reached the ends, and every batch is acknowledged."""
        return self._is_assigned and not self._sent and not is_behind(self._consumer, ends)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record that the member has an assignment, even an empty one."""
        self._is_assigned = True

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Wait for acknowledgements, then commit the positions up to which every batch is acknowledged.

        Other members would write batches after the committed positions again.
        """
        self._is_assigned = False
        if not self._sent.keys().isdisjoint(revoked) or not self._acknowledged.keys().isdisjoint(revoked):
            self._hand_over(revoked, HANDOVER_MS, HANDOVER_MS)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Forget the partitions: other members write their batches after the committed offsets again."""
        self._is_assigned = False
        for tp in lost:
            self._sent.pop(tp, None)
            self._acknowledged.pop(tp, None)
            self._queued.pop(tp, None)

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
        """Send a section. While the producer has no room, the consumer is not polled, but sends heartbeats."""
        while True:
            try:
                return self._producer.send_section(*target, section)
            except BufferFullError:
                self._producer.poll(ACKNOWLEDGE_MS)
                self._consumer.drive()

    def _settle(self) -> None:
        """Store the position after the acknowledged batches of each partition; raise for a batch that has failed."""
        failed: tuple[TopicPartition, _Sent, KafkaError] | None = None
        for tp, sent in list(self._sent.items()):
            while sent and sent[0].future.done:
                error = sent[0].future.error
                if error is not None:
                    failed = failed or (tp, sent[0], error)
                    break
                self._acknowledged[tp] = sent[0].position
                sent.popleft()
            if not sent:
                del self._sent[tp]
        if failed is not None:
            tp, batch, error = failed
            what = f"the batch before offset {batch.position.offset} of {tp.topic}-{tp.partition}"
            target = f"{self._targets[tp.topic]}-{tp.partition}"
            raise CommandError(f"{target}: {what} could not be written: {error}") from error

    def _note_positions(self) -> None:
        """Move the acknowledged positions of partitions without batches in flight on to the consumer's positions, which
        may be after control batches and aborted ones.

        Only valid if every polled batch was sent: a batch before the position that was not sent would never be written.
        """
        for tp, position in known_positions(self._consumer).items():
            if tp not in self._sent and tp not in self._acknowledged:
                self._acknowledged[tp] = position  # all batches were left out, or nothing was read yet
            elif tp not in self._sent and position.offset > self._acknowledged[tp].offset:
                self._acknowledged[tp] = self._acknowledged[tp]._replace(offset=position.offset)

    def _hand_over(self, tps: Collection[TopicPartition], acknowledge_ms: float, commit_ms: float) -> None:
        """Wait for acknowledgements, then commit these partitions as far as batches are acknowledged.

        The commit is also made if a batch could not be written.
        """
        try:
            self._producer.flush(acknowledge_ms)
        finally:
            try:
                self._settle()
            finally:
                # Also positions that copy() has begun to commit: that commit may fail yet.
                written = {tp: self._acknowledged.pop(tp) for tp in tps if tp in self._acknowledged}
                for tp in tps:
                    self._queued.pop(tp, None)
                if written:
                    self._consumer.commit(written, timeout_ms=commit_ms)
