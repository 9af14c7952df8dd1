"""The transactions of one partition of ``__transaction_state``: loaded from its log, and written to it.

A broker that becomes the leader of a partition creates a new shard for it. When the leader epoch is over, the shard is
stale (:attr:`~TransactionCoordinatorShard.is_stale`), and its pending appends complete no transition any more. Follows
Kafka's ``TransactionStateManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from thinconsumer.errors import KafkaError
from thinconsumer.records.builder import NewRecord
from thinconsumer.wire.error_codes import Code

from ..group.append_errors import APPEND_ERRORS
from ..schedule import Timer
from .log_format import decode_key, decode_value, encode_key, encode_value
from .states import IDLE_STATES, TransactionState
from .transaction import Transaction, TransactionMetadata

if TYPE_CHECKING:
    from ..node import BrokerNode
    from ..partition import PartitionReplica

log = logging.getLogger(__name__)

#: Expired transactional ids are removed in batches of at most this many tombstones, to respect max.message.bytes.
TOMBSTONES_MAX = 100

#: Error codes for clients when the log rejects a record; other codes are returned unchanged.
_ANSWERS: Mapping[int, Code] = {**APPEND_ERRORS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE}


class TransactionCoordinatorShard:
    """Coordinates the transactions in one partition of ``__transaction_state``.

    ``epoch`` is the leader epoch of this partition, which is the coordinator epoch in transaction markers.
    """

    def __init__(self, node: BrokerNode, index: int, epoch: int, partition: PartitionReplica) -> None:
        self.index = index
        self.epoch = epoch
        self.transactions: dict[str, Transaction] = {}
        self.is_ready = False  #: Whether the log has been loaded.
        self._is_unloaded = False
        self._node = node
        self._partition = partition

    def __repr__(self) -> str:
        state = "stale" if self.is_stale else "ready" if self.is_ready else "loading"
        ids = len(self.transactions)
        return f"<TransactionCoordinatorShard {self.index} epoch {self.epoch} {state}, {ids} transactional ids>"

    @property
    def is_stale(self) -> bool:
        """Whether the shard is unloaded, its leader epoch is over, or its broker was killed."""
        return self._is_unloaded or not self._partition.is_leader or self._partition.leader_epoch != self.epoch

    def unload(self) -> None:
        """Make the shard stale: its leader epoch is over."""
        self._is_unloaded = True

    def load(self) -> None:
        """Load all transactional ids from the log; a later record of an id replaces earlier ones."""
        replica = self._partition
        for batch in replica.log.read_batches(replica.log.start_offset, replica.log.end_offset):
            for record in batch.decode(*replica.tp, check_crcs=False):
                try:
                    self._replay(record.key, record.value)
                except KafkaError as error:
                    log.warning("%r: skipping invalid record at offset %d: %s", self, record.offset, error)
        self.is_ready = True

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        if value is None:
            self.transactions.pop(transactional_id, None)
        elif (metadata := decode_value(value)) is not None:
            self.transactions[transactional_id] = Transaction(transactional_id, metadata)

    def append(
        self,
        txn: Transaction,
        metadata: TransactionMetadata,
        done: Callable[[Code], None],
        *,
        keep_pending: bool = False,
    ) -> None:
        """Append the metadata of a prepared transition; once it is committed, complete the transition.

        ``done`` is called exactly once, with 0 or the error code for the client. If the append fails, the transition is
        cancelled, unless ``keep_pending`` is set and the code is COORDINATOR_NOT_AVAILABLE, after which the caller
        retries the append. As in Kafka, an append that takes longer than the transaction timeout counts as failed.
        """
        timer: Timer | None = None
        settled = False

        def settle(code: int) -> None:
            nonlocal settled
            if not settled:
                settled = True
                if timer is not None:
                    timer.cancel()
                done(self._settle(txn, metadata, code, keep_pending))

        if self.is_stale:
            settle(Code.NOT_LEADER_OR_FOLLOWER)
            return
        record = NewRecord(encode_value(metadata), encode_key(txn.transactional_id))
        self._partition.append_records([record], settle)
        if not settled:
            timer = self._node.call_later(metadata.timeout_ms / 1000, lambda: settle(Code.REQUEST_TIMED_OUT))

    def _settle(self, txn: Transaction, metadata: TransactionMetadata, code: int, keep_pending: bool) -> Code:
        answer = _ANSWERS.get(code, Code(code))
        if self._is_unloaded or self.transactions.get(txn.transactional_id) is not txn:
            return Code.NOT_COORDINATOR if answer is Code.NONE else answer
        if answer is Code.NONE:
            txn.complete(metadata)
        elif not (keep_pending and answer is Code.COORDINATOR_NOT_AVAILABLE):
            txn.cancel_transition()
        return answer

    def expire(self, updated_before_ms: int) -> None:
        """Remove the transactional ids that have no ongoing transaction, and no use since ``updated_before_ms``."""
        old = (
            txn
            for txn in list(self.transactions.values())
            if txn.pending is None and txn.state in IDLE_STATES and txn.metadata.updated_ms <= updated_before_ms
        )
        while some := list(islice(old, TOMBSTONES_MAX)):
            self._append_tombstones([(txn, txn.expire()) for txn in some])

    def _append_tombstones(self, expired: Sequence[tuple[Transaction, TransactionMetadata]]) -> None:
        def written(code: int) -> None:
            if self._is_unloaded:
                return
            for txn, metadata in expired:
                is_same_epoch = txn.metadata.producer_epoch == metadata.producer_epoch
                if code or txn.pending is not TransactionState.DEAD or not is_same_epoch:
                    txn.cancel_transition()
                elif self.transactions.get(txn.transactional_id) is txn:
                    del self.transactions[txn.transactional_id]

        self._partition.append_records(
            [NewRecord(None, encode_key(txn.transactional_id)) for txn, _ in expired], written
        )
