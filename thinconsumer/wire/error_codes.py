"""Kafka's error codes: for each its name, description, and whether to retry, refresh metadata or rejoin the group.

Codes, names, "retriable" and "refresh metadata" are those of Kafka 4.4's ``Errors.java`` and its exception classes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..errors import (
    AuthorizationError,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    IllegalArgumentError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ..types import TopicPartition


class Code(enum.IntEnum):
    """Kafka's error codes by name."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


class ErrorCode(NamedTuple):
    """One row of the table."""

    code: int
    name: str
    retriable: bool  #: The same request can succeed later.
    refresh_metadata: bool  #: ... but not before the metadata is asked for again.
    rejoin: bool  #: The group member has to join (again).
    text: str
    error: type[BrokerResponseError]


RETRIABLE = "retriable"
REFRESH = "refresh metadata"  #: Implies retriable.
REJOIN = "rejoin"


def _row(code: Code, text: str, does: str = "", error: type[BrokerResponseError] = BrokerResponseError) -> ErrorCode:
    return ErrorCode(int(code), code.name, does in (RETRIABLE, REFRESH), does == REFRESH, does == REJOIN, text, error)


class _ByCode(dict[int, ErrorCode]):
    def __missing__(self, code: int) -> ErrorCode:
        # Not kept: every one of 65536 numbers can come from the network.
        text = "this client does not know the code; the broker may be newer"
        return ErrorCode(code, f"UNKNOWN_ERROR_{code}", False, False, False, text, BrokerResponseError)


