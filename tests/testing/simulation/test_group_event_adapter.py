"""A member's first position is the committed offset in the response to a request of this assignment."""

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
from thinconsumer_testing.simulation.checkers.base import ASSIGNED
from thinconsumer_testing.simulation.client_tap import SentRequest

TP = TopicPartition("t", 0)


class Jury:
    def __init__(self):
        self.told = []

    def tell(self, event, *details):
        self.told.append((event, *details))


@pytest.mark.parametrize("is_late", [False, True], ids=["of this assignment", "of the one before"])
def test_only_offsets_that_were_requested_since_the_assignment_are_a_position(is_late):
    jury = Jury()
    adapter = GroupEventAdapter(print, lambda tp: None, jury=jury, name_of=lambda topic_id: "t")
    adapter.started("ann")
    sent = SentRequest(9, 8, OffsetFetchRequest())
    if is_late:
        adapter.request_written("ann", 1, sent, [])
    adapter.callback_started("ann", ASSIGNED, [TP])
    if not is_late:
        adapter.request_written("ann", 1, sent, [])
    adapter.callback_started("ann", ASSIGNED, [TopicPartition("t", 1)])  # while the request is answered
    row = OffsetFetchResponsePartition(partition_index=0, committed_offset=6, committed_leader_epoch=0)
    group = OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(name="t", partitions=[row])])
    adapter.response_read("ann", 1, sent, OffsetFetchResponse(groups=[group]))
    assert (("sought", "ann", TP, 6, 0) in jury.told) is not is_late
