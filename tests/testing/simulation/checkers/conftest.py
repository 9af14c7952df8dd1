"""Fixtures for tests of checkers: a partition with known committed records, readers, members and violations."""

import pytest
from lab.checkers.views import Views

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import encode_assignment
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.simulation.checkers.base import Jury, Member, SimReader
from thinconsumer_testing.simulation.client_tap import SentRequest
from thinconsumer_testing.simulation.truth import ObservedLog, Truth

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


class Court:
    """One partition, its leaders' logs, and one checker that gets all events."""

    def __init__(self, checker):
        self.tp = TP
        self.accused = []
        self.truths = {}
        self.checker = checker(self.accused.append, self.truths.get)
        self.truth = self.truths[TP] = Truth(TP, self.checker.lost)
        self.log = self.new_log()
        self.reader = self.new_reader()

    def new_log(self):
        return ObservedLog(TP, TopicConfig(), self.truth)

    def new_reader(self, name="ann", **more):
        reader = SimReader(name, **more)
        self.checker.started(reader)
        self.checker.assigned(reader, [TP])
        return reader

    def append(self, *values, epoch=0, **batch):
        """Append one batch to the leader's log; return its first offset."""
        records = [value if isinstance(value, NewRecord) else NewRecord(value, timestamp=NOW) for value in values]
        data = build_batch(records, **batch)
        return self.log.append(data, leader_epoch=epoch, now_ms=NOW, from_client=False).base_offset

    def write(self, *values, **more):
        """Append one batch that is committed at once."""
        base = self.append(*values, **more)
        self.log.high_watermark = self.log.end_offset
        return base

    def end(self, producer, commit):
        """Append a transaction's marker."""
        self.log.append_control(
            producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
        )
        self.log.high_watermark = self.log.end_offset

    def elect_short(self, end, epoch):
        """Elect a replica uncleanly whose log ends at an offset."""
        short = self.new_log()
        for batch in self.log.batches_from(0):
            if batch.base_offset < end:
                short.append_stored(batch)
        short.begin_epoch(epoch)
        self.log = short

    def rows(self, *offsets, epoch=0):
        return [self.truth.rows[offset, epoch] for offset in offsets]

    def deliver(self, *offsets, epoch=0, reader=None, limit=500):
        self.checker.delivered(reader or self.reader, {TP: self.rows(*offsets, epoch=epoch)}, limit)

    def position(self, offset, reader=None):
        self.checker.positioned(reader or self.reader, TP, offset)

    def verdict(self):
        """Return and clear the only violation, "" if there is none."""
        assert len(self.accused) <= 1, self.accused
        return self.accused.pop() if self.accused else ""


@pytest.fixture
def new_court():
    """``new_court(class of a checker)``."""
    return Court


@pytest.fixture
def fetched():
    """Return a function that builds a Fetch and its response from ``{partition: records}`` and a session."""

    def make(records=(), *, topic="t", topic_id=bytes(16), session=7, epoch=5):
        partitions = [PartitionData(partition_index=n, records=data) for n, data in dict(records).items()]
        response = FetchResponse(
            session_id=session,
            responses=[FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)],
        )
        return FetchRequest(session_id=session, session_epoch=epoch), response

    return make


@pytest.fixture
def validation():
    """Return a function that builds an OffsetForLeaderEpoch request about partition 0 and its response."""

    def make(epoch=0, leader=-1, answer=(-1, -1), *, error=0, partition=0):
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=leader, leader_epoch=epoch)
        end = EpochEndOffset(partition=partition, error_code=error, leader_epoch=answer[0], end_offset=answer[1])
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
        return request, OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    return make


@pytest.fixture
def lookup():
    """Return a function that builds a ListOffsets request about partition 0 and its response."""

    def make(timestamp=-2, offset=0, *, leader=-1, error=0):
        asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=leader, timestamp=timestamp)
        found = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        return request, ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    return make


A, B, C = (TopicPartition("t", n) for n in range(3))


