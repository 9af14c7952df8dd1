"""The transaction coordinator of one broker: handles requests, aborts timed-out transactions, expires transactional
ids.

Owns a shard for each partition of ``__transaction_state`` that the broker leads. Each response is passed to a callback
exactly once: immediately, or once the change that it reports is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from ..group.hashing import partition_for
from ..naming import TRANSACTIONS_TOPIC
from ..schedule import Timer
from .markers import TransactionCompletion
from .shard import TransactionCoordinatorShard
from .states import PREPARED_STATES, TransactionState
from .transaction import EPOCH_PER_TRANSACTION, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Transaction, TransactionMetadata
from .transitions import (
    ProducerIdAndEpoch,
    on_add_partitions,
    on_end_txn,
    on_init_producer_id,
    on_verify_partitions,
    prepare_abort_unrequested,
)

if TYPE_CHECKING:
    from ..node import BrokerNode
    from ..partition import PartitionReplica

log = logging.getLogger(__name__)

#: ``done(code, producer_id, producer_epoch)``; id and epoch are -1 in responses without a producer id.
ProducerDone = Callable[[int, int, int], None]


class TransactionCoordinator:
    """Coordinates the transactions of the ``__transaction_state`` partitions that the node leads."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._shards: dict[int, TransactionCoordinatorShard] = {}
        self._timeouts: Timer | None = None
        self._expiry: Timer | None = None

    def elected(self, index: int, leader_epoch: int, partition: PartitionReplica) -> None:
        """Load a partition of ``__transaction_state`` that this broker now leads."""
        self.resigned(index)
        shard = self._shards[index] = TransactionCoordinatorShard(self._node, index, leader_epoch, partition)
        delay = self._node.config.coordinator_load_s
        if delay > 0:
            self._node.call_later(delay, lambda: self._load(shard))
        else:
            self._load(shard)

    def resigned(self, index: int) -> None:
        """Unload a partition whose leader epoch is over. The partition's replica fails uncommitted appends."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.unload()

    def _load(self, shard: TransactionCoordinatorShard) -> None:
        if shard.is_stale:
            return
        shard.load()
        self._watch_all()
        if any(txn.state in PREPARED_STATES for txn in shard.transactions.values()):
            # The markers must wait until the metadata update that made this broker leader is completely applied.
            self._node.call_later(0.0, lambda: self._complete_endings(shard))

    def _complete_endings(self, shard: TransactionCoordinatorShard) -> None:
        """Write the markers of transactions that an earlier coordinator has decided to commit or abort."""
        for txn in list(shard.transactions.values()):
            if txn.state in PREPARED_STATES and txn.pending is None and not shard.is_stale:
                TransactionCompletion(self._node, shard, txn, txn.prepare_complete(self._now_ms())).write()

    def _find(self, transactional_id: str) -> TransactionCoordinatorShard | Code:
        topic = self._node.image.topics.get(TRANSACTIONS_TOPIC)
        count = self._node.config.transaction_state_log_num_partitions if topic is None else len(topic.partitions)
        shard = self._shards.get(partition_for(transactional_id, count))
        if shard is None or shard.is_stale:
            return Code.NOT_COORDINATOR
        return shard if shard.is_ready else Code.COORDINATOR_LOAD_IN_PROGRESS

    def _find_transaction(self, transactional_id: str) -> tuple[TransactionCoordinatorShard, Transaction] | Code:
        if not transactional_id:
            return Code.INVALID_REQUEST
        shard = self._find(transactional_id)
        if isinstance(shard, Code):
            return shard
        txn = shard.transactions.get(transactional_id)
        return Code.INVALID_PRODUCER_ID_MAPPING if txn is None else (shard, txn)

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, expected: ProducerIdAndEpoch | None, done: ProducerDone
    ) -> None:
        """Assign a producer id and epoch; earlier producers with the same transactional id are fenced. Without a
        transactional id the producer gets a new producer id, with epoch 0.

        ``expected`` is the producer's current id and epoch if it asks for its next epoch (KIP-360), else None.
        """
        if transactional_id is None:
            done(Code.NONE, self._node.new_producer_id(), 0)
            return
        shard: TransactionCoordinatorShard | Code
        if not transactional_id:
            shard = Code.INVALID_REQUEST
        elif not 0 < timeout_ms <= self._node.config.transaction_max_timeout_ms:
            shard = Code.INVALID_TRANSACTION_TIMEOUT
        else:
            shard = self._find(transactional_id)
        if isinstance(shard, Code):
            done(shard, *_NO_PRODUCER)
            return
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            metadata = TransactionMetadata(self._node.new_producer_id(), NO_PRODUCER_EPOCH, timeout_ms, self._now_ms())
            txn = shard.transactions[transactional_id] = Transaction(transactional_id, metadata)
        transition = on_init_producer_id(txn, timeout_ms, expected, self._now_ms(), self._node.new_producer_id)
        if isinstance(transition, Code):
            done(transition, *_NO_PRODUCER)
        elif transition.state is TransactionState.PREPARE_ABORT:
            # The producer retries InitProducerId until its previous transaction is aborted, and then gets a new epoch.
            self._end(shard, txn, transition, lambda code, _: done(code or Code.CONCURRENT_TRANSACTIONS, *_NO_PRODUCER))
        else:
            assigned = (transition.producer_id, transition.producer_epoch)
            self._log(shard, txn, transition, lambda code: done(code, *(_NO_PRODUCER if code else assigned)))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        done: Callable[[int], None],
        *,
        client_version: int = 0,
    ) -> None:
        """Add partitions to the producer's transaction; if no transaction is ongoing, this begins one."""
        found = self._find_transaction(transactional_id)
        if isinstance(found, Code):
            done(found)
            return
        shard, txn = found
        transition = on_add_partitions(txn, producer, partitions, self._now_ms(), client_version)
        if isinstance(transition, Code):
            done(transition)
        else:
            self._log(shard, txn, transition, done)

    def add_or_verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        done: Callable[[Mapping[TopicPartition, int]], None],
        *,
        client_version: int = 0,
        verify_only: bool = False,
    ) -> None:
        """Add partitions to the producer's transaction, or verify that they are in it; ``done`` gets a code for each.

        If one partition does not exist, all of them get an error code.
        """
        requested = list(partitions)
        missing = {tp for tp in requested if self._node.image.partition(*tp) is None}
        if missing:
            unknown, left_out = int(Code.UNKNOWN_TOPIC_OR_PARTITION), int(Code.OPERATION_NOT_ATTEMPTED)
            done({tp: unknown if tp in missing else left_out for tp in requested})
        elif verify_only:
            found = self._find_transaction(transactional_id)
            if isinstance(found, Code):
                done(dict.fromkeys(requested, found))
            else:
                done(on_verify_partitions(found[1], producer, requested))
        else:
            self.add_partitions(
                transactional_id, producer, requested,
                lambda code: done(dict.fromkeys(requested, code)),
                client_version=client_version,
            )  # fmt: skip

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        commit: bool,
        done: ProducerDone,
        *,
        client_version: int = 0,
    ) -> None:
        """Commit or abort a transaction; ``done`` is called as soon as the decision is logged or the request rejected,
        before the markers are written.

        With ``client_version`` 2, ``done`` gets the producer's id and epoch for the next transaction.
        """
        found = self._find_transaction(transactional_id)
        if isinstance(found, Code):
            done(found, *_NO_PRODUCER)
            return
        shard, txn = found
        returns_producer = client_version >= EPOCH_PER_TRANSACTION
        transition = on_end_txn(txn, producer, commit, self._now_ms(), client_version, self._node.new_producer_id)
        if isinstance(transition, Code):
            # The code NONE means that the transaction has ended already, and that this request is a retry after a lost
            # response. With KIP-890 the retry gets the same producer id and epoch.
            is_retry = transition is Code.NONE and returns_producer
            done(transition, *((txn.metadata.producer_id, txn.metadata.producer_epoch) if is_retry else _NO_PRODUCER))
            return

        def logged(code: int, finished: TransactionMetadata | None) -> None:
            next_producer = (finished.producer_id, finished.producer_epoch) if finished is not None else _NO_PRODUCER
            done(code, *(next_producer if returns_producer else _NO_PRODUCER))

        self._end(shard, txn, transition, logged)

    def _end(
        self,
        shard: TransactionCoordinatorShard,
        txn: Transaction,
        transition: TransactionMetadata,
        logged: Callable[[int, TransactionMetadata | None], None],
    ) -> None:
        """Log the decision to commit or abort a transaction, then write its markers.

        ``logged`` gets an error code and the metadata that is logged after the markers (None with an error).
        """

        def written(code: int) -> None:
            if code:
                logged(code, None)
                return
            finished = txn.prepare_complete(self._now_ms())
            logged(code, finished)
            TransactionCompletion(self._node, shard, txn, finished).write()

        self._log(shard, txn, transition, written)

    def _log(
        self,
        shard: TransactionCoordinatorShard,
        txn: Transaction,
        metadata: TransactionMetadata,
        done: Callable[[int], None],
    ) -> None:
        shard.append(txn, metadata, done)
        self._watch(metadata.state is TransactionState.ONGOING)

    def _watch(self, has_ongoing: bool) -> None:
        """Schedule the removal of expired transactional ids and, with ``has_ongoing``, the abort of timed-out
        transactions.

        A task that is already scheduled keeps its time.
        """
        config = self._node.config
        if has_ongoing and self._timeouts is None:
            interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._timeouts = self._node.call_later(interval_ms / 1000, self._abort_timed_out)
        if self._expiry is None:
            interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expiry = self._node.call_later(interval_ms / 1000, self._expire)

    def _watch_all(self) -> None:
        # Pending states count, too: once they are logged, nothing else schedules the periodic tasks for them.
        found = {state for _, txn in self._all() for state in (txn.state, txn.pending)}
        if found:
            self._watch(TransactionState.ONGOING in found)

    def _all(self) -> Iterator[tuple[TransactionCoordinatorShard, Transaction]]:
        for shard in list(self._shards.values()):
            if shard.is_ready and not shard.is_stale:
                for txn in list(shard.transactions.values()):
                    yield shard, txn

    def _abort_timed_out(self) -> None:
        self._timeouts = None
        now_ms = self._now_ms()
        for shard, txn in self._all():
            metadata = txn.metadata
            is_late = metadata.state is TransactionState.ONGOING and metadata.started_ms + metadata.timeout_ms < now_ms
            if is_late and txn.pending is None:
                log.info("%r: aborting %r: its transaction timeout has expired", shard, txn)
                transition = prepare_abort_unrequested(txn, now_ms, self._node.new_producer_id)
                self._end(shard, txn, transition, lambda *_: None)
        self._watch_all()

    def _expire(self) -> None:
        self._expiry = None
        before_ms = self._now_ms() - self._node.config.transactional_id_expiration_ms
        for shard in list(self._shards.values()):
            if shard.is_ready and not shard.is_stale:
                shard.expire(before_ms)
        self._watch_all()

    def _now_ms(self) -> int:
        return self._node.schedule.wall_ms()


_NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
