"""Sends batches to partition leaders, one Produce request per broker and one batch per partition at a time, and fails
batches after ``delivery_timeout_ms``; :mod:`.completion` applies the responses.

A request gets its batches when it is written, so that they contain all records that ``send`` has taken until then.
After Java's ``Sender``; KIP-91, KIP-98, KIP-516.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import BrokerResponseError, KafkaError, KafkaTimeoutError
from ..network.metadata import Metadata
from ..network.request import ANY_NODE, Answer, Request, Target
from ..records.builder import build_batch
from ..records.compression import Codec
from ..records.section import RecordSection
from ..support.agenda import Agenda
from ..support.timers import NEVER, Backoff, Random, Retry
from ..types import Node, TopicPartition
from ..wire import Message
from ..wire.init_producer_id import InitProducerIdRequest
from ..wire.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from .accumulator import ASKER, Accumulator
from .batch import NO_ID, UNKNOWN, BatchEvent, BatchState, PartitionQueue, ProducerBatch
from .completion import BatchCompleter
from .settings import ProducerSettings

#: Produce requests have their own connection to each broker. A broker answers the requests of a connection in order,
#: and a Produce request only when all in-sync replicas have the batches. On a shared connection, the response to a
#: metadata request for a new leader would wait for the Produce response.
CHANNEL = "produce"
#: The metadata of a topic are refreshed until this many seconds after its last record (Java: ``metadata.max.idle.ms``).
TOPIC_IDLE = 300.0
#: Seconds that a batch with an expired deadline still gets, once, if the application called late (see LATE_CALL): the
#: response may have arrived between the calls, but is not read yet.
DEADLINE_EXTENSION = 1.0
#: An application's call is late if it begins more than this many seconds after the time that ``wake_at()`` returned.
LATE_CALL = 0.5
#: The first version of Produce with record batches (magic 2).
LOWEST_VERSION = 3
#: The first version of Produce that accepts zstd (KIP-110).
LOWEST_WITH_ZSTD = 7
#: The first version of Produce that has topic ids in place of topic names.
BY_ID = 13
#: The transaction timeout of a producer without transactions, as Java sends it.
NO_TRANSACTION_TIMEOUT = 2**31 - 1

QueuedBatch = tuple[PartitionQueue, ProducerBatch]


@dataclass(slots=True, eq=False)
class ProduceAttempt:
    """The batches in one Produce request; there are none until the request is written."""

    node_id: int
    batches: dict[TopicPartition, QueuedBatch] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)  #: Topic names by the ids in the request.

    def pop(self, tp: TopicPartition) -> QueuedBatch | None:
        """Remove a partition; return its queue and batch if the batch is still in flight."""
        found = self.batches.pop(tp, None)
        return found if found is not None and found[1].state is BatchState.IN_FLIGHT else None


class NothingToSend(KafkaError):
    """No batch is left for a request that is to be written: all have failed, for example, or have another leader."""


class Sender:
    asker = ASKER

    def __init__(
        self, settings: ProducerSettings, metadata: Metadata, accumulator: Accumulator, random: Random, agenda: Agenda
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._accumulator = accumulator
        self._random = random
        self._agenda = agenda
        self._expiry = agenda.alarm(self.asker)  #: The earliest deadline of the queues' first batches.
        self.completer = BatchCompleter(metadata, accumulator, self._new_retry())
        self._node_retries: dict[int, Retry] = defaultdict(self._new_retry)
        self._metadata_seen = -1
        self._stepped_at = -NEVER
        self._called_late = False
        self.obstacle: Callable[[], str] = str  #: Returns why brokers do not respond; empty without a reason.

    def note_call(self, now: float, due: float) -> None:
        """Record whether a call of the application is late: over ``LATE_CALL`` after both ``due`` and the last step.

        ``due`` is the time that ``wake_at()`` returned. Must be called before the application's call does any I/O.
        """
        self._called_late = self._called_late or now > max(self._stepped_at, due) + LATE_CALL

    def step(self, now: float) -> list[Request]:
        """Return the requests due now; fail the expired batches."""
        self._follow_metadata(now)
        self._expire(now)
        self._accumulator.move_records()
        self._stepped_at = now
        self._called_late = False
        active = self._accumulator.active
        self._expiry.set(min((queue.batches[0].deadline for queue in active if queue.batches), default=NEVER))
        ready = dict.fromkeys(self._ready_leader(queue) for queue in active)
        nodes = [node for node in ready if node is not None and self._node_retries[node].may_send(now)]
        return self._id_request(now) + [self._request(node, now) for node in nodes]

    def _id_request(self, now: float) -> list[Request]:
        retry = self.completer.id_retry
        if not self._accumulator or self.completer.producer_id != NO_ID or not retry.may_send(now):
            return []
        retry.sent()

        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT)
        deadline = now + self._settings.request_timeout_ms / 1000
        return [Request(self.asker, InitProducerIdRequest, ANY_NODE, lambda version: message, deadline)]

    def handle(self, answer: Answer, now: float) -> None:
        """Apply a response, or the failure of a request."""
        attempt: ProduceAttempt | None = answer.request.context
        if attempt is None:
            self.completer.take_id(answer, now)
            return
        response: ProduceResponse | None = answer.response
        if response is None:
            self._handle_failure(attempt, answer.error or KafkaError("no answer"), now)
            return
        self._node_retries[attempt.node_id].succeeded()
        endpoints = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints}
        for topic in response.responses:
            name = attempt.names.get(topic.topic_id, "") if answer.version >= BY_ID else topic.name
            for data in topic.partition_responses:
                found = attempt.pop(TopicPartition(name, data.index))
                if found is not None:
                    self.completer.complete(*found, data, answer.node_id, endpoints, now)
        self._retry_rest(attempt, KafkaError("the Produce response lacks this partition"), now)

    def restart(self, now: float) -> None:
        """Make every batch in flight due again, since all connections were closed and no responses will arrive.

        By the sequence numbers, which are unchanged, the broker recognizes a batch that it has written already.
        """
        self._node_retries.clear()
        self.completer.id_retry.in_flight = False
        self._metadata_seen = -1
        self._accumulator.repair()
        for queue in self._accumulator.active:
            if queue.in_flight:
                queue.batches[0].maybe_appended = True
                queue.batches[0].move(BatchEvent.TRY_AGAIN)

    def _follow_metadata(self, now: float) -> None:
        """Request metadata of the topics in use; apply new metadata, and fail records of topics with a final error."""
        metadata, accumulator = self._metadata, self._accumulator
        topics = accumulator.topics_in_use(now, TOPIC_IDLE)
        metadata.want(topics)
        if metadata.version == self._metadata_seen:
            return
        self._metadata_seen = metadata.version
        accumulator.update(metadata)
        for name in topics:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is not None and not topic.error.retriable:
                for queue in [queue for queue in accumulator.active if queue.tp.topic == name]:
                    self.completer.fail_unsent(queue, topic.error)

    def _ready_leader(self, queue: PartitionQueue) -> int | None:
        """Return the leader to which the queue's first batch can be sent now; None if it cannot be sent."""
        if not self._accumulator.may_send(queue):
            return None
        info = self._metadata.leader(queue.tp)
        if info is None:
            self._metadata.request_update(f"no leader known for {queue.tp.topic}-{queue.tp.partition}")
            return None
        is_due = queue.batches and not queue.in_flight and queue.retry.may_send(self._stepped_at)
        has_id = queue.producer_id != NO_ID or self.completer.producer_id != NO_ID
        return info.leader if is_due and has_id else None

    def _new_retry(self) -> Retry:
        return Retry(Backoff.from_settings(self._settings), self._random, self._agenda)

    def _request(self, node_id: int, now: float) -> Request:
        attempt = ProduceAttempt(node_id)
        self._node_retries[node_id].sent()
        return Request(
            self.asker,
            ProduceRequest,
            Target(node_id, CHANNEL),
            lambda version: self._build(attempt),
            now + self._settings.request_timeout_ms / 1000,
            attempt,
            LOWEST_WITH_ZSTD if self._has_zstd() else LOWEST_VERSION,
            self._highest_version,
        )

    def _has_zstd(self) -> bool:
        firsts = (queue.batches[0].records for queue in self._accumulator.active if queue.batches)
        return self._settings.codec is Codec.ZSTD or any(
            isinstance(records, RecordSection) and records.codec == Codec.ZSTD for records in firsts
        )

    def _highest_version(self) -> int:
        names = {queue.tp.topic for queue in self._accumulator.active if queue.tp.partition != UNKNOWN}
        return BY_ID if self._metadata.has_topic_ids(names) else BY_ID - 1

    def _build(self, attempt: ProduceAttempt) -> Message:
        """Return a request with the first batches of partitions that are ready for this node: as many as it may hold.

        Raises NothingToSend if no partition is ready.
        """
        room = self._settings.max_request_size
        topics: dict[tuple[str, int], TopicProduceData] = {}
        for queue in list(self._accumulator.active):
            if self._ready_leader(queue) != attempt.node_id:
                continue
            batch = queue.batches[0]
            if batch.size > room and attempt.batches:
                # The batch does not fit any more. The queues before it move to the end, so the next request begins with
                # this batch. If smaller batches behind it were sent first each time, this batch would never be sent.
                break
            room -= batch.size
            data = self._encode(queue, batch)
            name, count = queue.tp.topic, batch.partition_count
            topic = topics.setdefault(
                (name, count),
                TopicProduceData(name=name, topic_id=self._metadata.topic_id(name), undeleted_partition_count=count),
            )
            topic.partition_data.append(PartitionProduceData(index=queue.tp.partition, records=data))
            attempt.names[topic.topic_id] = name
            attempt.batches[queue.tp] = queue, batch
            batch.attempts += 1
            batch.move(BatchEvent.SENT)
            self._accumulator.move_to_end(queue)
        if not topics:
            raise NothingToSend(f"nothing is left to send to node {attempt.node_id}")
        return ProduceRequest(acks=-1, timeout_ms=self._settings.request_timeout_ms, topic_data=list(topics.values()))

    def _encode(self, queue: PartitionQueue, batch: ProducerBatch) -> bytes:
        """Return the encoded batch: the same bytes in each attempt, unless records or sequence numbers have changed."""
        if batch.state is BatchState.OPEN:
            batch.move(BatchEvent.SEAL)  # no record may be added after encoding: it would not be sent
        if queue.producer_id == NO_ID:
            queue.adopt(self.completer.producer_id, self.completer.epoch)
        queue.number(batch)
        if batch.encoded is None:
            records, own = batch.records, (queue.producer_id, queue.epoch, batch.base_sequence)
            if isinstance(records, RecordSection):
                batch.encoded = records.encode(*own)
            else:
                batch.encoded = build_batch(
                    records, codec=self._settings.codec, producer_id=own[0], producer_epoch=own[1], base_sequence=own[2]
                )
        return batch.encoded

    def _handle_failure(self, attempt: ProduceAttempt, error: KafkaError, now: float) -> None:
        """Handle a request without a response: its connection was lost, it timed out, or it was never written."""
        node_retry = self._node_retries[attempt.node_id]
        if isinstance(error, NothingToSend):
            node_retry.succeeded()
            return
        node_retry.failed(now)
        self._metadata.request_update(f"Produce to node {attempt.node_id} failed: {error}")
        self._retry_rest(attempt, error, now)
        # After an unsupported version or a rejected login, every further attempt would fail, too.
        final = isinstance(error, BrokerResponseError) and not error.retriable
        for queue in list(self._accumulator.active):
            info = self._metadata.leader(queue.tp)
            if info is None or info.leader != attempt.node_id or not queue.batches or queue.in_flight:
                continue
            queue.batches[0].last_error = error
            if final:
                self.completer.fail_unsent(queue, error)

    def _retry_rest(self, attempt: ProduceAttempt, error: KafkaError, now: float) -> None:
        for found in map(attempt.pop, list(attempt.batches)):
            if found is not None:
                found[1].maybe_appended = True
                self.completer.retry(*found, error, now)

    def _expire(self, now: float) -> None:
        for queue in list(self._accumulator.active):
            while queue.batches and queue.batches[0].deadline <= now:
                batch = queue.batches[0]
                if self._called_late and not batch.deadline_extended:
                    batch.deadline_extended = True
                    batch.deadline = now + DEADLINE_EXTENSION
                    break
                self.completer.fail(queue, self._timeout_error(queue, batch))

    def _timeout_error(self, queue: PartitionQueue, batch: ProducerBatch) -> KafkaTimeoutError:
        tp, topic = queue.tp, self._metadata.topics.get(queue.tp.topic)
        if tp.partition == UNKNOWN:
            cause = self.obstacle() or str((topic and topic.error) or "no metadata response yet")
            return KafkaTimeoutError(
                f"{tp.topic}: not sent within delivery_timeout_ms={self._settings.delivery_timeout_ms}, since the "
                f"topic's partitions are not known; last: {cause}"
            )
        cause = str(batch.last_error or self.completer.id_error or self.obstacle())
        if not cause and self._metadata.leader(tp) is None:
            cause = f"no leader known; the topic has {len(topic.partitions) if topic else 0} partitions"
        sent = f"sent {batch.attempts} times" if batch.attempts else "never sent"
        return KafkaTimeoutError(
            f"{tp.topic}-{tp.partition}: not acknowledged within delivery_timeout_ms="
            f"{self._settings.delivery_timeout_ms}, {sent}; last: {cause or 'no answer yet'}"
        )
