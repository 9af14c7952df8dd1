"""The error of a failed commit names the reason, the partitions, and only limits that were exceeded."""

import pickle
from types import SimpleNamespace

import pytest

from thinconsumer.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    RebalanceInProgressError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from thinconsumer.group.offsets.commit_errors import ADVICE, RETRIABLE, Failure, final_error, reason_of
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import BY_CODE, Code, to_error

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = SimpleNamespace(session_timeout_ms=10_000, max_poll_interval_ms=300_000)
LIMITS = ("session_timeout_ms", "max_poll_interval_ms")


def error_of(failures, seconds=None):
    return final_error(SETTINGS, "g", failures, "commit", seconds)  # type: ignore[arg-type]


#: Every code that a commit can fail with, and its reason.
ENDS = [
    (Code.UNKNOWN_MEMBER_ID, "unknown_member"),
    (Code.GROUP_ID_NOT_FOUND, "unknown_member"),
    (Code.ILLEGAL_GENERATION, "illegal_generation"),
    (Code.REBALANCE_IN_PROGRESS, "rebalance_in_progress"),
    (Code.FENCED_INSTANCE_ID, "fenced"),
    (Code.OFFSET_METADATA_TOO_LARGE, "metadata_too_large"),
    (Code.INVALID_COMMIT_OFFSET_SIZE, "metadata_too_large"),
    (Code.UNKNOWN_SERVER_ERROR, "refused"),
]


@pytest.mark.parametrize("seconds", [None, 0.4, 12.0, 400.0])
@pytest.mark.parametrize(("code", "reason"), ENDS)
def test_the_error_has_reason_partitions_and_only_exceeded_limits(code, reason, seconds):
    """A commit that fails half a second after a poll has not exceeded max_poll_interval_ms."""
    cause = to_error(code, api="OffsetCommit", node_id=1)
    error = error_of({A: Failure(reason_of(cause), str(cause), cause)}, seconds)
    assert isinstance(error, CommitFailedError)
    assert (error.reason, error.partitions, error.seconds_since_poll) == (reason, (A,), seconds)
    assert error.retriable == (reason == "rebalance_in_progress")
    assert isinstance(error, RebalanceInProgressError) == (reason == "rebalance_in_progress")
    assert error.__cause__ is cause
    for text in ("t-0", "'g'", BY_CODE[code].name, ADVICE[reason]):
        assert text in str(error)
    limits = [name for name in LIMITS if f"{name}=" in str(error)]
    from_absence = reason in ("unknown_member", "illegal_generation", "rebalance_in_progress")
    expected = {12.0: ["session_timeout_ms"], 400.0: list(LIMITS)}.get(seconds or 0, [])
    assert limits == (expected if from_absence else [])
    if limits:
        assert f"{seconds:.1f} s after the last poll" in str(error)
        error = final_error(SETTINGS, "g", {A: Failure(reason, "why")}, "commit", seconds, has_epochs=True)  # type: ignore[arg-type]
        assert "session_timeout_ms" not in str(error), "the broker has the session timeout"


@pytest.mark.parametrize("reason", sorted(ADVICE))
def test_errors_survive_pickling(reason):
    """Workers of Spark and multiprocessing pickle exceptions."""
    error = error_of({A: Failure(reason, "why")}, 1.0)
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.partitions, again.retriable) == (reason, (A,), reason in RETRIABLE)
    assert str(again) == str(error)


def test_the_gravest_reason_counts_and_all_partitions_are_named():
    """A lost membership explains more than a timeout."""
    error = error_of({A: Failure("timeout", "slow"), B: Failure("unknown_member", "gone")})
    assert isinstance(error, CommitFailedError)
    assert (error.reason, error.partitions) == ("unknown_member", (A, B))
    assert "gone" in str(error)


def test_many_partitions_are_counted():
    error = error_of({TopicPartition("t", n): Failure("timeout", "slow") for n in range(1000)})
    assert "and 995 more" in str(error)
    assert len(str(error)) < 400


def test_authorization_errors_are_raised_with_all_topics():
    topic = to_error(Code.TOPIC_AUTHORIZATION_FAILED, api="OffsetCommit", node_id=1, partition=A)
    u = TopicPartition("u", 3)
    failure = Failure(reason_of(topic), str(topic), topic)
    error = error_of({A: failure, u: failure, B: Failure("timeout", "slow")})
    assert isinstance(error, TopicAuthorizationFailedError)
    assert error.topics == ("t", "u")
    assert error.partition is None
    alone = error_of({u: failure})
    assert isinstance(alone, TopicAuthorizationFailedError)
    assert (alone.topics, alone.partition) == (("u",), u)
    group = to_error(Code.GROUP_AUTHORIZATION_FAILED, group_id="g")
    found = error_of({A: Failure(reason_of(group), "", group)})
    assert found is group
    assert isinstance(found, GroupAuthorizationFailedError)
    assert found.group_id == "g"
    login = to_error(Code.SASL_AUTHENTICATION_FAILED)
    assert isinstance(error_of({A: Failure(reason_of(login), "", login)}), SaslAuthenticationFailedError)


def test_a_call_without_partitions_can_time_out():
    error = error_of({})
    assert isinstance(error, CommitFailedError)
    assert (error.reason, error.partitions, error.retriable) == ("timeout", (), True)
