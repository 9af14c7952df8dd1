"""LeaveGroup over a connection: one member up to version 2, several from version 3 on."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.leave_group import API
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity

VERSIONS = range(API.lowest, API.highest + 1)
SINGLE = range(3)


@pytest.fixture
def joined(new_cluster: Any, client_of: Any) -> tuple[Any, str]:
    """A client with the only member of a group, and the member id."""
    cluster = new_cluster()
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = client_of(cluster, 1)
    protocols = [JoinGroupRequestProtocol(name="range")]
    client.send(
        JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        ),
        3,
    )
    cluster.advance(0.0)
    (answer,) = client.answers()
    return client, answer.member_id


def leaving(version: int, *members: str, group: str = "billing") -> LeaveGroupRequest:
    if version in SINGLE:
        return LeaveGroupRequest(group_id=group, member_id=members[0])
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=name) for name in members])


@pytest.mark.parametrize("version", VERSIONS)
def test_member_leaves(version: int, joined: tuple[Any, str]) -> None:
    client, member_id = joined
    answer = client.ask(leaving(version, member_id), version)
    assert answer.error_code == 0
    assert [(m.member_id, m.error_code) for m in answer.members] == ([] if version in SINGLE else [(member_id, 0)])
    (group,) = client.cluster.nodes[1].group_coordinator.describe(["billing"], 6)
    assert group.group_state == "Empty"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", ["billing", "nobody"])
def test_unknown_member_is_rejected(version: int, group: str, joined: tuple[Any, str]) -> None:
    answer = joined[0].ask(leaving(version, "stranger", group=group), version)
    if version in SINGLE:
        assert answer.error_code == 25
    else:
        assert (answer.error_code, [m.error_code for m in answer.members]) == (0, [25])


@pytest.mark.parametrize("version", VERSIONS)
def test_group_error_in_every_version(version: int, joined: tuple[Any, str]) -> None:
    answer = joined[0].ask(leaving(version, "m", group=""), version)
    assert (answer.error_code, answer.members) == (24, [])
    refused = API.refuse(leaving(version, "m"), version, 15)
    assert type(refused).decode(refused.encode(version), version) == refused


def test_request_without_members(joined: tuple[Any, str]) -> None:
    answer = joined[0].ask(leaving(5))
    assert (answer.error_code, answer.members) == (0, [])
