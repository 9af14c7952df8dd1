"""Map each error code of each API and scope to an action, whether to retry, and what to report to the user.

:func:`rule` derives the action from the columns "retriable" and "refresh metadata" of the general table in
:mod:`~thinconsumer.wire.error_codes`. :data:`EXCEPTIONS` lists the codes that an API treats differently, each with the
reason. The behaviour follows Java's ``FetchCollector``, ``AbstractCoordinator``, ``ConsumerCoordinator``, ``Sender``
and ``KafkaAdminClient``. docs/errors.md is generated from these tables.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import (
    BrokerResponseError,
    FencedInstanceIdError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from ..wire.error_codes import BY_CODE, Code


class Scope(enum.Enum):
    """The object that an error code in a response applies to."""

    PARTITION = "partition"
    TOPIC = "topic"
    GROUP = "group"
    CONSUMER = "consumer"  #: The error code applies to the whole response.


class Told(enum.Enum):
    """The client's report to the user about an error code: no report, a log line if it lasts, or an exception."""

    NOTHING = "nothing"
    WARNING = "a warning, if it lasts"
    ERROR = "the error"


class Action(enum.Enum):
    """The client's reaction to an error code, with three attributes. ``text`` describes the reaction in docs/errors.md,
    ``is_retried`` tells whether the request is sent again, and ``told`` is the report to the user.
    """

    def __init__(self, text: str, is_retried: bool, told: Told) -> None:
        self.text = text
        self.is_retried = is_retried
        self.told = told

    ACCEPT = "treats the request as carried out", False, Told.NOTHING
    RETRY = "sends the request again after a backoff", True, Told.WARNING
    REFRESH_METADATA = "refreshes the metadata, then sends the request again after a backoff", True, Told.WARNING
    RAISE = "raises the error once for each answer, and sends the request again after a backoff", True, Told.ERROR
    FAIL = "fails the call or the batch with the error", False, Told.ERROR
    GIVE_UP = "raises the error in every poll, and leaves the group for good", False, Told.ERROR
    REBOOTSTRAP = "connects to the bootstrap servers again", True, Told.WARNING
    RESET_POSITION = "looks up both ends of the log, then applies auto_offset_reset", True, Told.WARNING
    NEW_SESSION = "opens a new fetch session", True, Told.NOTHING
    RETRY_PARTITION = "commits the other partitions, and this one again after a backoff", True, Told.WARNING
    WAIT_FOR_COORDINATOR = "asks the same coordinator again after a backoff", True, Told.WARNING
    FIND_COORDINATOR = "looks for the coordinator, then sends the request again", True, Told.WARNING
    FIND_CONTROLLER = "looks for the controller, then sends the request again", True, Told.WARNING
    USE_CLASSIC_API = "sends the request for groups of the classic protocol instead", True, Told.NOTHING
    USE_MEMBER_ID = "joins again with the member id of the answer", True, Told.NOTHING
    REJOIN = "joins again with the same member id", True, Told.NOTHING
    RESET_GENERATION = "reports all partitions as lost, and joins again with the same member id", True, Told.WARNING
    RESET_MEMBER_ID = "reports all partitions as lost, and joins again as a new member", True, Told.WARNING
    CHECK_MEMBERSHIP = "commits again if member id or generation have changed since, else fails", True, Told.ERROR
    NEW_SEQUENCE = "sends the batch again with the next epoch and sequence number 0", True, Told.WARNING
    SPLIT_BATCH = "sends the two halves of the batch; fails a batch of one record", True, Told.ERROR
    NEW_SUBSCRIPTION = "asks for the telemetry subscription again", True, Told.NOTHING
    STOP_PUSHING = "pushes no more metrics", False, Told.WARNING
    NEW_PRODUCER_ID = "fails the batch, and asks for a new producer id", False, Told.ERROR


