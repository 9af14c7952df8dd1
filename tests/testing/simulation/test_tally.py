"""The tally counts a world's events by name."""

from types import SimpleNamespace

from lab.tally import Tally

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse


def tally():
    accused = []
    found = Tally(accused.append, SimpleNamespace())
    return found, accused


def fetched(*codes, error_code=0):
    rows = [PartitionData(partition_index=n, error_code=int(code)) for n, code in enumerate(codes)]
    return FetchResponse(error_code=int(error_code), responses=[FetchableTopicResponse(topic="t", partitions=rows)])


def test_responses_are_counted_by_error():
    found, accused = tally()
    codes = [Code.NONE, Code.OFFSET_OUT_OF_RANGE, Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH]
    found.answered("c", 1, FetchRequest(), fetched(*codes, Code.UNKNOWN_LEADER_EPOCH, Code.UNKNOWN_TOPIC_ID), 1.0)
    found.answered("c", 1, FetchRequest(), fetched(error_code=Code.FETCH_SESSION_ID_NOT_FOUND), 2.0)
    found.answered("c", 1, OffsetForLeaderEpochRequest(), OffsetForLeaderEpochResponse(), 3.0)
    found.answered("c", 1, MetadataRequest(), MetadataResponse(), 4.0)
    assert +found.counts == {
        "fetches": 2, "session_errors": 1, "out_of_range": 1, "not_leader": 1, "fenced": 1, "unknown_epoch": 1,
        "other_fetch_errors": 1, "validations": 1,
    }  # fmt: skip
    assert accused == []


def test_polls_and_losses_are_counted():
    found, accused = tally()
    found.delivered(SimpleNamespace(), {}, 500)
    found.lost(SimpleNamespace(), 5, 1)
    found.lost(SimpleNamespace(), 9, 2)
    assert found.counts == {"polls_with_records": 1, "truncations": 2}
    assert accused == []
