"""The requests of a member, in every version."""

import pytest

from thinconsumer.group.classic import requests
from thinconsumer.group.identity import Identity
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

DYNAMIC = Identity("g", 7, "m")
STATIC = Identity("g", 7, "m", "i")


def through(message, version):
    return type(message).decode(message.encode(version), version)


@pytest.mark.parametrize("who", [DYNAMIC, STATIC])
@pytest.mark.parametrize("version", range(10))
def test_requests_can_be_encoded_in_every_allowed_version(options, who, version):
    def lowest(api):
        return max(version, requests.lowest_version(api, who))

    join = through(requests.join(options, who, "pool", [("a", b"x")], "why"), lowest(JoinGroupRequest))
    assert (join.group_id, join.member_id, join.protocol_type) == ("g", "m", "pool")
    assert join.group_instance_id == who.group_instance_id
    assert join.rebalance_timeout_ms == (60_000 if lowest(JoinGroupRequest) >= 1 else -1)
    if version <= 5:
        sync = through(requests.sync(who, "pool", "a", {"m": b"1", "n": b"2"}), lowest(SyncGroupRequest))
        assert [(s.member_id, bytes(s.assignment)) for s in sync.assignments] == [("m", b"1"), ("n", b"2")]
        assert (sync.generation_id, sync.group_instance_id) == (7, who.group_instance_id)
        at = lowest(LeaveGroupRequest)
        leave_request = through(requests.leave(who, "why", at), at)
        if at >= 3:
            [member] = leave_request.members
            assert (member.member_id, member.group_instance_id) == ("m", who.group_instance_id)
            assert member.reason == ("why" if at >= 5 else None)
        else:
            assert leave_request.member_id == "m"
    if version <= 4:
        heartbeat = through(requests.heartbeat(who), lowest(HeartbeatRequest))
        assert (heartbeat.generation_id, heartbeat.member_id, heartbeat.group_instance_id) == (
            7,
            "m",
            who.group_instance_id,
        )


def test_a_static_member_uses_only_versions_with_an_instance_id(options):
    """In an older version the broker would treat it as a dynamic member."""
    assert requests.lowest_version(JoinGroupRequest, DYNAMIC) == 0
    for api, lowest in requests.STATIC_SINCE.items():
        assert requests.lowest_version(api, STATIC) == lowest
    with pytest.raises(ValueError):
        requests.join(options, STATIC, "pool", [], "").encode(4)


def test_reasons_are_cut_to_255_characters(options):
    join = requests.join(options, DYNAMIC, "pool", [], "ü" * 1000)
    assert through(join, 9).reason == "ü" * 255
    assert through(requests.leave(DYNAMIC, "y" * 256, 5), 5).members[0].reason == "y" * 255
