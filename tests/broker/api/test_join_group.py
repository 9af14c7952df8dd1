"""JoinGroup over a connection: parked until the join phase completes, and the fields of each version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.join_group import API
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol

VERSIONS = range(API.lowest, API.highest + 1)


def request(member_id: str = "", **options: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": "billing",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 20_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"meta")],
            **options,
        }
    )


@pytest.fixture
def cluster(new_cluster: Any) -> Any:
    made = new_cluster()
    made.controller.ensure_internal_topic("__consumer_offsets")
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_join_in_every_version(version: int, cluster: Any, client_of: Any) -> None:
    client = client_of(cluster, 1)
    member_id = ""
    if version >= 4:
        turned_away = client.ask(request(), version)
        assert turned_away.error_code == 79
        member_id = turned_away.member_id
        assert member_id.startswith("tester-")
    client.send(request(member_id), version)
    assert client.answers() == []
    cluster.advance(0.0)
    (answer,) = client.answers()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(m.member_id, m.metadata) for m in answer.members] == [(answer.member_id, b"meta")]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_error_response_has_no_protocol(version: int, cluster: Any, client_of: Any) -> None:
    """Null if the version allows it, else empty."""
    answer = client_of(cluster, 1).ask(request("m", session_timeout_ms=1), version)
    assert (answer.error_code, answer.member_id, answer.generation_id, answer.leader) == (26, "m", -1, "")
    assert answer.protocol_name == (None if version >= 7 else "")
    assert API.refuse(request(), version, 15).encode(version) == API.refuse(request("x"), version, 15).encode(version)


@pytest.mark.parametrize("version", range(5, 10))
def test_static_members(version: int, cluster: Any, client_of: Any) -> None:
    client = client_of(cluster, 1)
    client.send(request(group_instance_id="i"), version)
    cluster.advance(0.0)
    (answer,) = client.answers()
    assert [m.group_instance_id for m in answer.members] == ["i"]


def test_disconnect_cancels_a_parked_join(cluster: Any, client_of: Any) -> None:
    client = client_of(cluster, 1)
    client.send(request(), 3)
    client.connection.connection_lost()
    cluster.advance(0.0)
    assert client.answers() == []
    cluster.advance(11.0)  # its session expires like any other
    assert cluster.nodes[1].group_coordinator.describe(["billing"], 6)[0].group_state == "Empty"


def test_heartbeat_behind_a_parked_join_waits(cluster: Any, client_of: Any) -> None:
    """A connection serves one call at a time, whatever its API."""
    client = client_of(cluster, 1)
    client.send(request(), 3)
    client.send(HeartbeatRequest(group_id="billing", member_id="m", generation_id=1))
    assert client.answers() == []
    cluster.advance(0.0)
    joined, beaten = client.answers()
    assert (joined.error_code, beaten.error_code) == (0, 25)


def test_other_brokers_return_not_coordinator(new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(2)
    to = cluster.move_coordinator("billing")
    other = 3 - to
    assert client_of(cluster, other).ask(request()).error_code == 16
