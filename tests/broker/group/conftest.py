"""A group coordinator without a cluster: a clock, an in-memory log with controllable replication, and members."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.leave_group import MemberIdentity
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from thinconsumer_testing.broker.config import BrokerConfig, TopicConfig
from thinconsumer_testing.broker.group.coordinator import GroupCoordinator
from thinconsumer_testing.broker.group.group import ClassicGroup
from thinconsumer_testing.broker.group.joining import JoinGroupCall
from thinconsumer_testing.broker.group.shard import GroupCoordinatorShard
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.log.log import Log
from thinconsumer_testing.broker.naming import OFFSETS_TOPIC
from thinconsumer_testing.broker.schedule import Schedule, Timer
from thinconsumer_testing.broker.wire.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

WALL_TIME = 1_700_000_000.0
GROUP = "billing"
TOPIC = "orders"


class PendingRequest:
    """A request with its response, once there is one; a second response fails the test."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.listener: Callable[[], None] = lambda: None  #: Called when the response has come.

    def __call__(self, *answer: Any) -> None:
        assert not self.answers, "answered twice"
        self.answers.append(answer[0] if len(answer) == 1 else answer)
        self.listener()

    @property
    def is_parked(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert self.answers, "not answered"
        return self.answers[0]

    @property
    def code(self) -> int:
        return self.answer if isinstance(self.answer, int) else self.answer.error_code


@dataclass
class MemberSeat:
    """A member's id and generation."""

    member_id: str
    generation: int
    is_leader: bool


class World:
    """The coordinator's node, and the coordinator on it."""

    def __init__(self, replica_type: Any, *, partitions: int = 1, **config: Any) -> None:
        self.replica_type = replica_type
        self.config = BrokerConfig(**{"group_min_session_timeout_ms": 10, **config})
        self.schedule = Schedule(100.0, WALL_TIME)
        self.random = random.Random(1)
        self.image = ClusterImage("cluster")
        self.put_topic(OFFSETS_TOPIC, partitions)
        self.put_topic(TOPIC, 3)
        self.logs = {n: Log(TopicPartition(OFFSETS_TOPIC, n), TopicConfig(compact=True)) for n in range(partitions)}
        self.replicas: dict[int, Any] = {}
        self.epoch = 0
        self.life = 0
        self.start()
        for index in self.logs:
            self.elect(index)

    # -- the node

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        life = self.life
        return self.schedule.call_later(seconds, lambda: callback() if self.life == life else None)

    def put_topic(self, name: str, partitions: int, topic_id: bytes | None = None) -> bytes:
        topic_id = topic_id or name.encode()[:16].ljust(16, b"-")
        rows = tuple(PartitionImage(name, topic_id, n, 1, 0, (1,), (1,)) for n in range(partitions))
        self.image.put_topic(TopicImage(name, topic_id, rows, {}))
        return topic_id

    def start(self) -> None:
        self.life += 1
        self.coordinator = GroupCoordinator(self)

    def elect(self, index: int = 0) -> None:
        self.epoch += 1
        self.replicas[index] = self.replica_type(self.logs[index], self.epoch, self.schedule)
        self.coordinator.elected(index, self.epoch, self.replicas[index])

    def resign(self, index: int = 0) -> None:
        self.coordinator.resigned(index)

    def crash(self, *, losing: bool = False) -> None:
        """Kill the broker; the next coordinator loads the log, optionally without unreplicated records."""
        self.start()
        for index, log in self.logs.items():
            if losing:
                log.truncate_to(log.high_watermark)
            log.high_watermark = log.end_offset
            self.elect(index)

    def advance(self, seconds: float) -> None:
        self.schedule.advance(self.schedule.now + seconds)

    @property
    def replica(self) -> Any:
        return self.replicas[0]

    @property
    def shard(self) -> GroupCoordinatorShard:
        return self.coordinator.shards[0]

    @property
    def group(self) -> ClassicGroup:
        return self.shard.latest.groups[GROUP]

    # -- requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        protocols: Mapping[str, bytes] | None = None,
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        instance: str | None = None,
        protocol_type: str = "consumer",
        client: str = "app",
    ) -> PendingRequest:
        asked = PendingRequest()
        wanted = {"range": b"", "roundrobin": b""} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in wanted.items()],
        )
        self.coordinator.join(JoinGroupCall(request, version, client, "/127.0.0.1", asked))
        return asked

    def sync(
        self,
        seat: MemberSeat,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> PendingRequest:
        asked = PendingRequest()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=seat.generation,
            member_id=seat.member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        self.coordinator.sync(request, asked)
        return asked

    def heartbeat(self, seat: MemberSeat, *, group: str = GROUP, instance: str | None = None) -> PendingRequest:
        asked = PendingRequest()
        self.coordinator.heartbeat(
            HeartbeatRequest(
                group_id=group, generation_id=seat.generation, member_id=seat.member_id, group_instance_id=instance
            ),
            asked,
        )
        return asked

    def leave(self, *members: str | tuple[str, str], group: str = GROUP) -> PendingRequest:
        asked = PendingRequest()
        pairs = [(member, None) if isinstance(member, str) else member for member in members]
        self.coordinator.leave(
            group, [MemberIdentity(member_id=name, group_instance_id=instance) for name, instance in pairs], asked
        )
        return asked

    def commit(
        self,
        seat: MemberSeat | None = None,
        offset: int = 5,
        *,
        group: str = GROUP,
        topic: str = TOPIC,
        partition: int = 0,
        metadata: str | None = "",
        version: int = 9,
        epoch: int = -1,
        instance: str | None = None,
        retention_ms: int = -1,
        producer_id: int = -1,
    ) -> PendingRequest:
        """Commit an offset, with a producer id in its transaction; the result is that of the partition."""
        asked = PendingRequest()
        row = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": epoch}
        fields: dict[str, Any] = {
            "group_id": group,
            "generation_id_or_member_epoch": -1 if seat is None else seat.generation,
            "member_id": "" if seat is None else seat.member_id,
            "group_instance_id": instance,
        }
        request: OffsetCommitRequest | TxnOffsetCommitRequest
        if producer_id < 0:
            rows = [OffsetCommitRequestPartition(**row, committed_metadata=metadata)]
            topic_id = self.image.topics[topic].topic_id
            topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=rows)]
            request = OffsetCommitRequest(**fields, retention_time_ms=retention_ms, topics=topics)
        else:
            parts = [TxnOffsetCommitRequestPartition(**row, committed_metadata=metadata)]
            fields["topics"] = [TxnOffsetCommitRequestTopic(name=topic, partitions=parts)]
            request = TxnOffsetCommitRequest(**fields, transactional_id="t", producer_id=producer_id, producer_epoch=0)
        self.coordinator.commit(request, version, lambda codes: asked(next(codes)))
        return asked

    def txn_commit(self, producer_id: int, offset: int = 5, **options: Any) -> PendingRequest:
        return self.commit(offset=offset, version=5, producer_id=producer_id, **options)

    def marker(self, producer_id: int, *, commit: bool = True) -> None:
        self.replica.append_marker(producer_id, 0, commit, 0, lambda code: None)
        self.replica.replicate()
        self.coordinator.on_marker(0, producer_id, commit)

    def fetch(
        self, *partitions: int, group: str = GROUP, require_stable: bool = False, topic: str = TOPIC
    ) -> PendingRequest:
        """Fetch offsets of these partitions of a topic, or all."""
        asked = PendingRequest()
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))] if partitions else None
        self.coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=topics), require_stable, asked)
        return asked

    def offset(self, partition: int = 0, *, group: str = GROUP) -> int:
        """Return a committed offset."""
        code, topics = self.fetch(partition, group=group).answer
        assert code == 0
        return int(topics[0].partitions[0].committed_offset)

    def delete(self, *groups: str) -> PendingRequest:
        asked = PendingRequest()
        self.coordinator.delete(groups, asked)
        return asked

    def delete_offsets(self, *partitions: int, group: str = GROUP, topic: str = TOPIC) -> PendingRequest:
        asked = PendingRequest()
        rows = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=rows)]
        self.coordinator.delete_offsets(OffsetDeleteRequest(group_id=group, topics=topics), asked)
        return asked

    # -- transactions

    def newcomer(self, **options: Any) -> str:
        """Return a new member id, obtained with MEMBER_ID_REQUIRED (KIP-394)."""
        answer = self.join(**options).answer
        assert answer.error_code == 79
        return str(answer.member_id)

    def seat(self, asked: PendingRequest) -> MemberSeat:
        """Return the member id and generation of a JoinGroup response."""
        answer = asked.answer
        assert answer.error_code == 0
        return MemberSeat(answer.member_id, answer.generation_id, answer.leader == answer.member_id)

    def joined(self, count: int = 1, **options: Any) -> list[MemberSeat]:
        """Let new members join an empty group; return their seats, the leader first. None has sent SyncGroup."""
        ids = [self.newcomer(**options) for _ in range(count)]
        asked = [self.join(member_id, **options) for member_id in ids]
        self.advance(self.config.group_initial_rebalance_delay_ms / 1000)
        return sorted((self.seat(one) for one in asked), key=lambda seat: not seat.is_leader)

    def stable(self, count: int = 1, **options: Any) -> list[MemberSeat]:
        """Let new members form a stable group; each is assigned its own member id."""
        seats = self.joined(count, **options)
        self.settle(seats)
        return seats

    def static(self, *instances: str, **options: Any) -> list[MemberSeat]:
        """Let static members form a stable group; return their seats, the leader first."""
        asked = [self.join(instance=name, **options) for name in instances]
        self.advance(0)
        seats = sorted((self.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
        self.settle(seats)
        return seats

    def settle(self, seats: Sequence[MemberSeat], group: str = GROUP) -> list[PendingRequest]:
        """Let the members of a generation send SyncGroup."""
        plan = {seat.member_id: seat.member_id.encode() for seat in seats}
        asked = [self.sync(seat, plan if seat.is_leader else None, group=group) for seat in seats]
        assert all(one.answer.assignment == plan[seat.member_id] for one, seat in zip(asked, seats, strict=True))
        return asked


@pytest.fixture(scope="session")
def new_world(replica_type: Any) -> Callable[..., World]:
    """``new_world(**config)`` returns a world with a ready coordinator, unless it is configured to load slowly."""
    return partial(World, replica_type)


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    """A world with the default configuration."""
    return new_world()


@pytest.fixture(scope="session")
def seat_of() -> Callable[[str, int], MemberSeat]:
    """``seat_of(member_id, generation)`` for requests with false identities."""
    return lambda member_id, generation: MemberSeat(member_id, generation, False)
