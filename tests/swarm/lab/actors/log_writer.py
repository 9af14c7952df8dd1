"""An actor that appends to the leaders' logs: plain and compressed batches, and transactions that commit, abort or stay
open for long.

It simulates all kinds of producers without their connections; :class:`.ProducerActor` runs the package's own producer.
Values are ``record:<number>``. Keys repeat, so that compaction removes records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinconsumer.records.builder import NewRecord
from thinconsumer.records.compression import Codec
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.simulation.world import Actor, World

if TYPE_CHECKING:
    from ..knobs import Knobs

CODECS = (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
#: Limit of open transactions: each holds back the last stable offset of its partitions.
OPEN_MAX = 3
KEYS: tuple[bytes | None, ...] = tuple(b"k%d" % number for number in range(8))


@dataclass(slots=True)
class _Transaction:
    producer_id: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    #: Partitions to which the transaction's marker was appended, but where it is not committed (replicated) yet.
    marking: set[TopicPartition] = field(default_factory=set)
    is_ending: bool = False


class LogWriter(Actor):
    """Appends ``knobs.writes`` batches within ``seconds``."""

    keys = KEYS

    def __init__(
        self,
        world: World,
        cluster: Callable[[], Cluster],
        tps: Callable[[], list[TopicPartition]],
        knobs: Knobs,
        seconds: float,
    ) -> None:
        # Another stream name would change all random draws: the seeds by which tests/swarm finds the bugs that it
        # plants would no longer find them.
        super().__init__(world, "log writer", stream="scribe")
        self.written = 0  #: Number of records appended so far.
        self.batches = 0
        self.aborted = 0  #: Number of transactions aborted so far; ``committed`` counts the committed ones.
        self.committed = 0
        self._cluster = cluster
        self._tps = tps
        self._knobs = knobs
        self._pause = seconds / max(1, knobs.writes)
        self._until = world.now() + seconds
        self._open: list[_Transaction] = []
        self._numbers = 0
        self.wake()

    def turn(self) -> float:
        """Append a batch to a random partition, or begin, continue or end a transaction."""
        knobs, random = self._knobs, self.random
        if self.world.now() >= self._until:
            return float("inf")
        tp = random.choice(self._tps())
        if random.random() < knobs.transactional:
            self._go_on_with_transactions(tp)
        else:
            self.write(tp)
        return self.world.now() + self._pause * 2 * random.random()

    def finish(self) -> bool:
        """Try to end every transaction; return whether all of them are ended."""
        for transaction in list(self._open):
            self._end(transaction)
        return not self._open and not sum(self._abort_hanging(tp) for tp in self._tps())

    def write(
        self,
        tp: TopicPartition,
        node: int | None = None,
        count: int | None = None,
        transaction: _Transaction | None = None,
    ) -> bool:
        """Append a batch at the leader, or at ``node`` (perhaps a deposed leader); return whether it was appended."""
        random, knobs = self.random, self._knobs
        count = count or 1 + random.randrange(knobs.records_max)
        size = random.randrange(knobs.record_size_max)
        records = [self._record(size) for _ in range(count)]
        batch: dict[str, Any] = {"codec": random.choice(CODECS)} if knobs.compression and random.random() < 0.7 else {}
        if transaction is not None:
            sequence = transaction.sequences.get(tp, 0)
            batch |= {
                "producer_id": transaction.producer_id,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "transactional": True,
            }
        try:
            self._check_runs(tp, node)
            offset = self._cluster().produce(tp.topic, records, tp.partition, node=node, **batch)
        except (LookupError, ValueError) as error:
            self.world.trace.add(self.name, "", "not written", "%s-%d: %s", *tp, str(error))
            return False
        self.world.trace.add(self.name, "", "wrote", "%s-%d: %d from offset %d", *tp, count, offset)
        if transaction is not None:
            transaction.sequences[tp] = sequence + count
        self.written += count
        self.batches += 1
        return True

    def _record(self, size: int) -> NewRecord:
        self._numbers += 1
        value = b"record:%d" % self._numbers
        key = self.keys[self.random.randrange(len(self.keys))]
        headers = (("n", value),) if self._numbers % 7 == 0 else ()
        return NewRecord(None if self._numbers % 23 == 0 else value + b"." * size, key, headers)

    def _check_runs(self, tp: TopicPartition, node: int | None = None) -> None:
        """Raise LookupError if the leader's process is paused: a paused broker cannot append a batch."""
        if not self._cluster().leader(tp, node).node.is_running:
            raise LookupError("the leader is paused")

    def _go_on_with_transactions(self, tp: TopicPartition) -> None:
        random = self.random
        if self._open and (len(self._open) >= OPEN_MAX or random.random() < 0.6):
            transaction = random.choice(self._open)
            if transaction.is_ending or random.random() < 0.6:
                self._end(transaction)
                return
        else:
            transaction = _Transaction(self._cluster().new_producer_id())
            self._open.append(transaction)
        if not self.write(tp, transaction=transaction):
            self._end(transaction)

    def _end(self, transaction: _Transaction) -> None:
        """Append the marker in partitions with running leaders; the transaction ends once all are replicated."""
        transaction.is_ending = True
        for tp in [tp for tp in transaction.sequences if tp not in transaction.marking]:
            try:
                self._check_runs(tp)
                leader = self._cluster().leader(tp)
            except LookupError:
                continue
            transaction.marking.add(tp)
            commit = transaction.producer_id % 3 != 0
            leader.append_marker(transaction.producer_id, 0, commit, 0, self._marked(transaction, tp, commit))
        if not transaction.sequences and transaction in self._open:
            self._over(transaction)

    def _abort_hanging(self, tp: TopicPartition) -> int:
        """Abort a partition's transactions that lost their marker in an unclean election.

        Returns the number of such transactions, or 1 if the partition has no leader: then the caller must try again.

        The followers' logs are searched too. A follower may have an open transaction that the leader lacks, since its
        records were deleted before the leader copied them. A consumer that fetches from this follower (KIP-392) would
        wait for the transaction's end for ever.
        """
        try:
            leader = self._cluster().leader(tp)
        except LookupError:
            return 1
        others = [node.partitions[tp] for node in self._cluster().nodes.values() if tp in node.partitions]
        logs = [replica.log for replica in (leader, *others)]
        hanging = dict.fromkeys(producer_id for log in logs for producer_id in log.open_transactions())
        for producer_id in hanging:
            self.world.trace.add(self.name, "", "aborted", "producer %d, hanging in %s-%d", producer_id, *tp)
            leader.append_marker(producer_id, 0, False, 0, lambda code: None)
        return len(hanging)

    def _marked(self, transaction: _Transaction, tp: TopicPartition, commit: bool) -> Callable[[int], None]:
        def done(code: int) -> None:
            word = ("committed" if commit else "aborted") if code == 0 else "marker refused"
            why = "producer %d in %s-%d, error %d"
            self.world.trace.add(self.name, "", word, why, transaction.producer_id, *tp, code)
            transaction.marking.discard(tp)
            # If the leader has rejected the marker, the partition stays in ``sequences``. finish() then appends the
            # marker again, as transaction coordinators do.
            if code == 0:
                transaction.sequences.pop(tp, None)

        return done

    def _over(self, transaction: _Transaction) -> None:
        self._open.remove(transaction)
        if transaction.producer_id % 3 != 0:
            self.committed += 1
        else:
            self.aborted += 1
