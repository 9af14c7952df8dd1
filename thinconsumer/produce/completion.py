"""Apply Produce responses to batches: acknowledge, retry, renumber, split or fail them. Also apply the responses to
InitProducerId (KIP-98): they bring the first producer id, and another one when an id can no longer be used.

:mod:`thinconsumer.failures.policy` maps error codes to actions; the sender decides when to send. After Java's
``Sender.completeBatch`` and ``TransactionManager``; KIP-360, KIP-467, KIP-951.
"""

import logging
from collections import deque
from collections.abc import Mapping
from itertools import islice

from ..errors import BrokerResponseError, KafkaError, RecordError
from ..failures import IN_DOUBT, Action, Scope, rule
from ..network.metadata import Metadata
from ..network.request import Answer
from ..support.timers import Retry
from ..types import Node
from ..wire.error_codes import Code, to_error
from ..wire.init_producer_id import InitProducerIdResponse
from ..wire.produce import PartitionProduceResponse
from .accumulator import Accumulator
from .batch import EPOCH_MAX, NO_ID, NO_SEQUENCE, BatchEvent, PartitionQueue, ProducerBatch

log = logging.getLogger(__name__)

_SEND_AGAIN = (Action.RETRY, Action.REFRESH_METADATA, Action.NEW_SEQUENCE)


