"""Records of ``__consumer_offsets``: the bytes that Kafka writes, and every version in old logs."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import KafkaProtocolError
from thinconsumer_testing.broker.group import log_format as f

TOPIC_ID = bytes(range(16))
OFFSET = f.OffsetCommitValue(offset=5, leader_epoch=2, metadata="note", commit_timestamp=7)
MEMBER = f.MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout=3,
    session_timeout=4,
    subscription=b"s",
    assignment=b"a",
)
GROUP = f.GroupMetadataValue(
    protocol_type="consumer", generation=9, protocol="range", leader="m", current_state_timestamp=8, members=[MEMBER]
)
VALUES = [partial(f.decode_value, f.OffsetCommitValue), partial(f.decode_value, f.GroupMetadataValue)]


def test_keys() -> None:
    assert f.offset_key("g", "t", 3) == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert f.group_key("gr") == b"\0\2\0\2gr"


def test_offset_is_written_in_version_4_with_a_topic_id_tag() -> None:
    value = f.OffsetCommitValue(offset=5, leader_epoch=2, metadata="n", commit_timestamp=7, topic_id=TOPIC_ID)
    fixed = (5).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"\2n" + (7).to_bytes(8, "big")
    assert f.offset_value(value) == b"\0\4" + fixed + b"\1" + b"\0\x10" + TOPIC_ID


def test_without_a_topic_id_there_is_no_tag() -> None:
    assert f.offset_value(OFFSET).endswith((7).to_bytes(8, "big") + b"\0")


def test_offset_with_expiration_is_written_in_version_1() -> None:
    value = f.OffsetCommitValue(offset=5, leader_epoch=2, metadata="n", commit_timestamp=7, expire_timestamp=9)
    numbers = [number.to_bytes(8, "big") for number in (5, 7, 9)]
    assert f.offset_value(value) == b"\0\1" + numbers[0] + b"\0\1n" + numbers[1] + numbers[2]


def test_group_is_written_in_version_3() -> None:
    member = b"\0\1m\0\1i\0\1c\0\2/h\0\0\0\3\0\0\0\4\0\0\0\1s\0\0\0\1a"
    head = b"\0\3\0\x08consumer\0\0\0\x09\0\5range\0\1m" + (8).to_bytes(8, "big")
    assert f.versioned(GROUP, 3) == head + b"\0\0\0\1" + member


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_can_be_read(version: int) -> None:
    found = f.decode_value(f.OffsetCommitValue, version.to_bytes(2, "big") + OFFSET.encode(version))
    assert (found.offset, found.metadata, found.commit_timestamp) == (5, "note", 7)
    assert found.leader_epoch == (2 if version >= 3 else -1)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_can_be_read(version: int) -> None:
    found = f.decode_value(f.GroupMetadataValue, version.to_bytes(2, "big") + GROUP.encode(version))
    assert (found.generation, found.protocol, found.leader) == (9, "range", "m")
    (member,) = found.members
    assert (member.member_id, member.subscription, member.assignment) == ("m", b"s", b"a")
    assert member.rebalance_timeout == (3 if version >= 1 else -1)
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert found.current_state_timestamp == (8 if version >= 2 else -1)


def test_oldest_keys_can_be_read() -> None:
    key = f.decode_key(b"\0\0" + f.offset_key("g", "t", 3)[2:])
    assert key == f.OffsetCommitKey(group="g", topic="t", partition=3)


@pytest.mark.parametrize("kind", [10, 17, 32767, 0xFFFF])
def test_other_key_types_are_ignored(kind: int) -> None:
    """Records of share groups and streams groups are in the same topic."""
    assert f.decode_key(kind.to_bytes(2, "big") + b"whatever") is None


@pytest.mark.parametrize("decode", VALUES)
@pytest.mark.parametrize("version", [5, 0xFFFF])
def test_unknown_versions_are_rejected(decode: Any, version: int) -> None:
    with pytest.raises(KafkaProtocolError, match="version"):
        decode(version.to_bytes(2, "big") + bytes(50))


@pytest.mark.parametrize("decode", [f.decode_key, *VALUES])
@settings(deadline=None, max_examples=100)
@given(version=st.integers(0, 5), data=st.binary(max_size=60), short=st.binary(max_size=1))
def test_invalid_bytes_raise_one_error_type(decode: Any, version: int, data: bytes, short: bytes) -> None:
    for nonsense in (version.to_bytes(2, "big") + data, short):
        try:
            decode(nonsense)
        except KafkaProtocolError:
            pass


def test_record_without_key_is_invalid() -> None:
    with pytest.raises(KafkaProtocolError):
        f.decode_key(None)
