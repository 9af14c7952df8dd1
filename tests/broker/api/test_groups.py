"""The APIs of groups over a connection, in every version."""

from typing import Any

import pytest

from thinconsumer.wire import Message
from thinconsumer.wire.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from thinconsumer_testing.broker.apis import APIS

HEARTBEAT = HeartbeatRequest(group_id="billing", member_id="m", generation_id=1)
LEAVES_ALONE = range(3)
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


def leaving(version: int, *members: str, group: str = "billing") -> LeaveGroupRequest:
    if version in LEAVES_ALONE:
        return LeaveGroupRequest(group_id=group, member_id=members[0])
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=name) for name in members])


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


@pytest.fixture
def simple_group(client: Any) -> None:
    """The group has an offset, and no members."""
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])]
    client.ask(OffsetCommitRequest(group_id="billing", topics=topics), 9)


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


@pytest.mark.parametrize("version", versions_of(SyncGroupRequest))
def test_member_gets_its_assignment(version: int, client: Any, member_id: str) -> None:
    plan = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"plan")]
    request = SyncGroupRequest(group_id="billing", generation_id=1, member_id=member_id, assignments=plan)
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    answer = client.ask(request, version)
    assert (answer.error_code, answer.assignment) == (0, b"plan")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))


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


# -- LeaveGroup


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
def test_member_leaves(version: int, client: Any, member_id: str) -> None:
    answer = client.ask(leaving(version, member_id), version)
    assert answer.error_code == 0
    assert [(m.member_id, m.error_code) for m in answer.members] == (
        [] if version in LEAVES_ALONE else [(member_id, 0)]
    )
    (group,) = client.cluster.nodes[1].group_coordinator.describe(["billing"], 6)
    assert group.group_state == "Empty"


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
@pytest.mark.usefixtures("member_id")
def test_leave_is_rejected(version: int, client: Any) -> None:
    for group in ("billing", "nobody"):
        answer = client.ask(leaving(version, "stranger", group=group), version)
        codes = [m.error_code for m in answer.members]
        assert (answer.error_code, codes) == ((25, []) if version in LEAVES_ALONE else (0, [25]))
    answer = client.ask(leaving(version, "m", group=""), version)
    assert (answer.error_code, answer.members) == (24, [])
    if version not in LEAVES_ALONE:
        assert client.ask(leaving(version), version).error_code == 0


# -- ListGroups


@pytest.mark.parametrize("version", versions_of(ListGroupsRequest))
@pytest.mark.usefixtures("simple_group")
def test_groups_are_listed_in_every_version(version: int, client: Any) -> None:
    answer = client.ask(ListGroupsRequest(), version)
    assert answer.error_code == 0
    (group,) = answer.groups
    assert (group.group_id, group.protocol_type) == ("billing", "")
    assert group.group_state == ("Empty" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


@pytest.mark.usefixtures("simple_group")
def test_groups_are_filtered_by_state_and_type(client: Any) -> None:
    assert client.ask(ListGroupsRequest(states_filter=["Stable"]), 4).groups == []
    assert len(client.ask(ListGroupsRequest(states_filter=["empty"]), 4).groups) == 1
    assert client.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []


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


# -- DeleteGroups


@pytest.mark.parametrize("version", versions_of(DeleteGroupsRequest))
@pytest.mark.usefixtures("simple_group")
def test_existing_groups_are_deleted(version: int, client: Any) -> None:
    answer = client.ask(DeleteGroupsRequest(groups_names=["billing", "nobody"]), version)
    assert {result.group_id: result.error_code for result in answer.results} == {"billing": 0, "nobody": 69}
    again = client.ask(DeleteGroupsRequest(groups_names=["billing"]), version)
    assert [result.error_code for result in again.results] == [69]
