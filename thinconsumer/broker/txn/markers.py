"""Completion of a transaction: a marker in each of its partitions, then the completed state in the log.

Markers are retried with increasing backoff while a partition has no leader or its leader is unreachable; a deleted
partition needs none. If the coordinator moves, the next one finds the logged end and writes all markers again, with a
higher coordinator epoch. Follows Kafka's ``TransactionMarkerChannelManager`` and
``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...timers import Backoff
from ...types import TopicPartition
from ...wire.error_codes import Code
from .shard import TransactionCoordinatorShard
from .states import TransactionState
from .transaction import Transaction, TransactionMetadata

if TYPE_CHECKING:
    from ..node import BrokerNode

log = logging.getLogger(__name__)

#: Kafka's sender retries immediately; this is nearly as fast, without spinning while a leader is down.
BACKOFF = Backoff(initial=0.02, maximum=1.0)

#: Codes after which no marker is left to write: it is written, or the partition can never take one.
_DONE = frozenset({Code.NONE, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION})
#: Codes after a newer coordinator or a later transaction has taken over: no marker is retried.
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
    """Completes one transaction after its end is logged. ``metadata`` is its completed state."""

    def __init__(
        self, node: BrokerNode, shard: TransactionCoordinatorShard, txn: Transaction, metadata: TransactionMetadata
    ) -> None:
        self._node = node
        self._shard = shard
        self._txn = txn
        self._metadata = metadata
        self._unmarked: set[TopicPartition] = set(txn.metadata.partitions)
        self._due: set[TopicPartition] = set(self._unmarked)  #: Partitions whose marker is to be written next.
        self._attempts = 0
        self._is_over = False  #: Whether all markers are written, or another coordinator has taken over.

    def write(self) -> None:
        """Write the markers, then the completed state."""
        decided = self._txn.metadata
        commit = decided.state is TransactionState.PREPARE_COMMIT
        due, self._due = self._due, set()
        for tp in sorted(due):
            if self._node.image.partition(*tp) is None:
                self._unmarked.discard(tp)  # the topic was deleted
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
            # A paused broker handles the response after the pause; for a killed one, call_later drops the callback.
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
