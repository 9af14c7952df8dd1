"""A restarted static leader reads the assignments of all members, once its group is stable."""

from __future__ import annotations

import random
from typing import Any

import pytest

from thinconsumer.errors import KafkaConnectionError, UnsupportedVersionError
from thinconsumer.group.assignment_check import AssignmentCheck
from thinconsumer.group.consumer_role import Notes
from thinconsumer.group.identity import Identity
from thinconsumer.network.request import Answer, Request
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

ME = Identity("g", 5, "me")
NOTHING = "not compared"


class StrawRole:
    """A role that needs the assignments of all members, and stores those that it gets."""

    def __init__(self) -> None:
        self.notes = Notes(awaits_assignments=True)
        self.compared: Any = NOTHING

    def compare_assignments(self, shares: Any) -> None:
        self.notes.awaits_assignments = False
        self.compared = None if shares is None else list(shares)


class Check:
    """An assignment check of group "g" in a world of commits."""

    def __init__(self, world: Any) -> None:
        self.world, self.role, self.identity = world, StrawRole(), ME
        self.manager = AssignmentCheck(
            world.config,
            world.coordinator,
            self.role,
            random.Random(3),
            lambda: self.identity,  # type: ignore[arg-type]
        )

    def ask(self, after: float = 0.0) -> Request | None:
        self.world.now += after
        found = self.manager.step(self.world.now)
        assert len(found) <= 1
        return found[0] if found else None

    def answer(self, request: Request, *, error: Any = None, version: int = 5, **row: Any) -> None:
        members = [DescribedGroupMember(member_id=name, member_assignment=name.encode()) for name in row.pop("ids", ())]
        group = DescribedGroup(**{"group_id": "g", "group_state": "Stable", "members": members, **row})
        response = None if error is not None else DescribeGroupsResponse(groups=[group])
        self.manager.handle(Answer(request, 1, version, response, error), self.world.now)


@pytest.fixture
def check(world: Any) -> Check:
    return Check(world)


def test_the_assignments_of_a_stable_group_are_compared(check: Check) -> None:
    request = check.ask()
    assert request is not None and request.build(5).groups == ["g"]  # type: ignore[attr-defined]
    assert request.target == (1, ""), "the membership connection may wait for the response to a JoinGroup"
    assert check.ask() is None, "one request is in flight"
    check.answer(request, ids=["me", "other"])
    assert check.role.compared == [b"me", b"other"]
    assert check.ask() is None and check.ask(after=60.0) is None


@pytest.mark.parametrize("state", ["not needed", "no member"])
def test_nothing_is_sent_unless_a_leader_has_restarted(check: Check, state: str) -> None:
    if state == "not needed":
        check.role.notes.awaits_assignments = False
    else:
        check.identity = Identity("g")
    assert check.ask() is None and check.ask(after=60.0) is None


@pytest.mark.parametrize(
    "answer",
    [
        {"group_state": "PreparingRebalance", "ids": ["me"]},
        {"group_state": "CompletingRebalance", "ids": ["me"]},
        {"ids": ["other"]},
        {"group_id": "another"},
        {"error_code": Code.COORDINATOR_LOAD_IN_PROGRESS},
    ],
)
def test_the_request_is_repeated_until_the_group_is_stable(check: Check, answer: dict[str, Any]) -> None:
    request = check.ask()
    assert request is not None
    check.answer(request, **answer)
    check.world.coordinator.step(check.world.now)
    assert check.role.compared == NOTHING and check.ask() is None, "it backs off"
    check.world.now += 1.5
    check.world.coordinator.step(check.world.now)
    again = check.ask()
    assert again is not None
    check.answer(again, ids=["me"])
    assert check.role.compared == [b"me"]


@pytest.mark.parametrize("answer", [{"error": KafkaConnectionError("reset")}, {"error_code": Code.NOT_COORDINATOR}])
def test_the_request_is_repeated_at_the_next_coordinator(check: Check, answer: dict[str, Any]) -> None:
    request = check.ask()
    assert request is not None
    check.answer(request, **answer)
    assert check.world.coordinator.node_id is None
    check.world.find(2)
    again = check.ask(1.5)
    assert again is not None and again.target.node_id == 2


def test_a_request_to_a_former_coordinator_is_abandoned(check: Check) -> None:
    request = check.ask()
    assert request is not None
    check.world.coordinator.lost(1, "moved", check.world.now)
    check.world.find(2)
    again = check.ask()
    assert again is not None and again.target.node_id == 2
    check.answer(request, ids=["me"])
    assert check.role.compared == NOTHING
    check.answer(again, ids=["me"])
    assert check.role.compared == [b"me"]


@pytest.mark.parametrize(
    "answer", [{"error_code": Code.GROUP_ID_NOT_FOUND, "version": 6}, {"group_state": "Dead"}], ids=["v6", "before"]
)
def test_a_group_that_has_moved_to_the_other_protocol_is_left_to_the_coordinator(
    check: Check, answer: dict[str, Any]
) -> None:
    request = check.ask()
    assert request is not None
    check.answer(request, **answer)
    assert check.role.compared == NOTHING and not check.role.notes.awaits_assignments


@pytest.mark.parametrize(
    "answer",
    [{"error_code": Code.GROUP_AUTHORIZATION_FAILED}, {"error": UnsupportedVersionError("x", code=35, name="x")}],
)
def test_the_role_decides_without_assignments_that_it_may_not_read(check: Check, answer: dict[str, Any]) -> None:
    request = check.ask()
    assert request is not None
    check.answer(request, **answer)
    assert check.role.compared is None


def test_a_response_after_the_end_of_the_generation_is_dropped(check: Check) -> None:
    request = check.ask()
    assert request is not None
    check.role.notes.awaits_assignments = False
    assert check.ask() is None
    check.role.notes.awaits_assignments = True
    check.answer(request, ids=["me"])
    assert check.role.compared == NOTHING


def test_the_request_is_repeated_after_a_restart_of_the_engine(check: Check) -> None:
    assert check.ask() is not None
    check.manager.restart(check.world.now)
    assert check.ask() is not None
