"""Completion of a transaction: write a marker to each of its partitions, then log the completed state.

Markers are retried with increasing backoff while a partition has no leader or its leader is unreachable; a deleted
partition needs none. If another broker becomes the coordinator, it finds the transaction in the state PrepareCommit or
PrepareAbort, and writes all markers again with a higher coordinator epoch. Follows Kafka's
``TransactionMarkerChannelManager`` and ``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from thinconsumer.support.timers import Backoff
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .shard import TransactionCoordinatorShard
from .states import TransactionState
from .transaction import Transaction, TransactionMetadata

if TYPE_CHECKING:
    from ..node import BrokerNode

log = logging.getLogger(__name__)

#: Backoff between attempts to write markers. Kafka's sender retries immediately; 20 ms is nearly as fast, and avoids a
#: busy loop while a leader is down.
BACKOFF = Backoff(initial=0.02, maximum=1.0)

#: Codes after which a partition needs no further attempt: its marker is written, or its log cannot contain markers.
_DONE = frozenset({Code.NONE, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION})
#: Codes after which the completed state is not logged: a newer coordinator or later transaction has fenced the marker.
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
    """Completes a transaction after the decision to commit or abort is logged.

    When all markers are written, ``metadata`` is logged: the transaction in its completed state.
    """

    def __init__(
        self, node: BrokerNode, shard: TransactionCoordinatorShard, txn: Transaction, metadata: TransactionMetadata
    ) -> None:
        self._node = node
        self._shard = shard
        self._txn = txn
        self._metadata = metadata
        self._unmarked: set[TopicPartition] = set(txn.metadata.partitions)
        self._due: set[TopicPartition] = set(self._unmarked)  #: Partitions that get a marker next.
        self._attempts = 0
        self._is_over = False  #: Whether all markers are written, or one was fenced.

    def write(self) -> None:
        """Write the markers that are due; log the completed state once all markers are written."""
        decided = self._txn.metadata
        commit = decided.state is TransactionState.PREPARE_COMMIT
        due, self._due = self._due, set()
        for tp in sorted(due):
            if self._node.image.partition(*tp) is None:
                self._unmarked.discard(tp)  # the partition's topic was deleted: no marker is needed
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
            # This broker is paused or killed. After a pause it handles the response; if it was killed, call_later drops
            # the callback.
            self._node.call_later(0.0, partial(self._written, tp, code))
        elif self._is_over:
            return
        elif code in _FENCED:
            log.info(
                "%r: a newer coordinator or transaction has fenced the marker of %r in %s (code %d); no retry",
                self._shard, self._txn, tp, code,
            )  # fmt: skip
            self._is_over = True
        elif code in _DONE:
            self._unmarked.discard(tp)
            self._finish_if_marked()
        else:
            if code not in _RETRIABLE:
                log.error(
                    "%r: unexpected code %d for the marker of %r in %s; retrying", self._shard, code, self._txn, tp
                )
            self._due.add(tp)
            if len(self._due) == 1:
                self._later(self.write)

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
            log.error("%r: cannot log the completion of %r: %s", self._shard, self._txn, code.name)

    def _later(self, what: Callable[[], None]) -> None:
        def go_on() -> None:
            if not self._shard.is_stale:
                what()

        self._attempts += 1
        self._node.call_later(BACKOFF.delay(self._attempts, self._node.random), go_on)
