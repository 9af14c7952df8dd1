"""The table of error codes, and the exceptions made from it."""

import pickle

import pytest

from thinconsumer.errors import (
    AuthorizationError,
    BrokerResponseError,
    IllegalArgumentError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error
from thinconsumer.wire.extensions import FIRST_ERROR_CODE


def test_every_code_has_one_row() -> None:
    assert sorted(BY_CODE) == sorted(Code) == [*range(-1, 137), FIRST_ERROR_CODE]
    for code, row in BY_CODE.items():
        assert (row.code, row.name) == (code, Code(code).name)
        assert row.text
        assert not row.text.endswith(".")


def test_only_retriable_codes_refresh_metadata() -> None:
    for row in BY_CODE.values():
        assert row.retriable or not row.refresh_metadata, row


@pytest.mark.parametrize(
    ("code", "retriable", "refresh"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, True, True),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, True, True),
        (Code.UNKNOWN_TOPIC_ID, True, True),
        (Code.INCONSISTENT_TOPIC_ID, True, True),
        (Code.FENCED_LEADER_EPOCH, True, True),
        (Code.KAFKA_STORAGE_ERROR, True, True),
        (Code.UNKNOWN_LEADER_EPOCH, True, False),
        (Code.OFFSET_NOT_AVAILABLE, True, False),
        (Code.UNSTABLE_OFFSET_COMMIT, True, False),
        (Code.FETCH_SESSION_ID_NOT_FOUND, True, False),
        (Code.NOT_COORDINATOR, True, False),
        (Code.OFFSET_OUT_OF_RANGE, False, False),
        (Code.REBOOTSTRAP_REQUIRED, False, False),
        (Code.FENCED_INSTANCE_ID, False, False),
        (Code.ILLEGAL_GENERATION, False, False),
        (Code.UNKNOWN_MEMBER_ID, False, False),
        (Code.REBALANCE_IN_PROGRESS, False, False),
        (Code.MEMBER_ID_REQUIRED, False, False),
    ],
)
def test_retriable_and_refresh_equal_kafkas(code: Code, retriable: bool, refresh: bool) -> None:
    row = BY_CODE[code]
    assert (row.retriable, row.refresh_metadata) == (retriable, refresh)


def test_an_unknown_code_keeps_its_number_and_is_not_cached() -> None:
    """Cached rows would let a peer fill the memory with 65,536 of them."""
    size = len(BY_CODE)
    row = BY_CODE[9999]
    assert (row.code, row.name, row.retriable) == (9999, "UNKNOWN_ERROR_9999", False)
    assert len(BY_CODE) == size


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, OffsetOutOfRangeError),
        (3, UnknownTopicOrPartitionError),
        (100, UnknownTopicOrPartitionError),
        (29, TopicAuthorizationFailedError),
        (53, AuthorizationError),
        (58, SaslAuthenticationFailedError),
        (6, BrokerResponseError),
        (9999, BrokerResponseError),
    ],
)
def test_codes_become_typed_errors(code: int, error: type[BrokerResponseError]) -> None:
    assert type(to_error(code)) is error


def test_an_error_names_broker_api_and_partition() -> None:
    error = to_error(6, api="Fetch", node_id=3, partition=TopicPartition("orders", 0), detail="moved to 4")
    assert str(error) == (
        "broker 3 answered NOT_LEADER_OR_FOLLOWER to Fetch for orders-0: this broker is not the partition's leader, "
        "nor a replica where one suffices (moved to 4)"
    )
    assert (error.code, error.name, error.retriable, error.api, error.node_id) == (
        6, "NOT_LEADER_OR_FOLLOWER", True, "Fetch", 3,
    )  # fmt: skip
    assert error.partition == TopicPartition("orders", 0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.partition) == (str(error), 6, error.partition)


def test_an_error_without_details() -> None:
    assert str(to_error(7)) == "broker answered REQUEST_TIMED_OUT: the broker did not complete the request in time"


def test_code_0_makes_no_exception() -> None:
    with pytest.raises(IllegalArgumentError):
        to_error(0)
