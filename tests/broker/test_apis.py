"""The API table: complete, and able to send an error response in every version."""

from pathlib import Path

import pytest

from thinconsumer.broker.apis import APIS
from thinconsumer.wire.add_offsets_to_txn import AddOffsetsToTxnRequest
from thinconsumer.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.describe_cluster import DescribeClusterRequest
from thinconsumer.wire.end_txn import EndTxnRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.list_groups import ListGroupsRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

#: APIs with an error code for the whole response in every version.
WITH_ONE_CODE = (
    JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, ListGroupsRequest, InitProducerIdRequest,
    AddOffsetsToTxnRequest, EndTxnRequest, DescribeClusterRequest, ApiVersionsRequest,
)  # fmt: skip
CASES = [(api, version) for api in APIS.values() for version in range(api.lowest, api.highest + 1)]
GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-4.3.0" / "api_versions.txt"


def versions_of_a_real_broker():
    """Return the lowest and highest version by API key, as Kafka 4.3.0 offered them."""
    version, _, response = GOLDEN.read_text().splitlines()[0].split()
    frame = bytes.fromhex(response)
    _, start = decode_response_header(frame, ApiVersionsRequest, int(version))
    answer = ApiVersionsResponse.decode(frame, int(version), start)
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.request.__name__)
def test_versions_match_a_4x_broker(api):
    lowest, highest = api.request.VERSIONS
    assert lowest <= api.lowest <= api.highest <= highest
    assert versions_of_a_real_broker()[api.request.API_KEY] == (api.lowest, api.highest)


@pytest.mark.parametrize(("api", "version"), CASES, ids=lambda x: x if isinstance(x, int) else x.request.__name__)
def test_error_responses_encode_in_every_version(api, version):
    """The error response to a fault rule or an exception can be encoded, and has the error code."""
    answer = api.refuse(api.request(), version, int(Code.UNKNOWN_SERVER_ERROR))
    assert isinstance(answer, api.request.RESPONSE)
    decoded = type(answer).decode(answer.encode(version), version)
    if api.request in WITH_ONE_CODE:
        assert decoded.error_code == Code.UNKNOWN_SERVER_ERROR