class BatchCompleter:
    def __init__(self, metadata: Metadata, accumulator: Accumulator, id_retry: Retry) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self.id_retry = id_retry  #: The backoff of InitProducerId.
        self.producer_id = NO_ID  #: The producer id for partitions without one; NO_ID: the sender has to request it.
        self.epoch = -1
        self.id_error: KafkaError | None = None  #: The error of the last InitProducerId; None after a success.

    def take_id(self, answer: Answer, now: float) -> None:
        """Store the id and epoch of a response to InitProducerId, or its error.

        A final error fails the batches of partitions that have no producer id.
        """
        response: InitProducerIdResponse | None = answer.response
        error = answer.error
        if response is not None and response.error_code:
            error = to_error(response.error_code, api="InitProducerId", node_id=answer.node_id)
        elif response is not None and (response.producer_id < 0 or response.producer_epoch < 0):
            error = KafkaError(f"broker {answer.node_id} answered InitProducerId with a negative id or epoch")
        self.id_error = error
        if response is not None and error is None:
            self.id_retry.succeeded()
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            return
        self.id_retry.failed(now)
        if not isinstance(error, BrokerResponseError):
            return
        if rule("InitProducerId", error.code, Scope.CONSUMER).action is Action.FAIL:
            for queue in list(self._accumulator.active):
                if queue.producer_id == NO_ID:
                    self.fail_unsent(queue, error)

    def complete(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        data: PartitionProduceResponse,
        node_id: int,
        endpoints: Mapping[int, Node],
        now: float,
    ) -> None:
        """Apply one partition of a Produce response to ``batch``, the in-flight first batch of ``queue``."""
        action = rule("Produce", data.error_code, Scope.PARTITION).action
        if action is Action.ACCEPT:
            queue.retry.succeeded()
            batch.acknowledge(data.base_offset, data.log_append_time_ms)
            self._accumulator.remove_first(queue)
            return
        code, detail = data.error_code, data.error_message
        error = to_error(code, api="Produce", node_id=node_id, partition=queue.tp, detail=detail)
        log.debug("%s: attempt %d failed: %s", batch, batch.attempts, error)
        # A leader that is deposed after it has written the batch, but before the batch is replicated, responds
        # NOT_LEADER_OR_FOLLOWER with the batch's offset: the next leader may have the batch.
        batch.maybe_appended = batch.maybe_appended or data.error_code in IN_DOUBT or data.base_offset >= 0
        if action in _SEND_AGAIN:
            if action is Action.NEW_SEQUENCE:
                # The broker has lost the batches before this one or the state of the producer id, and would reject
                # these sequence numbers again: the batch gets new ones, from 0, under the next epoch.
                self._start_new_epoch(queue)
                batch.base_sequence = NO_SEQUENCE
                batch.encoded = None
            elif data.error_code == Code.INVALID_PARTITION_METADATA:
                # The batch was sent with another partition count than the leader has. A leader acknowledges such a
                # batch if an earlier attempt has written it. So the batch is not in the log, and as leaders reject the
                # count from now on, no earlier attempt that is still under way can write the batch.
                queue.take_back(batch)
                batch.maybe_appended = False
            self.retry(queue, batch, error, now)
            if action is Action.REFRESH_METADATA:
                self._find_leader(queue, data, endpoints, error)
        elif action is Action.SPLIT_BATCH and len(batch) > 1 and not batch.maybe_appended:
            try:
                self._split(queue, batch, error)
            except RecordError as undecodable:  # the codec of a section from another log is not installed here
                self.fail(queue, undecodable)
        else:
            if action is Action.NEW_PRODUCER_ID:
                self._give_up_id(queue)
            self.fail(queue, error, self._record_errors(batch, data, node_id))

    def retry(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        """Make an in-flight batch due for another attempt after a backoff."""
        batch.last_error = error
        batch.move(BatchEvent.TRY_AGAIN)
        queue.retry.failed(now)

    def fail(
        self, queue: PartitionQueue, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None
    ) -> None:
        """Fail a queue's first batch. If it has sequence numbers, the next batch begins a new epoch (KIP-360)."""
        batch = queue.batches[0]
        if batch.base_sequence != NO_SEQUENCE:
            self._start_new_epoch(queue)
        batch.fail(error, record_errors)
        self._accumulator.remove_first(queue)

    def fail_unsent(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Fail all batches of a queue, unless the first one is in flight."""
        while queue.batches and not queue.in_flight:
            self.fail(queue, error)

    def fail_all(self, error: KafkaError) -> None:
        """Fail all records, in flight or not, because the producer closes."""
        for queue in list(self._accumulator.active):
            while queue.batches:
                self.fail(queue, error)

    def _record_errors(
        self, batch: ProducerBatch, data: PartitionProduceResponse, node_id: int
    ) -> dict[int, KafkaError]:
        """Return an error for each record if the response lists invalid records (KIP-467), else an empty dict."""
        invalid = {one.batch_index: one.batch_index_error_message for one in data.record_errors}
        errors: dict[int, KafkaError] = {}
        for index in range(len(batch) if invalid else 0):
            detail = invalid.get(index) or data.error_message
            if index not in invalid:
                detail = "another record of the same batch is invalid"
            errors[index] = to_error(data.error_code, api="Produce", node_id=node_id, partition=batch.tp, detail=detail)
        return errors

    def _start_new_epoch(self, queue: PartitionQueue) -> None:
        """Begin a partition's next epoch at sequence 0, since the broker's last sequence number is not known.

        From the first batch of the new epoch on, the broker rejects batches of the old one. After the highest epoch,
        the partition gets another producer id instead.
        """
        if queue.epoch < EPOCH_MAX:
            queue.epoch += 1
        else:
            self._give_up_id(queue)
        queue.next_sequence = 0

    def _give_up_id(self, queue: PartitionQueue) -> None:
        """Drop the partition's producer id. If no newer one was requested since, the sender requests one."""
        if self.producer_id == queue.producer_id:
            self.producer_id = NO_ID
        queue.producer_id = NO_ID

    def _split(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """Move the second half of a batch into a new batch behind it.

        Both halves together get the sequence numbers of the whole batch: the broker has rejected every attempt to write
        it, and so expects them.
        """
        records = len(batch)
        half = (records + 1) // 2
        first, last = batch.records[:half], batch.records[half:]
        log.info("%s is too large for the broker: splitting it into two batches", batch)
        batch.last_error = error
        batch.move(BatchEvent.TRY_AGAIN)
        second = ProducerBatch(batch.tp, batch.deadline, batch.deadline_extended)
        second.is_pinned, second.partition_count = batch.is_pinned, batch.partition_count
        second.move(BatchEvent.SEAL)
        second.records = last
        # An estimate. ``batch.size`` shrinks by the same amount, as the sum is counted against ``buffer_memory``.
        second.size = batch.size * (records - half) // records
        second.split_tail, second.last_error = batch.split_tail, error
        batches = deque([batch, second, *islice(queue.batches, 1, None)])
        # The next five statements put both halves in place of the batch, and contain no call: Python handles Ctrl-C
        # only at calls, and if only some of them ran, records would be written twice or never.
        queue.next_sequence = batch.base_sequence
        batch.base_sequence, batch.encoded = NO_SEQUENCE, None
        batch.records, batch.split_tail = first, second
        batch.size -= second.size
        queue.batches = batches

    def _find_leader(
        self, queue: PartitionQueue, data: PartitionProduceResponse, endpoints: Mapping[int, Node], error: KafkaError
    ) -> None:
        hint = data.current_leader
        node = endpoints.get(hint.leader_id)
        is_news = self._metadata.hint_leader(queue.tp, node, hint.leader_id, hint.leader_epoch)
        if is_news and queue.retry.attempts <= 1:
            # KIP-951: send the batch to the new leader at once, but only after its first failure. Otherwise two brokers
            # that name each other as the leader would cause a busy loop.
            queue.retry.pause.clear()
        self._metadata.request_update(str(error))
