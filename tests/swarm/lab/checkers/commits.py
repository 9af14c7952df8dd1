"""Checks committed offsets: their records were processed, the generation is the current one, the member is the owner.

The checkers read the commits that coordinators accepted, and the assignments that group leaders sent in SyncGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.consumer_protocol import decode_assignment
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from thinconsumer_testing.simulation.checkers.base import Checker, Member
from thinconsumer_testing.simulation.checkers.epochs import never_had
from thinconsumer_testing.simulation.truth import Truth

from ..ledger import Ledger

Plan = dict[str, frozenset[TopicPartition]]
#: Number of generations of a group for which the assignments are kept.
PLANS_MAX = 8


@dataclass(eq=False)
class Plans(Checker):
    """Keeps accepted assignments by group and generation; checks that none gives a partition to two members."""

    of: dict[str, dict[int, Plan]] = field(default_factory=dict, init=False)
    #: By group: the number of generations for which a coordinator accepted an assignment.
    counts: Counter[str] = field(default_factory=Counter, init=False)

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        if not isinstance(request, SyncGroupRequest) or not isinstance(response, SyncGroupResponse):
            return
        if response.error_code or not request.assignments:
            return
        plan: Plan = {}
        owner: dict[TopicPartition, str] = {}
        for row in request.assignments:
            try:
                raw = decode_assignment(bytes(row.assignment))
            except KafkaProtocolError:
                return
            share = [TopicPartition(t.topic, n) for t in raw.assigned_partitions for n in t.partitions]
            plan[row.member_id] = frozenset(share)
            for tp in share:
                other = owner.setdefault(tp, row.member_id)
                if other != row.member_id:
                    self.accuse(f"{client} assigns {tp.topic}-{tp.partition} to both {other} and {row.member_id}")
        plans = self.of.setdefault(request.group_id, {})
        if request.generation_id not in plans:
            self.counts[request.group_id] += 1
        plans[request.generation_id] = plan
        for old in sorted(plans)[:-PLANS_MAX]:
            del plans[old]

    def newest(self, group: str) -> int:
        """Return the newest generation with an accepted assignment, -1 if there is none."""
        return max(self.of.get(group, {}), default=-1)


@dataclass(eq=False)
class ClassicPlans(Plans):
    """The same of groups that may move to the consumer group protocol (KIP-848), which knows no such assignments.

    An empty group that moves begins with the first epoch again, so the generations before count no more.
    """

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        super().answered(client, node, request, response, now)
        is_heartbeat = isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code
        if is_heartbeat and isinstance(request, ConsumerGroupHeartbeatRequest):
            self.of.pop(request.group_id, None)


@dataclass(eq=False)
class CommitChecker(Checker):
    """Checks that accepted commits cover processed records only, and come from the owner in the current generation.

    The commit of a member that has not noticed a truncation has an old leader epoch, by which those that read it notice
    it (KIP-320). It may cover records of newer epochs, and those that the leader of its epoch did not have.
    """

    plans: Plans
    ledgers: Mapping[str, Ledger]
    name_of: Callable[[bytes], str]
    #: The instance ids of static members, by the member ids that they got. In a consumer group, and in a classic group
    #: that was one before, the member id of a static member does not begin with its instance id.
    _instances: dict[str, str] = field(default_factory=dict, init=False)

    def processed(self, member: Member, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Add records to the group's ledger; while repetitions are forbidden, processing one twice is a violation."""
        ledger = self.ledgers[member.group]
        for record in ledger.process(records):
            where = f"{record.topic}-{record.partition} offset {record.offset}"
            self.accuse(f"{member} has processed {where} again, although every member closed in order and commits")

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        for ledger in self.ledgers.values():
            ledger.lost(truth, offset, epoch)

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        for tp, _, end in never_had(request, response):
            for each in self.ledgers.values():
                each.never_had(tp, end)
        if isinstance(request, JoinGroupRequest) and request.group_instance_id is not None:
            assert isinstance(response, JoinGroupResponse)
            self._instances[response.member_id] = request.group_instance_id
        if not isinstance(request, OffsetCommitRequest) or not isinstance(response, OffsetCommitResponse):
            return
        ledger = self.ledgers.get(request.group_id)
        if ledger is None:
            return
        # Requests and responses have either a topic's name or its id, depending on their version.
        taken = {
            TopicPartition(self._name(topic), row.partition_index)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code == Code.NONE
        }
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        newest = self.plans.newest(request.group_id)
        if taken and generation < newest:
            self.accuse(f"node {node} accepted a commit of generation {generation} when {newest} was the newest")
        plan = self.plans.of.get(request.group_id, {}).get(generation, {})
        for topic in request.topics:
            for row in topic.partitions:
                tp = TopicPartition(self._name(topic), row.partition_index)
                if tp not in taken:
                    continue
                missing = ledger.first_missing(tp, row.committed_offset)
                if missing is not None and row.committed_leader_epoch >= 0:
                    missing = self._unaware(ledger, tp, missing, row)
                where = f"{tp.topic}-{tp.partition}"
                if missing is not None:
                    what = f"offset {row.committed_offset} of {where}, but offset {missing} was never processed"
                    self.accuse(f"{client} has committed {what}")
                owner = next((who for who, share in plan.items() if tp in share), member_id)
                # A static member that restarts within its session timeout keeps its partitions under a new member id.
                instances = self._instances.get(owner), _sans_uuid(owner)
                is_itself = request.group_instance_id is not None and request.group_instance_id in instances
                if owner != member_id and not is_itself:
                    self.accuse(f"{client} has committed {where} in generation {generation}, whose owner is {owner}")

    def _unaware(self, ledger: Ledger, tp: TopicPartition, first: int, row: OffsetCommitRequestPartition) -> int | None:
        """Return the first unprocessed offset from ``first`` on that no truncation explains."""
        truth, newest = self.truth(tp), row.committed_leader_epoch
        is_lost = truth is not None and truth.successor(row.committed_offset - 1, newest) is not None
        for offset in ledger.missing(tp, first, row.committed_offset, newest):
            if truth is None or not is_lost or truth.rival(offset, truth.epoch_at(offset)) is None:
                return offset
        return None

    def _name(self, topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic) -> str:
        return topic.name or self.name_of(topic.topic_id)


def _sans_uuid(member_id: str) -> str:
    """Return a member id without the UUID that the coordinator has appended: for a static member, its instance id."""
    return member_id[:-37]
