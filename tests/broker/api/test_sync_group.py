"""SyncGroup over a connection, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.sync_group import API
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.fixture
def joined(new_cluster: Any, client_of: Any) -> tuple[Any, str]:
    """A client with the leader of a generation of one member, and the member id."""
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


@pytest.mark.parametrize("version", VERSIONS)
def test_member_gets_its_assignment(version: int, joined: tuple[Any, str]) -> None:
    client, member_id = joined
    plan = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"plan")]
    request = SyncGroupRequest(group_id="billing", generation_id=1, member_id=member_id, assignments=plan)
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    answer = client.ask(request, version)
    assert (answer.error_code, answer.assignment) == (0, b"plan")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_version_5_requires_protocol_type_and_name(kind: str | None, name: str | None, joined: tuple[Any, str]) -> None:
    """KIP-559; checked before anything else, even the group's existence."""
    client, _ = joined
    assert client.ask(SyncGroupRequest(protocol_type=kind, protocol_name=name), 5).error_code == 23


@pytest.mark.parametrize("version", VERSIONS)
def test_error_responses_encode_in_every_version(version: int) -> None:
    answer = API.refuse(SyncGroupRequest(), version, 27)
    assert type(answer).decode(answer.encode(version), version) == answer


def test_empty_group_id(joined: tuple[Any, str]) -> None:
    assert joined[0].ask(SyncGroupRequest(), 4).error_code == 24
