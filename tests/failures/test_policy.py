"""Every API has a rule for every error code, and each rule that differs from the general table says why."""

import pytest

from thinconsumer.errors import LogTruncationError, NoOffsetForPartitionError
from thinconsumer.failures import EXPULSIONS, IN_DOUBT, Action, Scope, Told, rule, waits_for_user
from thinconsumer.failures.policy import EXCEPTIONS, JUDGED
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error

A = Action
#: How the handlers of Java's consumer, producer and admin client react to these codes.
JAVA = {
    ("Fetch", Scope.PARTITION): {
        A.REFRESH_METADATA: "NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE KAFKA_STORAGE_ERROR FENCED_LEADER_EPOCH "
        "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID",
        # Not UNKNOWN_LEADER_EPOCH: Java's consumer sends the same request again, without new metadata.
        A.RETRY: "OFFSET_NOT_AVAILABLE UNKNOWN_SERVER_ERROR",
        A.RESET_POSITION: "OFFSET_OUT_OF_RANGE",
        A.RAISE: "TOPIC_AUTHORIZATION_FAILED CORRUPT_MESSAGE UNSUPPORTED_COMPRESSION_TYPE INVALID_REQUEST",
    },
    ("Fetch", Scope.CONSUMER): {
        A.NEW_SESSION: "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR",
        A.RAISE: "INVALID_REQUEST",
    },
    ("ListOffsets", Scope.PARTITION): {A.REFRESH_METADATA: "LEADER_NOT_AVAILABLE", A.RETRY: "CORRUPT_MESSAGE"},
    ("Metadata", Scope.CONSUMER): {A.REBOOTSTRAP: "REBOOTSTRAP_REQUIRED", A.RETRY: "UNKNOWN_SERVER_ERROR"},
    ("Metadata", Scope.TOPIC): {A.RAISE: "TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION"},
    ("FindCoordinator", Scope.GROUP): {
        A.RETRY: "COORDINATOR_NOT_AVAILABLE UNKNOWN_SERVER_ERROR",
        A.RAISE: "GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID",
    },
    ("JoinGroup", Scope.GROUP): {
        A.WAIT_FOR_COORDINATOR: "COORDINATOR_LOAD_IN_PROGRESS",
        A.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR",
        A.RESET_GENERATION: "ILLEGAL_GENERATION",
        A.RESET_MEMBER_ID: "UNKNOWN_MEMBER_ID",
        A.REJOIN: "REBALANCE_IN_PROGRESS",
        A.USE_MEMBER_ID: "MEMBER_ID_REQUIRED",
        A.GIVE_UP: "FENCED_INSTANCE_ID INVALID_SESSION_TIMEOUT INVALID_GROUP_ID",
        A.RAISE: "INCONSISTENT_GROUP_PROTOCOL GROUP_MAX_SIZE_REACHED GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
        A.RETRY: "REQUEST_TIMED_OUT",
    },
    ("OffsetFetch", Scope.GROUP): {
        A.WAIT_FOR_COORDINATOR: "COORDINATOR_LOAD_IN_PROGRESS",
        A.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR",
        A.RAISE: "GROUP_AUTHORIZATION_FAILED",
    },
    ("OffsetFetch", Scope.PARTITION): {A.RETRY: "UNSTABLE_OFFSET_COMMIT", A.RAISE: "TOPIC_AUTHORIZATION_FAILED"},
    ("OffsetCommit", Scope.PARTITION): {
        A.WAIT_FOR_COORDINATOR: "COORDINATOR_LOAD_IN_PROGRESS",
        A.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR REQUEST_TIMED_OUT",
        A.RETRY_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID",
        A.CHECK_MEMBERSHIP: "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID GROUP_ID_NOT_FOUND REBALANCE_IN_PROGRESS "
        "FENCED_INSTANCE_ID",
        A.FAIL: "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED INVALID_GROUP_ID "
        "GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
        A.RETRY: "NETWORK_EXCEPTION",
    },
    ("Produce", Scope.PARTITION): {
        A.ACCEPT: "NONE DUPLICATE_SEQUENCE_NUMBER",
        A.REFRESH_METADATA: "NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_ID",
        A.RETRY: "NOT_ENOUGH_REPLICAS",
        A.NEW_SEQUENCE: "OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID",
        A.SPLIT_BATCH: "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE",
        A.NEW_PRODUCER_ID: "INVALID_PRODUCER_EPOCH PRODUCER_FENCED",
        A.FAIL: "TOPIC_AUTHORIZATION_FAILED INVALID_RECORD UNKNOWN_SERVER_ERROR",
    },
    ("InitProducerId", Scope.CONSUMER): {A.RETRY: "UNKNOWN_SERVER_ERROR", A.FAIL: "CLUSTER_AUTHORIZATION_FAILED"},
    ("GetTelemetrySubscriptions", Scope.CONSUMER): {
        A.STOP_PUSHING: "UNSUPPORTED_VERSION INVALID_REQUEST INVALID_RECORD UNKNOWN_SERVER_ERROR",
        A.RETRY: "THROTTLING_QUOTA_EXCEEDED UNKNOWN_SUBSCRIPTION_ID UNSUPPORTED_COMPRESSION_TYPE",
    },
    ("PushTelemetry", Scope.CONSUMER): {
        A.STOP_PUSHING: "UNSUPPORTED_VERSION INVALID_REQUEST INVALID_RECORD UNKNOWN_SERVER_ERROR",
        A.NEW_SUBSCRIPTION: "UNKNOWN_SUBSCRIPTION_ID UNSUPPORTED_COMPRESSION_TYPE",
        A.RETRY: "TELEMETRY_TOO_LARGE THROTTLING_QUOTA_EXCEEDED",
    },
    ("DeleteTopics", Scope.TOPIC): {
        A.FAIL: "REQUEST_TIMED_OUT UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID",
        A.FIND_CONTROLLER: "NOT_CONTROLLER",
    },
}
ROWS = [
    (api, scope, Code[name], action)
    for (api, scope), actions in JAVA.items()
    for action, names in actions.items()
    for name in names.split()
]
EVERY = [(api, scope, code) for api, scope in JUDGED for code in (*BY_CODE, 31_000, -77)]


