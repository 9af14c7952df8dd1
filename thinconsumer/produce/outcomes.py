"""What becomes of batches: acknowledged, sent again, renumbered, split or failed.

Owns what an answer does to a batch and to its partition's sequence numbers. :mod:`thinconsumer.failures.policy` says
what a code means; the sender decides when to send. After Java's ``Sender.completeBatch`` and ``TransactionManager``;
KIP-360, KIP-467, KIP-951.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from itertools import islice

from ..errors import BrokerResponseError, KafkaError, TopicAuthorizationFailedError
from ..failures import IN_DOUBT, Action, Scope, rule
from ..metadata import Metadata
from ..timers import NEVER, Backoff, Random
from ..types import Node
from ..wire.error_codes import to_error
from ..wire.produce import PartitionProduceResponse
from .accumulator import Accumulator, PartitionQueue
from .batch import NO_SEQUENCE, BatchEvent, ProducerBatch
from .ids import ProducerIds
from .sequences import NO_ID

log = logging.getLogger(__name__)

_SEND_AGAIN = (Action.RETRY, Action.REFRESH_METADATA, Action.NEW_SEQUENCE)


class Outcomes:
    """Settles batches, or has them sent again."""

    def __init__(
        self, metadata: Metadata, accumulator: Accumulator, ids: ProducerIds, backoff: Backoff, random: Random
    ) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self._ids = ids
        self._backoff = backoff
        self._random = random

    def take(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        data: PartitionProduceResponse,
        node_id: int,
        endpoints: Mapping[int, Node],
        now: float,
    ) -> None:
        """Take a partition's part of an answer; ``batch`` is the queue's head and in flight."""
        action = rule("Produce", data.error_code, Scope.PARTITION).action
        if action is Action.ACCEPT:
            queue.attempts = 0
            queue.not_before = -NEVER
            batch.acknowledge(data.base_offset, data.log_append_time_ms)
            self._accumulator.settled_head(queue)
            return
        error = self._error(queue, data, node_id)
        log.debug("%s, attempt %d: %s", batch, batch.attempts, error)
        batch.in_doubt = batch.in_doubt or data.error_code in IN_DOUBT
        if action in _SEND_AGAIN:
            if action is Action.NEW_SEQUENCE:
                self._renumber(queue, batch)
            self.again(queue, batch, error, now)
            if action is Action.REFRESH_METADATA:
                self._look_for_leader(queue, data, endpoints, error)
        elif action is Action.SPLIT_BATCH and len(batch) > 1 and not batch.in_doubt:
            self._split(queue, batch, error)
        else:
            if action is Action.NEW_PRODUCER_ID:
                self._ids.replace(queue.sequences.producer_id)
                queue.sequences.drop()
            self.fail(queue, error, self._record_errors(batch, data, node_id))

    def again(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        """Have a batch that is in flight sent again after a backoff."""
        batch.last_error = error
        batch.move(BatchEvent.TRY_AGAIN)
        self.pause(queue, now)

    def pause(self, queue: PartitionQueue, now: float) -> None:
        """Let the queue wait, the longer the more failures there were in a row."""
        queue.attempts += 1
        queue.not_before = now + self._backoff.delay(queue.attempts, self._random)

    def fail(
        self, queue: PartitionQueue, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None
    ) -> None:
        """Fail a queue's head. If the broker may know its number, what follows starts anew (KIP-360)."""
        batch = queue.batches[0]
        if batch.base_sequence != NO_SEQUENCE:
            self._start_over(queue)
        batch.fail(error, record_errors)
        self._accumulator.settled_head(queue)

    def fail_unsent(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Fail everything in a queue, unless its head is on its way."""
        while queue.batches and not queue.in_flight:
            self.fail(queue, error)

    def fail_topic(self, name: str, error: KafkaError) -> None:
        """Fail what has not been sent yet: nobody may write there, or it cannot exist."""
        buffer = self._accumulator.topics[name]
        self._accumulator.fail_waiting(buffer, error)
        for queue in buffer.queues.values():
            self.fail_unsent(queue, error)

    def fail_without_id(self, error: KafkaError) -> None:
        """Fail everything that needs a producer id to go on: there will be none."""
        self._fail_waiting(error)
        for queue in list(self._accumulator.active):
            if queue.sequences.producer_id == NO_ID:
                self.fail_unsent(queue, error)

    def abandon(self, error: KafkaError) -> None:
        """Fail everything, sent or not: nobody waits any longer."""
        self._fail_waiting(error)
        for queue in list(self._accumulator.active):
            while queue.batches:
                self.fail(queue, error)

    # -- inside

    def _fail_waiting(self, error: KafkaError) -> None:
        for buffer, _ in self._accumulator.waiting():
            self._accumulator.fail_waiting(buffer, error)

    def _error(self, queue: PartitionQueue, data: PartitionProduceResponse, node_id: int) -> BrokerResponseError:
        detail = data.error_message
        error = to_error(data.error_code, api="Produce", node_id=node_id, partition=queue.tp, detail=detail)
        if isinstance(error, TopicAuthorizationFailedError):
            error.topics = (queue.tp.topic,)
        return error

    def _record_errors(
        self, batch: ProducerBatch, data: PartitionProduceResponse, node_id: int
    ) -> dict[int, KafkaError]:
        """Return what each record is told where the broker blames some of them (KIP-467)."""
        blamed = {blame.batch_index: blame.batch_index_error_message for blame in data.record_errors}
        told: dict[int, KafkaError] = {}
        for index in range(len(batch) if blamed else 0):
            detail = blamed.get(index) or data.error_message
            if index not in blamed:
                detail = "another record of the same batch is at fault"
            told[index] = to_error(data.error_code, api="Produce", node_id=node_id, partition=batch.tp, detail=detail)
        return told

    def _renumber(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Begin a new epoch with this batch: the broker lacks what was before, or does not know us."""
        self._start_over(queue)
        batch.base_sequence = NO_SEQUENCE
        batch.data = None

    def _start_over(self, queue: PartitionQueue) -> None:
        producer_id = queue.sequences.producer_id
        queue.sequences.start_over()
        if queue.sequences.producer_id == NO_ID:
            self._ids.replace(producer_id)

    def _split(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """Put a batch's second half into one of its own behind it. It was refused for certain: its number is free."""
        log.info("%s is too large for the broker: sending its halves", batch)
        batch.last_error = error
        batch.move(BatchEvent.TRY_AGAIN)
        records = len(batch)
        half = (records + 1) // 2
        first, second = batch.records[:half], ProducerBatch(batch.tp, batch.deadline)
        second.move(BatchEvent.SEAL)
        second.records = batch.records[half:]
        second.size = batch.size * (records - half) // records  # roughly; the sum is what it was
        second.reprieved, second.rest, second.last_error = batch.reprieved, batch.rest, error
        batches = deque([batch, second, *islice(queue.batches, 1, None)])
        # No call from here on: interrupted in between, records would be written twice, or not at all.
        queue.sequences.next = batch.base_sequence
        batch.base_sequence, batch.data = NO_SEQUENCE, None
        batch.records, batch.rest = first, second
        batch.size -= second.size
        queue.batches = batches

    def _look_for_leader(
        self,
        queue: PartitionQueue,
        data: PartitionProduceResponse,
        endpoints: Mapping[int, Node],
        error: KafkaError,
    ) -> None:
        hint = data.current_leader
        node = endpoints.get(hint.leader_id)
        if self._metadata.hint_leader(queue.tp, node, hint.leader_id, hint.leader_epoch) and queue.attempts <= 1:
            # KIP-951: go there at once. Only the first time, or two brokers could play ball with us at their own pace.
            queue.not_before = -NEVER
        self._metadata.request_update(str(error))
