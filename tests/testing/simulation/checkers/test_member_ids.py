"""A member id belongs to one client of a group."""

from contextlib import ExitStack

import pytest

from thinconsumer import Consumer
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer_testing.simulation import Simulation, Violation
from thinconsumer_testing.simulation.checkers.member_ids import MemberIdChecker

APIS = [ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest]


@pytest.fixture
def ann(room):
    room.add(MemberIdChecker)
    return room.member()


@pytest.mark.parametrize("api", APIS)
def test_second_client_with_the_id_is_a_violation_told_once(room, ann, api):
    room.says(ann, api(group_id="g", member_id="x"))
    room.says(ann, api(group_id="g", member_id="x"))
    assert room.verdict() == ""
    bob = room.member("bob")
    room.says(bob, api(group_id="g", member_id="x"))
    room.says(ann, api(group_id="g", member_id="x"))
    assert room.verdict() == "bob and ann are members of g with the same member id x"


def test_id_in_another_group_and_no_id_are_no_violations(room, ann):
    room.says(ann, JoinGroupRequest(group_id="g", member_id="x"))
    bob = room.member("bob")
    room.says(bob, JoinGroupRequest(group_id="h", member_id="x"))
    room.says(ann, JoinGroupRequest(group_id="g", member_id=""))
    room.says(bob, JoinGroupRequest(group_id="g", member_id=""))
    assert room.verdict() == ""


def polled_once(sim, drivers):
    """Let one member for each driver join a group of the consumer protocol."""
    options = {"group_id": "g", "group_protocol": "consumer", "bootstrap_servers": sim.bootstrap_servers}
    with ExitStack() as closing:
        for driver in drivers:
            consumer = closing.enter_context(Consumer("a", driver=driver, **options))
            consumer.poll(1000)
        sim.check()


def test_consumers_of_a_program_are_checked():
    sim = Simulation(1, 1, {"a": 2})
    polled_once(sim, [sim.driver(), sim.driver()])
    drivers = [sim.driver("ann"), sim.driver("bob")]
    drivers[1].random.setstate(drivers[0].random.getstate())
    with pytest.raises(Violation, match="bob and ann are members of g with the same member id"):
        polled_once(sim, drivers)
