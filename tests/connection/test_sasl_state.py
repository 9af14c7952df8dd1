"""Which responses say that their connection is not logged in, in each version of each API."""

import pytest

from thinconsumer.connection.sasl_state import is_logged_out
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from thinconsumer.wire.find_coordinator import FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.heartbeat import HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupResponse
from thinconsumer.wire.list_offsets import ListOffsetsResponse

STATE = int(Code.ILLEGAL_SASL_STATE)


def fetched(code):
    partition = PartitionData(partition_index=0, error_code=code)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda code: FetchResponse(error_code=code), 7),
        (fetched, 4),
        (lambda code: JoinGroupResponse(error_code=code), 5),
        (lambda code: HeartbeatResponse(error_code=code), 0),
        (lambda code: FindCoordinatorResponse(error_code=code), 3),
        (lambda code: FindCoordinatorResponse(coordinators=[FindCoordinatorResult(error_code=code)]), 4),
    ],
)
def test_the_code_is_found_where_the_version_has_it(make, version):
    assert is_logged_out(make(STATE), version)
    assert not is_logged_out(make(0), version)
    assert not is_logged_out(make(int(Code.NOT_COORDINATOR)), version)


def test_responses_without_entries_or_codes_say_nothing():
    assert not is_logged_out(ListOffsetsResponse(topics=[]), 5)
    assert not is_logged_out(fetched(STATE), 7)  # the code of one partition concerns no connection
