"""The API table: complete, and able to send an error response in every version."""

from pathlib import Path

import pytest

from thinconsumer.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.extensions import FIRST_API_KEY
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.schema import Primitive, wire_fields
from thinconsumer_testing.broker.api.api_versions import TELEMETRY
from thinconsumer_testing.broker.apis import APIS

#: How many error codes an error response has, by API and first version, if the request has two entries in every list.
#: All other APIs have one code for the whole response.
CODES = {
    "Produce": {0: 4}, "Fetch": {4: 4, 7: 5, 13: 1}, "ListOffsets": {1: 4}, "OffsetCommit": {2: 4},
    "TxnOffsetCommit": {0: 4}, "OffsetForLeaderEpoch": {2: 4}, "DeleteRecords": {0: 4}, "DescribeGroups": {0: 2},
    "OffsetFetch": {1: 4, 2: 1, 8: 2}, "AddPartitionsToTxn": {0: 4, 4: 1}, "Metadata": {0: 2, 13: 3},
    "FindCoordinator": {0: 1, 4: 2}, "CreateTopics": {2: 2}, "DeleteTopics": {1: 2}, "CreatePartitions": {0: 2},
    "DescribeConfigs": {1: 2}, "DeleteGroups": {0: 2}, "AlterUserScramCredentials": {0: 2},
    "CreateAcls": {1: 2}, "DeleteAcls": {1: 2}, "DescribeUserScramCredentials": {0: 3},
    "PartitionLeaderEpochsForPartitions": {0: 2}, "ConsumerGroupDescribe": {0: 2},
}  # fmt: skip
#: APIs with response entries that only their order relates to the entries of the request.
IN_ORDER = ("CreateAclsRequest", "DeleteAclsRequest", "DescribeUserScramCredentialsRequest")
#: The values of the first and the second entry of a list, by type.
SAMPLES = {"string": ("a", "b"), "uuid": (b"a" * 16, b"b" * 16), "int32": (3, 5)}
CASES = [(api, version) for api in APIS.values() for version in range(api.lowest, api.highest + 1)]
GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-4.3.0" / "api_versions.txt"


def versions_of_a_real_broker():
    """Return the lowest and highest version by API key, as Kafka 4.3.0 offered them."""
    version, _, response = GOLDEN.read_text().splitlines()[0].split()
    frame = bytes.fromhex(response)
    _, start = decode_response_header(frame, ApiVersionsRequest, int(version))
    answer = ApiVersionsResponse.decode(frame, int(version), start)
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


@pytest.mark.parametrize(
    "api", [api for key, api in APIS.items() if key < FIRST_API_KEY], ids=lambda api: api.request.__name__
)
def test_versions_match_a_4x_broker(api):
    lowest, highest = api.request.VERSIONS
    if api.request.API_KEY in TELEMETRY:
        assert api.request.API_KEY not in versions_of_a_real_broker(), "that broker had no receiver of metrics"
        return
    assert lowest <= api.lowest <= api.highest <= highest
    real = versions_of_a_real_broker()
    assert real[api.request.API_KEY] == (api.lowest, api.highest)


def filled(cls, version, number=0):
    """Return a message with two entries in every list; names, ids and indexes are those of ``SAMPLES``."""
    values = {}
    for name, wire in wire_fields(cls):
        if version not in wire.versions:
            continue
        if not isinstance(wire.of, Primitive):
            values[name] = [filled(wire.of, version, n) for n in (0, 1)] if wire.array else filled(wire.of, version)
        elif wire.array:
            values[name] = list(SAMPLES[wire.of.name])
        elif wire.of.name in ("string", "uuid") or name.endswith(("index", "partition")):
            values[name] = SAMPLES[wire.of.name][number]
    return cls(**values)


def leaves(struct, version):
    """Yield (name, value) of every field of the version that is no struct, those of nested structs included."""
    for name, wire in wire_fields(type(struct)):
        if version in wire.versions:
            value = getattr(struct, name)
            for one in (value or ()) if wire.array else () if value is None else (value,):
                yield from [(name, one)] if isinstance(wire.of, Primitive) else leaves(one, version)


@pytest.mark.parametrize(("api", "version"), CASES, ids=lambda x: x if isinstance(x, int) else x.request.__name__)
def test_error_response_covers_every_entry_of_the_request(api, version):
    """Fault rules and handlers with a bug are answered by it."""
    answer = api.refuse(filled(api.request, version), version, int(Code.NOT_COORDINATOR))
    assert isinstance(answer, api.request.RESPONSE)
    found = list(leaves(type(answer).decode(answer.encode(version), version), version))
    codes = [value for name, value in found if name in ("error_code", "partition_error_code")]
    counts = CODES.get(api.request.__name__.removesuffix("Request"), {0: 1})
    assert codes == [Code.NOT_COORDINATOR] * counts[max(first for first in counts if first <= version)]
    values = {value for _, value in found}
    is_named = len(codes) > 1 and api.request.__name__ not in IN_ORDER
    assert not is_named or values >= set(SAMPLES["string"]) or values >= set(SAMPLES["uuid"])
    assert len(codes) < 4 or values >= set(SAMPLES["int32"])
