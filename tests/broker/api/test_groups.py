"""The APIs of groups over a connection, in every version."""

from typing import Any

import pytest

from thinconsumer.wire import Message
from thinconsumer.wire.groups import DescribeGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer_testing.broker.apis import APIS

HEARTBEAT = HeartbeatRequest(group_id="billing", member_id="m", generation_id=1)
NOT_ASKED = -(2**31)


def versions_of(request: type[Message]) -> range:
    api = APIS[request.API_KEY]
    return range(api.lowest, api.highest + 1)


def joining(member_id: str = "", **options: Any) -> JoinGroupRequest:
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
    return new_cluster(1, {"orders": 1}, coordinators=True)


@pytest.fixture
def member_id(cluster: Any, client: Any) -> str:
    """The id of the group's only member, a static one, which leads the first generation."""
    client.send(joining(group_instance_id="i"))
    cluster.advance(0.0)
    (answer,) = client.answers()
    return str(answer.member_id)


# -- JoinGroup


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
def test_join_in_every_version(version: int, cluster: Any, client: Any) -> None:
    member_id = ""
    if version >= 4:
        turned_away = client.ask(joining(), version)
        assert turned_away.error_code == 79
        member_id = turned_away.member_id
        assert member_id.startswith("tester-")
    client.send(joining(member_id), version)
    assert client.answers() == []
    cluster.advance(0.0)
    (answer,) = client.answers()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(m.member_id, m.metadata) for m in answer.members] == [(answer.member_id, b"meta")]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    if version >= 5:
        client.send(joining(group_id="static", group_instance_id="i"), version)
        cluster.advance(0.0)
        assert [m.group_instance_id for m in client.answers()[0].members] == ["i"]


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
def test_error_response_of_join_has_no_protocol(version: int, client: Any) -> None:
    """Null if the version allows it, else empty."""
    answer = client.ask(joining("m", session_timeout_ms=1), version)
    assert (answer.error_code, answer.member_id, answer.generation_id, answer.leader) == (26, "m", -1, "")
    refused: Any = APIS[JoinGroupRequest.API_KEY].refuse(joining(), version, 15)
    assert answer.protocol_name == refused.protocol_name == (None if version >= 7 else "")


def test_disconnect_cancels_a_parked_join(cluster: Any, client: Any) -> None:
    client.send(joining(), 3)
    client.connection.connection_lost()
    cluster.advance(0.0)
    assert client.answers() == []
    cluster.advance(11.0)  # its session expires like any other
    assert cluster.nodes[1].group_coordinator.describe(["billing"], 6)[0].group_state == "Empty"


def test_heartbeat_behind_a_parked_join_waits(cluster: Any, client: Any) -> None:
    """A connection serves one call at a time, whatever its API."""
    client.send(joining(), 3)
    client.send(HEARTBEAT)
    assert client.answers() == []
    cluster.advance(0.0)
    joined, beaten = client.answers()
    assert (joined.error_code, beaten.error_code) == (0, 25)


# -- SyncGroup


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_sync_from_version_5_requires_protocol_type_and_name(kind: str | None, name: str | None, client: Any) -> None:
    """KIP-559; checked before anything else, even the group's existence."""
    assert client.ask(SyncGroupRequest(protocol_type=kind, protocol_name=name), 5).error_code == 23
    assert client.ask(SyncGroupRequest(), 4).error_code == 24


# -- Heartbeat


def test_loading_coordinator_answers_heartbeats_without_an_error(new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(coordinators=True, coordinator_load_s=5.0)
    client = client_of(cluster, 1)
    assert client.ask(HEARTBEAT).error_code == 0
    cluster.advance(5.0)
    assert {client.ask(HEARTBEAT, version).error_code for version in versions_of(HeartbeatRequest)} == {25}


# -- DescribeGroups


@pytest.mark.parametrize("version", versions_of(DescribeGroupsRequest))
@pytest.mark.usefixtures("member_id")
def test_group_is_described_in_every_version(version: int, client: Any) -> None:
    (group,) = client.ask(DescribeGroupsRequest(groups=["billing"]), version).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "billing", "CompletingRebalance")
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("tester", "/127.0.0.1")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert group.authorized_operations == NOT_ASKED
    request = DescribeGroupsRequest(groups=["billing", "nobody"], include_authorized_operations=version >= 3)
    there, missing = sorted(client.ask(request, version).groups, key=lambda group: group.group_id)
    assert (missing.error_code, missing.group_state) == (69 if version >= 6 else 0, "Dead")
    assert missing.error_message == ("Group nobody not found." if version >= 6 else None)
    # KIP-430: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
    assert there.authorized_operations == (3400 if version >= 3 else NOT_ASKED)
    assert missing.authorized_operations == (3400 if 3 <= version < 6 else NOT_ASKED)
