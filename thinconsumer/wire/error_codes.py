"""Kafka's error codes: for each its name, description, and whether to retry or refresh metadata.

Codes, names, "retriable" and "refresh metadata" are those of Kafka 4.4's ``Errors.java`` and its exception classes.
The last code is the project's own.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from .. import errors
from ..errors import AuthorizationError, BrokerResponseError, IllegalArgumentError, SaslAuthenticationFailedError
from ..types import TopicPartition


class ErrorCode(NamedTuple):
    """One of Kafka's error codes: its number, name and description, the exception for it, and how a client reacts."""

    code: int
    name: str
    retriable: bool  #: Whether the same request can succeed later.
    refresh_metadata: bool  #: Whether the client must refresh its metadata before it retries.
    text: str
    error: type[BrokerResponseError]


FINAL = "final"
RETRIABLE = "retriable"
REFRESH = "refresh metadata"  #: The request can succeed later, after a metadata refresh.


#: The exceptions for responses, by class name: most have the name of an error code in camel case, and ``Error``.
_NAMED = {
    name: error
    for name, error in vars(errors).items()
    if isinstance(error, type) and issubclass(error, BrokerResponseError)
}


class Code(enum.IntEnum):
    """Kafka's error codes by name. By default, a code's exception is the one of the same name, else the base class."""

    row: ErrorCode

    def __new__(cls, code: int, *_: object) -> Code:
        member = int.__new__(cls, code)
        member._value_ = code
        return member

    def __init__(
        self, code: int, text: str = "", does: str = FINAL, error: type[BrokerResponseError] | None = None
    ) -> None:
        retriable = does in (RETRIABLE, REFRESH)
        error = error or _NAMED.get(f"{self.name.title().replace('_', '')}Error", BrokerResponseError)
        self.row = ErrorCode(code, self.name, retriable, does == REFRESH, text, error)

    UNKNOWN_SERVER_ERROR = -1, "the broker failed unexpectedly; see its log"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside the partition's log"
    CORRUPT_MESSAGE = 2, "a record batch is broken (checksum, size), or lacks a key in a compacted topic", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker has no such topic or partition", REFRESH
    INVALID_FETCH_SIZE = 4, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment; an election is under way", REFRESH
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the partition's leader, nor a replica where one suffices", REFRESH
    REQUEST_TIMED_OUT = 7, "the broker did not complete the request in time", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available on this broker", REFRESH
    MESSAGE_TOO_LARGE = 10, "a record is larger than the broker's message.max.bytes or the topic's max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, "another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata beside a committed offset is longer than offset.metadata.max.bytes"
    NETWORK_EXCEPTION = 13, "the connection was lost before the response arrived", REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading the group's or transaction's state", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available at the moment", RETRIABLE
    NOT_COORDINATOR = 16, "another broker is the coordinator now", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not legal, or the topic is an internal one"
    RECORD_LIST_TOO_LARGE = 18, "the batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas requires", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "appended, but too few replicas are in sync (min.insync.replicas)", RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the group has another generation now; this member has to rejoin"
    INCONSISTENT_GROUP_PROTOCOL = 23, "this member shares no assignor or protocol type with the group's other members"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the coordinator has no such member (any more); this member has to rejoin"
    INVALID_SESSION_TIMEOUT = (
        26,
        "session_timeout_ms is below the broker's group.min.session.timeout.ms or above group.max.session.timeout.ms",
    )
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; this member has to rejoin"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the commit is too large for one record batch"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the operation"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside the range that the topic accepts"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not accept this SASL mechanism here"
    ILLEGAL_SASL_STATE = (
        34,
        "the request is out of order in the SASL exchange, so its connection is closed and the next one logs in",
        FINAL,
        SaslAuthenticationFailedError,
    )
    UNSUPPORTED_VERSION = 35, "the broker does not support this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "the configuration is not valid"
    NOT_CONTROLLER = 41, "this broker is not the controller", RETRIABLE
    INVALID_REQUEST = 42, "the request is malformed or inconsistent; see the broker's log"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the topic's message format is too old for this request"
    POLICY_VIOLATION = 44, "a policy of the broker forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a batch's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, "a batch with this sequence number was written already"
    INVALID_PRODUCER_EPOCH = 47, "another producer with this id has taken over"
    INVALID_TXN_STATE = 48, "the transaction is in another state than the request assumes"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above the broker's transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "another operation on the same transaction is in progress", RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "another transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id", FINAL, AuthorizationError
    SECURITY_DISABLED = 54, "the broker has no authorizer"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another part of the same request failed"
    KAFKA_STORAGE_ERROR = 56, "the broker failed to access the partition's log on disk", REFRESH
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were rejected"
    UNKNOWN_PRODUCER_ID = 59, "the broker has no state of this producer id (any more)"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are disabled on the broker"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the broker has no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "this principal neither owns the delegation token nor may renew it"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens cannot be requested over this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token", FINAL, AuthorizationError
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal's type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the broker has dropped the fetch session", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is not the one the broker expects", RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener like the one that received the request", REFRESH
    TOPIC_DELETION_DISABLED = 73, "topic deletion is disabled on the broker"
    FENCED_LEADER_EPOCH = 74, "the request's leader epoch is older than the broker's", REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "the request's leader epoch is newer than the broker's", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "this version of the API does not support the batch's compression codec"
    STALE_BROKER_EPOCH = 77, "the broker has registered again, with a newer epoch"
    OFFSET_NOT_AVAILABLE = 78, "the new leader's high watermark is not up to date yet", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member has to join again with the member id it was just given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "the group is full: group.max.size"
    FENCED_INSTANCE_ID = 82, "another member with the same group_instance_id has joined"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead is available", REFRESH
    ELECTION_NOT_NEEDED = 84, "the partition already has the requested leader", REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "the broker found an invalid record"
    UNSTABLE_OFFSET_COMMIT = 88, "an ongoing transaction may change these committed offsets", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "a quota is exhausted for now", RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, "the request names a resource that does not exist"
    DUPLICATE_RESOURCE = 92, "the request names the same resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the broker's requirements"
    INCONSISTENT_VOTER_SET = 94, "sender or receiver is not one of the expected voters"
    INVALID_UPDATE_VERSION = 95, "the update's version is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the controller could not read the principal of a forwarded request"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker has no topic with this id", REFRESH, errors.UnknownTopicOrPartitionError
    DUPLICATE_BROKER_REGISTRATION = 101, "another broker uses this id already"
    BROKER_ID_NOT_REGISTERED = 102, "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic of this name has another id now", REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "the request expects another cluster id"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic ids and names", RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica of the new in-sync set is not eligible"
    NEW_LEADER_ELECTED = 108, "the change was made, but the partition has another leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in remote storage, which this version of the API cannot read"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is too old; it has to give up its partitions and rejoin"
    UNRELEASED_INSTANCE_ID = 111, "another member with the same group_instance_id has not left yet"
    UNSUPPORTED_ASSIGNOR = 112, "the broker does not have this assignor: check group_remote_assignor"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is not the current one; retry after the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request went to the wrong kind of listener (broker or controller)"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is not known (any more)"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, "the controller rejected the broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted; the producer remains usable"
    INVALID_RECORD_STATE = 121, "the record cannot be acknowledged in its present state"
    SHARE_SESSION_NOT_FOUND = 122, "the broker has dropped the share session", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is not the one the broker expects", RETRIABLE
    FENCED_STATE_EPOCH = 124, "the state's epoch is not the current one"
    INVALID_VOTER_KEY = 125, "the voter's key is not the receiver's"
    DUPLICATE_VOTER = 126, "the node is a voter already"
    VOTER_NOT_FOUND = 127, "the node is not a voter"
    INVALID_REGULAR_EXPRESSION = 128, "the broker could not compile the regular expression"
    REBOOTSTRAP_REQUIRED = 129, "the metadata of the client is outdated: it must start from its bootstrap servers again"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the streams topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "a newer streams topology has taken over"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has as many share sessions as it allows", RETRIABLE
    GROUP_DELETION_FAILED = 134, "the group could not be deleted"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "the broker could not store the streams topology's description"
    CONTROLLER_ID_NOT_REGISTERED = 136, "no controller with this id is registered"
    # Not Kafka's, see ``wire.extensions``.
    INVALID_PARTITION_METADATA = 25_300, "the client and the broker know different numbers of partitions", REFRESH


