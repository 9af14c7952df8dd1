"""Records of consumer groups: the bytes that Kafka writes, and that every one can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import Message
from thinconsumer_testing.broker.group.consumer import log_format as f
from thinconsumer_testing.broker.group.consumer.states import AssignmentState, ConsumerGroupState
from thinconsumer_testing.broker.group.log_format import decode_key, decode_value, versioned

TOPIC_ID = bytes(range(16))
VALUES: dict[type[Message], bytes] = {
    f.ConsumerGroupMetadataValue: b"\0\0\0\0\0\7\0",
    f.ConsumerGroupTargetAssignmentMetadataValue: b"\0\0\0\0\0\7\0",
    f.ConsumerGroupTargetAssignmentMemberValue: b"\0\0\1\0",
    f.ConsumerGroupCurrentMemberAssignmentValue: b"\0\0\0\0\0\7\0\0\0\6\1\1\1\0",
    f.ConsumerGroupRegularExpressionValue: b"\0\0\2\2t" + bytes(7) + b"\3" + bytes(7) + b"\4" + b"\0",
    f.ConsumerGroupMemberMetadataValue: b"\0\0\0\0\2c\3/h\2\2t\1\0\0\0\5\0\0",
}


@pytest.mark.parametrize("kind", f.CONSUMER_KEYS)
def test_keys_begin_with_their_type(kind: int) -> None:
    cls = f.CONSUMER_KEYS[kind]
    fields = [name for name in ("group_id", "member_id", "regular_expression") if name in cls._declared]
    key = cls(**{name: name[0] for name in fields})  # type: ignore[arg-type]
    data = versioned(key, kind)
    assert data == bytes([0, kind]) + b"".join(b"\0\1" + name[0].encode() for name in fields)
    assert decode_key(data) == key


def test_key_types_are_those_of_kafka() -> None:
    assert sorted(f.CONSUMER_KEYS) == [3, 4, 5, 6, 7, 8, 16]


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
def test_values_as_kafka_writes_them(cls: type[Message]) -> None:
    value = decode_value(cls, VALUES[cls])
    assert versioned(value, f.VALUE_VERSION) == VALUES[cls]


def test_a_hash_and_assignment_epochs_are_tagged_fields() -> None:
    value = f.ConsumerGroupMetadataValue(epoch=7, metadata_hash=9)
    assert versioned(value, 0) == b"\0\0\0\0\0\7\1\0\x08" + bytes(7) + b"\x09"
    owned = f.OwnedTopicPartitions(topic_id=TOPIC_ID, partitions=[1], assignment_epochs=[5])
    current = f.ConsumerGroupCurrentMemberAssignmentValue(assigned_partitions=[owned])
    assert TOPIC_ID + b"\2\0\0\0\1\1\0\5\2\0\0\0\5" in versioned(current, 0)
    assert decode_value(f.ConsumerGroupCurrentMemberAssignmentValue, versioned(current, 0)) == current


def test_a_member_of_the_classic_protocol_has_a_tagged_field() -> None:
    protocol = f.ClassicProtocol(name="range", metadata=b"x")
    classic = f.ClassicMemberMetadata(session_timeout_ms=6, supported_protocols=[protocol])
    value = f.ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    data = versioned(value, 0)
    assert data.endswith(b"\1\0\x10\1\0\0\0\6\2\6range\2x\0\0")
    assert decode_value(f.ConsumerGroupMemberMetadataValue, data) == value


@given(st.sampled_from(list(VALUES)), st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes_are_read_or_rejected(cls: type[Message], data: bytes) -> None:
    try:
        decode_value(cls, data)
    except KafkaProtocolError:
        pass


# -- states


@pytest.mark.parametrize(("value", "state"), [(0, "STABLE"), (1, "UNREVOKED_PARTITIONS"), (2, "UNRELEASED_PARTITIONS")])
def test_the_log_has_kafkas_numbers(value: int, state: str) -> None:
    assert AssignmentState.of(value).name == state


@pytest.mark.parametrize("value", [3, 126, -1, 127])
def test_a_number_of_a_later_version_is_unknown(value: int) -> None:
    assert AssignmentState.of(value) is AssignmentState.UNKNOWN


def test_groups_have_kafkas_names() -> None:
    assert [state.value for state in ConsumerGroupState] == ["Empty", "Assigning", "Reconciling", "Stable", "Dead"]
