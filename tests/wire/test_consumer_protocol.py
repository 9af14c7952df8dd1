"""Subscriptions and assignments: against Java's bytes, two other codecs, and malformed bytes."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

#: The bytes that Java's ``ConsumerProtocol`` of kafka-clients 4.3.0 writes, by version.
_TOPICS = "00000002 000174 0002c3a4 00000004 64617461"
_PARTITIONS = "00000002 000174 00000002 00000001 00000005 0002c3a4 00000001 00000000"
GOLDEN = {
    "subscription": [
        f"0000 {_TOPICS}",
        f"0001 {_TOPICS} {_PARTITIONS}",
        f"0002 {_TOPICS} {_PARTITIONS} 00000007",
        f"0003 {_TOPICS} {_PARTITIONS} 00000007 00027231",
    ],
    "assignment": [f"000{version} {_PARTITIONS} 00000004 64617461" for version in range(4)],
}
OWNED = [TopicPartition("ä", 0), TopicPartition("t", 5), TopicPartition("t", 1)]
SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["t", "ä"],
    user_data=b"data",
    owned_partitions=[AssignedTopic(topic="t", partitions=[1, 5]), AssignedTopic(topic="ä", partitions=[0])],
    generation_id=7,
    rack_id="r1",
)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[AssignedTopic(topic="t", partitions=[1, 5]), AssignedTopic(topic="ä", partitions=[0])],
    user_data=b"data",
)


def seen_by(version):
    seen = ConsumerProtocolSubscription(topics=SUBSCRIPTION.topics, user_data=SUBSCRIPTION.user_data)
    if version >= 1:
        seen.owned_partitions = SUBSCRIPTION.owned_partitions
    if version >= 2:
        seen.generation_id = SUBSCRIPTION.generation_id
    if version >= 3:
        seen.rack_id = SUBSCRIPTION.rack_id
    return seen


@pytest.mark.parametrize("version", range(4))
def test_javas_bytes_of_every_version_are_read(version):
    assert decode_subscription(bytes.fromhex(GOLDEN["subscription"][version])) == seen_by(version)
    assert decode_assignment(bytes.fromhex(GOLDEN["assignment"][version])) == ASSIGNMENT


def test_encoding_equals_javas():
    assert encode_subscription(["ä", "t"], b"data", OWNED, 7, "r1") == bytes.fromhex(GOLDEN["subscription"][3])
    assert encode_assignment(OWNED, b"data") == bytes.fromhex(GOLDEN["assignment"][3])
    assert encode_subscription([]).hex() == "000300000000ffffffff00000000ffffffffffff"
    assert encode_assignment([]).hex() == "000300000000ffffffff"


@pytest.mark.parametrize("version", [4, 32767])
def test_a_higher_version_is_read_as_the_highest_known(version):
    """Higher versions may append fields."""
    prefix = version.to_bytes(2, "big")
    data = prefix + bytes.fromhex(GOLDEN["subscription"][3])[2:] + b"new"
    assert decode_subscription(data) == SUBSCRIPTION
    assert decode_assignment(prefix + bytes.fromhex(GOLDEN["assignment"][3])[2:] + b"new") == ASSIGNMENT


def test_version_1_without_its_field_is_read_as_version_0():
    """Some clients send this."""
    data = b"\0\1" + bytes.fromhex(GOLDEN["subscription"][0])[2:]
    assert decode_subscription(data) == seen_by(0)


def test_zero_bytes_are_an_empty_assignment():
    assert decode_assignment(b"") == ConsumerProtocolAssignment()


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_subscription, b""),
        (decode_subscription, b"\0"),
        (decode_subscription, b"\0\0"),
        (decode_subscription, b"\xff\xff" + bytes(20)),
        (decode_subscription, b"\0\0\x7f\xff\xff\xff"),
        (decode_subscription, b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"),
        (decode_subscription, b"\0\1\0\0\0\0\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (decode_assignment, b"\0"),
        (decode_assignment, b"\x80\0" + bytes(20)),
        (decode_assignment, b"\0\0\0\0\0\1\0\1t\x7f\xff\xff\xff"),
        (decode_assignment, b"\0\0\0\0\0\1\0\1t\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff"),  # partition -1
    ],
)
def test_malformed_bytes_are_rejected(decode, data):
    with pytest.raises(KafkaProtocolError):
        decode(data)


@pytest.mark.parametrize("version", range(4))
def test_truncated_bytes_are_rejected(version):
    """A subscription may end after the fields of version 0."""
    data = bytes.fromhex(GOLDEN["subscription"][version])
    allowed = {len(bytes.fromhex(GOLDEN["subscription"][0]))} if version else set()
    for size in set(range(len(data))) - allowed:
        with pytest.raises(KafkaProtocolError):
            decode_subscription(data[:size])
    data = bytes.fromhex(GOLDEN["assignment"][version])
    for size in range(1, len(data)):
        with pytest.raises(KafkaProtocolError):
            decode_assignment(data[:size])


@given(st.binary(max_size=80))
def test_only_typed_errors_come_out(data):
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except KafkaProtocolError:
            pass


def test_kafka_python_and_this_codec_read_each_others_bytes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = pytest.importorskip("kafka.protocol.consumer.metadata")
    read = other.ConsumerProtocolSubscription.decode(encode_subscription(["ä", "t"], b"data", OWNED, 7, "r1"))
    assert (list(read.topics), read.user_data, read.generation_id, read.rack_id) == (["t", "ä"], b"data", 7, "r1")
    assert [(of.topic, list(of.partitions)) for of in read.owned_partitions] == [("t", [1, 5]), ("ä", [0])]
    assert decode_subscription(read.encode(version=3)) == SUBSCRIPTION
    share = other.ConsumerProtocolAssignment.decode(encode_assignment(OWNED, b"data"))
    assert [tuple(tp) for tp in share.partitions()] == [("t", 1), ("t", 5), ("ä", 0)]
    assert decode_assignment(share.encode(version=1)) == ASSIGNMENT
