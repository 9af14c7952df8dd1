"""Missing and out-of-range positions: reset by policy, with one log line that has the reason."""

import logging

import pytest

from thinconsumer.config import OffsetResetPolicy, OffsetResetStrategy
from thinconsumer.errors import TopicAuthorizationFailedError
from thinconsumer.fetch.resets import timestamp_of
from thinconsumer.positions.partitions import Reset
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.wire.error_codes import Code


@pytest.fixture(autouse=True)
def _info(caplog):
    caplog.set_level(logging.INFO, logger="thinconsumer")


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if "position set to" in record.getMessage()]


def start(make, kit, count: int = 1, **options):
    world = make(**options)
    world.cluster({kit.tp(n): (1, 5) for n in range(count)})
    world.partitions.assign([kit.tp(n) for n in range(count)])
    return (world, *world.partitions)


def expire(world, partition) -> None:
    world.receive({partition.tp: {"error_code": Code.OFFSET_OUT_OF_RANGE}})


# -- by policy


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 3), ("latest", 90)])
def test_a_missing_position_is_set_by_policy_and_logged(make, kit, caplog, policy, offset):
    world, a = start(make, kit, auto_offset_reset=policy)
    world.reset_all({a.tp: (3, 90)})
    assert (a.state, a.cursor.offset, a.cursor.epoch) == (PositionState.FETCHING, offset, 5)
    assert lines(caplog) == [f"t-0: position set to {offset} (no position, auto_offset_reset={policy})"]
    assert world.look_ups() == []


def test_a_lookup_in_flight_is_started_again_after_a_restart(make, kit):
    world, a = start(make, kit, auto_offset_reset="earliest")
    assert len(world.look_ups()) == 1
    for manager in (world.lookups, world.resets):
        manager.restart(world.now)
    world.reset_all({a.tp: (3, 90)})
    assert (a.state, a.cursor.offset) == (PositionState.FETCHING, 3)


def test_a_duration_before_1970_means_the_log_start():
    policy = OffsetResetPolicy(OffsetResetStrategy.BY_DURATION, duration_ms=10**15)
    assert timestamp_of(policy, 1_700_000_000.0) == 0, "negative timestamps have special meanings"


@pytest.mark.parametrize(("mark", "offset"), [(Reset.EARLIEST, 3), (Reset.LATEST, 90)])
def test_a_reset_requested_by_the_user_precedes_the_policy(make, kit, caplog, mark, offset):
    world, a = start(make, kit, auto_offset_reset="none")
    a.ask_reset(Reset(mark, "seek_to_somewhere"))
    world.reset_all({a.tp: (3, 90)})
    assert a.cursor.offset == offset
    assert lines(caplog) == [f"t-0: position set to {offset} (seek_to_somewhere)"]


def test_the_result_of_a_replaced_reset_is_dropped(make, kit):
    world, a = start(make, kit)
    [old] = world.look_ups()
    a.ask_reset(Reset(Reset.EARLIEST, "x"))
    [new] = world.look_ups()
    old.offsets({a.tp: 90})
    assert a.state is PositionState.AWAITING_RESET
    new.offsets({a.tp: 3})
    assert a.cursor.offset == 3


def test_a_seek_during_a_lookup_wins(make, kit, caplog):
    world, a = start(make, kit)
    [sent] = world.look_ups()
    a.place(PositionEvent.SEEK, 50)
    sent.offsets({a.tp: 90})
    assert a.cursor.offset == 50 and lines(caplog) == []


def test_the_result_of_an_earlier_assignment_is_dropped(make, kit):
    world, a = start(make, kit)
    [sent] = world.look_ups()
    world.partitions.assign([])
    world.partitions.assign([a.tp])
    sent.offsets({a.tp: 90})
    [anew] = world.partitions
    assert anew.state is PositionState.AWAITING_RESET
    world.reset_all({a.tp: (3, 95)})
    assert anew.cursor.offset == 95