class _ByCode(dict[int, ErrorCode]):
    def __missing__(self, code: int) -> ErrorCode:
        # The entry for an unknown code is not stored: a faulty broker could send all 65,536 codes and fill the memory.
        text = "this client does not know the code; the broker may be newer"
        return ErrorCode(code, f"UNKNOWN_ERROR_{code}", False, False, text, BrokerResponseError)


#: Each code's meaning; an unknown code is not retriable and has the name ``UNKNOWN_ERROR_<code>``.
BY_CODE: dict[int, ErrorCode] = _ByCode({int(code): code.row for code in Code})


def to_error(
    code: int,
    *,
    api: str = "",
    node_id: int | None = None,
    partition: TopicPartition | None = None,
    group_id: str = "",
    detail: str | None = "",
) -> BrokerResponseError:
    """Return (not raise) the exception for ``code``, which must not be 0; ``detail`` is the broker's error message."""
    if code == Code.NONE:
        raise IllegalArgumentError("error code 0 is no error, so it has no exception")
    row = BY_CODE[code]
    # The node id of a bootstrap server is unknown; callers pass a negative number for it.
    who = "broker" if node_id is None or node_id < 0 else f"broker {node_id}"
    what = f" to {api}" if api else ""
    where = f" for {partition.topic}-{partition.partition}" if partition else ""
    said = f" ({detail})" if detail else ""
    error = row.error(
        f"{who} answered {row.name}{what}{where}: {row.text}{said}",
        code=code,
        name=row.name,
        retriable=row.retriable,
        api=api,
        node_id=node_id,
        partition=partition,
    )
    if isinstance(error, errors.GroupAuthorizationFailedError):
        error.group_id = group_id
    if partition is not None and isinstance(error, errors.TopicAuthorizationFailedError):
        error.topics = (partition.topic,)
    return error
