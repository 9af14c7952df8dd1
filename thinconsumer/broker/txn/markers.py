"""From the decision to the end: a marker into every partition of the transaction, then the log is told.

Markers are tried again, ever more slowly, while a partition has no leader or its leader cannot be reached; a partition
that no longer exists needs none. When the coordinator moves meanwhile, whoever comes next finds the decision in the log
and does it all again, with a higher coordinator epoch. Follows Kafka's ``TransactionMarkerChannelManager`` and
``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from ...timers import Backoff
from ...types import TopicPartition
from ...wire.error_codes import Code
from .interfaces import TransactionCoordinatorNode
from .shard import TransactionCoordinatorShard
from .states import TransactionState
from .transaction import Transaction, TransactionMetadata

log = logging.getLogger(__name__)

#: Kafka's sender asks again as soon as it can; this is about as often, without spinning while a leader is away.
BACKOFF = Backoff(initial=0.02, maximum=1.0)

#: The partition needs no marker any more, or will never take one.
_DONE = frozenset({Code.NONE, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION})
#: Another coordinator, or a later transaction, has been there: this one is none of ours any more.
_FENCED = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED})
_RETRIABLE = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.REQUEST_TIMED_OUT,
        Code.KAFKA_STORAGE_ERROR,
    }
)


class TransactionCompletion:
    """One transaction whose end is decided and logged. ``facts`` is what it will be once all is done."""

    def __init__(
        self,
        node: TransactionCoordinatorNode,
        shard: TransactionCoordinatorShard,
        txn: Transaction,
        metadata: TransactionMetadata,
    ) -> None:
        self._node = node
        self._shard = shard
        self._txn = txn
        self._metadata = metadata
        self._unmarked: set[TopicPartition] = set(txn.metadata.partitions)
        self._failed: set[TopicPartition] = set()  #: Those of them that wait to be tried again.
        self._attempts = 0
        self._is_over = False  #: Nothing is left to do here: the log was told, or this was taken out of our hands.

    def start(self) -> None:
        """Write the markers, then the end."""
        self._write(sorted(self._unmarked))

    def _write(self, partitions: Iterable[TopicPartition]) -> None:
        decided = self._txn.metadata
        commit = decided.state is TransactionState.PREPARE_COMMIT
        for tp in partitions:
            if self._node.image.partition(*tp) is None:
                self._unmarked.discard(tp)  # deleted meanwhile
                continue
            self._node.write_transaction_marker(
                tp,
                decided.producer_id,
                decided.producer_epoch,
                commit,
                self._shard.epoch,
                partial(self._written, tp),
                transaction_version=decided.client_version,
            )
        self._finish_if_marked()

    def _written(self, tp: TopicPartition, code: int) -> None:
        if not self._node.is_running:
            # Paused: the answer waits with everything else. Killed: it reaches nobody.
            self._node.call_later(0.0, partial(self._written, tp, code))
        elif self._is_over:
            return
        elif code in _FENCED:
            log.info("%r: %r was ended by somebody else: code %d for %s", self._shard, self._txn, code, tp)
            self._is_over = True
        elif code in _DONE:
            self._unmarked.discard(tp)
            self._finish_if_marked()
        else:
            if code not in _RETRIABLE:
                log.error("%r: unexpected code %d for the marker of %r in %s", self._shard, code, self._txn, tp)
            self._failed.add(tp)
            if len(self._failed) == 1:
                self._later(self._write_again)

    def _write_again(self) -> None:
        failed, self._failed = self._failed, set()
        self._write(sorted(failed))

    def _finish_if_marked(self) -> None:
        if not self._unmarked and not self._is_over:
            self._is_over = True
            self._finish()

    def _finish(self) -> None:
        self._shard.append(self._txn, self._metadata, self._finished, keep_pending=True)

    def _finished(self, code: Code) -> None:
        if code is Code.COORDINATOR_NOT_AVAILABLE:
            self._later(self._finish)
        elif code not in (Code.NONE, Code.NOT_COORDINATOR):
            log.error("%r: cannot log the end of %r: %s", self._shard, self._txn, code.name)

    def _later(self, what: Callable[[], None]) -> None:
        def go_on() -> None:
            if not self._shard.is_stale:
                what()

        self._attempts += 1
        self._node.call_later(BACKOFF.delay(self._attempts, self._node.random), go_on)