class Room:
    """Members whose events a test passes to checkers; ``words`` are all violations."""

    def __init__(self):
        self.now = 100.0
        self.words = []
        self.truths = {}
        self.jury = Jury()
        self.views = self.add(Views, now=lambda: self.now)

    def add(self, kind, **more):
        checker = kind(self.words.append, self.truths.get, **more)
        self.jury.add(checker)
        return checker

    def member(self, name="ann", **more):
        more = {"group": "g", "session_timeout_s": 10.0, "max_poll_interval_s": 30.0, **more}
        member = Member(name, **more)
        self.tell("started", member)
        return member

    def tell(self, event, *what):
        self.jury.tell(event, *what)

    def verdict(self):
        """Return the first violation since the last call."""
        words, self.words[:] = list(self.words), []
        return words[0] if words else ""

    # -- on the wire

    def says(self, member, message, line=1, before=()):
        self.now += 0.001
        self.tell(
            "request_written",
            member,
            line,
            SentRequest(message.API_KEY, 0, message),
            [SentRequest(key, 0, None) for key in before],
        )

    def learns(self, member, message, response, line=1):
        self.now += 0.001
        self.tell("response_read", member, line, SentRequest(message.API_KEY, 0, message), response)
        self.now += 0.001

    def join(self, member, generation=1, as_=None, code=0, gets=None, line=1, away=0.0):
        """Join under the known member id or a given one, and read the response, at once or in a poll after ``away``."""
        who = self.views.of[member].member_id if as_ is None else as_
        request = JoinGroupRequest(
            group_id=member.group, session_timeout_ms=1, member_id=who, protocol_type="consumer", protocols=[]
        )
        self.says(member, request, line)
        if away:
            self.now += away
            self.tell("call_began", member, True)
        if code is not None:
            gets = gets if gets is not None else (who or f"{member.name}-id")
            answer = JoinGroupResponse(error_code=code, generation_id=generation, member_id=gets, leader="", members=[],
                                       protocol_name="range")  # fmt: skip
            self.learns(member, request, answer, line)

    def sync(self, member, *tps, code=0, plan=None):
        """Sync and read a share; the leader sends an assignment, which the coordinator accepts."""
        view = self.views.of[member]
        rows = [SyncGroupRequestAssignment(member_id=who, assignment=encode_assignment(share))
                for who, share in (plan or {}).items()]  # fmt: skip
        request = SyncGroupRequest(
            group_id=member.group, generation_id=view.generation, member_id=view.member_id, assignments=rows
        )
        self.says(member, request)
        response = SyncGroupResponse(error_code=code, assignment=encode_assignment(tps))
        self.tell("answered", member.name, 1, request, response, self.now)
        self.learns(member, request, response)

    def beat(self, member, code=0, stamp=None):
        """Heartbeat under the known identity or a given one, and read the response."""
        view = self.views.of[member]
        who, generation = stamp or (view.member_id, view.generation)
        request = HeartbeatRequest(group_id=member.group, generation_id=generation, member_id=who)
        self.says(member, request, line=2)
        self.learns(member, request, HeartbeatResponse(error_code=code), line=2)

    def commit(self, member, offsets, code=0, stamp=None):
        """Commit under the known identity or a given one, and read the response."""
        request, response = self.commit_messages(member, offsets, code, stamp)
        self.says(member, request, line=3)
        self.tell("answered", member.name, 1, request, response, self.now)
        self.learns(member, request, response, line=3)

    def commit_messages(self, member, offsets, code=0, stamp=None):
        """Return a commit and its response."""
        view = self.views.of[member]
        who, generation = stamp or (view.member_id, view.generation)
        rows = [OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=at, committed_metadata="")
                for tp, at in offsets.items()]  # fmt: skip
        request = OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=generation,
            member_id=who,
            topics=[OffsetCommitRequestTopic(name="t", partitions=rows)] if rows else [],
        )
        told = [OffsetCommitResponsePartition(partition_index=tp.partition, error_code=code) for tp in offsets]
        return request, OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=told)])

    def leave(self, member):
        """Leave the group."""
        who = MemberIdentity(member_id=self.views.of[member].member_id)
        self.says(member, LeaveGroupRequest(group_id=member.group, members=[who]), line=4)

    # -- at its interface

    def callback_started(self, member, what, *tps, error=None):
        """Call a rebalance callback, which returns or raises."""
        self.tell("callback_started", member, what, set(tps))
        self.tell("callback_finished", member, what, set(tps), error)

    def owns(self, member, *tps, generation=1):
        """Join, sync, and call the assigned callback."""
        self.join(member, generation)
        self.sync(member, *tps)
        self.callback_started(member, "assigned", *tps)


@pytest.fixture
def room():
    return Room()
