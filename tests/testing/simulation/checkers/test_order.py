"""Records that come twice or too late, and positions that go back, are found; what a user or a loss allows is not."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import OrderChecker
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)


@pytest.fixture
def court(new_court):
    """A court that looks at order; the log holds six records."""
    court = new_court(OrderChecker)
    court.write(*[b"%d" % n for n in range(6)])
    return court


def test_a_reader_may_begin_anywhere_and_leave_some_out(court):
    """Holes are not its business."""
    court.deliver(1, 3)
    court.deliver(4)
    court.position(5)
    court.deliver(5)
    court.position(6)
    assert court.verdict() == ""


@pytest.mark.parametrize("polls", [[(0, 1), (1,)], [(0, 0)], [(2, 1)], [(3,), (0,)], [(0, 1), (0, 1)]], ids=str)
def test_records_that_come_twice_or_too_late_are_found(court, polls):
    for offsets in polls:
        court.deliver(*offsets)
    assert "again, when" in court.verdict()


def test_the_words_say_who_what_and_when(court):
    court.deliver(0, 1)
    court.deliver(1)
    assert court.verdict() == "ann read t-0 offset 1 again, when 2 was next"


def test_two_readers_and_two_lives_know_nothing_of_each_other(court):
    court.deliver(0, 1)
    court.deliver(0, 1, reader=court.new_reader("bob"))
    court.checker.ended(court.reader)
    court.deliver(0, 1, reader=court.new_reader("ann", life=1))
    assert court.verdict() == ""


@pytest.mark.parametrize(("position", "right"), [(2, True), (5, True), (1, False), (0, False)])
def test_a_position_is_not_below_what_was_read(court, position, right):
    court.deliver(0, 1)
    court.position(position)
    assert court.verdict() == ("" if right else f"ann's position of t-0 went back from 2 to {position}")


def test_a_position_that_was_told_binds_what_comes_after_it(court):
    court.position(3)
    court.position(2)
    assert "went back from 3 to 2" in court.verdict()
    court.deliver(2)
    assert "offset 2 again, when 3" in court.verdict()


def test_a_position_outside_of_the_log_binds_nothing(court):
    """It will be reset by policy."""
    court.position(99)
    court.deliver(0)
    assert court.verdict() == ""


def test_once_what_is_next_was_deleted_the_policy_decides_even_for_a_start_that_is_older(court):
    """A leader elected before it heard of the deletion still has what was before."""
    court.deliver(0, 1)
    court.truth.move_start(4)
    court.deliver(0, 1)
    assert court.verdict() == ""
    court.deliver(4)
    court.deliver(4)
    assert "offset 4 again, when 5" in court.verdict()


def test_after_a_seek_what_it_says_is_next(court):
    court.deliver(0, 1, 2)
    court.checker.sought(court.reader, court.tp, 1)
    court.deliver(1, 2)
    assert court.verdict() == ""
    court.checker.sought(court.reader, court.tp, 4)
    court.deliver(3)  # a stale answer
    assert "offset 3 again, when 4" in court.verdict()


def test_after_a_seek_out_of_the_log_and_after_a_reset_anything_may_come(court):
    court.deliver(0, 1)
    court.checker.sought(court.reader, court.tp, 99)
    court.deliver(0, 1)
    for to_end in (True, False):
        court.checker.reset(court.reader, court.tp, to_end)
        court.deliver(0, 1)
    assert court.verdict() == ""
    court.deliver(1)
    assert court.verdict() != ""


def test_a_partition_keeps_its_place_while_it_stays_assigned_and_only_so_long(court):
    court.deliver(0, 1)
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(1)
    assert court.verdict() != ""
    court.checker.assigned(court.reader, [])
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(0)
    assert court.verdict() == ""


def test_after_a_loss_who_was_past_it_may_go_back_until_it_has_read_of_the_new_leader(court):
    court.deliver(0, 1, 2, 3)
    court.write(b"6")
    court.elect_short(0, 1)  # one batch of six, and one of one: all of the first is lost
    court.write(b"n0", b"n1", epoch=1)
    court.position(0)
    court.deliver(0, 1, epoch=1)
    assert court.verdict() == ""
    court.deliver(1, epoch=1)
    assert "offset 1 again, when 2" in court.verdict()


def test_a_loss_behind_what_was_read_is_no_excuse(court):
    court.write(b"6")
    court.deliver(0, 1)
    court.elect_short(6, 1)
    court.deliver(1)
    assert "offset 1 again" in court.verdict()


def test_who_reads_a_deposed_leaders_record_after_the_loss_will_have_to_take_it_back(court):
    court.write(b"6")
    court.deliver(0, 1, 2, 3)
    court.elect_short(6, 1)
    court.write(b"n6", epoch=1)
    court.deliver(4, 5, 6)  # 6 of epoch 0: it is on its way since before
    court.deliver(6, epoch=1)
    assert court.verdict() == ""
    court.deliver(6, epoch=1)
    assert court.verdict() != ""


def test_a_partition_without_a_record_changes_nothing(court):
    """BoundsChecker accuses it; this one must not fail before it is asked."""
    court.deliver(0, 1)
    court.deliver()
    assert court.verdict() == ""
    court.deliver(1)
    assert court.verdict() != ""


def test_who_had_read_exactly_up_to_a_loss_has_lost_nothing(court):
    court.write(b"6")
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(6, 1)
    court.deliver(5)
    assert "offset 5 again" in court.verdict()


@pytest.mark.parametrize(("position", "right"), [(6, True), (5, False)])
def test_who_stood_behind_a_marker_that_a_loss_took_goes_back_to_what_it_had_read(court, position, right):
    """Nobody has said that it was past the marker, so that it seems to have read exactly up to the loss."""
    court.write(b"6")
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(6, 1)
    court.write(b"n6", b"n7", epoch=1)
    court.position(7)
    court.position(position)
    assert (court.verdict() == "") is right


def test_once_something_was_read_behind_the_loss_positions_bind_again(court):
    court.write(b"6")
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(6, 1)
    court.write(b"n6", b"n7", epoch=1)
    court.deliver(6, epoch=1)
    court.position(8)
    court.position(7)
    assert "went back from 8 to 7" in court.verdict()


@pytest.mark.parametrize("reads", ["before", "after"])
def test_a_leader_that_began_after_its_successor_may_send_readers_back_until_they_read_the_newest(court, reads):
    """It says that 6 is no more; then the leader who never lost it goes on."""
    court.write(b"6")
    old = court.log
    old.begin_epoch(2)
    if reads == "before":
        court.deliver(4, 5, 6)
    court.elect_short(6, 1)
    if reads == "after":
        court.deliver(4, 5, 6)
    court.log = old
    court.position(6)
    court.deliver(6)
    court.write(b"7", epoch=2)
    court.deliver(7, epoch=2)
    assert court.verdict() == ""
    court.deliver(7, epoch=2)
    assert "offset 7 again, when 8" in court.verdict()


@pytest.mark.parametrize(
    ("client", "leader", "epoch", "excused"),
    [("ann", 0, 1, True), ("ann", 1, 1, False), ("ann", 0, 2, False), ("bob", 0, 1, False)],
)
def test_a_leader_too_old_to_know_the_epoch_lets_the_policy_decide_once(court, client, leader, epoch, excused):
    """If there was such an epoch."""
    court.log.begin_epoch(1)
    court.deliver(0, 1, 2)
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=leader, leader_epoch=epoch)
    answer = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[answer])])
    court.checker.answered(client, 1, request, response, 0.0)
    court.deliver(0, 1)
    assert (court.verdict() == "") is excused
    court.deliver(1)
    assert "offset 1 again" in court.verdict()


def test_who_reads_what_was_brought_back_may_be_sent_back_by_the_leader_that_had_lost_it(court):
    """It was deposed before the reader had got there, and has not heard of it when it is asked."""
    court.write(b"6")
    old = court.log
    court.elect_short(6, 1)
    court.log = old
    old.begin_epoch(2)
    court.deliver(4, 5, 6)
    court.deliver(6)
    assert court.verdict() == ""
    court.write(b"7", epoch=2)
    court.deliver(7, epoch=2)
    court.deliver(6)
    assert "offset 6 again, when 8" in court.verdict()


@pytest.mark.parametrize(("epoch", "right"), [(0, True), (-1, False)])
def test_who_seeks_behind_what_was_brought_back_may_be_sent_back_too_if_it_knows_an_epoch(court, epoch, right):
    """Who has no epoch asks nobody about it."""
    court.write(b"6")
    old = court.log
    court.elect_short(6, 1)
    court.log = old
    old.begin_epoch(2)
    court.checker.sought(court.reader, court.tp, 7, epoch)
    court.deliver(6)
    assert (court.verdict() == "") is right


@pytest.mark.parametrize(
    ("client", "believed", "reads_before", "right"),
    [("ann", 0, False, True), ("ann", 1, False, False), ("bob", 0, False, False), ("ann", 0, True, False)],
)
def test_who_seeks_to_what_a_deposed_leader_has_not_got_goes_on_by_policy(court, client, believed, reads_before, right):
    """Whoever has come to read there needs no policy any more."""
    court.log.begin_epoch(1)
    court.write(b"6", epoch=1)
    court.write(b"7", epoch=1)
    court.checker.sought(court.reader, court.tp, 6)
    if reads_before:
        court.deliver(6, epoch=1)
    question = ListOffsetsPartition(partition_index=0, current_leader_epoch=believed, timestamp=-2)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[question])])
    answer = ListOffsetsPartitionResponse(partition_index=0, offset=0)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])
    court.checker.answered(client, 1, request, response, 0.0)
    court.deliver(0)
    assert (court.verdict() == "") is right
