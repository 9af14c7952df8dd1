"""A room with members and checkers: tests say what members say, learn and hear, and look who is accused of what."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.groups.checkers import Member, Panel, Views
from thinconsumer.testing.simulation.groups.client_tap import Sent
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import encode_assignment
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

A, B, C = (TopicPartition("t", n) for n in range(3))
CLOSED = 9


class Room:
    """See the module. ``words`` are all accusations."""

    def __init__(self):
        self.now = 100.0
        self.words = []
        self.truths = {}
        self.checkers = []
        self.panel = Panel()
        self.views = self.add(Views, now=lambda: self.now)

    def add(self, kind, **more):
        checker = kind(self.words.append, self.truths.get, **more)
        self.panel.add(checker)
        self.checkers.append(checker)
        return checker

    def member(self, name="ann", **more):
        more = {"group": "g", "session_timeout_s": 10.0, "max_poll_interval_s": 30.0, **more}
        member = Member(name, **more)
        self.all("started", member)
        return member

    def all(self, event, *what):
        """Tell of what the jury tells of."""
        for checker in self.checkers:
            getattr(checker, event)(*what)

    def tell(self, event, *what):
        self.panel.tell(event, *what)

    def verdict(self):
        """Return what was said first since the last time."""
        words, self.words[:] = list(self.words), []
        return words[0] if words else ""

    # -- on the wire

    def says(self, member, message, line=1, before=()):
        self.now += 0.001
        self.tell("said", member, line, Sent(message.API_KEY, 0, message), [Sent(key, 0, None) for key in before])

    def learns(self, member, message, response, line=1):
        self.now += 0.001
        self.tell("learned", member, line, Sent(message.API_KEY, 0, message), response)
        self.now += 0.001

    def join(self, member, generation=1, as_=None, code=0, gets=None, line=1):
        """It joins as it is known, or as somebody, and is told."""
        who = self.views.of[member].member_id if as_ is None else as_
        request = JoinGroupRequest(
            group_id=member.group, session_timeout_ms=1, member_id=who, protocol_type="consumer", protocols=[]
        )
        self.says(member, request, line)
        if code is not None:
            gets = gets if gets is not None else (who or f"{member.name}-id")
            answer = JoinGroupResponse(error_code=code, generation_id=generation, member_id=gets, leader="", members=[],
                                       protocol_name="range")  # fmt: skip
            self.learns(member, request, answer, line)

    def sync(self, member, *tps, code=0, plan=None):
        """It syncs, and is given these; as a leader it hands a plan in, which the coordinator takes."""
        view = self.views.of[member]
        rows = [SyncGroupRequestAssignment(member_id=who, assignment=encode_assignment(share))
                for who, share in (plan or {}).items()]  # fmt: skip
        request = SyncGroupRequest(
            group_id=member.group, generation_id=view.generation, member_id=view.member_id, assignments=rows
        )
        self.says(member, request)
        response = SyncGroupResponse(error_code=code, assignment=encode_assignment(tps))
        self.all("answered", member.name, 1, request, response, self.now)
        self.learns(member, request, response)

    def beat(self, member, code=0, stamp=None):
        """It heartbeats, as it is known or under a stamp, and is told."""
        view = self.views.of[member]
        who, generation = stamp or (view.member_id, view.generation)
        request = HeartbeatRequest(group_id=member.group, generation_id=generation, member_id=who)
        self.says(member, request, line=2)
        self.learns(member, request, HeartbeatResponse(error_code=code), line=2)

    def commit(self, member, offsets, code=0, stamp=None):
        """It commits, as it is known or under a stamp; the coordinator takes it, or does not."""
        request, response = self.commit_messages(member, offsets, code, stamp)
        self.says(member, request, line=3)
        self.all("answered", member.name, 1, request, response, self.now)
        self.learns(member, request, response, line=3)

    def commit_messages(self, member, offsets, code=0, stamp=None):
        """Return a commit and its answer."""
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

    def find(self, member, named):
        """It asks for the coordinator, and is told a host and port, or of none."""
        host, port = named or ("", -1)
        row = FindCoordinatorResult(key=member.group, node_id=1, host=host, port=port, error_code=0 if named else 15)
        request = FindCoordinatorRequest(coordinator_keys=[member.group])
        self.learns(member, request, FindCoordinatorResponse(coordinators=[row]), line=9)

    def leave(self, member):
        """It says goodbye."""
        self.says(member, LeaveGroupRequest(group_id=member.group, members=[]), line=4)

    # -- at its interface

    def hears(self, member, what, *tps, error=None):
        """Its listener hears, and returns or raises."""
        self.tell("hears", member, what, set(tps))
        self.tell("heard", member, what, set(tps), error)

    def owns(self, member, *tps, generation=1):
        """It has joined, and its listener has heard of its share."""
        self.join(member, generation)
        self.sync(member, *tps)
        self.hears(member, "assigned", *tps)


@pytest.fixture
def room():
    return Room()
