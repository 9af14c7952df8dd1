"""Groups on whole clusters: coordinator failures, moves, pauses and slow replication; transactions end to end."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.wire.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP = "billing"


class GroupClient:
    """A client of a cluster's group that always finds the current coordinator."""

    def __init__(self, cluster: Any, client_of: Any) -> None:
        self.cluster = cluster
        self._client_of = client_of
        self.member_id = ""
        self.generation = -1

    def coordinator(self, kind: int = 0, key: str = GROUP) -> Any:
        """Return a connection to the coordinator, found through a live broker."""
        node = next(n for n in self.cluster.nodes.values() if n.is_running)
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
        (found,) = self._client_of(self.cluster, node.node_id).ask(request).coordinators
        assert found.error_code == 0
        return self._client_of(self.cluster, found.node_id)

    def join(self) -> None:
        """Form a stable group of one member."""
        client = self.coordinator()
        request = self.joining()
        request.member_id = client.ask(request).member_id
        client.send(request)
        self.cluster.advance(self.cluster.schedule.now)
        (answer,) = client.answers()
        self.member_id, self.generation = answer.member_id, answer.generation_id
        plan = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"plan")]
        assert client.ask(self.syncing(plan)).assignment == b"plan"

    def joining(self, instance: str | None = None) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )

    def syncing(self, plan: Any = ()) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=list(plan),
        )

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return int(self.coordinator().ask(request).error_code)

    def committing(self, offset: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        return OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )

    def commit(self, offset: int) -> int:
        answer = self.coordinator().ask(self.committing(offset), 9)
        return int(answer.topics[0].partitions[0].error_code)

    def offset(self, *, require_stable: bool = False) -> tuple[int, int]:
        """Return (error code, offset)."""
        topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=require_stable)
        partition = self.coordinator().ask(request, 7).topics[0].partitions[0]
        return int(partition.error_code), int(partition.committed_offset)


@pytest.fixture
def group_client(new_cluster: Any, client_of: Any) -> Any:
    """``group_client(nodes, **config)`` returns a client in a stable group on a new cluster."""

    def make(nodes: int = 3, **config: Any) -> GroupClient:
        cluster = new_cluster(nodes, {"orders": 1}, **config)
        cluster.controller.ensure_internal_topic("__consumer_offsets")
        cluster.controller.ensure_internal_topic("__transaction_state")
        one = GroupClient(cluster, client_of)
        one.join()
        return one

    return make


def coordinating(cluster: Any) -> int:
    """Return the broker that coordinates the group."""
    return int(cluster.leader(TopicPartition("__consumer_offsets", partition_for(GROUP, 5))).node.node_id)


def test_parked_requests_fail_when_the_coordinator_moves(group_client: Any) -> None:
    one = group_client()
    client = one.coordinator()
    client.send(one.joining("i"))
    assert client.answers() == []
    one.cluster.move_coordinator(GROUP)
    assert [answer.error_code for answer in client.answers()] == [16]
    assert client.ask(one.committing(5), 9).topics[0].partitions[0].error_code == 16
    assert one.heartbeat() == 0


def test_coordinator_failure_discards_parked_requests(group_client: Any) -> None:
    one = group_client()
    client = one.coordinator()
    client.send(JoinGroupRequest(group_id="other", session_timeout_ms=10_000, protocol_type="x", protocols=[]))
    one.cluster.kill(coordinating(one.cluster), noticed_after_s=0)
    one.cluster.advance(one.cluster.schedule.now + 600)
    assert client.broken


def test_resumed_coordinator_expires_no_sessions(group_client: Any) -> None:
    """Its timers were deferred; it must apply the leader change before they fire."""
    one = group_client()
    paused = coordinating(one.cluster)
    one.cluster.pause(paused)
    one.cluster.advance(one.cluster.schedule.now + 5)
    assert coordinating(one.cluster) != paused
    assert one.heartbeat() == 0
    one.cluster.advance(one.cluster.schedule.now + 7)
    one.cluster.resume(paused)
    assert one.heartbeat() == 0


def test_offsets_of_a_deleted_topic_are_removed(group_client: Any) -> None:
    one = group_client()
    one.commit(5)
    one.cluster.delete_topic("orders")
    assert one.offset() == (0, -1)
    one.cluster.create_topic("orders", 1)
    assert one.offset() == (0, -1)


def test_compaction_of_the_offsets_topic_keeps_all_state(group_client: Any) -> None:
    one = group_client()
    for offset in range(10):
        one.commit(offset)
    one.cluster.compact(TopicPartition("__consumer_offsets", partition_for(GROUP, 5)))
    one.cluster.move_coordinator(GROUP)
    assert one.offset() == (0, 9)
    assert one.heartbeat() == 0


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [3, 5])
def test_transactional_offsets_end_to_end(version: int, commit: bool, moves: bool, group_client: Any) -> None:
    """Transactional offsets count after the commit, even if the coordinator has changed."""
    one = group_client()
    assert one.commit(3) == 0
    transactions = one.coordinator(1, "t")
    producer = transactions.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000))
    who = {"transactional_id": "t", "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    if version < 5:
        assert transactions.ask(AddOffsetsToTxnRequest(**who, group_id=GROUP)).error_code == 0
    request = TxnOffsetCommitRequest(
        **who,
        group_id=GROUP,
        generation_id_or_member_epoch=one.generation,
        member_id=one.member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="orders", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8)]
            )
        ],
    )
    assert one.coordinator().ask(request, version).topics[0].partitions[0].error_code == 0
    assert one.offset() == (0, 3)
    assert one.offset(require_stable=True) == (88, -1)
    if moves:
        one.cluster.move_coordinator(GROUP)
        assert one.offset(require_stable=True) == (88, -1)
    assert transactions.ask(EndTxnRequest(**who, committed=commit), version if version < 5 else 5).error_code == 0
    one.cluster.advance(one.cluster.schedule.now + 1)
    expected = 8 if commit else 3
    assert one.offset(require_stable=True) == (0, expected)
    one.cluster.move_coordinator(GROUP)
    assert one.offset(require_stable=True) == (0, expected)
