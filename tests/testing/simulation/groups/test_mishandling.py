"""Coordinators refuse now and then, in the words of their APIs, and nobody else does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from thinconsumer.broker.faults import Reply
from thinconsumer.testing.simulation import World
from thinconsumer.testing.simulation.groups.mishandling import ERRORS, GroupMishandling
from thinconsumer.wire.apis import REQUESTS
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest


def call(api_key, version=7):
    request = SimpleNamespace(API_KEY=api_key)
    return SimpleNamespace(request=request, version=version, client_id="ann", node=SimpleNamespace(node_id=1))


def test_only_requests_about_groups_are_refused():
    rule = GroupMishandling(World(1), 1.0)
    assert rule(call(FetchRequest.API_KEY)) is None and rule.count == 0


@pytest.mark.parametrize("api_key", sorted(ERRORS))
def test_each_api_has_its_errors(api_key):
    rule = GroupMishandling(World(1), 1.0)
    actions = [rule(call(api_key)) for _ in range(100)]
    assert all(isinstance(action, Reply) for action in actions) and rule.count == 100
    assert {action.with_ for action in actions} == set(map(int, ERRORS[api_key]))
    assert REQUESTS[api_key]


def test_it_has_a_rate():
    rule = GroupMishandling(World(1), 0.2)
    for _ in range(500):
        rule(call(HeartbeatRequest.API_KEY))
    assert 60 < rule.count < 140


def test_offsets_are_unstable_only_where_that_can_be_said():
    rule = GroupMishandling(World(1), 1.0)
    actions = [rule(call(OffsetFetchRequest.API_KEY, version=6)) for _ in range(100)]
    codes = {action.with_ for action in actions if action is not None}
    assert None in actions and Code.UNSTABLE_OFFSET_COMMIT not in codes
