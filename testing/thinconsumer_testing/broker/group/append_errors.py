"""Error codes for clients when the coordinator's log rejects an append.

Follows ``CoordinatorOperationExceptionHelper`` and ``GroupMetadataManager.appendGroupMetadataErrorToResponseError``,
which have the same mapping.
"""

from collections.abc import Mapping

from thinconsumer.wire.error_codes import Code

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
    """Return the error code that the client gets when an append fails with ``code``, by default the same code."""
    return int(APPEND_ERRORS.get(code, code))
