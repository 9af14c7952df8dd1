"""The matrix: every group error and silence in every answer, once and for a while; each cell recovers or raises.

Each row says the member id afterwards (the same, another, or none), whether the partitions are lost, the error that
every poll raises meanwhile, and how long the recovery takes at most.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import pytest

from thinconsumer.errors import (
    BrokerResponseError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

pytestmark = pytest.mark.once

S = ClassicMemberState
FIND, JOIN, SYNC, BEAT, LEAVE = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)
SILENCE, RESET = "silence", "reset"
GARBAGE = KafkaProtocolError("garbage")
TOO_OLD = UnsupportedVersionError("too old", code=35, name="UNSUPPORTED_VERSION")


class Cell(NamedTuple):
    """The effects of one fault in one response."""

    member: str | None = "m1"  #: The member id afterwards; None: none, for good.
    drops_kept_partitions: bool = False  #: Whether ``Role.lose`` is called.
    raises: type[KafkaError] | None = None  #: The error that every poll raises meanwhile.


KEEPS = Cell()
RENEWED = Cell("m2", drops_kept_partitions=True)
BEHIND = Cell("m1", drops_kept_partitions=True)


def refused(error: type[KafkaError]) -> Cell:
    """Return the effects of an error that lasts until the broker's administrator acts."""
    return Cell(raises=error)


def fatal(error: type[KafkaError]) -> Cell:
    return Cell(None, drops_kept_partitions=True, raises=error)


#: Effects in responses to JoinGroup, SyncGroup and Heartbeat.
TO_MEMBERS: dict[Any, Cell] = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: KEEPS,
    Code.COORDINATOR_NOT_AVAILABLE: KEEPS,
    Code.NOT_COORDINATOR: KEEPS,
    Code.REBALANCE_IN_PROGRESS: KEEPS,
    Code.REQUEST_TIMED_OUT: KEEPS,
    Code.UNKNOWN_MEMBER_ID: RENEWED,
    Code.ILLEGAL_GENERATION: BEHIND,
    Code.FENCED_INSTANCE_ID: fatal(FencedInstanceIdError),
    Code.INVALID_SESSION_TIMEOUT: fatal(InvalidSessionTimeoutError),
    Code.INVALID_GROUP_ID: fatal(InvalidGroupIdError),
    Code.INCONSISTENT_GROUP_PROTOCOL: refused(InconsistentGroupProtocolError),
    Code.GROUP_MAX_SIZE_REACHED: refused(GroupMaxSizeReachedError),
    Code.GROUP_AUTHORIZATION_FAILED: refused(GroupAuthorizationFailedError),
    Code.UNKNOWN_SERVER_ERROR: refused(BrokerResponseError),
    Code.INVALID_REQUEST: refused(BrokerResponseError),
    999: refused(BrokerResponseError),
    TOO_OLD: refused(UnsupportedVersionError),
    RESET: KEEPS,
    GARBAGE: KEEPS,
    SILENCE: KEEPS,
}
MATRIX: dict[tuple[Any, Any], Cell] = {
    (api, fault): cell for api in (JOIN, SYNC, BEAT) for fault, cell in TO_MEMBERS.items()
}
#: FindCoordinator goes to any broker, and its faults cost no partitions.
MATRIX |= {
    (FIND, fault): KEEPS._replace(raises=cell.raises if cell.raises is not None or fault in (RESET, SILENCE) else None)
    for fault, cell in TO_MEMBERS.items()
}
MATRIX |= {
    (FIND, Code.REBALANCE_IN_PROGRESS): refused(BrokerResponseError),
    (FIND, Code.UNKNOWN_MEMBER_ID): refused(BrokerResponseError),
    (FIND, Code.ILLEGAL_GENERATION): refused(BrokerResponseError),
    (FIND, Code.UNKNOWN_SERVER_ERROR): KEEPS,
    (JOIN, Code.MEMBER_ID_REQUIRED): KEEPS,
    (SYNC, Code.MEMBER_ID_REQUIRED): KEEPS,
    (BEAT, Code.MEMBER_ID_REQUIRED): KEEPS,
}
MATRIX |= {(LEAVE, fault): Cell(None) for fault in TO_MEMBERS}

#: Seconds until a missing response is noticed: FindCoordinator asks another broker after a heartbeat interval; a
#: heartbeat times out with the session, a sync with the request timeout, a join 5 s after the rebalance timeout, and
#: LeaveGroup after 5 s. All else recovers within 3 s.
PATIENCE = {FIND: 3.5, BEAT: 11.0, SYNC: 31.0, JOIN: 66.0, LEAVE: 5.5}

CELLS = [pytest.param(api, fault, cell, id=f"{api.__name__}-{fault!s:.30}") for (api, fault), cell in MATRIX.items()]


def provoke(world, api):
    if api is LEAVE:
        world.member.leave("x", world.now)
    elif api is BEAT:
        world.run(3.0)
    elif api is FIND:
        world.coordinator.lost(1, "the test says so", world.now)
    else:
        world.member.request_rejoin("the test says so")


def over(world, api):
    """Return whether the member has recovered, or is fatal."""
    if api is LEAVE:
        return world.member.has_left
    in_order = world.coordinator.node_id is not None and world.member.error is None and world.coordinator.error is None
    return world.member.state is S.FATAL or (world.member.state is S.STABLE and in_order)