_ROWS = (
    _row(Code.UNKNOWN_SERVER_ERROR, "the broker failed in a way it has no code for; its log says more"),
    _row(Code.NONE, "no error"),
    _row(Code.OFFSET_OUT_OF_RANGE, "the offset is outside the partition's log", error=OffsetOutOfRangeError),
    _row(
        Code.CORRUPT_MESSAGE,
        "a record batch is broken (checksum, size), or lacks a key in a compacted topic",
        RETRIABLE,
    ),
    _row(
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        "this broker has no such topic or partition, or may not show it",
        REFRESH,
        UnknownTopicOrPartitionError,
    ),
    _row(Code.INVALID_FETCH_SIZE, "the fetch size is not valid"),
    _row(Code.LEADER_NOT_AVAILABLE, "the partition has no leader at the moment; an election is under way", REFRESH),
    _row(
        Code.NOT_LEADER_OR_FOLLOWER,
        "this broker neither leads the partition nor, where that would do, has a replica of it",
        REFRESH,
    ),
    _row(Code.REQUEST_TIMED_OUT, "the broker ran out of time for this request", RETRIABLE),
    _row(Code.BROKER_NOT_AVAILABLE, "the broker is not available"),
    _row(Code.REPLICA_NOT_AVAILABLE, "the replica is not available on this broker", REFRESH),
    _row(
        Code.MESSAGE_TOO_LARGE,
        "a record is larger than the broker's message.max.bytes or the topic's max.message.bytes",
    ),
    _row(Code.STALE_CONTROLLER_EPOCH, "another controller has taken over"),
    _row(
        Code.OFFSET_METADATA_TOO_LARGE,
        "the metadata beside a committed offset is longer than offset.metadata.max.bytes",
    ),
    _row(Code.NETWORK_EXCEPTION, "the connection was lost before the answer came", REFRESH),
    _row(
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        "the coordinator is still loading the group's or the transaction's state",
        RETRIABLE,
    ),
    _row(Code.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available at the moment", RETRIABLE),
    _row(Code.NOT_COORDINATOR, "another broker is the coordinator now", RETRIABLE),
    _row(Code.INVALID_TOPIC_EXCEPTION, "the topic's name is not legal, or the topic is an internal one"),
    _row(Code.RECORD_LIST_TOO_LARGE, "the batch is larger than a log segment"),
    _row(Code.NOT_ENOUGH_REPLICAS, "fewer replicas are in sync than min.insync.replicas asks for", RETRIABLE),
    _row(
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        "written, but by then fewer replicas were in sync than min.insync.replicas asks for",
        RETRIABLE,
    ),
    _row(Code.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1"),
    _row(Code.ILLEGAL_GENERATION, "the group has moved on to another generation; this member has to rejoin", REJOIN),
    _row(
        Code.INCONSISTENT_GROUP_PROTOCOL,
        "this member shares no assignor or protocol type with the group's other members",
        error=InconsistentGroupProtocolError,
    ),
    _row(Code.INVALID_GROUP_ID, "the group id is not valid", error=InvalidGroupIdError),
    _row(Code.UNKNOWN_MEMBER_ID, "the coordinator does not know this member (any more); it has to rejoin", REJOIN),
    _row(
        Code.INVALID_SESSION_TIMEOUT,
        "session_timeout_ms is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
        error=InvalidSessionTimeoutError,
    ),
    _row(Code.REBALANCE_IN_PROGRESS, "the group is rebalancing; this member has to rejoin", REJOIN),
    _row(Code.INVALID_COMMIT_OFFSET_SIZE, "the commit is too large for one record batch"),
    _row(Code.TOPIC_AUTHORIZATION_FAILED, "not authorized for the topic", error=TopicAuthorizationFailedError),
    _row(Code.GROUP_AUTHORIZATION_FAILED, "not authorized for the group", error=GroupAuthorizationFailedError),
    _row(
        Code.CLUSTER_AUTHORIZATION_FAILED,
        "not authorized for this on the cluster",
        error=ClusterAuthorizationFailedError,
    ),
    _row(Code.INVALID_TIMESTAMP, "a record's timestamp is outside what the topic accepts"),
    _row(
        Code.UNSUPPORTED_SASL_MECHANISM,
        "the broker does not offer this SASL mechanism",
        error=SaslAuthenticationFailedError,
    ),
    _row(
        Code.ILLEGAL_SASL_STATE,
        "the request does not fit the present state of the SASL exchange",
        error=SaslAuthenticationFailedError,
    ),
    _row(Code.UNSUPPORTED_VERSION, "the broker does not speak this version of the API", error=UnsupportedVersionError),
    _row(Code.TOPIC_ALREADY_EXISTS, "a topic of this name exists already"),
    _row(Code.INVALID_PARTITIONS, "the number of partitions is not valid"),
    _row(Code.INVALID_REPLICATION_FACTOR, "the replication factor is below 1 or above the number of brokers"),
    _row(Code.INVALID_REPLICA_ASSIGNMENT, "the replica assignment is not valid"),
    _row(Code.INVALID_CONFIG, "the configuration is not valid"),
    _row(Code.NOT_CONTROLLER, "this broker is not the controller", RETRIABLE),
    _row(Code.INVALID_REQUEST, "the broker could not make sense of the request; its log says more"),
    _row(Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the topic's message format is too old for this"),
    _row(Code.POLICY_VIOLATION, "a policy of the broker forbids this"),
    _row(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "a batch's sequence number leaves a gap"),
    _row(Code.DUPLICATE_SEQUENCE_NUMBER, "a batch with this sequence number was written already"),
    _row(Code.INVALID_PRODUCER_EPOCH, "another producer with this id has taken over"),
    _row(Code.INVALID_TXN_STATE, "the transaction is in another state than the request assumes"),
    _row(Code.INVALID_PRODUCER_ID_MAPPING, "the producer id does not belong to the transactional id"),
    _row(Code.INVALID_TRANSACTION_TIMEOUT, "the transaction timeout is above the broker's transaction.max.timeout.ms"),
    _row(Code.CONCURRENT_TRANSACTIONS, "another operation on the same transaction is still going on", RETRIABLE),
    _row(Code.TRANSACTION_COORDINATOR_FENCED, "another transaction coordinator has taken over"),
    _row(
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not authorized for the transactional id", error=AuthorizationError
    ),
    _row(Code.SECURITY_DISABLED, "the broker runs without an authorizer"),
    _row(Code.OPERATION_NOT_ATTEMPTED, "not tried, because something else in the same request failed"),
    _row(Code.KAFKA_STORAGE_ERROR, "the broker has trouble with the disk of this partition", REFRESH),
    _row(Code.LOG_DIR_NOT_FOUND, "the broker has no such log directory"),
    _row(Code.SASL_AUTHENTICATION_FAILED, "the credentials were refused", error=SaslAuthenticationFailedError),
    _row(Code.UNKNOWN_PRODUCER_ID, "the broker no longer knows the producer id"),
    _row(Code.REASSIGNMENT_IN_PROGRESS, "the partition is being moved"),
    _row(Code.DELEGATION_TOKEN_AUTH_DISABLED, "the broker has delegation tokens switched off"),
    _row(Code.DELEGATION_TOKEN_NOT_FOUND, "the broker does not know the delegation token"),
    _row(Code.DELEGATION_TOKEN_OWNER_MISMATCH, "this principal neither owns the delegation token nor may renew it"),
    _row(Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "delegation tokens cannot be asked for over such a connection"),
    _row(
        Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "not authorized for the delegation token", error=AuthorizationError
    ),
    _row(Code.DELEGATION_TOKEN_EXPIRED, "the delegation token has expired"),
    _row(Code.INVALID_PRINCIPAL_TYPE, "the principal's type is not supported"),
    _row(Code.NON_EMPTY_GROUP, "the group still has members"),
    _row(Code.GROUP_ID_NOT_FOUND, "there is no such group"),
    _row(Code.FETCH_SESSION_ID_NOT_FOUND, "the broker has dropped the fetch session", RETRIABLE),
    _row(Code.INVALID_FETCH_SESSION_EPOCH, "the fetch session's epoch is not the one the broker expects", RETRIABLE),
    _row(Code.LISTENER_NOT_FOUND, "the leader does not have the listener that was asked", REFRESH),
    _row(Code.TOPIC_DELETION_DISABLED, "the broker has deletion of topics switched off"),
    _row(Code.FENCED_LEADER_EPOCH, "the broker knows a newer leader epoch than the request has", REFRESH),
    _row(Code.UNKNOWN_LEADER_EPOCH, "the request has a newer leader epoch than the broker knows yet", RETRIABLE),
    _row(Code.UNSUPPORTED_COMPRESSION_TYPE, "the data is compressed in a way this version of the API cannot carry"),
    _row(Code.STALE_BROKER_EPOCH, "the broker was registered anew in the meantime"),
    _row(Code.OFFSET_NOT_AVAILABLE, "the new leader does not know the high watermark for certain yet", RETRIABLE),
    _row(Code.MEMBER_ID_REQUIRED, "the member has to join again with the member id it was just given", REJOIN),
    _row(Code.PREFERRED_LEADER_NOT_AVAILABLE, "the preferred leader is not available", REFRESH),
    _row(Code.GROUP_MAX_SIZE_REACHED, "the group is full: group.max.size", error=GroupMaxSizeReachedError),
    _row(
        Code.FENCED_INSTANCE_ID,
        "another member with the same group_instance_id has taken over",
        error=FencedInstanceIdError,
    ),
    _row(Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica that may lead is available", REFRESH),
    _row(Code.ELECTION_NOT_NEEDED, "the leader is already the one asked for", REFRESH),
    _row(Code.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being moved"),
    _row(Code.GROUP_SUBSCRIBED_TO_TOPIC, "the group is subscribed to the topic"),
    _row(Code.INVALID_RECORD, "the broker found a record not valid"),
    _row(Code.UNSTABLE_OFFSET_COMMIT, "a transaction is about to change these committed offsets", RETRIABLE),
    _row(Code.THROTTLING_QUOTA_EXCEEDED, "a quota is used up for now", RETRIABLE),
    _row(Code.PRODUCER_FENCED, "a newer producer with the same transactional id has taken over"),
    _row(Code.RESOURCE_NOT_FOUND, "the request names something that does not exist"),
    _row(Code.DUPLICATE_RESOURCE, "the request names the same thing twice"),
    _row(Code.UNACCEPTABLE_CREDENTIAL, "the credential does not meet the broker's demands"),
    _row(Code.INCONSISTENT_VOTER_SET, "sender or receiver is not one of the expected voters"),
    _row(Code.INVALID_UPDATE_VERSION, "the update's version is not valid"),
    _row(Code.FEATURE_UPDATE_FAILED, "the features could not be updated"),
    _row(Code.PRINCIPAL_DESERIALIZATION_FAILURE, "the controller could not read the principal of a forwarded request"),
    _row(Code.SNAPSHOT_NOT_FOUND, "there is no such snapshot"),
    _row(Code.POSITION_OUT_OF_RANGE, "the position is outside the snapshot"),
    _row(Code.UNKNOWN_TOPIC_ID, "this broker has no topic with this id", REFRESH, UnknownTopicOrPartitionError),
    _row(Code.DUPLICATE_BROKER_REGISTRATION, "another broker uses this id already"),
    _row(Code.BROKER_ID_NOT_REGISTERED, "no broker with this id is registered"),
    _row(Code.INCONSISTENT_TOPIC_ID, "the topic of this name has another id now", REFRESH),
    _row(Code.INCONSISTENT_CLUSTER_ID, "this is another cluster than the one asked for"),
    _row(Code.TRANSACTIONAL_ID_NOT_FOUND, "there is no such transactional id"),
    _row(Code.FETCH_SESSION_TOPIC_ID_ERROR, "the fetch session mixes topic ids and names", RETRIABLE),
    _row(Code.INELIGIBLE_REPLICA, "a replica in the new in-sync set may not be there"),
    _row(Code.NEW_LEADER_ELECTED, "done, but the partition has another leader now"),
    _row(
        Code.OFFSET_MOVED_TO_TIERED_STORAGE,
        "the offset lives in remote storage, which this version of the API cannot follow",
    ),
    _row(
        Code.FENCED_MEMBER_EPOCH,
        "the member's epoch is too old; it has to give up its partitions and join again",
        REJOIN,
    ),
    _row(Code.UNRELEASED_INSTANCE_ID, "another member with the same group_instance_id has not left yet"),
    _row(Code.UNSUPPORTED_ASSIGNOR, "the group does not support this server-side assignor"),
    _row(Code.STALE_MEMBER_EPOCH, "the member's epoch is not the current one; retry after the next heartbeat"),
    _row(Code.MISMATCHED_ENDPOINT_TYPE, "the other kind of listener was asked (broker, controller)"),
    _row(Code.UNSUPPORTED_ENDPOINT_TYPE, "this kind of endpoint is not supported"),
    _row(Code.UNKNOWN_CONTROLLER_ID, "there is no such controller"),
    _row(Code.UNKNOWN_SUBSCRIPTION_ID, "the telemetry subscription is not known (any more)"),
    _row(Code.TELEMETRY_TOO_LARGE, "the telemetry is larger than the broker takes"),
    _row(Code.INVALID_REGISTRATION, "the controller refused the broker's registration"),
    _row(Code.TRANSACTION_ABORTABLE, "the transaction has to be aborted; the producer can be used on"),
    _row(Code.INVALID_RECORD_STATE, "the record cannot be acknowledged in its present state"),
    _row(Code.SHARE_SESSION_NOT_FOUND, "the broker has dropped the share session", RETRIABLE),
    _row(Code.INVALID_SHARE_SESSION_EPOCH, "the share session's epoch is not the one the broker expects", RETRIABLE),
    _row(Code.FENCED_STATE_EPOCH, "the state's epoch is not the current one"),
    _row(Code.INVALID_VOTER_KEY, "the voter's key is not the receiver's"),
    _row(Code.DUPLICATE_VOTER, "the voter is one already"),
    _row(Code.VOTER_NOT_FOUND, "the voter is none"),
    _row(Code.INVALID_REGULAR_EXPRESSION, "the broker could not compile the regular expression"),
    _row(
        Code.REBOOTSTRAP_REQUIRED,
        "the metadata of the client is outdated: it must start from its bootstrap servers again",
    ),
    _row(Code.STREAMS_INVALID_TOPOLOGY, "the streams topology is not valid"),
    _row(Code.STREAMS_INVALID_TOPOLOGY_EPOCH, "the streams topology's epoch is not valid"),
    _row(Code.STREAMS_TOPOLOGY_FENCED, "a newer streams topology has taken over"),
    _row(Code.SHARE_SESSION_LIMIT_REACHED, "the broker has as many share sessions as it allows", RETRIABLE),
    _row(Code.GROUP_DELETION_FAILED, "the group could not be deleted"),
    _row(
        Code.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, "the broker could not take the streams topology's description"
    ),
    _row(Code.CONTROLLER_ID_NOT_REGISTERED, "no controller with this id is registered"),
)

#: Every row by its code. ``BY_CODE[code]`` has an answer for codes nobody knows, too: a row that keeps the number.
BY_CODE: dict[int, ErrorCode] = _ByCode({row.code: row for row in _ROWS})


def to_error(
    code: int,
    *,
    api: str = "",
    node_id: int | None = None,
    partition: TopicPartition | None = None,
    detail: str | None = "",
) -> BrokerResponseError:
    """Return (not raise) the exception for ``code``; ``detail`` is what the broker said besides, if anything."""
    if code == Code.NONE:
        raise IllegalArgumentError("error code 0 means that there was no error")
    row = BY_CODE[code]
    who = "broker" if node_id is None or node_id < 0 else f"broker {node_id}"  # bootstrap servers have no id
    what = f" to {api}" if api else ""
    where = f" for {partition.topic}-{partition.partition}" if partition else ""
    said = f" ({detail})" if detail else ""
    return row.error(
        f"{who} answered {row.name}{what}{where}: {row.text}{said}",
        code=code,
        name=row.name,
        retriable=row.retriable,
        api=api,
        node_id=node_id,
        partition=partition,
    )
