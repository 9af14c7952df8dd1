"""Frames recorded from real brokers, decoded and encoded again byte for byte; see ``tests/golden/README.md``."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thinconsumer.wire import Message
from thinconsumer.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.header import decode_response_header, encode_request
from thinconsumer_testing.broker.wire.requests import REQUESTS, decode_request_header, encode_response

GOLDEN = Path(__file__).parent.parent / "golden"


def snake(request: type[Message]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", request.__name__.removesuffix("Request")).lower()


BY_NAME = {snake(request): request for request in REQUESTS.values()}
REFUSED = "api_versions_refused"
FILES = sorted(path for path in GOLDEN.glob("kafka-*/*.txt") if path.stem != REFUSED)


def exchanges(path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    for line in path.read_text().splitlines():
        version, request, response = line.split()
        yield int(version), bytes.fromhex(request), bytes.fromhex(response)


def responses(folder: str, api: str, version: int) -> list[Any]:
    request = BY_NAME[api]
    found = []
    for captured, _, frame in exchanges(GOLDEN / folder / f"{api}.txt"):
        if captured == version:
            _, start = decode_response_header(frame, request, version)
            found.append(request.RESPONSE.decode(frame, version, start))
    return found


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_recorded_frames_survive_a_round_trip(path: Path) -> None:
    """Encoding yields Java's bytes, tagged fields and compact lengths included."""
    request = BY_NAME[path.stem]
    for version, asked, answered in exchanges(path):
        header = decode_request_header(asked)
        assert header[:4] == (request.API_KEY, version, 7, "golden")
        message: Message = request.decode(asked, version, header.body_offset)
        assert encode_request(message, version, 7, "golden") == asked
        correlation_id, start = decode_response_header(answered, request, version)
        assert correlation_id == 7
        response = request.RESPONSE.decode(answered, version, start)
        assert encode_response(response, version, 7) == answered


def test_every_version_has_a_recorded_exchange() -> None:
    """With 4.3.0 for the versions that it offers, with 3.9.1 for the others."""
    (offered,) = responses("kafka-4.3.0", "api_versions", 4)
    for key in offered.api_keys:
        request = REQUESTS.get(key.api_key)
        if request is None:
            continue
        name = snake(request)
        captured = {
            version
            for folder in ("kafka-4.3.0", "kafka-3.9.1")
            if (GOLDEN / folder / f"{name}.txt").exists()
            for version, _, _ in exchanges(GOLDEN / folder / f"{name}.txt")
        }
        wanted = set(range(key.min_version, key.max_version + 1))
        assert wanted <= captured, name
        assert key.max_version <= request.VERSIONS[1], f"4.3.0 speaks a newer version of {name} than we do"


def test_an_unsupported_api_versions_version_is_answered_in_version_0() -> None:
    """Response header and body both have version 0."""
    ((version, _, frame),) = exchanges(GOLDEN / "kafka-4.3.0" / f"{REFUSED}.txt")
    assert version == 5
    correlation_id, start = decode_response_header(frame, ApiVersionsRequest, version)
    response = ApiVersionsResponse.decode(frame, 0, start)
    assert correlation_id == 7
    assert response.error_code == Code.UNSUPPORTED_VERSION
    assert [(key.min_version, key.max_version) for key in response.api_keys if key.api_key == 18] == [(0, 4)]


@pytest.mark.parametrize("version", range(19))
def test_fetch_gives_the_batch_that_was_produced(version: int) -> None:
    folder = "kafka-4.3.0" if version >= 4 else "kafka-3.9.1"
    first, outside, missing, *_ = responses(folder, "fetch", version)
    (partition,) = first.responses[0].partitions
    assert partition.error_code == Code.NONE
    assert partition.high_watermark > 3
    assert bytes(partition.records[16:17]) == (b"\2" if version >= 4 else partition.records[16:17])
    assert len(partition.records) > 100
    assert outside.responses[0].partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE
    unknown = Code.UNKNOWN_TOPIC_ID if version >= 13 else Code.UNKNOWN_TOPIC_OR_PARTITION
    assert missing.responses[0].partitions[0].error_code == unknown


@pytest.mark.parametrize("version", range(14))
def test_metadata_has_the_topic_and_the_error_of_a_missing_one(version: int) -> None:
    some, every, *by_id = responses("kafka-4.3.0", "metadata", version)
    topics = {topic.name: topic for topic in some.topics}
    assert len(topics["golden"].partitions) == 2
    assert topics["golden"].partitions[0].replica_nodes == [1]
    assert topics["golden"].partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert topics["missing"].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert some.brokers[0].rack == ("r1" if version >= 1 else None)
    assert "__consumer_offsets" in {topic.name for topic in every.topics}
    for answer in by_id:
        assert (answer.topics[0].name, answer.topics[0].error_code) == (None, Code.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_finds_the_start(version: int) -> None:
    (response,) = responses("kafka-4.3.0", "list_offsets", version)
    found = {partition.partition_index: partition for partition in response.topics[0].partitions}
    assert (found[0].error_code, found[0].offset) == (Code.NONE, 0)
    assert found[9].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_names_the_only_broker(version: int) -> None:
    (response,) = responses("kafka-4.3.0", "find_coordinator", version)
    answers = response.coordinators if version >= 4 else [response]
    assert {(answer.error_code, answer.node_id, answer.host, answer.port) for answer in answers} == {
        (Code.NONE, 1, "127.0.0.1", 31192)
    }


@pytest.mark.parametrize("version", range(2))
def test_consumer_group_heartbeat_gives_epochs_and_assignments(version: int) -> None:
    """A member without an expression is assigned partitions at once; one with an expression once that is resolved."""
    joined, unchanged, full, newer, left, _, left_for_a_while, *by_regex = responses(
        "kafka-4.3.0", "consumer_group_heartbeat", version
    )
    assert joined.member_epoch > 0 and joined.heartbeat_interval_ms == 5000
    assert [row.partitions for row in joined.assignment.topic_partitions] == [[0, 1]]
    assert (unchanged.error_code, unchanged.assignment) == (Code.NONE, None)
    assert full.assignment == joined.assignment
    assert (newer.error_code, newer.member_id) == (Code.FENCED_MEMBER_EPOCH, None)
    assert (left.member_epoch, left_for_a_while.member_epoch) == (-1, -2)
    codes = [answer.error_code for answer in by_regex]
    assert codes == [Code.NONE, Code.INVALID_REGULAR_EXPRESSION][: 2 * version]


@pytest.mark.parametrize("version", range(2))
def test_consumer_group_describe_tells_groups_apart(version: int) -> None:
    (response,) = responses("kafka-4.3.0", "consumer_group_describe", version)
    stable, by_regex, *others = response.groups
    assert [group.error_code for group in others] == [Code.GROUP_ID_NOT_FOUND] * 2
    assert (stable.group_state, stable.assignor_name) == ("Stable", "uniform")
    assert stable.group_epoch == stable.assignment_epoch == stable.members[0].member_epoch
    (member,) = stable.members
    assert member.assignment == member.target_assignment
    assert [(row.topic_name, row.partitions) for row in member.assignment.topic_partitions] == [("golden", [0, 1])]
    assert member.member_type == (1 if version else -1)
    assert (member.subscribed_topic_regex, by_regex.members[0].subscribed_topic_regex) == ("", "golden.*")
