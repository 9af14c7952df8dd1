"""Repeated or late records and decreasing positions are violations, unless a seek or a loss allows them."""

import pytest

from thinconsumer_testing.simulation.checkers.order import OrderChecker


@pytest.fixture
def court(new_court):
    """A court with OrderChecker; the log has six records."""
    court = new_court(OrderChecker)
    court.write(*[b"%d" % n for n in range(6)])
    return court


def test_reader_may_begin_anywhere_and_skip_records(court):
    """CoverageChecker judges gaps."""
    court.deliver(1, 3)
    court.deliver(4)
    court.position(5)
    court.deliver(5)
    court.position(6)
    assert court.verdict() == ""


@pytest.mark.parametrize("polls", [[(0, 1), (1,)], [(0, 0)], [(2, 1)], [(3,), (0,)], [(0, 1), (0, 1)]], ids=str)
def test_repeated_and_late_records_are_violations(court, polls):
    for offsets in polls:
        court.deliver(*offsets)
    assert "again, when" in court.verdict()


@pytest.mark.parametrize(("position", "right"), [(2, True), (5, True), (1, False), (0, False)])
def test_position_below_a_read_record_is_a_violation(court, position, right):
    court.deliver(0, 1)
    court.position(position)
    assert court.verdict() == ("" if right else f"ann's position of t-0 went back from 2 to {position}")


def test_record_below_a_returned_position_is_a_violation(court):
    court.position(3)
    court.position(2)
    assert "went back from 3 to 2" in court.verdict()
    court.deliver(2)
    assert "offset 2 again, when 3" in court.verdict()


def test_seek_sets_the_next_expected_offset(court):
    court.deliver(0, 1, 2)
    court.checker.sought(court.reader, court.tp, 1)
    court.deliver(1, 2)
    assert court.verdict() == ""
    court.checker.sought(court.reader, court.tp, 4)
    court.deliver(3)  # a stale answer
    assert "offset 3 again, when 4" in court.verdict()


def test_any_record_may_follow_a_reset_or_a_seek_outside_the_log(court):
    court.deliver(0, 1)
    court.checker.sought(court.reader, court.tp, 99)
    court.deliver(0, 1)
    for to_end in (True, False):
        court.checker.reset(court.reader, court.tp, to_end)
        court.deliver(0, 1)
    assert court.verdict() == ""
    court.deliver(1)
    assert court.verdict() != ""


def test_expected_offset_is_kept_only_while_the_partition_stays_assigned(court):
    court.deliver(0, 1)
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(1)
    assert court.verdict() != ""
    court.checker.assigned(court.reader, [])
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(0)
    assert court.verdict() == ""


def test_reader_beyond_a_loss_may_go_back_until_it_reads_the_new_leaders_records(court):
    court.deliver(0, 1, 2, 3)
    court.write(b"6")
    court.elect_short(0, 1)  # one batch of six, and one of one: all of the first is lost
    court.write(b"n0", b"n1", epoch=1)
    court.position(0)
    court.deliver(0, 1, epoch=1)
    assert court.verdict() == ""
    court.deliver(1, epoch=1)
    assert "offset 1 again, when 2" in court.verdict()


def test_reader_exactly_at_a_loss_may_not_go_back(court):
    court.write(b"6")
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(6, 1)
    court.deliver(5)
    assert "offset 5 again" in court.verdict()


@pytest.mark.parametrize("reads", ["before", "after"])
def test_late_leader_of_an_older_epoch_may_send_readers_back(court, reads):
    """It answers that 6 is lost; then the leader that still has 6 continues."""
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
def test_unknown_epoch_at_an_old_leader_allows_one_reset(court, validation, client, leader, epoch, excused):
    """If there was such an epoch."""
    court.log.begin_epoch(1)
    court.deliver(0, 1, 2)
    court.checker.answered(client, 1, *validation(epoch, leader), 0.0)
    court.deliver(0, 1)
    assert (court.verdict() == "") is excused
    court.deliver(1)
    assert "offset 1 again" in court.verdict()


@pytest.mark.parametrize(
    ("client", "believed", "reads_before", "right"),
    [("ann", 0, False, True), ("ann", 1, False, False), ("bob", 0, False, False), ("ann", 0, True, False)],
)
def test_seek_beyond_a_deposed_leaders_log_restarts_by_policy(court, lookup, client, believed, reads_before, right):
    """A reader that has read a record there needs no reset."""
    court.log.begin_epoch(1)
    court.write(b"6", epoch=1)
    court.write(b"7", epoch=1)
    court.checker.sought(court.reader, court.tp, 6)
    if reads_before:
        court.deliver(6, epoch=1)
    court.checker.answered(client, 1, *lookup(leader=believed), 0.0)
    court.deliver(0)
    assert (court.verdict() == "") is right
