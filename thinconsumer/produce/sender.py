"""Sends batches to leaders and takes their answers: one request per broker at a time, one batch per partition.

Owns when a batch is sent, again or for the first time, and when its time is over; what becomes of it is said in
:mod:`.outcomes`. A request is filled when it is written: whatever has come until then, goes. After Java's ``Sender``;
KIP-91, KIP-98, KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..connection.request import Answer, Request, Target
from ..errors import BrokerResponseError, KafkaError, KafkaTimeoutError
from ..metadata import Metadata
from ..records.builder import build_batch
from ..records.compression import Codec
from ..timers import NEVER, Backoff, Random, Retry
from ..types import Node, TopicPartition
from ..wire import ZERO_UUID, Message
from ..wire.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from .accumulator import Accumulator, PartitionQueue, TopicBuffer
from .batch import BatchEvent, BatchState, ProducerBatch
from .ids import ProducerIds
from .outcomes import Outcomes
from .sequences import NO_ID

log = logging.getLogger(__name__)

#: The connection that Produce goes over. An answer may take until all replicas have the batch, and brokers answer each
#: connection in order: on a shared one the question for the new leader would wait behind it.
CHANNEL = "produce"
#: Metadata of a topic is kept fresh for this long after its last record, in seconds; Java's metadata.max.idle.ms.
TOPIC_IDLE = 300.0
#: What a batch still gets, once, if nobody looked when its time was over, in seconds: its answer may have been waiting.
REPRIEVE = 1.0
#: A caller that comes this much later than it was asked to, was away; seconds.
AWAY = 0.5
#: The first version with batches of format 2.
LOWEST_VERSION = 3
#: The first one that carries zstd (KIP-110).
LOWEST_WITH_ZSTD = 7
#: The first version that names topics by id, and by id only.
BY_ID = 13


class SenderSettings(Protocol):
    """The options this room reads."""

    @property
    def delivery_timeout_ms(self) -> int: ...
    @property
    def max_request_size(self) -> int: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def retry_backoff(self) -> Backoff: ...
    @property
    def codec(self) -> Codec: ...


@dataclass(slots=True, eq=False)
class Shipment:
    """One Produce request: empty until it is written."""

    node_id: int
    batches: dict[TopicPartition, tuple[PartitionQueue, ProducerBatch]] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)  #: Of topics by id, as they were then.

    def take(self, tp: TopicPartition) -> tuple[PartitionQueue, ProducerBatch] | None:
        """Return a batch that is still on its way, and its queue; each once."""
        found = self.batches.pop(tp, None)
        return found if found is not None and found[1].state is BatchState.IN_FLIGHT else None

    def take_rest(self) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Return all batches that are still on their way."""
        found = [self.take(tp) for tp in list(self.batches)]
        return [one for one in found if one is not None]


class NothingToSend(KafkaError):
    """By the time a request could be written, nothing was left for it."""


