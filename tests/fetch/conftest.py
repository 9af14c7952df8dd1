"""Fixtures of the fetch tests: all managers without connections, a manual clock, and encoded responses."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaError
from thinconsumer.fetch import chunks, planner
from thinconsumer.fetch.answers import Answers
from thinconsumer.fetch.buffer import Buffer
from thinconsumer.fetch.collector import Collector, PollResult
from thinconsumer.fetch.leader_queries import LeaderQuery, ListedOffset, OffsetLookups
from thinconsumer.fetch.planner import Planner
from thinconsumer.fetch.resets import Resets
from thinconsumer.fetch.validation import Validation
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Answer, Request
from thinconsumer.positions.partitions import Partition, Partitions
from thinconsumer.positions.states import PositionEvent
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import TopicPartition
from thinconsumer.wire import ZERO_UUID, Message
from thinconsumer.wire.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from thinconsumer.wire.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

#: An upper bound of a response's size without records.
OVERHEAD = 200


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def batch(base: int, count: int = 1, *, epoch: int = 5, size: int = 1, **more: Any) -> bytes:
    """Return ``count`` records from offset ``base`` on; their values begin with their offset."""
    records = [NewRecord(str(base + n).encode().ljust(size, b".")) for n in range(count)]
    return build_batch(records, base_offset=base, leader_epoch=epoch, **more)


def corrupted(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def frame(message: Message, version: int) -> tuple[Any, int]:
    data = message.encode(version)
    return type(message).decode(memoryview(data), version), len(data)


class World:
    """All managers of fetching, with a manual clock and brokers that tests play."""

    def __init__(self, deserialize: Any = None, **options: Any) -> None:
        self.config = config = ConsumerConfig.from_options(**options)
        self.random = random.Random(7)
        self.now = 1000.0
        self.wall_time = 1_700_000_000.0
        self.agenda = Agenda()
        self.partitions = Partitions(self.agenda)
        self._metadata_agenda = Agenda()
        self.metadata = Metadata(config, self.random, self._metadata_agenda)
        self.buffer = Buffer()
        self.lookups = OffsetLookups(config, self.metadata, self.random, self.agenda)
        self.resets = Resets(config, self.partitions, self.metadata, self.lookups, lambda: self.wall_time)
        self.validation = Validation(config, self.partitions, self.metadata, self.random, self.agenda)
        self.planner = Planner(config, self.partitions, self.metadata, self.buffer, self.random, self.agenda)
        self.answers = Answers(config, self.partitions, self.metadata, self.buffer, self.planner, self.random)
        self.collector = Collector(config, self.partitions, self.buffer, deserialize)
        self._gather, self.collector.gather = self.collector.gather, self.gather

    def wake_at(self) -> float:
        """Return when a step is due."""
        return max(self.now, self.agenda.next())

    def refresh_at(self) -> float:
        """Return when metadata is refreshed."""
        return max(self.now, self._metadata_agenda.next())

    def take_due(self) -> None:
        """Take what is due from the agenda, as the engine does before a step."""
        for key in self.agenda.take(self.now):
            if isinstance(key, Partition):
                key.report_change()

    def gather(self, *args: Any, **more: Any) -> PollResult:
        """Gather records as a poll does."""
        poll_result = self._gather(*args, **more)
        if not poll_result.moves and self.buffer.queues:
            self.planner.make_room()
        return poll_result

    # -- the cluster

    def cluster(
        self,
        leaders: dict[TopicPartition, tuple[int, int]],
        *,
        nodes: tuple[int, ...] = (1, 2, 3),
        ids: dict[str, bytes] | None = None,
        errors: dict[str, int] | None = None,
        version: int = 12,
    ) -> None:
        """Update metadata to (leader, epoch) of these partitions. Topic ids are made of the name, unless given."""
        topics: dict[str, MetadataResponseTopic] = {}
        for where, (leader, epoch) in leaders.items():
            topic_id = (ids or {}).get(where.topic, where.topic.encode().ljust(16, b"_"))
            topic = topics.setdefault(where.topic, MetadataResponseTopic(name=where.topic, topic_id=topic_id))
            topic.partitions.append(
                MetadataResponsePartition(partition_index=where.partition, leader_id=leader, leader_epoch=epoch)
            )
        for name, code in (errors or {}).items():
            topics[name] = MetadataResponseTopic(name=name, error_code=code)
        brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092) for n in nodes]
        response = MetadataResponse(brokers=brokers, topics=list(topics.values()))
        self.metadata.want({where.topic for where in leaders} | set(errors or {}))
        due = [r for r in self.metadata.step(self.now) if r.context is None]
        made_up = Request("metadata", MetadataRequest, ANY_NODE, lambda v: MetadataRequest(), self.now + 30)
        request = due[0] if due else made_up
        self.metadata.handle(Answer(request, 1, version, frame(response, version)[0]), self.now)

    def assign(self, offsets: dict[TopicPartition, int], *, epoch: int = -1) -> list[Partition]:
        self.partitions.assign(offsets)
        for partition in self.partitions:
            partition.place(PositionEvent.SEEK, offsets[partition.tp], epoch)
        self.validation.step(self.now)
        return list(self.partitions)

    def simple(self, *positions: int, leader: int = 1, epoch: int = 5, **more: Any) -> list[Partition]:
        self.cluster({tp(n): (leader, epoch) for n in range(len(positions))}, **more)
        return self.assign({tp(n): position for n, position in enumerate(positions)}, epoch=epoch)

    # -- fetching

    def fetches(self, version: int = 17) -> dict[int, Sent]:
        """Return the due Fetch of each node, and put second ones into ``seconds``."""
        self.take_due()
        sent = [Sent(self, request, version) for request in self.planner.step(self.now)]
        self.seconds = {one.node_id: one for one in sent if one.request.target.channel == "fetch-2"}
        return {one.node_id: one for one in sent if one.request.target.channel != "fetch-2"}

    def second(self, version: int = 17) -> Sent:
        assert self.fetches(version) == {}
        [sent] = self.seconds.values()
        return sent

    def fetch(self, version: int = 17) -> Sent:
        [sent] = self.fetches(version).values()
        return sent

    def receive(self, data: dict[TopicPartition, Any], version: int = 17, **more: Any) -> Answer:
        """Answer the one due Fetch with ``data``: batches as bytes, or fields of ``PartitionData``."""
        return self.fetch(version).answer(data, **more)

    # -- the other requests

    def look_ups(self, version: int = 9) -> list[Sent]:
        self.take_due()
        self.resets.step(self.now)
        sent = [Sent(self, request, version) for request in self.lookups.step(self.now)]
        self.agenda.touched.clear()  # in another round of the step, nothing is left to do
        return sent

    def validations(self, version: int = 4) -> list[Sent]:
        self.take_due()
        sent = [Sent(self, request, version) for request in self.validation.step(self.now)]
        self.agenda.touched.clear()
        return sent

    def reset_all(self, ends: dict[TopicPartition, tuple[int, int]]) -> None:
        """Answer all lookups from these logs' (start, end) until none is left."""
        for _ in range(10):
            for sent in self.look_ups():
                sent.offsets({(w, t): ends[w][0] if t == -2 else ends[w][1] for w, t in sent.timestamps()})


