"""The APIs of transactional producers.

AddPartitionsToTxn (key 24): add partitions to a transaction before the producer writes to them (KIP-98). Clients use
versions up to 3, with one transaction per request. Brokers use versions from 4 on, with several transactions per
request; with ``verify_only`` such a request only checks that partitions were added (KIP-890). Version 3 is flexible.

AddOffsetsToTxn (key 25): announce that a group's offsets will be committed inside a transaction (KIP-98). Version 3 is
flexible. Producers that use TxnOffsetCommit 5 (KIP-890) do not need this request.

TxnOffsetCommit (key 28): commit a group's offsets inside a transaction (KIP-98). Version 2 adds leader epochs, version
3 is flexible and adds member id and generation (KIP-447), version 5 adds the offsets to the transaction implicitly
(KIP-890), version 6 names topics by id and accepts members of KIP-848 groups (KIP-1319, new in 4.4 brokers).

EndTxn (key 26): commit or abort a transaction (KIP-98). Version 3 is flexible. From version 5 on each transaction gets
a new producer epoch (KIP-890).
"""

from thinconsumer.wire.message import Message
from thinconsumer.wire.schema import Struct, array, boolean, int16, int32, int64, string, uuid


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult, "0+")


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


class AddPartitionsToTxnTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Message, response=AddPartitionsToTxnResponse):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible=3):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class AddOffsetsToTxnRequest(Message, response=AddOffsetsToTxnResponse):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 6), flexible=3):
    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")


class TxnOffsetCommitRequestPartition(Struct):
    """The committed offset of one partition (the offset of the *next* record to read), and its metadata string."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Message, response=TxnOffsetCommitResponse):
    """Commit offsets that take effect with the transaction's commit; sent to the group's coordinator."""

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible=3):
    """The error code of the request and, from version 5 on, the producer id and epoch for the next transaction."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


class EndTxnRequest(Message, response=EndTxnResponse):
    """Commit (``committed=True``) or abort the transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")