@pytest.mark.parametrize(("api", "fault", "cell"), CELLS)
def test_one_fault(make_world, caplog, api, fault, cell):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world = make_world().join()
    world.run(2.9)
    caplog.clear()
    world.role.take_calls()
    world.script.lines[api].append(fault)
    provoke(world, api)
    begun = world.now
    raised: list[KafkaError] = []

    def look():
        raised.extend(error for error in (world.member.error, world.coordinator.error) if error is not None)
        return not world.script.lines[api] and world.now >= begun and over(world, api)

    assert world.run(70.0, until=look), world.member
    assert world.now - begun <= (PATIENCE[api] if fault == SILENCE else 3.0)
    assert {type(error) for error in raised} == ({cell.raises} if cell.raises else set())
    assert ("lose" in world.role.calls) is (cell.drops_kept_partitions and api is not LEAVE)
    if cell.member is None:
        assert world.member.identity[:4] == ("g", -1, "", None)
    else:
        assert world.member.identity.member_id == cell.member
        world.run(3.1)
        assert world.member.state is S.STABLE and len(world.sent(HeartbeatRequest)) >= 1
    assert len(caplog.records) <= 5, caplog.messages


@pytest.mark.parametrize(("api", "fault", "cell"), CELLS)
def test_a_lasting_fault(make_world, caplog, api, fault, cell):
    """There is no loop without a pause and no flood of log lines; it recovers within the maximum backoff."""
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world = make_world().join()
    world.run(2.9)
    caplog.clear()
    before = len(world.said)
    world.script.always[api] = fault
    provoke(world, api)
    world.run(30.0)
    asked = len(world.said) - before
    assert asked < 120, "30 seconds: a few attempts, then one per second, of three or four requests each"
    if cell.member is not None and cell.raises is not None:
        assert isinstance(world.member.error or world.coordinator.error, cell.raises)
    world.heal()
    healed = world.now
    if cell.member is None:
        assert world.member.state is (S.UNSUBSCRIBED if api is LEAVE else S.FATAL)
        assert world.run(2.0) is False or world.member.state in (S.UNSUBSCRIBED, S.FATAL)
    else:
        assert world.run(70.0, until=lambda: over(world, api))
        assert world.now - healed <= (PATIENCE[api] if fault == SILENCE else 3.0)
        world.run(3.1)
        assert world.member.state is S.STABLE
    assert len(caplog.records) <= 5, caplog.messages


@pytest.mark.parametrize("fault", list(TO_MEMBERS), ids=str)
def test_the_first_join(make_world, fault):
    """The same faults before the first generation, when there are no partitions to lose."""
    world = make_world()
    world.script.lines[JOIN].append(fault)
    world.join()
    assert world.run(70.0, until=lambda: over(world, JOIN))
    assert (world.member.state is S.FATAL) is (TO_MEMBERS[fault].member is None)


@pytest.mark.parametrize("fault", [RESET, SILENCE, Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS])
def test_an_unprocessed_leave_group_is_retried(make_world, fault):
    """Otherwise the partitions are unassigned until the session expires."""
    world = make_world().join()
    world.script.lines[LEAVE].append(fault)
    world.member.leave("x", world.now)
    world.run(6.0)
    assert world.member.has_left
    assert len(world.sent(LEAVE)) == (1 if fault == SILENCE else 2)


def test_errors_that_polls_raise_name_the_group(make_world):
    world = make_world()
    world.script.always[JOIN] = Code.GROUP_AUTHORIZATION_FAILED
    world.join()
    assert world.member.error.group_id == "g" and "JoinGroup" in str(world.member.error)
    other = make_world()
    other.script.always[FIND] = Code.GROUP_AUTHORIZATION_FAILED
    other.join()
    assert other.coordinator.error.group_id == "g"


def test_an_authorization_error_is_raised_until_the_join_succeeds(make_world):
    world = make_world()
    world.script.always[JOIN] = Code.GROUP_AUTHORIZATION_FAILED
    world.join()
    for _ in range(5):
        world.run(1.0)
        assert isinstance(world.member.error, GroupAuthorizationFailedError)
    world.heal()
    world.run(1.5)
    assert world.member.error is None and world.member.state is S.STABLE


def test_a_rejected_heartbeat_is_an_error_until_a_heartbeat_succeeds(make_world):
    world = make_world().join()
    world.script.always[BEAT] = Code.GROUP_AUTHORIZATION_FAILED
    world.run(4.0)
    assert isinstance(world.member.error, GroupAuthorizationFailedError) and world.member.state is S.STABLE
    assert world.times(BEAT) == [1003.0], "one per interval"
    world.heal()
    world.run(3.0)
    assert world.member.error is None


def test_a_fenced_member_can_leave_and_join_again(make_world):
    world = make_world().join()
    world.member.expelled(to_error(Code.FENCED_INSTANCE_ID), world.member.identity, world.now)
    world.turn()
    assert world.member.state is S.FATAL
    world.member.subscribe("in vain")
    world.run(5.0)
    assert world.member.state is S.FATAL
    world.member.leave("x", world.now)
    assert world.member.has_left and world.sent(LEAVE) == [] and world.member.error is None
    world.join()
    assert world.member.state is S.STABLE
