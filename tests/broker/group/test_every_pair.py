"""Responses to every request in every state of a group, and of its coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

#: A parked request.
PARKED = "parked"
UNKNOWN, ILLEGAL, REBALANCE, INCONSISTENT = 25, 22, 27, 23
ID_REQUIRED, FENCED, NOT_FOUND, NON_EMPTY = 79, 82, 69, 68
LOADING, NOT_AVAILABLE, MOVED = 14, 15, 16

CONNECT = {"connect": b""}
OTHER = {"range": b"other topics"}


class Made(NamedTuple):
    """A group in some state: its coordinator, and a leader and a follower."""

    world: Any
    leader: Any
    follower: Any
    seat_of: Any

    def follower_in(self, later: int) -> Any:
        """Return the follower's identity that many generations later."""
        return self.seat_of(self.follower.member_id, self.follower.generation + later)

    @property
    def stranger(self) -> Any:
        """A member id that the group never had."""
        return self.seat_of("stranger", self.follower.generation)


STATES = ("absent", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")


def make(state: str, new_world: Any, seat_of: Any) -> Made:
    world = new_world()
    if state == "absent":
        return Made(world, seat_of("leader", 1), seat_of("follower", 1), seat_of)
    leader, follower = world.joined(2) if state == "CompletingRebalance" else world.stable(2)
    if state == "Empty":
        world.leave(leader.member_id, follower.member_id)
    elif state == "PreparingRebalance":
        assert world.join(leader.member_id).is_parked
    return Made(world, leader, follower, seat_of)


OTHER_KIND = (UNKNOWN, UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT)
INCOMPATIBLE = (PARKED, PARKED, INCONSISTENT, INCONSISTENT, INCONSISTENT)
OTHER_GENERATION = (UNKNOWN, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL)

#: For each request its result in each state, in the order above.
REQUESTS: dict[str, tuple[Callable[[Made], Any], tuple[int | str, ...]]] = {
    "join: newcomer": (lambda made: made.world.join(), (ID_REQUIRED,) * 5),
    "join: newcomer of old": (lambda made: made.world.join(version=3), (PARKED,) * 5),
    "join: new static member": (lambda made: made.world.join(instance="i"), (PARKED,) * 5),
    "join: of another kind": (
        lambda made: made.world.join(instance="i", protocol_type="connect", protocols=CONNECT),
        INCOMPATIBLE,
    ),
    "join: no protocol in common": (lambda made: made.world.join(instance="i", protocols={"mine": b""}), INCOMPATIBLE),
    "join: no protocols": (lambda made: made.world.join(protocols={}), (INCONSISTENT,) * 5),
    "join: no protocol type": (lambda made: made.world.join(protocol_type=""), (INCONSISTENT,) * 5),
    "join: stranger with an id": (lambda made: made.world.join("stranger"), (UNKNOWN,) * 5),
    "join: follower": (lambda made: made.world.join(made.follower.member_id), (UNKNOWN, UNKNOWN, 0, 0, 0)),
    "join: follower with new metadata": (
        lambda made: made.world.join(made.follower.member_id, protocols=OTHER),
        (UNKNOWN, UNKNOWN, 0, PARKED, PARKED),
    ),
    "join: leader": (lambda made: made.world.join(made.leader.member_id), (UNKNOWN, UNKNOWN, PARKED, 0, PARKED)),
    "join: follower as a static member": (
        lambda made: made.world.join(made.follower.member_id, instance="i"),
        (UNKNOWN,) * 5,
    ),
    "sync: follower": (lambda made: made.world.sync(made.follower), (UNKNOWN, UNKNOWN, REBALANCE, PARKED, 0)),
    "sync: leader": (lambda made: made.world.sync(made.leader, {}), (UNKNOWN, UNKNOWN, REBALANCE, 0, 0)),
    "sync: earlier generation": (lambda made: made.world.sync(made.follower_in(-1)), OTHER_GENERATION),
    "sync: later generation": (lambda made: made.world.sync(made.follower_in(1)), OTHER_GENERATION),
    "sync: stranger": (lambda made: made.world.sync(made.stranger), (UNKNOWN,) * 5),
    "sync: follower as a static member": (lambda made: made.world.sync(made.follower, instance="i"), (UNKNOWN,) * 5),
    "sync: of another kind": (lambda made: made.world.sync(made.follower, protocol_type="connect"), OTHER_KIND),
    "sync: another protocol": (lambda made: made.world.sync(made.follower, protocol="sticky"), OTHER_KIND),
    "heartbeat: follower": (lambda made: made.world.heartbeat(made.follower), (UNKNOWN, UNKNOWN, REBALANCE, 0, 0)),
    "heartbeat: earlier generation": (lambda made: made.world.heartbeat(made.follower_in(-1)), OTHER_GENERATION),
    "heartbeat: stranger": (lambda made: made.world.heartbeat(made.stranger), (UNKNOWN,) * 5),
    "heartbeat: follower as a static member": (
        lambda made: made.world.heartbeat(made.follower, instance="i"),
        (UNKNOWN,) * 5,
    ),
    "leave: follower": (lambda made: made.world.leave(made.follower.member_id), (UNKNOWN, UNKNOWN, 0, 0, 0)),
    "leave: stranger": (lambda made: made.world.leave("stranger"), (UNKNOWN,) * 5),
    "leave: empty member id": (lambda made: made.world.leave(""), (UNKNOWN,) * 5),
    "leave: unknown instance": (lambda made: made.world.leave(("", "i")), (UNKNOWN,) * 5),
    "commit: follower": (lambda made: made.world.commit(made.follower), (NOT_FOUND, UNKNOWN, 0, REBALANCE, 0)),
    "commit: follower, before version 9": (
        lambda made: made.world.commit(made.follower, version=8),
        (ILLEGAL, UNKNOWN, 0, REBALANCE, 0),
    ),
    "commit: earlier generation": (
        lambda made: made.world.commit(made.follower_in(-1)),
        (NOT_FOUND, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    ),
    "commit: stranger": (
        lambda made: made.world.commit(made.stranger),
        (NOT_FOUND, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    ),
    "commit: follower without generation": (
        lambda made: made.world.commit(made.seat_of(made.follower.member_id, -1)),
        (0, 0, ILLEGAL, ILLEGAL, ILLEGAL),
    ),
    "commit: simple": (lambda made: made.world.commit(), (0, 0, UNKNOWN, UNKNOWN, UNKNOWN)),
    "txn commit: follower": (lambda made: made.world.txn_commit(7, seat=made.follower), (ILLEGAL, UNKNOWN, 0, 0, 0)),
    "txn commit: earlier generation": (
        lambda made: made.world.txn_commit(7, seat=made.follower_in(-1)),
        (ILLEGAL, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    ),
    "txn commit: simple": (lambda made: made.world.txn_commit(7), (0,) * 5),
    "fetch": (lambda made: made.world.fetch(0), (0,) * 5),
    "fetch everything, stable": (lambda made: made.world.fetch(require_stable=True), (0,) * 5),
    "delete": (lambda made: made.world.delete("billing"), (NOT_FOUND, 0, NON_EMPTY, NON_EMPTY, NON_EMPTY)),
}


def code_of(asked: Any) -> int | str:
    """Return the error code of a response, or of its only entry."""
    if asked.is_parked:
        return PARKED
    answer = asked.answer
    if isinstance(answer, tuple):
        return int(answer[0])
    if isinstance(answer, list):
        return int(answer[0].error_code)
    if type(answer).__name__ == "LeaveGroupResponse" and not answer.error_code:
        return int(answer.members[0].error_code)
    return int(asked.code)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_in_every_state(name: str, state: str, new_world: Any, seat_of: Any) -> None:
    ask, expected = REQUESTS[name]
    assert code_of(ask(make(state, new_world, seat_of))) == expected[STATES.index(state)]


@pytest.mark.parametrize("state", STATES)
def test_groups_are_in_the_named_state(state: str, new_world: Any, seat_of: Any) -> None:
    (described,) = make(state, new_world, seat_of).world.coordinator.describe(["billing"], 5)
    assert described.group_state == ("Dead" if state == "absent" else state)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_to_a_coordinator_that_is_down(name: str, new_world: Any, seat_of: Any) -> None:
    made = make("Stable", new_world, seat_of)
    made.world.resign()
    assert code_of(REQUESTS[name][0](made)) == MOVED


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_to_a_loading_coordinator(name: str, new_world: Any, seat_of: Any) -> None:
    """A heartbeat gets no error: membership is unknown, and an error would make all members rejoin."""
    world = new_world(coordinator_load_s=1.0)
    expected = 0 if name.startswith("heartbeat") else LOADING
    seat = seat_of("m", 1)
    assert code_of(REQUESTS[name][0](Made(world, seat, seat, seat_of))) == expected


@pytest.mark.parametrize("state", STATES[1:])
@pytest.mark.parametrize("fencing", ["join", "sync", "heartbeat", "commit", "leave"])
def test_old_member_id_of_a_static_member_is_fenced_in_every_state(
    state: str, fencing: str, new_world: Any, seat_of: Any
) -> None:
    """Two processes with one instance id: the earlier one is fenced. An empty group has neither."""
    world = new_world()
    old = world.join(instance="i")
    world.advance(0)
    seat = world.seat(old)
    if state != "CompletingRebalance":
        world.sync(seat, {})
    if state == "Empty":
        world.leave((seat.member_id, "i"))
    if state == "PreparingRebalance":
        assert world.join(world.newcomer()).is_parked
    other = seat_of("older", seat.generation)
    asked = {
        "join": lambda: world.join("older", instance="i"),
        "sync": lambda: world.sync(other, instance="i"),
        "heartbeat": lambda: world.heartbeat(other, instance="i"),
        "commit": lambda: world.commit(other, instance="i"),
        "leave": lambda: world.leave(("older", "i")),
    }[fencing]()
    assert code_of(asked) == (UNKNOWN if state == "Empty" else FENCED)
