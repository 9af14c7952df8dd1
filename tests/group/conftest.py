"""Fixtures of the commit tests: a ``Coordinator``, a fake membership, and a manual clock."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaConnectionError, KafkaError
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_identity import CommitIdentity
from thinconsumer.group.offsets.commits import Commits
from thinconsumer.group.offsets.committed import Committed
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Answer, Request
from thinconsumer.positions.partitions import Partitions
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.calls import Call
from thinconsumer.types import OffsetAndMetadata, TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.find_coordinator import FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP = "g"


class StrawMembership:
    """A membership with a state that the test sets."""

    def __init__(self) -> None:
        self.is_member = True
        self.rebalancing = False
        self.is_request_written = True  #: In a rebalance: whether JoinGroup was written.
        self.identity = Identity(GROUP, 5, "me")
        self.owned: set[TopicPartition] | None = None  #: None: all partitions.
        self.told: list[tuple[int, Identity]] = []

    def commit_identity(self) -> CommitIdentity:
        if not self.is_member:
            return CommitIdentity(Identity(GROUP))
        return CommitIdentity(self.identity, True, self.rebalancing, self.awaits_rebalance_response)

    @property
    def awaits_rebalance_response(self) -> bool:
        return self.rebalancing and self.is_request_written

    def __contains__(self, tp: object) -> bool:
        return self.owned is None or tp in self.owned

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        self.told.append((error.code, identity))  # type: ignore[attr-defined]
        if identity == self.identity and not self.awaits_rebalance_response and error.code != 27:  # type: ignore[attr-defined]
            self.identity = identity.behind() if error.code == 22 else identity.lost()  # type: ignore[attr-defined]


class Sent:
    """A commit as the coordinator reads it."""

    def __init__(self, request: Request, version: int) -> None:
        version = min(version, request.max_version() if request.max_version is not None else version)
        built = request.build(version)
        assert isinstance(built, OffsetCommitRequest)
        self.request, self.version = request, version
        self.message = OffsetCommitRequest.decode(built.encode(version), version)
        self.stamp = (self.message.generation_id_or_member_epoch, self.message.member_id)

    def rows(self) -> list[tuple[str, bytes, Any]]:
        return [(topic.name, topic.topic_id, row) for topic in self.message.topics for row in topic.partitions]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets by partition, of topics named by name."""
        return {TopicPartition(name, row.partition_index): row.committed_offset for name, _, row in self.rows()}


class World:
    """Commits and committed offsets of one group, without connections."""

    def __init__(self, **options: Any) -> None:
        self.config = ConsumerConfig.from_options(group_id=GROUP, **options)
        self.random = random.Random(7)
        self.now = 1000.0
        self.agenda = Agenda()
        self.metadata = Metadata(self.config, self.random, self.agenda)
        self.partitions = Partitions(self.agenda)
        self.coordinator = Coordinator(self.config, GROUP, self.metadata, self.random, self.agenda)
        self.membership = StrawMembership()
        self.since_poll: float | None = None
        self.commits = Commits(
            self.config,
            self.coordinator,
            self.membership,
            self.metadata,
            self.random,
            read_identity=self.membership.commit_identity,
            seconds_since_poll=lambda now: self.since_poll,
        )
        self.commits.on_membership_error = self.membership.expelled
        self.commits.on_written = self.partitions.note_committed
        self.committed = Committed(self.config, self.coordinator, self.partitions, self.metadata, self.random)
        self.find(1)

    def due(self) -> float:
        """Return when the agenda has something."""
        return max(self.now, self.agenda.next())

    # -- the cluster

    def find(self, node_id: int, error_code: int = 0) -> None:
        self.coordinator.want("test")
        self.coordinator.restart(self.now)  # a request may be in flight
        requests = self.coordinator.step(self.now)
        while not requests:
            self.agenda.take(self.now)
            self.now = self.due() + 0.001
            requests = self.coordinator.step(self.now)
        row = FindCoordinatorResult(key=GROUP, node_id=node_id, host=f"b{node_id}", port=9092, error_code=error_code)
        response = FindCoordinatorResponse(coordinators=[row])
        self.coordinator.handle(Answer(requests[0], 9, 6, response), self.now)

    def topics(self, ids: Mapping[str, bytes]) -> None:
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=[MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(3)],
            )
            for name, topic_id in ids.items()
        ]
        brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092) for n in (1, 2, 3)]
        response = MetadataResponse(brokers=brokers, topics=topics)
        made_up = Request("metadata", MetadataRequest, ANY_NODE, lambda v: MetadataRequest(), self.now + 30)
        self.metadata.want(ids)
        due = [request for request in self.metadata.step(self.now) if request.context is None]
        self.metadata.handle(Answer(due[0] if due else made_up, 1, 12, response), self.now)

    # -- commits

    def add(self, *pairs: tuple[TopicPartition, int], seconds: float = 60.0, callback: Any = None) -> Call[None]:
        offsets = {tp: OffsetAndMetadata(offset) for tp, offset in pairs}
        return self.commits.add(offsets, self.now + seconds, callback)

    def sent(self, version: int = 9) -> list[Sent]:
        return [Sent(request, version) for request in self.commits.step(self.now)]

    def one(self, version: int = 9) -> Sent:
        """Step, which has to send one commit."""
        (sent,) = self.sent(version)
        return sent

    def later(self, version: int = 9) -> Sent:
        for _ in range(50):
            self.agenda.take(self.now)
            found = self.sent(version)
            if found:
                return found[0]
            if self.coordinator.node_id is None:
                self.find(1)
            self.now = max(self.due(), self.now + 0.001)
            self.coordinator.step(self.now)
        raise AssertionError(f"no commit was sent: {self.commits}")

    def answer(
        self, sent: Sent, codes: int | Mapping[TopicPartition, int] = 0, *, leave_out: Iterable[Any] = ()
    ) -> None:
        response = OffsetCommitResponse()
        for topic in sent.message.topics:
            answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                code = codes if isinstance(codes, int) else codes.get(tp, 0)
                if tp not in leave_out:
                    answer.partitions.append(
                        OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                    )
            response.topics.append(answer)
        self.respond(sent.request, response, sent.version, self.commits)

    def failure(self, call: Call[Any]) -> KafkaError:
        assert call.done
        with pytest.raises(KafkaError) as caught:
            call.result()
        return caught.value

    def respond(self, request: Request, response: Message, version: int, manager: Any) -> None:
        decoded = type(response).decode(response.encode(version), version)
        manager.handle(Answer(request, request.target.node_id, version, decoded), self.now)

    def break_off(self, request: Request, error: KafkaError | None = None) -> None:
        """End the connection before the response."""
        error = error or KafkaConnectionError("connection reset")
        manager = self.commits if request.asker == self.commits.asker else self.committed
        manager.handle(Answer(request, request.target.node_id, error=error), self.now)


@pytest.fixture
def world() -> World:
    """Commits of a member in generation 5; the coordinator is node 1."""
    return World()


@pytest.fixture
def new_world() -> type[World]:
    return World
