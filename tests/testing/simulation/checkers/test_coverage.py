"""A gap before a record or position is a violation, unless expiry, compaction, a loss or a seek explains it."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.checkers.coverage import CoverageChecker


@pytest.fixture
def court(new_court):
    """A court with CoverageChecker; ann reads from the earliest offset; the log has six batches of one record."""
    court = new_court(CoverageChecker)
    for n in range(6):
        court.write(b"%d" % n)
    court.reader = court.new_reader(policy="earliest")
    return court


def test_consecutive_records_pass(court):
    court.deliver(0, 1)
    court.position(2)
    court.deliver(2, 3, 4, 5)
    court.position(6)
    assert court.verdict() == ""


@pytest.mark.parametrize(
    ("polls", "missing"), [([(1,)], 0), ([(0, 2)], 1), ([(0, 1), (4, 5)], 2), ([(0, 1, 2), (0,), (4,)], 3)], ids=str
)
def test_gap_before_a_record_is_a_violation(court, polls, missing):
    for offsets in polls:
        court.deliver(*offsets)
    words = court.verdict()
    assert words.startswith(f"ann skipped t-0 offset {missing}: it read offset ")
    assert words.endswith(f"after it had read every record below {missing}")


def test_gap_before_a_position_is_a_violation(court):
    court.deliver(0, 1)
    court.position(3)
    assert court.verdict() == "ann skipped t-0 offset 2: it has position 3 after it had read every record below 2"


def test_latest_reader_must_read_all_records_after_its_first(court):
    bob = court.new_reader("bob", policy="latest")
    court.deliver(3, reader=bob)
    assert court.verdict() == ""
    court.deliver(5, reader=bob)
    assert "bob skipped t-0 offset 4" in court.verdict()
    carol = court.new_reader("carol", policy="none")
    court.position(2, reader=carol)
    court.deliver(3, reader=carol)
    assert "carol skipped t-0 offset 2" in court.verdict()


def test_seek_and_reset_set_the_first_offset_that_must_be_read(court):
    court.checker.sought(court.reader, court.tp, 3)
    court.deliver(3)
    assert court.verdict() == ""
    court.checker.sought(court.reader, court.tp, 1)
    court.deliver(2)
    assert "offset 1" in court.verdict()
    court.checker.reset(court.reader, court.tp, True)
    court.deliver(5)
    assert court.verdict() == ""
    court.checker.reset(court.reader, court.tp, False)
    court.deliver(1)
    assert "offset 0" in court.verdict()


@pytest.mark.parametrize("offset", [3, 6])
def test_seek_within_the_log_starts_there_under_every_policy(court, offset):
    bob = court.new_reader("bob", policy="latest")
    court.checker.sought(bob, court.tp, offset)
    court.write(b"6")
    court.write(b"7")
    court.deliver(offset + 1, reader=bob)
    assert f"bob skipped t-0 offset {offset}" in court.verdict()


def test_covered_offset_is_kept_while_the_partition_stays_assigned(court):
    court.deliver(0, 1)
    court.checker.assigned(court.reader, [court.tp, TopicPartition("t", 1)])
    court.deliver(3)
    assert "offset 2" in court.verdict()
    court.checker.assigned(court.reader, [])
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(1)
    assert "offset 0" in court.verdict()


def test_expired_records_may_be_missing_and_others_not(court):
    court.deliver(0)
    court.log.delete_before(3)
    court.deliver(3)
    assert court.verdict() == ""
    court.deliver(5)
    assert "offset 4" in court.verdict()


@pytest.mark.parametrize("commit", [True, False])
def test_aborted_records_must_reach_read_uncommitted_only(court, commit):
    strict = court.new_reader("bob", policy="earliest", read_committed=True)
    at = court.write(b"t", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    court.end(4, commit)
    behind = court.write(b"behind")
    for reader in (strict, court.reader):
        court.checker.sought(reader, court.tp, at)
    court.deliver(behind, reader=strict)
    assert ("offset 6" in court.verdict()) is commit
    court.deliver(behind)
    assert "ann skipped t-0 offset 6" in court.verdict()


def test_records_written_in_place_of_lost_ones_must_be_read(court):
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    court.deliver(5, epoch=1)
    assert court.verdict() == "ann skipped t-0 offset 4: it read offset 5 after it had read every record below 4"
    court.deliver(4, 5, epoch=1)
    assert court.verdict() == ""


def test_offsets_below_a_seek_may_be_missing_while_nothing_was_read(court):
    """A reader without a record has no epoch to validate at a new leader."""
    court.checker.sought(court.reader, court.tp, 5)
    court.elect_short(3, 1)
    for n in range(3, 7):
        court.write(b"n%d" % n, epoch=1)
    court.deliver(5, 6, epoch=1)
    assert court.verdict() == ""


def test_reader_goes_back_to_the_diverging_offset_even_below_its_seek(court):
    court.checker.sought(court.reader, court.tp, 5)
    court.deliver(5)
    court.elect_short(3, 1)
    for n in range(3, 7):
        court.write(b"n%d" % n, epoch=1)
    court.deliver(5, 6, epoch=1)
    assert "offset 3" in court.verdict()


def test_record_of_a_deposed_leader_closes_no_gap(court):
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.deliver(0, 1, 2, 3)
    court.deliver(5)  # of epoch 0, which was lost
    assert court.verdict() == ""
    court.write(b"n5", epoch=1)
    court.deliver(5, epoch=1)
    assert "offset 4" in court.verdict()


def zombies(court):
    """Let epoch 1 commit its own 4 and 5 in place of those of epoch 0; return epoch 0's log."""
    old = court.log
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    return old


