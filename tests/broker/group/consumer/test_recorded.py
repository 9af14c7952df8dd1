"""The conversation of a client with Kafka 4.3 (``tests/golden``), repeated with the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest
from thinconsumer.wire.header import decode_response_header
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.3.0"
#: Kafka's interval between assignments decides which epoch a member gets that joins right after another one has left.
CONFIG = {"group_consumer_assignment_interval_ms": 1000, "group_consumer_heartbeat_interval_ms": 5000}


def recorded(name: str, api: type[Message]) -> Iterator[tuple[int, Any, Any]]:
    """Yield version, request and response."""
    for line in (GOLDEN / f"{name}.txt").read_text().splitlines():
        number, asked, answered = line.split()
        version, request, response = int(number), bytes.fromhex(asked), bytes.fromhex(answered)
        body = 10 + int.from_bytes(request[8:10], "big") + 1  # behind the client id and the tags of the header
        _, start = decode_response_header(response, api, version)
        yield version, api.decode(request, version, body), api.RESPONSE.decode(response, version, start)


@pytest.fixture
def cluster(new_cluster: Any) -> Any:
    made = new_cluster(1, {"golden": 2}, **CONFIG)
    made.controller.ensure_internal_topic("__consumer_offsets")
    return made


def test_heartbeats_are_answered_as_by_kafka(cluster: Any, client_of: Any) -> None:
    client = client_of(cluster, 1)
    topic_id = cluster.controller.image.topics["golden"].topic_id
    ids: dict[str | None, str] = {}  #: Member ids here, by those that Kafka has made.
    count = 0
    for version, request, expected in recorded("consumer_group_heartbeat", ConsumerGroupHeartbeatRequest):
        request.member_id = ids.get(request.member_id, request.member_id)
        for topic in request.topic_partitions or ():
            topic.topic_id = topic_id
        answer = client.ask(request, version)
        if not request.member_id:
            ids[expected.member_id] = answer.member_id
        expected.member_id = ids.get(expected.member_id, expected.member_id)
        for topic in expected.assignment.topic_partitions if expected.assignment is not None else ():
            topic.topic_id = topic_id
        assert answer == expected
        count += 1
    assert count > 10


@pytest.mark.parametrize("number", [0, 1])
def test_groups_are_described_as_by_kafka(number: int, cluster: Any, client_of: Any) -> None:
    client = client_of(cluster, 1)
    topic_id = cluster.controller.image.topics["golden"].topic_id
    version, request, expected = list(recorded("consumer_group_describe", ConsumerGroupDescribeRequest))[number]
    for group, fields in (
        (f"described-{version}", {"instance_id": "i", "rack_id": "r1", "subscribed_topic_names": ["golden"]}),
        (f"described-{version}-regex", {"subscribed_topic_regex": "golden.*"}),
    ):
        join = {"group_id": group, "member_id": f"member-of-{group}", "topic_partitions": []}
        client.ask(ConsumerGroupHeartbeatRequest(**join, rebalance_timeout_ms=30_000, **fields), 1)
    cluster.advance(cluster.schedule.now)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    classic = {"group_id": f"classic-{version}", "protocol_type": "consumer", "protocols": protocols}
    client.send(JoinGroupRequest(**classic, session_timeout_ms=10_000, rebalance_timeout_ms=10_000), 0)
    cluster.advance(cluster.schedule.now)
    client.answers()
    for member in (member for group in expected.groups for member in group.members):
        member.client_id = "tester"
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                topic.topic_id = topic_id
    assert client.ask(request, version) == expected
