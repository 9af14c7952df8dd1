"""The error that a failed commit raises: the coordinator's error, the time since the last poll, and what to do.

The message names a limit only if that limit was exceeded: a message that always names ``max_poll_interval_ms`` leads
users to tune the wrong option. After Java's ``OffsetCommitResponseHandler``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...errors import (
    AuthorizationError,
    CommitFailedError,
    KafkaError,
    PartitionNotOwnedError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)
from ...failures import Scope, rule
from ...types import TopicPartition
from ...wire.error_codes import Code, to_error
from ..coordinator import GroupSettings

API = "OffsetCommit"
#: The number of partitions that a message names; the others are counted.
NAMED_MAX = 5

_LOST = (
    "other members may own its partitions by now: poll() to join again; records since the last commit are read again"
)
#: Advice to the user by reason, the gravest first: if partitions failed for different reasons, the gravest is given.
ADVICE: dict[str, str] = {
    "fenced": "another process uses the same group_instance_id: stop one of them",
    "unknown_member": _LOST,
    "illegal_generation": _LOST,
    "authorization": "grant the missing ACL to the principal of this client",
    "metadata_too_large": "commit less metadata beside the offset, or raise the broker's offset.metadata.max.bytes",
    "not_owned": (
        "they would replace the offsets of the member that owns the partitions; allow_foreign_commits=True commits them"
    ),
    "refused": "the same commit will fail again",
    "rebalance_in_progress": "poll() until the rebalance is over, then commit what is still assigned",
    "coordinator": "poll() searches for the coordinator; commit again later",
    "timeout": "commit again, with a longer timeout if needed",
}
#: The classes of errors with these reasons; CommitFailedError for all other ones.
_CLASSES: dict[str, type[CommitFailedError]] = {
    "not_owned": PartitionNotOwnedError,
    "rebalance_in_progress": RebalanceInProgressError,
}
RETRIABLE = frozenset({"rebalance_in_progress", "coordinator", "timeout"})


class Failure(NamedTuple):
    """Why the offset of a partition was not, or cannot be, committed."""

    reason: str  #: As in :attr:`CommitFailedError.reason`.
    why: str  #: Completes the message "offsets of t-0 were not committed: ".
    cause: KafkaError | None = None


def reason_of(error: KafkaError) -> str:
    """Return the :attr:`CommitFailedError.reason` for an error."""
    if isinstance(error, AuthorizationError):
        return "authorization"
    return rule(API, getattr(error, "code", Code.NONE), Scope.PARTITION).fails_as


def final_error(
    settings: GroupSettings,
    group_id: str,
    failures: Mapping[TopicPartition, Failure],
    what: str,
    seconds_since_poll: float | None = None,
    *,
    has_epochs: bool = False,
) -> KafkaError:
    """Return the error of a commit call: for the gravest reason of its failed partitions; without any, a timeout.

    ``what`` names the call in the message. With ``has_epochs`` (KIP-848) the message does not name
    ``session_timeout_ms``, since the session timeout is then the broker's.
    """
    if not failures:
        return CommitFailedError(
            f"{what} in group {group_id!r} timed out: earlier commits are unfinished", reason="timeout", retriable=True
        )
    ranks = list(ADVICE)
    grave = min(failures.values(), key=lambda failure: ranks.index(failure.reason))
    if isinstance(grave.cause, TopicAuthorizationFailedError):
        return _topics_error(grave.cause, failures)
    if isinstance(grave.cause, AuthorizationError):
        return grave.cause
    names = listed([f"{tp.topic}-{tp.partition}" for tp in sorted(failures)], NAMED_MAX)
    error = _CLASSES.get(grave.reason, CommitFailedError)(
        f"{what} in group {group_id!r}: offsets of {names} were not committed: {grave.why}"
        f"{_measured(settings, grave.reason, seconds_since_poll, has_epochs)}; {ADVICE[grave.reason]}",
        reason=grave.reason,
        partitions=failures,
        retriable=grave.reason in RETRIABLE,
        seconds_since_poll=seconds_since_poll,
    )
    error.__cause__ = grave.cause
    return error


#: Reasons that a long time between polls can cause; only their messages give the time since the last poll.
_FROM_ABSENCE = frozenset({"unknown_member", "illegal_generation", "rebalance_in_progress"})


def _measured(settings: GroupSettings, reason: str, seconds: float | None, has_epochs: bool) -> str:
    """Return in words the time since the last poll and the limits that it exceeds; "" if it cannot be the cause."""
    if seconds is None or reason not in _FROM_ABSENCE:
        return ""
    limits = {"max_poll_interval_ms": settings.max_poll_interval_ms}
    if not has_epochs:  # in a consumer group (KIP-848) the session timeout is the broker's
        limits = {"session_timeout_ms": settings.session_timeout_ms, **limits}
    exceeded = [f"{name}={limit}" for name, limit in limits.items() if seconds * 1000 > limit]
    beyond = f", which exceeds {' and '.join(exceeded)}" if exceeded else ""
    return f" ({seconds:.1f} s after the last poll{beyond})"


def _topics_error(
    cause: TopicAuthorizationFailedError, failures: Mapping[TopicPartition, Failure]
) -> TopicAuthorizationFailedError:
    refused = [tp for tp, failure in failures.items() if isinstance(failure.cause, TopicAuthorizationFailedError)]
    names = tuple(sorted({tp.topic for tp in refused}))
    partition = refused[0] if len(refused) == 1 else None
    error = to_error(
        cause.code, api=API, node_id=cause.node_id, partition=partition, detail=f"topics {', '.join(names)}"
    )
    assert isinstance(error, TopicAuthorizationFailedError)
    error.topics = names
    return error


def listed(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
