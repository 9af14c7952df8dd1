"""Malformed bytes: decoders raise only KafkaProtocolError, and allocate no more than the frame can hold."""

import random
import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData
from thinconsumer.wire.find_coordinator import FindCoordinatorResponse
from thinconsumer.wire.groups import ListGroupsResponse
from thinconsumer.wire.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from thinconsumer.wire.primitives import uvarint


def test_round_trip(message: type[Message], generate: Any, versions: Any) -> None:
    """All fields, at the limits of their ranges, and unknown tagged fields."""
    for version in versions(message):
        for seed in range(6):
            original = generate(message, version, seed, tags=True)
            encoded = original.encode(version)
            decoded = message.decode(encoded, version)
            assert decoded == original, f"version {version} seed {seed}"
            assert decoded.encode(version) == encoded


def test_truncated_messages_are_rejected(message: type[Message], generate: Any, versions: Any) -> None:
    for version in versions(message):
        encoded = generate(message, version, 1, tags=True).encode(version)
        for size in range(len(encoded)):
            with pytest.raises(KafkaProtocolError):
                message.decode(encoded[:size], version)


def test_trailing_bytes_are_rejected(message: type[Message], generate: Any, versions: Any) -> None:
    for version in versions(message):
        encoded = generate(message, version, 2, tags=True).encode(version)
        with pytest.raises(KafkaProtocolError, match="ends at byte"):
            message.decode(encoded + b"\0", version)


LIES = [
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x7f",
    b"\x80\0\0\0",
    b"\0",
    b"\x7f",
]


def test_random_changes_are_rejected_or_give_an_encodable_message(
    message: type[Message], generate: Any, versions: Any
) -> None:
    """Bytes are overwritten, inserted and deleted."""
    rng = random.Random(message.__name__)
    refused = 0
    for version in versions(message):
        encoded = generate(message, version, 3, tags=True).encode(version)
        for _ in range(40):
            lie, at = rng.choice(LIES), rng.randrange(len(encoded) + 1)
            broken = encoded[:at] + lie + encoded[at + rng.choice([0, 1, len(lie)]) :]
            try:
                decoded = message.decode(broken, version)
            except KafkaProtocolError:
                refused += 1
                continue
            again = message.decode(decoded.encode(version), version)
            assert again == decoded
    assert refused


@pytest.mark.parametrize(
    ("cls", "version"), [(FetchResponse, 11), (FetchResponse, 17), (MetadataResponse, 7), (MetadataResponse, 13)]
)
def test_memory_stays_proportional_to_the_frame(cls: type[Message], version: int, generate: Any) -> None:
    """Every byte in turn becomes the start of a huge length or count."""
    candidates = [generate(cls, version, seed).encode(version) for seed in range(20)]
    encoded = max((candidate for candidate in candidates if len(candidate) < 500), key=len)
    frames = [encoded[:at] + lie + encoded[at + len(lie) :] for at in range(len(encoded)) for lie in LIES]
    cls.decode(encoded, version)  # Compile first.
    # Memory that a thread of another test allocates meanwhile counts, too: the lower of two peaks is the decoder's.
    assert min(peak_of_decoding(cls, version, frames) for _ in range(2)) < 20_000 + 100 * len(encoded)


def peak_of_decoding(cls: type[Message], version: int, frames: Sequence[bytes]) -> int:
    tracemalloc.start()
    try:
        for frame in frames:
            try:
                cls.decode(frame, version)
            except KafkaProtocolError:
                continue
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [2**31 - 1, 10**6, 2, -2, -(2**31)])
def test_error_of_a_too_large_count_names_the_field(count: int) -> None:
    """Version 0 has an error code, a count, and six bytes per API, here for one API."""
    with pytest.raises(KafkaProtocolError, match=f"version 0: .*api_keys .* claims {count} elements"):
        ApiVersionsResponse.decode(struct.pack(">hi6x", 0, count), 0)


def test_error_of_a_too_large_compact_count_names_the_field() -> None:
    with pytest.raises(KafkaProtocolError, match="api_keys .* claims 4294967294 elements"):
        ApiVersionsResponse.decode(b"\0\0" + uvarint(2**32 - 1) + bytes(50), 3)


def test_null_for_a_non_nullable_field_is_rejected() -> None:
    with pytest.raises(KafkaProtocolError, match="api_keys .* claims -1 elements"):
        ApiVersionsResponse.decode(struct.pack(">hi", 0, -1), 0)
    with pytest.raises(KafkaProtocolError, match="api_keys .* claims -1 elements"):
        ApiVersionsResponse.decode(b"\0\0\0" + bytes(5), 3)


