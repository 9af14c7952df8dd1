"""What each answer means to a member: one table for JoinGroup, SyncGroup, Heartbeat and LeaveGroup alike.

Rows of data. Java's ``AbstractCoordinator`` has a ladder per API; where the rungs differ, that is because its states
do, and states are the member's business.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from ...connection.negotiate import api_name
from ...connection.request import Answer
from ...errors import (
    BrokerResponseError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from ...wire.error_codes import BY_CODE, Code, to_error
from ...wire.join_group import JoinGroupResponse
from ...wire.sync_group import SyncGroupResponse


class Verdict(enum.Enum):
    """What is to be done."""

    FINE = "fine"
    NAMED = "named"  #: Join again with the id just given (KIP-394).
    REBALANCING = "rebalancing"  #: Who we are still holds; the group wants us to join (again).
    FORGOTTEN = "forgotten"  #: Neither our id nor our generation mean anything to the coordinator.
    BEHIND = "behind"  #: The group has gone on without us; our id still holds.
    LOADING = "loading"  #: The right node, not ready yet.
    NOT_THERE = "not there"  #: Not the coordinator, or nothing was heard of it.
    AGAIN = "again"  #: Passes by itself.
    REFUSED = "refused"  #: Only somebody else can cure it: say so, and try again at leisure.
    FATAL = "fatal"  #: Trying again is pointless, or would do harm.


_BY_CODE = {
    Code.MEMBER_ID_REQUIRED: Verdict.NAMED,
    Code.REBALANCE_IN_PROGRESS: Verdict.REBALANCING,
    Code.UNKNOWN_MEMBER_ID: Verdict.FORGOTTEN,
    Code.ILLEGAL_GENERATION: Verdict.BEHIND,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Verdict.LOADING,
    Code.COORDINATOR_NOT_AVAILABLE: Verdict.NOT_THERE,
    Code.NOT_COORDINATOR: Verdict.NOT_THERE,
    # Two of us would fence each other for ever.
    Code.FENCED_INSTANCE_ID: Verdict.FATAL,
    Code.INVALID_SESSION_TIMEOUT: Verdict.FATAL,
    Code.INVALID_GROUP_ID: Verdict.FATAL,
}


#: Verdicts after which we are not who we were.
EXPULSIONS = frozenset({Verdict.FORGOTTEN, Verdict.BEHIND, Verdict.FATAL})


def of_code(code: int) -> Verdict:
    """Return what an error code means."""
    if code == Code.NONE:
        return Verdict.FINE
    known = _BY_CODE.get(code)  # type: ignore[call-overload]
    if known is not None:
        return Verdict(known)
    return Verdict.AGAIN if BY_CODE[code].retriable else Verdict.REFUSED


def of_error(error: KafkaError) -> Verdict:
    """Return what it means that there was no answer: mostly that nobody is there."""
    if isinstance(error, BrokerResponseError):
        return Verdict.REFUSED if isinstance(error, UnsupportedVersionError) else of_code(error.code)
    return Verdict.NOT_THERE


def judge(answer: Answer, group_id: str, code: int | None = None) -> tuple[Verdict, KafkaError | None]:
    """Return what an answer means, and the error to show for it. ``code`` replaces the response's own."""
    if answer.error is not None:
        return of_error(answer.error), answer.error
    found: int = answer.response.error_code if code is None else code
    if found == Code.NONE:
        return Verdict.FINE, None
    error = to_error(found, api=api_name(answer.request.api), node_id=answer.node_id, detail=f"group {group_id}")
    if isinstance(error, GroupAuthorizationFailedError):
        error.group_id = group_id
    return of_code(found), error


def unusable_join(answer: Answer, protocol_type: str, offered: Collection[str]) -> KafkaError | None:
    """Return what is wrong with a join that succeeded: another kind of group, a protocol not offered, nobody named."""
    response: JoinGroupResponse = answer.response
    if response.generation_id < 0 or not response.member_id:
        return KafkaProtocolError(
            f"broker {answer.node_id} answered JoinGroup with member {response.member_id!r} "
            f"in generation {response.generation_id}"
        )
    return _mismatch(answer, protocol_type, response.protocol_type, offered, response.protocol_name)


def unusable_sync(answer: Answer, protocol_type: str, protocol: str) -> KafkaError | None:
    """Return what is wrong with a sync that succeeded (KIP-559)."""
    response: SyncGroupResponse = answer.response
    named = protocol if response.protocol_name is None else response.protocol_name
    return _mismatch(answer, protocol_type, response.protocol_type, (protocol,), named)


def _mismatch(
    answer: Answer, our_type: str, their_type: str | None, offered: Collection[str], elected: str | None
) -> KafkaError | None:
    if their_type in (None, our_type) and elected in offered:
        return None
    return to_error(
        Code.INCONSISTENT_GROUP_PROTOCOL,
        api=api_name(answer.request.api),
        node_id=answer.node_id,
        detail=f"it has protocol {elected!r} of type {their_type!r}",
    )
