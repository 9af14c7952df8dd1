"""What clients are told when the log does not take what a coordinator writes.

Follows ``CoordinatorOperationExceptionHelper`` and ``GroupMetadataManager.appendGroupMetadataErrorToResponseError``,
which agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...wire.error_codes import Code

APPEND_ERRORS: Mapping[int, Code] = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.MESSAGE_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.RECORD_LIST_TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
    Code.INVALID_FETCH_SIZE: Code.UNKNOWN_SERVER_ERROR,
}


def append_error(code: int) -> int:
    """Return the code for the client; those not in the table go through as they are."""
    return int(APPEND_ERRORS.get(code, code))
