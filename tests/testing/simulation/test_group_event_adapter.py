"""Group events of a member become events of a reader."""

import pytest
from lab.group_event_adapter import GroupEventAdapter

from thinconsumer.types import TopicPartition
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)
from thinconsumer_testing.simulation.checkers.base import Checker, Jury, Member
from thinconsumer_testing.simulation.client_tap import SentRequest

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = b"\x07" * 16


class Notes(Checker):
    """Records its events."""

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
def group_event_adapter(notes):
    jury = Jury([notes])
    group_event_adapter = GroupEventAdapter(lambda words: None, lambda tp: None, jury=jury, name_of={ID: "t"}.get)
    jury.add(group_event_adapter)
    return group_event_adapter


@pytest.fixture
def ann(group_event_adapter):
    ann = Member("ann")
    group_event_adapter.started(ann)
    return ann


def learn(group_event_adapter, member, offsets, code=0, **more):
    rows = [OffsetFetchResponsePartition(partition_index=tp.partition, committed_offset=at, committed_leader_epoch=3,
                                          metadata="", error_code=code) for tp, at in offsets.items()]  # fmt: skip
    group = OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(topic_id=ID, partitions=rows)])
    group.error_code = more.get("group_code", 0)
    request = OffsetFetchRequest(topics=None, groups=[])
    group_event_adapter.response_read(member, 1, SentRequest(9, 10, request), OffsetFetchResponse(groups=[group]))


def test_partitions_are_assigned_before_their_callback_and_unassigned_after_it(group_event_adapter, notes, ann):
    group_event_adapter.callback_started(ann, "assigned", {B, A})
    assert notes.take() == [("assigned", [A, B])]
    group_event_adapter.callback_finished(ann, "assigned", {B, A}, None)
    group_event_adapter.callback_started(ann, "revoked", {A})
    assert notes.take() == []
    group_event_adapter.callback_finished(ann, "revoked", {A}, ValueError())
    group_event_adapter.callback_finished(ann, "lost", {B}, None)
    assert notes.take() == [("assigned", [B]), ("assigned", [])]


def test_first_position_is_the_committed_offset_or_the_beginning(group_event_adapter, notes, ann):
    group_event_adapter.callback_started(ann, "assigned", {A, B})
    notes.take()
    learn(group_event_adapter, ann, {A: 7, B: -1})
    assert notes.take() == [("sought", A, 7, 3), ("sought", B, 0, 3)]
    learn(group_event_adapter, ann, {A: 8})
    assert notes.take() == [("sought", A, 8, 3)], "asked again before anything was read"


@pytest.mark.parametrize(
    "begins",
    [
        lambda t, m: t.delivered(m, {A: ()}, 1),
        lambda t, m: t.positioned(m, A, 3),
        lambda t, m: t.sought(m, A, 3),
        lambda t, m: t.reset(m, A, True),
    ],
)
def test_committed_offset_is_ignored_once_reading_has_begun(group_event_adapter, notes, ann, begins):
    group_event_adapter.callback_started(ann, "assigned", {A})
    notes.take()
    begins(group_event_adapter, ann)
    learn(group_event_adapter, ann, {A: 7})
    assert notes.take() == []
