"""Error codes for clients when the log rejects an append."""

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.append_errors import append_error


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (Code.NONE, Code.NONE),
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
        (Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_EPOCH),
    ],
)
def test_append_errors_are_mapped(code: Code, told: Code) -> None:
    assert append_error(code) == told
