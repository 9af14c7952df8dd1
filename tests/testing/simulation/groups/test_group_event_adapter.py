"""What a member's reading means to the checkers of readers."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import Jury
from thinconsumer.testing.simulation.checkers.base import Checker
from thinconsumer.testing.simulation.groups.checkers import Member
from thinconsumer.testing.simulation.groups.client_tap import Sent
from thinconsumer.testing.simulation.groups.group_event_adapter import GroupEventAdapter
from thinconsumer.types import TopicPartition
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = b"\x07" * 16


class Notes(Checker):
    """Notes what it is told."""

    def __init__(self):
        super().__init__(lambda words: None, lambda tp: None)
        self.told = []

    def assigned(self, reader, tps):
        self.told.append(("assigned", list(tps)))

    def sought(self, reader, tp, offset, epoch=-1):
        self.told.append(("sought", tp, offset, epoch))

    def take(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def adapter(notes):
    jury = Jury([notes])
    adapter = GroupEventAdapter(lambda words: None, lambda tp: None, jury=jury, name_of={ID: "t"}.get)
    jury.add(adapter)
    return adapter


@pytest.fixture
def ann(adapter):
    ann = Member("ann")
    adapter.started(ann)
    return ann


def learn(adapter, member, offsets, code=0, **more):
    rows = [OffsetFetchResponsePartition(partition_index=tp.partition, committed_offset=at, committed_leader_epoch=3,
                                          metadata="", error_code=code) for tp, at in offsets.items()]  # fmt: skip
    group = OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(topic_id=ID, partitions=rows)])
    group.error_code = more.get("group_code", 0)
    request = OffsetFetchRequest(topics=None, groups=[])
    adapter.learned(member, 1, Sent(9, 10, request), OffsetFetchResponse(groups=[group]))


def test_partitions_come_before_their_callback_and_go_after_it(adapter, notes, ann):
    adapter.hears(ann, "assigned", {B, A})
    assert notes.take() == [("assigned", [A, B])]
    adapter.heard(ann, "assigned", {B, A}, None)
    adapter.hears(ann, "revoked", {A})
    assert notes.take() == []
    adapter.heard(ann, "revoked", {A}, ValueError())
    adapter.heard(ann, "lost", {B}, None)
    assert notes.take() == [("assigned", [B]), ("assigned", [])]


def test_reading_begins_at_what_is_committed_or_at_the_beginning(adapter, notes, ann):
    adapter.hears(ann, "assigned", {A, B})
    notes.take()
    learn(adapter, ann, {A: 7, B: -1})
    assert notes.take() == [("sought", A, 7, 3), ("sought", B, 0, 3)]
    learn(adapter, ann, {A: 8})
    assert notes.take() == [("sought", A, 8, 3)], "asked again before anything was read"


def test_names_from_before_topics_had_ids(adapter, notes, ann):
    adapter.hears(ann, "assigned", {A})
    notes.take()
    row = OffsetFetchResponsePartition(partition_index=0, committed_offset=4, metadata="", error_code=0)
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[row])])
    adapter.learned(ann, 1, Sent(9, 5, OffsetFetchRequest(topics=[], groups=[])), response)
    assert notes.take() == [("sought", A, 4, -1)]


def test_errors_and_other_answers_tell_nothing(adapter, notes, ann):
    adapter.hears(ann, "assigned", {A})
    notes.take()
    learn(adapter, ann, {A: 7}, code=88)
    learn(adapter, ann, {A: 7}, group_code=15)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    adapter.learned(ann, 1, Sent(12, 0, beat), HeartbeatResponse())
    assert notes.take() == []


@pytest.mark.parametrize(
    "begins",
    [
        lambda t, m: t.delivered(m, {A: ()}, 1),
        lambda t, m: t.positioned(m, A, 3),
        lambda t, m: t.sought(m, A, 3),
        lambda t, m: t.reset(m, A, True),
    ],
)
def test_once_reading_has_begun_what_is_committed_does_not_matter(adapter, notes, ann, begins):
    adapter.hears(ann, "assigned", {A})
    notes.take()
    begins(adapter, ann)
    learn(adapter, ann, {A: 7})
    assert notes.take() == []


def test_a_callback_that_is_called_again_takes_nothing_back_of_what_it_has_sought(adapter, notes, ann):
    adapter.hears(ann, "assigned", {A, B})
    adapter.sought(ann, A, 3)
    adapter.heard(ann, "assigned", {A, B}, ValueError())
    adapter.hears(ann, "assigned", {A, B})
    notes.take()
    learn(adapter, ann, {A: 7, B: 8})
    assert notes.take() == [("sought", B, 8, 3)]
    adapter.heard(ann, "assigned", {A, B}, None)
    adapter.heard(ann, "revoked", {A}, None)
    adapter.hears(ann, "assigned", {A})
    notes.take()
    learn(adapter, ann, {A: 9})
    assert notes.take() == [("sought", A, 9, 3)], "what was given up in between begins anew"


def test_who_is_gone_begins_nothing(adapter, notes, ann):
    adapter.hears(ann, "assigned", {A})
    adapter.ended(ann)
    notes.take()
    learn(adapter, ann, {A: 7})
    assert notes.take() == []