#: Actions after which the member treats its partitions as lost: it no longer belongs to the group's current generation,
#: or must leave the group, so the coordinator may assign the partitions to other members.
EXPULSIONS = frozenset({Action.RESET_MEMBER_ID, Action.RESET_GENERATION, Action.GIVE_UP})
#: Error codes of a ConsumerGroupHeartbeat that a JoinGroup would not get: the cluster lacks the consumer group
#: protocol, or the group has members of the classic protocol and may not be converted.
CLASSIC_ONLY = frozenset({Code.UNSUPPORTED_VERSION, Code.GROUP_ID_NOT_FOUND})
#: Error codes in a Produce response that leave open whether the broker has written the batch.
IN_DOUBT = frozenset({Code.UNKNOWN_SERVER_ERROR, Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class Rule(NamedTuple):
    """The action for one error code. ``reason`` is empty if the action follows from the table in ``wire.error_codes``
    that is the same for all APIs.
    """

    action: Action
    reason: str = ""
    fails_as: str = "refused"  #: :attr:`CommitFailedError.reason` of a commit that fails with this code.


class Defaults(NamedTuple):
    """The treatment of the error codes of one API that are not listed in :data:`EXCEPTIONS`."""

    #: Whether codes marked "refresh metadata" cause a metadata refresh. False for most requests to a coordinator, which
    #: is found with FindCoordinator, not in the metadata.
    refreshes: bool
    final: Action  #: The action for codes that are not retriable, and for codes that this client does not know.


_A, _S = Action, Scope
_MEMBER = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")
_READING = ("Fetch", "ListOffsets", "OffsetForLeaderEpoch")
_COORDINATED = ("FindCoordinator", "ConsumerGroupHeartbeat", "OffsetFetch", "ConsumerGroupPositions")
_CHANGING = ("CreateTopics", "DeleteTopics", "CreatePartitions")
_ABOUT_GROUPS = ("ConsumerGroupDescribe", "DescribeGroups", "DeleteGroups", "OffsetDelete")
_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
_EPOCHS = "PartitionLeaderEpochsForPartitions"

#: The defaults of each API, for each scope in which its response has error codes. "DescribeTopics" stands for a
#: Metadata request that the application has caused with a call: its errors fail that call.
JUDGED: Mapping[tuple[str, Scope], Defaults] = {
    **dict.fromkeys([(api, _S.PARTITION) for api in (*_READING, "OffsetFetch", _EPOCHS)], Defaults(True, _A.RAISE)),
    **dict.fromkeys([(api, _S.TOPIC) for api in ("Metadata", _EPOCHS)], Defaults(True, _A.RAISE)),
    **dict.fromkeys([(api, _S.CONSUMER) for api in ("Fetch", "Metadata")], Defaults(True, _A.RAISE)),
    **dict.fromkeys([(api, _S.GROUP) for api in (*_MEMBER, *_COORDINATED)], Defaults(False, _A.RAISE)),
    ("OffsetCommit", _S.PARTITION): Defaults(False, _A.FAIL),
    ("Produce", _S.PARTITION): Defaults(True, _A.FAIL),
    ("InitProducerId", _S.CONSUMER): Defaults(False, _A.FAIL),
    **dict.fromkeys([(api, _S.TOPIC) for api in ("DescribeTopics", *_CHANGING)], Defaults(True, _A.FAIL)),
    ("ListGroups", _S.CONSUMER): Defaults(True, _A.FAIL),
    **dict.fromkeys([(api, _S.CONSUMER) for api in _TELEMETRY], Defaults(False, _A.STOP_PUSHING)),
    **dict.fromkeys([(api, _S.GROUP) for api in _ABOUT_GROUPS], Defaults(True, _A.FAIL)),
}

_INTERNAL = Rule(_A.RETRY, "a broker returns this code for a passing internal failure")
_COORDINATOR: dict[Code, Rule] = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Rule(_A.WAIT_FOR_COORDINATOR, "the coordinator is still reading its log"),
    Code.COORDINATOR_NOT_AVAILABLE: Rule(_A.FIND_COORDINATOR, "the broker is shutting down or has not been elected"),
    Code.NOT_COORDINATOR: Rule(_A.FIND_COORDINATOR, "another broker is the coordinator"),
}
_CONTROLLER: dict[Code, Rule] = {
    Code.NOT_CONTROLLER: Rule(_A.FIND_CONTROLLER, "another broker is the controller"),
    Code.REQUEST_TIMED_OUT: Rule(_A.FAIL, "the controller may still carry it out, and then rejects a repetition"),
}
_NO_TOPIC: dict[Code, Rule] = dict.fromkeys(
    [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID], Rule(_A.FAIL, "the call named this topic")
)
_LEADER: dict[Code, Rule] = {
    Code.UNKNOWN_SERVER_ERROR: _INTERNAL,
    Code.UNKNOWN_LEADER_EPOCH: Rule(_A.REFRESH_METADATA, "the broker lags behind, or the cluster was set back"),
}
_FETCH: dict[Code, Rule] = {
    Code.OFFSET_OUT_OF_RANGE: Rule(_A.RESET_POSITION, "the records were deleted, or the log was truncated"),
    Code.CORRUPT_MESSAGE: Rule(_A.RAISE, "the broker cannot read its log at this offset; Java's consumer raises, too"),
}
_REFUSED = Rule(_A.GIVE_UP, "every join of this member would be refused")
_MEMBERSHIP: dict[Code, Rule] = {
    **_COORDINATOR,
    Code.MEMBER_ID_REQUIRED: Rule(_A.USE_MEMBER_ID, "the response has the member id to join with (KIP-394)"),
    Code.REBALANCE_IN_PROGRESS: Rule(_A.REJOIN, "the generation has ended, but the member id is still valid"),
    Code.UNKNOWN_MEMBER_ID: Rule(_A.RESET_MEMBER_ID, "the session timed out, or the coordinator lost its state"),
    Code.ILLEGAL_GENERATION: Rule(_A.RESET_GENERATION, "the group rebalanced without this member"),
    Code.FENCED_INSTANCE_ID: Rule(_A.GIVE_UP, "two members with one group_instance_id would fence each other for ever"),
    Code.INVALID_SESSION_TIMEOUT: _REFUSED,
    Code.INVALID_GROUP_ID: _REFUSED,
}
_HEARTBEAT = Rule(_A.RETRY, "the next heartbeat has the same error, and the member reacts to it there")
_POSITIONS: dict[Code, Rule] = {
    **_COORDINATOR,
    Code.REBALANCE_IN_PROGRESS: _HEARTBEAT,
    Code.UNKNOWN_MEMBER_ID: _HEARTBEAT,
    Code.ILLEGAL_GENERATION: _HEARTBEAT,
    Code.FENCED_INSTANCE_ID: _HEARTBEAT,
    Code.FENCED_MEMBER_EPOCH: _HEARTBEAT,
    Code.STALE_MEMBER_EPOCH: Rule(_A.RETRY, "the response to the next heartbeat has the new member epoch"),
}
_CONSUMER_GROUP: dict[Code, Rule] = {
    **_COORDINATOR,
    Code.UNKNOWN_MEMBER_ID: Rule(_A.RESET_GENERATION, "the session timed out, or the coordinator lost its state"),
    Code.FENCED_MEMBER_EPOCH: Rule(_A.RESET_GENERATION, "the coordinator knows a newer epoch"),
    Code.UNRELEASED_INSTANCE_ID: Rule(_A.GIVE_UP, "a running member has the same group_instance_id"),
    Code.FENCED_INSTANCE_ID: Rule(_A.GIVE_UP, "another member with the same group_instance_id has taken over"),
    Code.UNSUPPORTED_ASSIGNOR: _REFUSED,
    Code.GROUP_MAX_SIZE_REACHED: Rule(_A.GIVE_UP, "Java's consumer gives up, too, in this protocol"),
    Code.INVALID_REGULAR_EXPRESSION: _REFUSED,
    Code.UNSUPPORTED_VERSION: Rule(_A.GIVE_UP, "the cluster lacks the consumer group protocol"),
    Code.INVALID_REQUEST: _REFUSED,
    Code.INVALID_GROUP_ID: _REFUSED,
    Code.GROUP_ID_NOT_FOUND: Rule(
        _A.GIVE_UP, "the group has classic members, and may not be converted; a former member joins again"
    ),
}
_STALE = "the response may concern an earlier member id or generation of this member"
_KEPT = "offsets of kept partitions are committed "
_ONE_CALL = "the code is about one call; other commits may succeed"
_NEW_TOPIC = "the coordinator's metadata may lack a topic that was just created"
_COMMIT: dict[Code, Rule] = {
    **_COORDINATOR,
    Code.REQUEST_TIMED_OUT: Rule(_A.FIND_COORDINATOR, "a coordinator that cannot replicate the commit may be deposed"),
    Code.UNKNOWN_TOPIC_OR_PARTITION: Rule(_A.RETRY_PARTITION, _NEW_TOPIC),
    Code.UNKNOWN_TOPIC_ID: Rule(_A.RETRY_PARTITION, _NEW_TOPIC),
    Code.INCONSISTENT_TOPIC_ID: Rule(_A.RETRY_PARTITION, _NEW_TOPIC),
    Code.ILLEGAL_GENERATION: Rule(_A.CHECK_MEMBERSHIP, _STALE, "illegal_generation"),
    Code.UNKNOWN_MEMBER_ID: Rule(_A.CHECK_MEMBERSHIP, _STALE, "unknown_member"),
    Code.REBALANCE_IN_PROGRESS: Rule(_A.CHECK_MEMBERSHIP, _KEPT + "afterwards", "rebalance_in_progress"),
    Code.FENCED_INSTANCE_ID: Rule(_A.CHECK_MEMBERSHIP, _STALE, "fenced"),
    # This code fails a commit only if the membership has ended since; otherwise the commit is repeated.
    Code.STALE_MEMBER_EPOCH: Rule(_A.CHECK_MEMBERSHIP, _KEPT + "under the new epoch", "illegal_generation"),
    Code.GROUP_ID_NOT_FOUND: Rule(
        _A.CHECK_MEMBERSHIP, "from version 9 on: the group has no members at all", "unknown_member"
    ),
    Code.OFFSET_METADATA_TOO_LARGE: Rule(_A.FAIL, _ONE_CALL, "metadata_too_large"),
    Code.INVALID_COMMIT_OFFSET_SIZE: Rule(_A.FAIL, _ONE_CALL, "metadata_too_large"),
}
_PRODUCE: dict[Code, Rule] = {
    Code.DUPLICATE_SEQUENCE_NUMBER: Rule(_A.ACCEPT, "the batch is written, its offset is not known any more"),
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER: Rule(_A.NEW_SEQUENCE, "the broker has lost the batches before (KIP-360)"),
    Code.UNKNOWN_PRODUCER_ID: Rule(_A.NEW_SEQUENCE, "the broker has lost the batches before (KIP-360)"),
    Code.MESSAGE_TOO_LARGE: Rule(_A.SPLIT_BATCH, "each half may fit"),
    Code.RECORD_LIST_TOO_LARGE: Rule(_A.SPLIT_BATCH, "each half may fit"),
    # Two producers use the same producer id. If this client incremented the epoch again instead of requesting another
    # id, it would fence the other producer, which would do the same, and so on.
    Code.INVALID_PRODUCER_EPOCH: Rule(_A.NEW_PRODUCER_ID, "another producer uses this id with a higher epoch"),
    Code.PRODUCER_FENCED: Rule(_A.NEW_PRODUCER_ID, "another producer uses this id with a higher epoch"),
    Code.INVALID_PRODUCER_ID_MAPPING: Rule(_A.NEW_PRODUCER_ID, "the coordinator does not know this producer id"),
}
_NEXT_INTERVAL = "the next request follows after the push interval, and the subscription may be smaller by then"
_OUTDATED = Rule(_A.NEW_SUBSCRIPTION, "the subscriptions have changed, or the push came to a broker that has others")
_SUBSCRIBING: dict[Code, Rule] = dict.fromkeys(
    [Code.UNKNOWN_SUBSCRIPTION_ID, Code.UNSUPPORTED_COMPRESSION_TYPE, Code.TELEMETRY_TOO_LARGE],
    Rule(_A.RETRY, "these codes are about a push; Java's client repeats the request, too"),
)
_PUSH: dict[Code, Rule] = {
    Code.UNKNOWN_SUBSCRIPTION_ID: _OUTDATED,
    Code.UNSUPPORTED_COMPRESSION_TYPE: Rule(_A.NEW_SUBSCRIPTION, "the subscription has the codecs that are accepted"),
    Code.TELEMETRY_TOO_LARGE: Rule(_A.RETRY, _NEXT_INTERVAL),
}
_NEW_SESSION = Rule(_A.NEW_SESSION, "the broker has dropped the session, or expects another session epoch (KIP-227)")
_REBOOTSTRAP = Rule(_A.REBOOTSTRAP, "the known brokers do not belong to the cluster (KIP-1102)")

#: Codes that an API treats differently from the general table, by API and scope.
EXCEPTIONS: Mapping[tuple[str, Scope], Mapping[Code, Rule]] = {
    ("Fetch", _S.PARTITION): _LEADER | _FETCH,
    ("ListOffsets", _S.PARTITION): _LEADER,
    ("OffsetForLeaderEpoch", _S.PARTITION): _LEADER,
    ("Fetch", _S.CONSUMER): {
        Code.UNKNOWN_SERVER_ERROR: _INTERNAL,
        Code.FETCH_SESSION_ID_NOT_FOUND: _NEW_SESSION,
        Code.INVALID_FETCH_SESSION_EPOCH: _NEW_SESSION,
        Code.FETCH_SESSION_TOPIC_ID_ERROR: Rule(_A.NEW_SESSION, "the session began without topic ids (KIP-516)"),
    },
    ("Metadata", _S.CONSUMER): {Code.UNKNOWN_SERVER_ERROR: _INTERNAL, Code.REBOOTSTRAP_REQUIRED: _REBOOTSTRAP},
    ("FindCoordinator", _S.GROUP): {
        Code.UNKNOWN_SERVER_ERROR: _INTERNAL,
        Code.REBOOTSTRAP_REQUIRED: Rule(_A.RETRY, "the next Metadata response triggers the rebootstrap"),
    },
    **{(api, _S.GROUP): _MEMBERSHIP for api in _MEMBER},
    ("ConsumerGroupHeartbeat", _S.GROUP): _CONSUMER_GROUP,
    ("OffsetFetch", _S.GROUP): {
        **_COORDINATOR,
        Code.STALE_MEMBER_EPOCH: Rule(_A.RETRY, "the response to the heartbeat with the new epoch is on its way"),
        Code.UNKNOWN_MEMBER_ID: Rule(_A.RETRY, "the next heartbeat tells whether this is still a member"),
    },
    ("OffsetCommit", _S.PARTITION): _COMMIT,
    ("Produce", _S.PARTITION): _PRODUCE,
    ("InitProducerId", _S.CONSUMER): {
        Code.UNKNOWN_SERVER_ERROR: Rule(_A.RETRY, "the broker's block of producer ids could not be refilled")
    },
    ("ConsumerGroupPositions", _S.GROUP): _POSITIONS,
    ("GetTelemetrySubscriptions", _S.CONSUMER): _SUBSCRIBING,
    ("PushTelemetry", _S.CONSUMER): _PUSH,
    ("DescribeTopics", _S.TOPIC): _NO_TOPIC,
    ("CreateTopics", _S.TOPIC): _CONTROLLER,
    ("DeleteTopics", _S.TOPIC): _CONTROLLER | _NO_TOPIC,
    ("CreatePartitions", _S.TOPIC): _CONTROLLER | _NO_TOPIC,
    ("ConsumerGroupDescribe", _S.GROUP): {
        **_COORDINATOR,
        Code.GROUP_ID_NOT_FOUND: Rule(_A.USE_CLASSIC_API, "a classic group, or none at all"),
        Code.UNSUPPORTED_VERSION: Rule(_A.USE_CLASSIC_API, "the cluster lacks the consumer group protocol"),
    },
    **{(api, _S.GROUP): _COORDINATOR for api in ("DescribeGroups", "DeleteGroups", "OffsetDelete")},
}


def rule(api: str, code: int, scope: Scope) -> Rule:
    """Return the rule for ``code`` in a response of ``api``. Codes unknown to this client count as not retriable."""
    if code == Code.NONE:
        return Rule(Action.ACCEPT)
    defaults = JUDGED[api, scope]
    found: Rule | None = EXCEPTIONS.get((api, scope), {}).get(code)  # type: ignore[call-overload]
    if found is not None:
        return found
    row = BY_CODE[code]
    if not row.retriable:
        return Rule(defaults.final)
    return Rule(Action.REFRESH_METADATA if row.refresh_metadata and defaults.refreshes else Action.RETRY)


def waits_for_user(error: KafkaError) -> bool:
    """Return whether the consumer stops reading after this error until the application acts, for example by a seek.

    Every poll raises such an error again, as in Java's consumer. Mostly, the consumer sends no more requests for the
    partition or group concerned, so no later response could report the error a second time: an application that ignored
    the one exception would read nothing more and never learn why.
    """
    if isinstance(error, BrokerResponseError) and error.api == "ConsumerGroupHeartbeat":
        return rule(error.api, error.code, _S.GROUP).action is _A.GIVE_UP
    return isinstance(error, _WAITING)


_WAITING = (
    NoOffsetForPartitionError,
    LogTruncationError,
    OffsetOutOfRangeError,
    FencedInstanceIdError,
    InvalidSessionTimeoutError,
    InvalidGroupIdError,
)