def test_reader_of_a_deposed_leader_must_read_the_new_records_later(court):
    """Without validating at the new leader it would continue behind records that only the deposed one has."""
    zombies(court)
    court.deliver(0, 1, 2, 3, 4, 5)  # the last two of epoch 0, which were lost
    court.write(b"n6", epoch=1)
    court.deliver(6, epoch=1)
    assert "ann skipped t-0 offset 4: it read offset 6" in court.verdict()


@pytest.mark.parametrize(("client", "answer", "error", "is_owed"), [
    ("ann", 0, 0, False), ("ann", 1, 0, True), ("ann", 0, 6, True), ("ann", -1, 0, True), ("bob", 0, 0, True),
])  # fmt: skip
def test_answer_with_an_older_epoch_excuses_readers_below_its_end(court, validation, client, answer, error, is_owed):
    """The reader has passed markers of a lost epoch: its position, 4, is beyond its last record."""
    court.deliver(0, 1, 2)
    court.checker.answered(client, 1, *validation(1, answer=(answer, 5), error=error), 0.0)
    court.deliver(4)
    assert ("offset 3" in court.verdict()) is is_owed
    court.deliver(5)
    assert court.verdict() == "" or is_owed


@pytest.mark.parametrize(("answer", "is_owed"), [(1, False), (0, True)], ids=["after a marker", "after the record"])
def test_answer_above_a_record_that_was_lost_excuses_readers_that_have_passed_a_marker(
    court, validation, answer, is_owed
):
    """The reader asks for the epoch of the marker, which the new leader never had: it continues at its position."""
    zombies(court)
    court.deliver(0, 1, 2, 3, 4, 5)  # the last two of epoch 0, which were lost
    for n in range(6, 9):
        court.write(b"n%d" % n, epoch=1)
    court.checker.answered("ann", 1, *validation(2, leader=3, answer=(answer, 9)), 0.0)
    court.deliver(7, epoch=1)
    assert ("offset 4" in court.verdict()) is is_owed


@pytest.mark.parametrize(
    ("policy", "leader", "epoch", "is_owed"),
    [("latest", 0, 1, False), ("latest", 1, 1, True), ("latest", 0, 2, True), ("earliest", 0, 1, True)],
)
def test_unknown_epoch_at_an_old_leader_restarts_latest_readers(court, validation, policy, leader, epoch, is_owed):
    bob = court.new_reader("bob", policy=policy)
    court.log.begin_epoch(1)
    court.deliver(0, 1, 2, reader=bob)
    court.checker.answered("bob", 1, *validation(epoch, leader), 0.0)
    court.deliver(4, reader=bob)
    assert ("offset 3" in court.verdict()) is is_owed


@pytest.mark.parametrize("has_answer", [True, False], ids=["with an answer", "without"])
def test_a_reader_whose_records_come_back_with_an_older_leader_need_not_read_them_again(court, validation, has_answer):
    """An unclean leader's answer may be lost, or come after the older leader was elected again."""
    old = court.log
    old.begin_epoch(2)
    court.write(b"6", epoch=2)
    court.deliver(0, 1, 2, 3, 4, 5)
    court.deliver(6, epoch=2)
    court.elect_short(6, 3)
    if has_answer:
        court.checker.answered("ann", 1, *validation(2, leader=3, answer=(0, 6)), 0.0)
    else:
        court.write(b"lost", epoch=3)
        court.deliver(6, epoch=3)
    court.log = old
    old.begin_epoch(4)
    court.write(b"7", epoch=4)
    court.write(b"8", epoch=4)
    court.deliver(8, epoch=4)
    assert court.verdict() == "ann skipped t-0 offset 7: it read offset 8 after it had read every record below 7"
    court.deliver(7, 8, epoch=4)
    assert court.verdict() == ""
