"""Records of ``__transaction_state``: the metadata of each transactional id, in Kafka's format.

A later record of an id replaces the earlier ones; a null value is a tombstone. Keys and values begin with their version
in two bytes. Version 1 of the value is flexible, and its new fields are tagged, so that older brokers can skip them
(KIP-915).
Follows ``TransactionLogKey.json``, ``TransactionLogValue.json`` and ``TransactionLog``.
"""

from __future__ import annotations

from collections.abc import Iterable

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.schema import Struct, array, int8, int16, int32, int64, string

from ..group.log_format import VERSION_SIZE, version_of, versioned
from .states import TransactionState
from .transaction import TransactionMetadata

KEY_VERSION = 0
#: Version of the values that clusters with transaction.version 1 or 2 write.
VALUE_VERSION = 1
#: The states of a transaction; the index is the number that stands for the state in the log.
_STATES = tuple(TransactionState)


class TransactionLogKey(Message, versions=(0, 0)):
    transactional_id: str = string("0+")


class PartitionsSchema(Struct):
    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", tag=2, default=0)


def encode_key(transactional_id: str) -> bytes:
    return versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def encode_value(metadata: TransactionMetadata) -> bytes:
    """Return the metadata, encoded as a record's value; as in Kafka, it does not include the last producer epoch."""
    partitions = None if metadata.state is TransactionState.EMPTY else _by_topic(metadata.partitions)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=_STATES.index(metadata.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.started_ms,
        client_transaction_version=metadata.client_version,
    )
    return versioned(value, VALUE_VERSION)


def decode_key(key: bytes | memoryview | None) -> str | None:
    """Return the transactional id, None for an unknown key version; raise KafkaProtocolError for an invalid key."""
    data = bytes(key or b"")
    if version_of(data) != KEY_VERSION:
        return None
    return TransactionLogKey.decode(data, KEY_VERSION, VERSION_SIZE).transactional_id


def decode_value(value: bytes | memoryview) -> TransactionMetadata | None:
    """Return the parsed value, None for an unknown value version; raise KafkaProtocolError for an invalid value."""
    data = bytes(value)
    version = version_of(data)
    if not 0 <= version <= VALUE_VERSION:
        return None
    read = TransactionLogValue.decode(data, version, VERSION_SIZE)
    if not 0 <= read.transaction_status < len(_STATES):
        raise KafkaProtocolError(
            f"transaction status {read.transaction_status} is unknown; valid are 0 to {len(_STATES) - 1}"
        )
    state = _STATES[read.transaction_status]
    topics = read.transaction_partitions or () if state is not TransactionState.EMPTY else ()
    return TransactionMetadata(
        producer_id=read.producer_id,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        producer_epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(TopicPartition(topic.topic, n) for topic in topics for n in topic.partition_ids),
        started_ms=read.transaction_start_timestamp_ms,
        updated_ms=read.transaction_last_update_timestamp_ms,
        client_version=read.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    found: dict[str, PartitionsSchema] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, PartitionsSchema(topic=topic)).partition_ids.append(partition)
    return list(found.values())
