"""Messages to bytes: fields left out, fields rejected, and error messages."""

from typing import Any

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire import ZERO_UUID, UnsupportedFieldError
from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.fetch import (
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic


def fetch_request() -> FetchRequest:
    partition = FetchPartition(partition=1, current_leader_epoch=7, fetch_offset=2**40, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", topic_id=b"i" * 16, partitions=[partition])
    return FetchRequest(max_wait_ms=500, min_bytes=1, isolation_level=1, topics=[topic], rack_id="r")


def test_one_object_can_be_encoded_in_every_version() -> None:
    """Each version writes its own fields and skips ignorable ones."""
    for version in range(19):
        decoded = FetchRequest.decode(fetch_request().encode(version), version)
        (topic,) = decoded.topics
        assert (topic.topic, topic.topic_id) == (("t", ZERO_UUID) if version < 13 else ("", b"i" * 16))
        assert topic.partitions[0].current_leader_epoch == (7 if version >= 9 else -1)
        assert topic.partitions[0].fetch_offset == 2**40
        assert decoded.rack_id == ("r" if version >= 11 else "")
        assert decoded.isolation_level == (1 if version >= 4 else 0)


@pytest.mark.parametrize(
    ("sent", "version", "field"),
    [
        (FetchRequest(forgotten_topics_data=[ForgottenTopic()]), 6, "FetchRequest.forgotten_topics_data"),
        (FetchRequest(replica_id=3), 15, "FetchRequest.replica_id"),
        (FetchRequest(replica_state=ReplicaState(replica_id=3)), 14, "FetchRequest.replica_state"),
        (
            FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=0)])]),
            11,
            "FetchPartition.last_fetched_epoch",
        ),
        (HeartbeatRequest(group_instance_id="a"), 2, "HeartbeatRequest.group_instance_id"),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "MetadataRequest.allow_auto_topic_creation"),
        (ListOffsetsRequest(isolation_level=1), 1, "ListOffsetsRequest.isolation_level"),
        (
            FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(preferred_read_replica=1)])]),
            10,
            "PartitionData.preferred_read_replica",
        ),
    ],
)
def test_a_non_ignorable_field_missing_in_the_version_is_rejected(sent: Any, version: int, field: str) -> None:
    """Silently reading uncommitted records or creating a topic would be worse than an error."""
    with pytest.raises(UnsupportedFieldError, match=rf"^{field} is set, but version {version} lacks this field$"):
        sent.encode(version)
    assert issubclass(UnsupportedFieldError, ValueError)


def test_null_is_rejected_in_versions_without_null() -> None:
    everything = MetadataRequest(topics=None)
    assert everything.encode(1)
    with pytest.raises(UnsupportedFieldError, match=r"MetadataRequest\.topics is None, but not nullable in version 0"):
        everything.encode(0)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"i" * 16, name=None)])
    assert by_id.encode(12)
    with pytest.raises(UnsupportedFieldError, match=r"MetadataRequestTopic\.name is None"):
        by_id.encode(9)


@pytest.mark.parametrize(
    "sent",
    [
        FetchRequest(max_wait_ms=2**31),
        FetchRequest(max_wait_ms="1"),  # type: ignore[arg-type]
        FetchRequest(rack_id="x" * 32768),
        FetchRequest(rack_id="\ud800"),
        FetchRequest(topics=[FetchTopic(topic_id=b"short" * 4)], unknown_tags=dict.fromkeys(range(50, 200), b"")),
        FetchRequest(cluster_id="c", unknown_tags={0: b"clash"}),
    ],
)
def test_values_out_of_range_raise_illegal_argument_error(sent: FetchRequest) -> None:
    with pytest.raises(IllegalArgumentError):
        sent.encode(17)


def test_a_string_of_the_maximum_length_is_encoded() -> None:
    for version in (11, 12):
        longest = FetchRequest(rack_id="x" * 32767)
        assert FetchRequest.decode(longest.encode(version), version) == longest


def test_unsupported_versions_are_rejected() -> None:
    for version in (-1, 19):
        with pytest.raises(IllegalArgumentError, match=f"FetchRequest supports versions 0 to 18, not {version}"):
            FetchRequest().encode(version)
        with pytest.raises(IllegalArgumentError, match=f"FetchRequest supports versions 0 to 18, not {version}"):
            FetchRequest.decode(b"", version)


def test_bytes_of_a_flexible_request_field_by_field() -> None:
    """KIP-482: compact lengths are one more than the length, and every struct ends with its count of tags."""
    request = fetch_request()
    assert request.encode(17) == b"".join(
        [
            b"\0\0\1\xf4",  # max_wait_ms
            b"\0\0\0\1",  # min_bytes
            b"\x7f\xff\xff\xff",  # max_bytes
            b"\1",  # isolation_level
            b"\0\0\0\0" + b"\xff\xff\xff\xff",  # session_id, session_epoch
            b"\2" + b"i" * 16,  # one topic, by id
            b"\2" + b"\0\0\0\1" + b"\0\0\0\7",  # one partition, its current leader epoch
            b"\0\0\1\0\0\0\0\0" + b"\xff\xff\xff\xff",  # fetch_offset, last_fetched_epoch
            b"\xff" * 8 + b"\0\x10\0\0",  # log_start_offset, partition_max_bytes
            b"\0" + b"\0",  # no tagged fields in the partition, nor in the topic
            b"\1",  # no forgotten topics
            b"\2r",  # rack_id
            b"\0",  # no tagged fields
        ]
    )


def test_bytes_of_an_old_request_field_by_field() -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10, member_id="", protocol_type="consumer")
    assert request.encode(5) == b"".join(
        [b"\0\1g", b"\0\0\0\n", b"\xff" * 4, b"\0\0", b"\xff\xff", b"\0\x08consumer", b"\0\0\0\0"]
    )


def test_tagged_fields_at_their_defaults_are_not_sent() -> None:
    """Also if the struct with defaults is a new object."""
    plain = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])]).encode(12)
    partition = PartitionData(diverging_epoch=FetchEpochEndOffset())
    same = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    assert same.encode(12) == plain
    partition.diverging_epoch.epoch = 0
    assert len(same.encode(12)) == len(plain) + 2 + 13  # Tag and length; epoch, offset and the struct's own tags.


def test_records_are_written_from_any_buffer() -> None:
    for records in (b"abc", bytearray(b"abc"), memoryview(b"xabc")[1:]):
        message = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])])
        (partition,) = FetchResponse.decode(message.encode(4), 4).responses[0].partitions
        assert partition.records == b"abc"


def test_a_nullable_struct_follows_a_byte_that_says_whether_it_is_null() -> None:
    """KIP-893: as Kafka's generated writers do for the assignment of a heartbeat."""
    head = bytes.fromhex("00000000 0000 00 00 00000007 00001388")
    response = ConsumerGroupHeartbeatResponse(member_epoch=7, heartbeat_interval_ms=5000)
    assert response.encode(1) == head + b"\xff" + b"\0"
    topic = TopicPartitions(topic_id=b"i" * 16, partitions=[3])
    response.assignment = HeartbeatAssignment(topic_partitions=[topic])
    given = b"\2" + b"i" * 16 + b"\2" + b"\0\0\0\3" + b"\0" + b"\0"
    assert response.encode(1) == head + b"\1" + given + b"\0"
    for presence, expected in ((b"\xff", None), (b"\x80", None)):
        assert ConsumerGroupHeartbeatResponse.decode(head + presence + b"\0", 1).assignment is expected