class Sender:
    """The manager that writes."""

    asker = "produce"

    def __init__(
        self, settings: SenderSettings, metadata: Metadata, accumulator: Accumulator, ids: ProducerIds, random: Random
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._accumulator = accumulator
        self._ids = ids
        self._random = random
        self._backoff = settings.retry_backoff
        self.outcomes = Outcomes(metadata, accumulator, ids, self._backoff, random)
        self._nodes: dict[int, Retry] = {}
        self._wanted: set[str] = set()
        self._metadata_seen = -1
        self._stepped_at = -NEVER
        self._away = False
        #: What stands in the way of everything, in words; for the message of a timeout.
        self.obstacle: Callable[[], str] = str

    # -- the manager

    def attend(self, now: float, due: float) -> None:
        """Note, before I/O is looked at, whether the caller comes later than it was asked to, which was ``due``."""
        self._away = self._away or now > max(self._stepped_at, due) + AWAY

    def step(self, now: float) -> list[Request]:
        """Return the requests due now; fail what has run out of time."""
        self._follow(now)
        error, self._ids.final_error = self._ids.final_error, None
        if error is not None:
            self.outcomes.fail_without_id(error)
        self._expire(now)
        self._ids.wanted = bool(self._accumulator)
        self._stepped_at = now
        self._away = False
        ready = dict.fromkeys(self._ready_at(queue, now) for queue in self._accumulator.active)
        return [self._request(node, now) for node in ready if node is not None and self._node(node).may_send(now)]

    def wake_at(self, now: float) -> float:
        """Return when a batch can be sent, a backoff ends, or a batch runs out of time."""
        due = NEVER
        for buffer, deadline in self._accumulator.waiting():
            due = min(due, deadline if buffer.name in self._wanted else now)
        for queue in self._accumulator.active:
            head = queue.head
            if head is not None:
                due = min(due, head.deadline, self._sendable_at(queue))
        return max(now, due)

    def handle(self, answer: Answer, now: float) -> None:
        """Take the answer of a Produce request."""
        shipment: Shipment = answer.request.context
        response: ProduceResponse | None = answer.response
        if response is None:
            self._take_failure(shipment, answer.error or KafkaError("no answer"), now)
            return
        self._node(shipment.node_id).succeeded()
        endpoints = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints}
        for topic in response.responses:
            name = shipment.names.get(topic.topic_id, "") if answer.version >= BY_ID else topic.name
            for data in topic.partition_responses:
                found = shipment.take(TopicPartition(name, data.index))
                if found is not None:
                    self.outcomes.take(*found, data, answer.node_id, endpoints, now)
        for queue, batch in shipment.take_rest():
            batch.in_doubt = True
            self.outcomes.again(queue, batch, KafkaError("the broker left this partition out of its answer"), now)

    def restart(self, now: float) -> None:
        """Send again whatever is on its way. Its number tells the broker if that is a repetition."""
        self._nodes.clear()
        self._wanted = set()
        self._metadata_seen = -1
        self._accumulator.recount()
        for queue in self._accumulator.active:
            if queue.in_flight:
                queue.batches[0].in_doubt = True
                queue.batches[0].move(BatchEvent.TRY_AGAIN)

    # -- inside: what is ready

    def _follow(self, now: float) -> None:
        """Take news of the cluster, and tell it which topics matter."""
        metadata, accumulator = self._metadata, self._accumulator
        wanted = accumulator.wanted(now, TOPIC_IDLE)
        if wanted == self._wanted and metadata.version == self._metadata_seen:
            return
        self._wanted, self._metadata_seen = wanted, metadata.version
        metadata.want(wanted)
        accumulator.update(metadata)
        for name in wanted:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is not None and not topic.error.retriable:
                self.outcomes.fail_topic(name, topic.error)

    def _ready_at(self, queue: PartitionQueue, now: float) -> int | None:
        """Return the leader that this queue's head can be sent to now."""
        info = self._metadata.leader(queue.tp)
        if info is None:
            self._miss_leader(queue, now)
            return None
        if queue.leaderless:
            queue.leaderless = False
            queue.not_before = -NEVER
        ready = queue.batches and not queue.in_flight and now >= queue.not_before and self._has_id(queue)
        return info.leader if ready else None

    def _sendable_at(self, queue: PartitionQueue) -> float:
        """Return when the queue's head can be sent, or its leader looked for, if nothing else happens."""
        info = self._metadata.leader(queue.tp)
        if info is None:
            return queue.not_before
        if queue.in_flight or not self._has_id(queue):
            return NEVER
        return max(queue.not_before, self._node(info.leader).wake_at())

    def _has_id(self, queue: PartitionQueue) -> bool:
        return queue.sequences.producer_id != NO_ID or self._ids.producer_id != NO_ID

    def _miss_leader(self, queue: PartitionQueue, now: float) -> None:
        """Have the leader looked for, ever more slowly while nothing new is known."""
        if now >= queue.not_before:
            queue.leaderless = True
            self._metadata.request_update(f"no leader known for {queue.tp.topic}-{queue.tp.partition}")
            self.outcomes.pause(queue, now)

    def _node(self, node_id: int) -> Retry:
        retry = self._nodes.get(node_id)
        if retry is None:
            retry = self._nodes[node_id] = Retry(self._backoff, self._random)
        return retry

    # -- inside: requests

    def _request(self, node_id: int, now: float) -> Request:
        shipment = Shipment(node_id)
        self._node(node_id).sent()
        return Request(
            self.asker,
            ProduceRequest,
            Target(node_id, CHANNEL),
            lambda version: self._fill(shipment),
            now + self._settings.request_timeout_ms / 1000,
            shipment,
            LOWEST_WITH_ZSTD if self._settings.codec is Codec.ZSTD else LOWEST_VERSION,
            self._highest_version,
        )

    def _highest_version(self) -> int:
        names = {queue.tp.topic for queue in self._accumulator.active}
        by_id = all(self._metadata.topic_id(name) != ZERO_UUID for name in names)
        return BY_ID if by_id else BY_ID - 1

    def _fill(self, shipment: Shipment) -> Message:
        """Take what there is for this node, and write it."""
        room = self._settings.max_request_size
        topics: dict[str, TopicProduceData] = {}
        for queue in list(self._accumulator.active):
            if self._ready_at(queue, self._stepped_at) != shipment.node_id:
                continue
            batch = queue.batches[0]
            if batch.size > room and shipment.batches:
                break  # its turn comes first next time; smaller ones behind it could keep it waiting for ever
            room -= batch.size
            name = queue.tp.topic
            data = self._pack(queue, batch)
            topic = topics.setdefault(name, TopicProduceData(name=name, topic_id=self._metadata.topic_id(name)))
            topic.partition_data.append(PartitionProduceData(index=queue.tp.partition, records=data))
            shipment.names[topic.topic_id] = name
            shipment.batches[queue.tp] = queue, batch
            batch.attempts += 1
            batch.move(BatchEvent.SENT)
            self._accumulator.to_the_end(queue)
        if not topics:
            raise NothingToSend(f"nothing is left to send to node {shipment.node_id}")
        return ProduceRequest(acks=-1, timeout_ms=self._settings.request_timeout_ms, topic_data=list(topics.values()))

    def _pack(self, queue: PartitionQueue, batch: ProducerBatch) -> bytes:
        """Return the batch as it is written. Sent again, it is the same to the byte."""
        if batch.state is BatchState.OPEN:
            batch.move(BatchEvent.SEAL)  # before it is numbered: no record may come in after its count is known
        sequences = queue.sequences
        if sequences.producer_id == NO_ID:
            sequences.adopt(self._ids.producer_id, self._ids.epoch)
        sequences.number(batch)
        if batch.data is None:
            batch.data = build_batch(
                batch.records,
                codec=self._settings.codec,
                producer_id=sequences.producer_id,
                producer_epoch=sequences.epoch,
                base_sequence=batch.base_sequence,
            )
        return batch.data

    def _take_failure(self, shipment: Shipment, error: KafkaError, now: float) -> None:
        """The request was not answered, or not even written."""
        node = self._node(shipment.node_id)
        if isinstance(error, NothingToSend):
            node.succeeded()
            return
        node.failed(now)
        self._metadata.request_update(f"Produce to node {shipment.node_id} failed: {error}")
        for queue, batch in shipment.take_rest():
            batch.in_doubt = True
            self.outcomes.again(queue, batch, error, now)
        # A version or a login that does not fit will not fit next time: only passing errors are waited out.
        final = isinstance(error, BrokerResponseError) and not error.retriable
        for queue in list(self._accumulator.active):
            info = self._metadata.leader(queue.tp)
            if info is None or info.leader != shipment.node_id or queue.head is None or queue.in_flight:
                continue
            queue.batches[0].last_error = error
            if final:
                self.outcomes.fail_unsent(queue, error)

    # -- inside: the end of a batch's time

    def _expire(self, now: float) -> None:
        for queue in list(self._accumulator.active):
            while (head := queue.head) is not None and head.deadline <= now:
                if self._away and not head.reprieved:
                    head.reprieved = True
                    head.deadline = now + REPRIEVE
                    break
                self.outcomes.fail(queue, self._timeout_error(queue, head))
        for buffer, deadline in self._accumulator.waiting():
            if deadline <= now:
                if self._away:
                    self._accumulator.reprieve_waiting(buffer, now, now + REPRIEVE)
                self._accumulator.fail_waiting(buffer, self._unknown_topic_error(buffer), now)

    def _timeout_error(self, queue: PartitionQueue, batch: ProducerBatch) -> KafkaTimeoutError:
        tp = queue.tp
        cause = str(batch.last_error or self._ids.last_error or self.obstacle())
        if not cause and self._metadata.leader(tp) is None:
            topic = self._metadata.topics.get(tp.topic)
            cause = f"no leader known; the topic has {len(topic.partitions) if topic else 0} partitions"
        sent = f"sent {batch.attempts} times" if batch.attempts else "never sent"
        return KafkaTimeoutError(
            f"{tp.topic}-{tp.partition}: not acknowledged within {self._patience()}, {sent}; last: "
            f"{cause or 'no answer yet'}"
        )

    def _unknown_topic_error(self, buffer: TopicBuffer) -> KafkaTimeoutError:
        topic = self._metadata.topics.get(buffer.name)
        cause = self.obstacle() or str((topic and topic.error) or "no metadata came")
        return KafkaTimeoutError(
            f"{buffer.name}: not sent within {self._patience()}, since its partitions are not known; last: {cause}"
        )

    def _patience(self) -> str:
        return f"delivery_timeout_ms={self._settings.delivery_timeout_ms}"
