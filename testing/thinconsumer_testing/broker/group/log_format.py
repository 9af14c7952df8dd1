"""Records of ``__consumer_offsets``: committed offsets, and group generations.

A key begins with its type and a value with its version, two bytes each; a null value is a tombstone. Records are
written as by Kafka 4.3, and read in every version. Follows ``OffsetCommitKey.json``, ``OffsetCommitValue.json``,
``GroupMetadataKey.json`` and ``GroupMetadataValue.json``.
"""

from __future__ import annotations

from typing import TypeVar

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import Message
from thinconsumer.wire.schema import Struct, array, binary, int32, int64, string, uuid

from .consumer.log_format import CONSUMER_KEYS

VERSION_SIZE = 2
#: Key types. Type 0 is an older form of type 1. The types of consumer groups are in ``consumer.log_format``; further
#: types belong to share groups and streams groups.
LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA = 0, 1, 2

#: Versions in which the value of a committed offset is written: 4 as in Kafka 4.3; 1 if an old client has committed it
#: with a retention time, as only version 1 has a time of expiration.
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_EXPIRING = 1
GROUP_VALUE_VERSION = 3


class OffsetCommitKey(Message, versions=(LEGACY_OFFSET_COMMIT, OFFSET_COMMIT)):
    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    """The value of a committed offset, times in milliseconds; only old clients set ``expire_timestamp``."""

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(Message, versions=(GROUP_METADATA, GROUP_METADATA)):
    group: str = string("2")


class MemberMetadata(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")


M = TypeVar("M", bound=Message)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return versioned(OffsetCommitKey(group=group, topic=topic, partition=partition), OFFSET_COMMIT)


def offset_value(value: OffsetCommitValue) -> bytes:
    """Encode the value of the record of a committed offset: in version 1 if it has a time of expiration, else in 4."""
    expires = value.expire_timestamp != -1
    return versioned(value, OFFSET_VALUE_VERSION_EXPIRING if expires else OFFSET_VALUE_VERSION)


def group_key(group: str) -> bytes:
    return versioned(GroupMetadataKey(group=group), GROUP_METADATA)


def decode_key(key: bytes | None) -> Message | None:
    """Return the parsed key, None for a key of an unknown type; raise KafkaProtocolError if the key is invalid."""
    data = key or b""
    kind = version_of(data)
    if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
        return OffsetCommitKey.decode(data, kind, VERSION_SIZE)
    if kind == GROUP_METADATA:
        return GroupMetadataKey.decode(data, kind, VERSION_SIZE)
    about = CONSUMER_KEYS.get(kind)
    return None if about is None else about.decode(data, kind, VERSION_SIZE)


def versioned(message: Message, version: int) -> bytes:
    """Return a key or value: its version in two bytes, followed by the message encoded in this version."""
    return version.to_bytes(VERSION_SIZE, "big") + message.encode(version)


def decode_value(kind: type[M], data: bytes) -> M:
    """Parse a record's value as a message of the type ``kind``. Raises: KafkaProtocolError."""
    version = version_of(data)
    first, last = kind.VERSIONS
    if not first <= version <= last:
        raise KafkaProtocolError(f"{kind.__name__} version {version} is unknown; supported are {first} to {last}")
    return kind.decode(data, version, VERSION_SIZE)


def version_of(data: bytes) -> int:
    """Return the version with which a key or value begins. Raises: KafkaProtocolError."""
    if len(data) < VERSION_SIZE:
        raise KafkaProtocolError(f"a coordinator key or value of {len(data)} bytes is too short for its version")
    return int.from_bytes(data[:VERSION_SIZE], "big", signed=True)
