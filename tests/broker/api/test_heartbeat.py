"""Heartbeat over a connection, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.api.heartbeat import API
from thinconsumer.wire.heartbeat import HeartbeatRequest

VERSIONS = range(API.lowest, API.highest + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_member_is_rejected(version: int, new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster()
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    request = HeartbeatRequest(group_id="billing", member_id="m", generation_id=1)
    assert client_of(cluster, 1).ask(request, version).error_code == 25


def test_loading_coordinator_returns_no_error(new_cluster: Any, client_of: Any) -> None:
    cluster = new_cluster(coordinator_load_s=5.0)
    cluster.controller.ensure_internal_topic("__consumer_offsets")
    client = client_of(cluster, 1)
    request = HeartbeatRequest(group_id="billing", member_id="m", generation_id=1)
    assert client.ask(request).error_code == 0
    cluster.advance(5.0)
    assert client.ask(request).error_code == 25


@pytest.mark.parametrize("version", VERSIONS)
def test_error_responses_encode_in_every_version(version: int) -> None:
    answer = API.refuse(HeartbeatRequest(), version, 27)
    assert type(answer).decode(answer.encode(version), version) == answer