class Sent:
    def __init__(self, world: World, request: Request, version: int) -> None:
        highest = request.api.VERSIONS[1] if request.max_version is None else request.max_version()
        self.world = world
        self.request = request
        self.version = min(version, highest)
        self.node_id = request.target.node_id
        assert self.version >= request.min_version
        self.message: Any = frame(request.build(self.version), self.version)[0]

    def fail(self, error: Exception) -> None:
        self._hand_in(Answer(self.request, self.node_id, self.version, error=error))

    def _hand_in(self, answer: Answer) -> Answer:
        world = self.world
        handlers = {
            planner.ASKER: world.answers.handle,
            world.lookups.asker: world.lookups.handle,
            world.validation.asker: world.validation.handle,
        }
        handlers[self.request.asker](answer, world.now)
        return answer

    def _reply(self, response: Message) -> Answer:
        decoded, size = frame(response, self.version)
        return self._hand_in(Answer(self.request, self.node_id, self.version, decoded, size=size))

    # -- Fetch

    def asked(self) -> dict[TopicPartition, Any]:
        assert isinstance(self.message, FetchRequest)
        return {TopicPartition(self._name(t), p.partition): p for t in self.message.topics for p in t.partitions}

    def forgotten(self) -> set[TopicPartition]:
        return {TopicPartition(self._name(t), p) for t in self.message.forgotten_topics_data for p in t.partitions}

    def _name(self, topic: Any) -> str:
        return topic.topic or topic.topic_id.rstrip(b"_").decode()

    def answer(
        self,
        data: dict[TopicPartition, Any] | None = None,
        *,
        session_id: int = 77,
        error_code: int = 0,
        endpoints: dict[int, str] | None = None,
    ) -> Answer:
        topics: dict[str, FetchableTopicResponse] = {}
        for where, fields in (data or {}).items():
            fields = {"records": fields} if isinstance(fields, (bytes, bytearray)) else dict(fields)
            fields.setdefault("high_watermark", 1000)
            if "aborted" in fields:
                fields["aborted_transactions"] = [
                    AbortedTransaction(producer_id=p, first_offset=o) for p, o in fields.pop("aborted")
                ]
            if "leader" in fields:
                leader, epoch = fields.pop("leader")
                fields["current_leader"] = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            topic_id = self.world.metadata.topic_id(where.topic)
            if topic_id == ZERO_UUID:
                topic_id = where.topic.encode().ljust(16, b"_")
            topic = topics.setdefault(where.topic, FetchableTopicResponse(topic=where.topic, topic_id=topic_id))
            topic.partitions.append(PartitionData(partition_index=where.partition, **fields))
        response = FetchResponse(
            error_code=error_code, session_id=session_id if self.version >= 7 else 0, responses=list(topics.values())
        )
        if endpoints:
            response.node_endpoints = [NodeEndpoint(node_id=n, host=h, port=9092) for n, h in endpoints.items()]
        return self._reply(response)

    # -- ListOffsets

    def timestamps(self) -> list[tuple[TopicPartition, int]]:
        assert isinstance(self.message, ListOffsetsRequest)
        return [
            (TopicPartition(t.name, p.partition_index), p.timestamp) for t in self.message.topics for p in t.partitions
        ]

    def offsets(self, found: dict[Any, Any], *, epoch: int = 5) -> Answer:
        """Answer a lookup with offsets, or with fields such as ``{"error_code": ...}``."""
        response = ListOffsetsResponse()
        for where, timestamp in self.timestamps():
            fields = found.get((where, timestamp), found.get(where))
            if fields is None:
                continue
            if not isinstance(fields, dict):
                fields = {"offset": fields, "timestamp": 123, "leader_epoch": epoch}
            part = ListOffsetsPartitionResponse(partition_index=where.partition, **fields)
            response.topics.append(ListOffsetsTopicResponse(name=where.topic, partitions=[part]))
        return self._reply(response)

    # -- OffsetForLeaderEpoch

    def epochs(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return (current leader epoch, requested epoch) by partition."""
        assert isinstance(self.message, OffsetForLeaderEpochRequest)
        return {
            TopicPartition(t.topic, p.partition): (p.current_leader_epoch, p.leader_epoch)
            for t in self.message.topics
            for p in t.partitions
        }

    def epoch_ends(self, found: dict[TopicPartition, Any]) -> Answer:
        """Answer with (epoch, end offset), or an error code."""
        response = OffsetForLeaderEpochResponse()
        for where, fields in found.items():
            code, epoch, end = (fields, -1, -1) if isinstance(fields, int) else (0, *fields)
            part = EpochEndOffset(partition=where.partition, error_code=code, leader_epoch=epoch, end_offset=end)
            response.topics.append(OffsetForLeaderTopicResult(topic=where.topic, partitions=[part]))
        return self._reply(response)


class Asker:
    """The caller of one lookup, with its results and errors."""

    def __init__(self, world, where, timestamp: int = -1) -> None:
        self.wanted = True
        self.found: list[tuple[int, int, int]] = []
        self.failed: list[tuple[KafkaError, bool]] = []
        world.lookups.add(LeaderQuery(where, timestamp, lambda: self.wanted, self.succeed, self.fail))

    def succeed(self, found: ListedOffset, now: float) -> None:
        self.found.append((found.offset, found.timestamp, found.leader_epoch))

    def fail(self, error: KafkaError, final: bool) -> None:
        self.failed.append((error, final))
        if final:
            self.wanted = False


@pytest.fixture
def asker():
    return Asker


@pytest.fixture
def one(world, kit):
    """Return the caller of a lookup of the log end of t-0 on node 1."""
    world.cluster({kit.tp(0): (1, 5)})
    return Asker(world, kit.tp(0))


@pytest.fixture
def make():
    """Return the constructor of worlds; options as keywords."""
    return World


@pytest.fixture
def world():
    return World()


@pytest.fixture(scope="session")
def kit():
    """Return small builders: ``tp``, ``batch``, ``corrupted``, ``OVERHEAD``."""
    return SimpleNamespace(tp=tp, batch=batch, corrupted=corrupted, OVERHEAD=OVERHEAD)


@pytest.fixture(params=["alone", "together"])
def way(request, monkeypatch):
    """Decode batches one at a time, as without numpy; then together, also the fewest."""
    if request.param == "together":
        pytest.importorskip("numpy")
    monkeypatch.setattr(chunks, "TOGETHER_MIN", 1 if request.param == "together" else 10**9)
    return request.param