@pytest.mark.parametrize("length", [-1, -2, -32768, 3, 32767])
def test_error_of_a_too_large_length_names_the_field(length: int) -> None:
    """A negative length must neither read as null nor move the reader back."""
    with pytest.raises(KafkaProtocolError, match=f"ListedGroup.group_id at byte 8 claims {length} bytes"):
        ListGroupsResponse.decode(struct.pack(">hih2s", 0, 1, length, b"ab"), 0)


def test_a_negative_length_other_than_null_is_rejected() -> None:
    with pytest.raises(KafkaProtocolError, match="error_message .* claims -2 bytes"):
        FindCoordinatorResponse.decode(struct.pack(">ihh8x", 0, 0, -2), 1)


def test_a_string_longer_than_the_maximum_is_rejected() -> None:
    """Compact lengths can exceed 16 bits; Kafka rejects such strings, too."""
    name = b"x" * 32768
    start = bytes(4) + b"\1\1" + bytes(4)  # Throttle time, no brokers... cluster id "", controller 0.
    topic = b"\2" + bytes(2)
    with pytest.raises(KafkaProtocolError, match="MetadataResponseTopic.name .* claims 32768 bytes"):
        MetadataResponse.decode(start + topic + uvarint(len(name) + 1) + name + bytes(50), 9)


def test_a_string_that_is_not_utf8_is_rejected() -> None:
    with pytest.raises(KafkaProtocolError, match="not UTF-8"):
        MetadataResponse.decode(bytes(4) + b"\1\3\xff\xfe" + bytes(50), 9)


def test_a_declared_tag_must_end_where_its_length_says() -> None:
    encoded = FetchResponse(node_endpoints=[NodeEndpoint(node_id=1)]).encode(16)
    tag = encoded.index(b"\1\0", 10)
    for length in (-1, 1):
        broken = encoded[: tag + 2] + bytes([encoded[tag + 2] + length]) + encoded[tag + 3 :] + b"\0" * max(length, 0)
        with pytest.raises(KafkaProtocolError):
            FetchResponse.decode(broken, 16)


def test_unknown_tags_are_kept_at_every_level() -> None:
    """A newer broker's tagged fields are encoded again with the declared ones, in ascending order."""
    tags = {5: b"new", 300: b"", 70000: b"x" * 200}
    partition = PartitionData(current_leader=LeaderIdAndEpoch(leader_id=3, unknown_tags=tags), unknown_tags=tags)
    topic = FetchableTopicResponse(partitions=[partition], unknown_tags=tags)
    original = FetchResponse(responses=[topic], node_endpoints=[NodeEndpoint(host="h")], unknown_tags=tags)
    decoded = FetchResponse.decode(original.encode(17), 17)
    assert decoded == original
    assert decoded.responses[0].partitions[0].current_leader.unknown_tags == tags
    assert decoded.encode(17) == original.encode(17)


def test_more_tags_than_fit_are_rejected() -> None:
    body = b"\0\0" + b"\1" + bytes(4)
    with pytest.raises(KafkaProtocolError, match="tagged fields .* claims 4294967295 elements"):
        ApiVersionsResponse.decode(body + uvarint(2**32 - 1) + bytes(20), 3)
    with pytest.raises(KafkaProtocolError, match="tagged field .* claims 100 bytes"):
        ApiVersionsResponse.decode(body + b"\1\x63\x64" + bytes(20), 3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=["bytes", "bytearray", "memoryview"])
def test_records_are_views_of_the_frame(kind: Any) -> None:
    """A response of 50 MB is not copied: its records are slices of the receive buffer."""
    partition = PartitionData(records=b"batch" * 100)
    encoded = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])]).encode(11)
    frame = kind(encoded)
    decoded = FetchResponse.decode(frame, 11)
    records = decoded.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records == partition.records
    assert records.obj is (frame.obj if isinstance(frame, memoryview) else frame)
    assert decoded.responses[0].topic == "t"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=["bytes", "bytearray", "memoryview"])
def test_messages_without_records_do_not_keep_the_frame_alive(kind: Any) -> None:
    original = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, max_version=9)])
    frame = kind(original.encode(3))
    assert ApiVersionsResponse.decode(frame, 3) == original


@pytest.mark.parametrize("size", [0, 1, 16, 17, 1000])
def test_arrays_of_numbers_of_every_size(size: int) -> None:
    """Up to 16 elements have precompiled readers."""
    partition = MetadataResponsePartition(replica_nodes=list(range(size)), isr_nodes=[-1] * size)
    original = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    for version in (8, 12):
        assert MetadataResponse.decode(original.encode(version), version) == original


def test_a_body_may_start_after_its_header() -> None:
    encoded = ApiVersionsResponse(error_code=35).encode(0)
    assert ApiVersionsResponse.decode(b"\0\0\0\7" + encoded, 0, 4).error_code == 35
    with pytest.raises(KafkaProtocolError):
        ApiVersionsResponse.decode(encoded, 0, len(encoded) + 5)