@pytest.mark.parametrize(("api", "scope", "code", "action"), ROWS, ids=lambda value: getattr(value, "name", value))
def test_java_does_the_same(api, scope, code, action):
    assert rule(api, code, scope).action is action


def test_every_code_of_every_api_has_a_rule_and_only_exceptions_differ_from_the_general_table():
    for api, scope, code in EVERY:
        found, row, defaults = rule(api, code, scope), BY_CODE[code], JUDGED[api, scope]
        if code == Code.NONE:
            assert found.action is A.ACCEPT
        elif code in EXCEPTIONS.get((api, scope), {}):
            assert found.reason, f"{api}: {row.name} differs from the general table without a reason"
            assert found.action is EXCEPTIONS[api, scope][Code(code)].action
        elif row.retriable:
            assert found.action.is_retried and found.action.told is Told.WARNING
            assert (found.action is A.REFRESH_METADATA) is (row.refresh_metadata and defaults.refreshes)
        else:
            told = Told.WARNING if defaults.final is A.STOP_PUSHING else Told.ERROR
            assert (found.action, found.action.told) == (defaults.final, told), "final codes are never passed over"


def test_no_exception_restates_the_general_table():
    for (api, scope), rules in EXCEPTIONS.items():
        for code, found in rules.items():
            row, defaults = BY_CODE[code], JUDGED[api, scope]
            refreshed = row.refresh_metadata and defaults.refreshes
            usual = (A.REFRESH_METADATA if refreshed else A.RETRY) if row.retriable else defaults.final
            assert found.action is not usual or found.fails_as != "refused", f"{api}: {code.name}"


def test_a_member_that_is_expelled_gives_up_its_partitions_and_no_other_does():
    expelled = {code for code in Code if rule("Heartbeat", code, Scope.GROUP).action in EXPULSIONS}
    assert {code.name for code in expelled} == {
        "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "INVALID_SESSION_TIMEOUT", "INVALID_GROUP_ID",
    }  # fmt: skip


def test_a_batch_that_may_be_written_is_neither_split_nor_renumbered():
    actions = {rule("Produce", code, Scope.PARTITION).action for code in IN_DOUBT}
    assert actions == {A.RETRY, A.FAIL} and Code.NOT_ENOUGH_REPLICAS not in IN_DOUBT


def test_errors_that_no_answer_repeats_wait_for_the_user():
    tp = TopicPartition("t", 0)
    assert waits_for_user(NoOffsetForPartitionError([tp])) and waits_for_user(LogTruncationError(tp, 5, None))
    assert waits_for_user(to_error(Code.FENCED_INSTANCE_ID))
    assert not waits_for_user(to_error(Code.TOPIC_AUTHORIZATION_FAILED))