def test_the_lookup_of_an_unassigned_partition_ends(make, kit):
    """Otherwise metadata would request its topic for ever."""
    world, a = start(make, kit)
    world.look_ups()[0].offsets({a.tp: {"error_code": Code.TOPIC_AUTHORIZATION_FAILED}})
    world.partitions.assign([])
    world.now += 5
    assert world.look_ups() == [] and world.lookups.topics() == set()


def test_an_authorization_error_is_recorded_and_the_lookup_retried(make, kit):
    world, a = start(make, kit)
    for _ in range(3):
        [sent] = world.look_ups()
        sent.offsets({a.tp: {"error_code": Code.TOPIC_AUTHORIZATION_FAILED}})
        assert isinstance(a.error, TopicAuthorizationFailedError)
        world.now += 2
    world.reset_all({a.tp: (3, 90)})
    assert a.error is None and a.cursor.offset == 90


def test_a_retriable_error_is_not_recorded(make, kit):
    world, a = start(make, kit)
    world.look_ups()[0].offsets({a.tp: {"error_code": Code.NOT_LEADER_OR_FOLLOWER}})
    assert a.error is None


# -- partitions that were added later


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({}, 3),
        ({"new_partition_offset_reset": "latest"}, 90),
        ({"auto_offset_reset": "earliest", "new_partition_offset_reset": "latest"}, 3),
    ],
)
def test_a_partition_created_later_is_read_from_its_start(make, kit, caplog, options, offset):
    world, a = start(make, kit, **{"auto_offset_reset": "latest", **options})
    world.reset_all({a.tp: (3, 90)})
    world.cluster({kit.tp(0): (1, 5), kit.tp(1): (1, 5)})
    world.partitions.assign([kit.tp(0), kit.tp(1)])
    world.reset_all({kit.tp(1): (3, 90)})
    b = world.partitions.require(kit.tp(1))
    assert (a.cursor.offset, b.cursor.offset) == (3 if "earliest" in options.values() else 90, offset)
    assert ("appeared later" in lines(caplog)[1]) is (options.get("auto_offset_reset") is None)


# -- out of range


@pytest.mark.parametrize("end", [90, 120], ids=["past the log end", "inside a log that has grown again"])
def test_a_rejected_position_with_an_epoch_is_validated(make, kit, end):
    world, a = start(make, kit, auto_offset_reset="earliest")
    a.place(PositionEvent.SEEK, 100, 5)
    expire(world, a)
    world.cluster({a.tp: (1, 6)})
    world.reset_all({a.tp: (0, end)})
    assert a.state is PositionState.VALIDATING and a.cursor.offset == 100
    [question] = world.validations()
    assert question.epochs() == {a.tp: (6, 5)}
    question.epoch_ends({a.tp: (5, 80)})
    assert a.cursor.offset == 80 and a.state is PositionState.FETCHING


@pytest.mark.parametrize("position", [50, 70, 90])
def test_a_position_inside_the_log_is_kept(make, kit, caplog, position):
    world, a = start(make, kit, auto_offset_reset="none")
    a.place(PositionEvent.SEEK, position, -1)
    expire(world, a)
    world.reset_all({a.tp: (50, 90)})
    assert a.cursor.offset == position and a.state is PositionState.FETCHING and a.error is None
    assert "is inside the log, which holds" in lines(caplog)[0]


def test_a_seek_while_log_start_and_end_are_looked_up_wins(make, kit, caplog):
    world, a = start(make, kit, auto_offset_reset="earliest")
    a.place(PositionEvent.SEEK, 10)
    expire(world, a)
    first, second = world.look_ups()
    first.offsets({(a.tp, -2): 50, (a.tp, -1): 90})
    a.place(PositionEvent.SEEK, 60)
    second.offsets({(a.tp, -2): 50, (a.tp, -1): 90})
    assert a.cursor.offset == 60 and lines(caplog) == []
