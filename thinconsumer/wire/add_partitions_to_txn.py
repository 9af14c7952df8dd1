"""AddPartitionsToTxn (key 24): add partitions to a transaction before the producer writes to them (KIP-98).

Clients use versions up to 3, with one transaction per request. Versions from 4 on are sent by brokers, for several
transactions at once, and can only verify that partitions were added (KIP-890). Version 3 is flexible.
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition: error code 0 if it is part of the transaction now."""

    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """The results for the partitions of one topic."""

    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult, "0+")


class AddPartitionsToTxnResult(Struct):
    """The results for the partitions of one transaction, from version 4 on."""

    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Message):
    """The results for all partitions, grouped by transaction from version 4 on, and by topic before."""

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


class AddPartitionsToTxnTopic(Struct):
    """The partitions of one topic that are to be added to the transaction."""

    name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class AddPartitionsToTxnTransaction(Struct):
    """One transaction and the partitions to add to it, from version 4 on."""

    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Message):
    """Add partitions to transactions. ``transactions`` has them from version 4 on; before, the ``v3_and_below`` fields
    describe the one transaction.
    """

    RESPONSE = AddPartitionsToTxnResponse

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")
