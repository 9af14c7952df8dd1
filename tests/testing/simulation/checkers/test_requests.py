"""Fetches agree with the leader epochs that were read and with the last seek; truncations are raised."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from thinconsumer.wire.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from thinconsumer_testing.simulation.checkers.requests import POLLS_MAX, RequestChecker
from thinconsumer_testing.simulation.client_tap import SentRequest

ID = b"0123456789abcdef"
TP = TopicPartition("t", 0)


class Wire:
    """The requests and responses of ann."""

    def __init__(self, court, lookup, validation):
        self.court, self._lookup, self._validation = court, lookup, validation
        self.checker, self.reader = court.checker, court.reader

    def metadata(self, epoch, leader=1, topic_id=ID, sent=None):
        row = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[row])
        brokers = [MetadataResponseBroker(node_id=1, host="kafka1", port=9092)]
        sent = sent or self.request_metadata()
        self.checker.response_read(self.reader, 1, sent, MetadataResponse(brokers=brokers, topics=[topic]))

    def request_metadata(self):
        sent = SentRequest(3, 12, MetadataRequest())
        self.checker.request_written(self.reader, 1, sent, [])
        return sent

    def reject(self, *times, code=Code.UNKNOWN_LEADER_EPOCH, hint=-1):
        """Read errors of node 1 in Fetch responses."""
        self.checker.connection_opened(self.reader, 1, "kafka1", 9092)
        for now in times:
            self.checker.now = lambda now=now: now
            current = LeaderIdAndEpoch(leader_id=2, leader_epoch=hint)
            row = PartitionData(partition_index=0, error_code=code, current_leader=current)
            response = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[row])])
            self.checker.response_read(self.reader, 1, SentRequest(1, 13, FetchRequest()), response)

    def accept(self, requested, line=1):
        """Read a Fetch response of node 1 without an error, to a request with the epoch ``requested``."""
        asked = FetchPartition(partition=0, current_leader_epoch=requested)
        request = FetchRequest(topics=[FetchTopic(topic_id=ID, partitions=[asked])])
        response = FetchResponse(
            responses=[FetchableTopicResponse(topic_id=ID, partitions=[PartitionData(partition_index=0)])]
        )
        self.checker.response_read(self.reader, line, SentRequest(1, 13, request), response)

    def fetch(self, offset=0, epoch=5, topic_id=ID, line=1):
        """Write a Fetch, and return the violation."""
        row = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=offset)
        message = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[row])])
        self.checker.request_written(self.reader, line, SentRequest(1, 13, message), [])
        return self.court.verdict()

    def look_up(self, timestamp, offset):
        self.checker.answered("ann", 1, *self._lookup(timestamp, offset), 1.0)

    def validate(self, end, epoch=0):
        """Write an OffsetForLeaderEpoch request; return a function by which the client reads the response."""
        request, response = self._validation(epoch, 5, (epoch, end))
        sent = SentRequest(request.API_KEY, 4, request)
        self.checker.request_written(self.reader, 1, sent, [])
        self.checker.answered("ann", 1, request, response, 1.0)
        return lambda: self.checker.response_read(self.reader, 1, sent, response)

    def poll(self, times=POLLS_MAX + 1):
        """Return from polls, and return the violation."""
        for _ in range(times):
            self.checker.polled(self.reader, 0)
        return self.court.verdict()


@pytest.fixture
def wire(new_court, lookup, validation):
    """Ann has read that the leader epoch is 5, and her policy is none; the log has three records of epoch 0."""
    court = new_court(RequestChecker)
    court.log.begin_epoch(0)
    court.write(b"a", b"b", b"c")
    court.log.begin_epoch(5)
    court.reader = court.new_reader(policy="none")
    wire = Wire(court, lookup, validation)
    wire.metadata(5)
    wire.metadata(5)
    return wire


@pytest.mark.parametrize("epoch", [-1, 4])
def test_fetch_with_an_older_leader_epoch_is_a_violation(wire, epoch):
    assert wire.fetch() == ""
    assert wire.fetch(epoch=epoch) == f"ann fetches t-0 with leader epoch {epoch} after it has read or sent 5"
    assert wire.fetch(epoch=7) == "", "learned from a Fetch error"
    wire.metadata(5)
    assert wire.fetch(epoch=5) != ""
    assert wire.fetch(epoch=5, topic_id=bytes(16)) == "", "an old version"


def test_fetch_may_have_a_lower_epoch_once_the_named_leader_has_rejected_the_newest_for_a_second(wire):
    wire.reject(0.0)
    wire.metadata(3)
    assert wire.fetch(epoch=3) != ""
    wire.reject(1.0, 1.5, 1.9)
    assert wire.fetch(epoch=3) != ""
    wire.reject(2.0)
    assert wire.fetch(epoch=3) == "" != wire.fetch(epoch=2)
    assert wire.fetch(epoch=5, line=2) == "", "built before"
    wire.metadata(3)
    assert wire.fetch(epoch=3) == "" == wire.fetch(epoch=3, line=2)
    wire.metadata(5)
    wire.metadata(5)
    assert wire.fetch(epoch=3) != "", "the brokers have named the higher epoch again"


def test_other_errors_and_metadata_requested_before_the_first_rejection_prove_no_lower_epoch(wire):
    sent = wire.request_metadata()
    wire.reject(0.0)
    wire.metadata(3, sent=sent)
    wire.reject(1.0, 2.0, 3.0)
    assert wire.fetch(epoch=3) != ""
    wire.metadata(3)
    wire.reject(4.0, 5.0)
    wire.reject(6.0, code=Code.NOT_LEADER_OR_FOLLOWER)
    assert wire.fetch(epoch=3) != ""


@pytest.mark.parametrize(("requested", "proves"), [(5, False), (3, True)], ids=["the newest", "an older one"])
def test_only_a_response_to_a_request_with_the_newest_epoch_undoes_rejections(wire, requested, proves):
    """A Fetch that was sent with an older epoch may be answered late, after rejections of the newest one."""
    wire.reject(0.0)
    wire.metadata(3)
    wire.reject(1.0, 1.5)
    wire.accept(requested)
    wire.reject(2.0)
    assert (wire.fetch(epoch=3) == "") is proves


def test_first_fetch_after_a_seek_begins_there(wire):
    wire.checker.sought(wire.reader, TP, 2)
    words = "ann fetches t-0 from offset 1, but the last seek has set the position to 2"
    assert (wire.fetch(1), wire.fetch(1)) == (words, "")
    wire.checker.sought(wire.reader, TP, 2)
    wire.checker.assigned(wire.reader, [])
    assert wire.fetch(1) == "", "assigned anew"


@pytest.mark.parametrize(("to_end", "timestamp"), [(True, -1), (False, -2)])
def test_first_fetch_after_a_reset_begins_where_that_end_of_the_log_is(wire, to_end, timestamp):
    wire.checker.reset(wire.reader, TP, to_end)
    wire.look_up(-3 - timestamp, 3)
    assert wire.fetch(3).endswith("to an offset that no leader has returned yet")
    wire.checker.reset(wire.reader, TP, to_end)
    wire.look_up(timestamp, 3)
    assert wire.fetch(3) == ""


def test_truncation_that_is_not_raised_is_a_violation(wire):
    wire.court.deliver(0, 1, 2, reader=wire.reader)
    wire.validate(3)()
    assert wire.poll() == "", "not truncated"
    wire.validate(2)()
    assert wire.poll(POLLS_MAX) == ""
    words = "ann has not raised LogTruncationError within 4 polls, although delivered records of t-0 were truncated"
    assert wire.poll(1) == words


def test_the_end_of_an_older_epoch_than_that_of_the_last_record_shows_no_truncation(wire):
    """The request waited for its connection, and a seek has replaced the position meanwhile."""
    wire.court.write(b"d", epoch=5)
    wire.court.deliver(3, epoch=5, reader=wire.reader)
    wire.validate(3)()
    assert wire.poll() == ""
    wire.validate(3, epoch=5)()
    assert wire.poll() != ""


def test_records_returned_after_the_request_are_not_compared_with_its_response(wire):
    wire.court.deliver(0, 1, reader=wire.reader)
    read = wire.validate(2)
    wire.court.deliver(2, reader=wire.reader)
    read()
    assert wire.poll() == ""


def test_response_of_a_leader_that_is_deposed_according_to_metadata_shows_no_truncation(wire):
    """The new leader has not learned of its election."""
    wire.court.deliver(0, 1, 2, reader=wire.reader)
    read = wire.validate(2)
    wire.metadata(6)
    read()
    assert wire.poll() == ""
