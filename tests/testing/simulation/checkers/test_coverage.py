"""A hole before a record or a position is found; holes that are nobody's fault are not."""

from __future__ import annotations

import pytest

from thinconsumer.broker.config import TopicConfig
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.testing.simulation.checkers import CoverageChecker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

NOW = 1_700_000_000_000


@pytest.fixture
def court(new_court):
    """A court that looks for holes, ann reads from the earliest; the log holds six batches of one record."""
    court = new_court(CoverageChecker)
    for n in range(6):
        court.write(b"%d" % n)
    court.reader = court.new_reader(policy="earliest")
    return court


def test_everything_in_turn_is_well(court):
    court.deliver(0, 1)
    court.position(2)
    court.deliver(2, 3, 4, 5)
    court.position(6)
    assert court.verdict() == ""


def test_what_comes_twice_is_not_its_business(court):
    court.deliver(0, 1)
    court.deliver(0, 1, 2)
    assert court.verdict() == ""


@pytest.mark.parametrize(
    ("polls", "missing"),
    [([(1,)], 0), ([(0, 2)], 1), ([(0, 1), (4, 5)], 2), ([(0, 1, 2), (0,), (4,)], 3)],
    ids=str,
)
def test_a_hole_before_a_record_is_found(court, polls, missing):
    for offsets in polls:
        court.deliver(*offsets)
    words = court.verdict()
    assert words.startswith(f"ann skipped t-0 offset {missing}: it read offset ")
    assert words.endswith(f"having seen everything below {missing}")


def test_a_hole_before_a_position_is_found(court):
    court.deliver(0, 1)
    court.position(3)
    assert court.verdict() == "ann skipped t-0 offset 2: it has position 3, having seen everything below 2"


def test_a_position_in_front_of_the_log_tells_nothing(court):
    """It will be reset by policy."""
    court.position(99)
    assert court.verdict() == ""
    court.deliver(1)
    assert "offset 0" in court.verdict()


def test_who_starts_at_the_latest_owes_nothing_before_and_all_behind(court):
    bob = court.new_reader("bob", policy="latest")
    court.deliver(3, reader=bob)
    assert court.verdict() == ""
    court.deliver(5, reader=bob)
    assert "bob skipped t-0 offset 4" in court.verdict()
    carol = court.new_reader("carol", policy="none")
    court.position(2, reader=carol)
    court.deliver(3, reader=carol)
    assert "carol skipped t-0 offset 2" in court.verdict()


def test_a_seek_and_a_reset_say_from_where_on_everything_is_owed(court):
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


@pytest.mark.parametrize(("policy", "is_owed"), [("earliest", True), ("latest", False), ("none", True)])
def test_who_seeks_beyond_the_end_starts_by_policy_which_may_be_an_end_that_has_moved_on(court, policy, is_owed):
    """It is out of range before more is written, and told of the end after that; with no policy it is told so."""
    bob = court.new_reader("bob", policy=policy)
    court.checker.sought(bob, court.tp, 7)
    for n in range(6, 12):
        court.write(b"%d" % n)
    court.deliver(9, reader=bob)
    assert ("bob skipped t-0 offset 7" in court.verdict()) is is_owed
    court.deliver(11, reader=bob)
    assert court.verdict().startswith("bob skipped t-0 offset ")


@pytest.mark.parametrize("offset", [3, 6])
def test_who_seeks_to_an_offset_of_the_log_or_its_end_starts_there_whatever_the_policy(court, offset):
    bob = court.new_reader("bob", policy="latest")
    court.checker.sought(bob, court.tp, offset)
    court.write(b"6")
    court.write(b"7")
    court.deliver(offset + 1, reader=bob)
    assert f"bob skipped t-0 offset {offset}" in court.verdict()


def test_a_partition_keeps_its_place_while_it_stays_assigned(court):
    court.deliver(0, 1)
    court.checker.assigned(court.reader, [court.tp, TopicPartition("t", 1)])
    court.deliver(3)
    assert "offset 2" in court.verdict()
    court.checker.assigned(court.reader, [])
    court.checker.assigned(court.reader, [court.tp])
    court.deliver(1)
    assert "offset 0" in court.verdict()


def test_what_is_expired_need_not_come_and_what_is_left_has_to(court):
    court.deliver(0)
    court.log.delete_before(3)
    court.deliver(3)
    assert court.verdict() == ""
    court.deliver(5)
    assert "offset 4" in court.verdict()


def test_who_fell_behind_the_logs_start_goes_on_by_policy(court):
    bob = court.new_reader("bob", policy="latest")
    for reader in (court.reader, bob):
        court.deliver(0, reader=reader)
    court.log.delete_before(2)
    court.deliver(5, reader=bob)  # reset to the end
    assert court.verdict() == ""
    court.deliver(5)
    assert "ann skipped t-0 offset 2" in court.verdict()


def test_what_was_compacted_away_need_not_come(court):
    court.log.config = TopicConfig(compact=True, delete=False)
    for n in range(6, 9):
        court.write(NewRecord(b"%d" % n, b"same key" if n < 8 else b"other", timestamp=NOW))
    court.deliver(0, 1, 2, 3, 4, 5)
    court.log.compact(NOW, court.log.high_watermark)
    court.deliver(8)
    assert "offset 7" in court.verdict()  # 6 has a newer value in 7
    court.deliver(7, 8)
    assert court.verdict() == ""


def test_markers_are_no_records(court):
    at = court.write(b"t", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    court.end(4, True)
    court.write(b"behind")
    court.checker.sought(court.reader, court.tp, at)
    court.deliver(at, at + 2)
    court.position(at + 3)
    assert court.verdict() == ""


@pytest.mark.parametrize("commit", [True, False])
def test_an_aborted_transaction_is_owed_to_who_reads_uncommitted_only(court, commit):
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


def test_who_passes_an_open_transaction_skips_what_it_commits_later(court):
    """A position beyond the last stable offset, of a reader of committed records, comes to light with the marker."""
    strict = court.new_reader("bob", read_committed=True)
    at = court.write(b"t", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    court.checker.sought(strict, court.tp, at)
    court.position(at + 1, reader=strict)
    assert court.verdict() == ""
    court.end(4, True)
    court.write(b"behind")
    court.deliver(at + 2, reader=strict)
    assert "bob skipped t-0 offset 6" in court.verdict()


def test_after_a_loss_what_was_written_in_its_place_is_owed_again(court):
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    court.deliver(5, epoch=1)
    assert court.verdict() == "ann skipped t-0 offset 4: it read offset 5, having seen everything below 4"
    court.deliver(4, 5, epoch=1)
    assert court.verdict() == ""


def test_after_a_loss_a_position_that_does_not_know_of_it_is_no_hole(court):
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    court.position(6)
    assert court.verdict() == ""
    court.deliver(4, epoch=1)
    court.position(6)
    assert "offset 5" in court.verdict()


def test_a_loss_behind_what_was_read_takes_nothing_back(court):
    court.deliver(0, 1)
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.deliver(3)
    assert "offset 2" in court.verdict()


def test_what_lies_before_where_the_user_began_is_not_owed_as_long_as_nothing_was_read(court):
    """Without a record there is no epoch to ask a new leader about."""
    court.checker.sought(court.reader, court.tp, 5)
    court.elect_short(3, 1)
    for n in range(3, 7):
        court.write(b"n%d" % n, epoch=1)
    court.deliver(5, 6, epoch=1)
    assert court.verdict() == ""


def test_whoever_has_read_goes_back_to_where_the_logs_part_even_before_where_the_user_began(court):
    court.checker.sought(court.reader, court.tp, 5)
    court.deliver(5)
    court.elect_short(3, 1)
    for n in range(3, 7):
        court.write(b"n%d" % n, epoch=1)
    court.deliver(5, 6, epoch=1)
    assert "offset 3" in court.verdict()


def test_a_seek_with_an_epoch_that_was_lost_is_sent_back(court):
    court.elect_short(3, 1)
    for n in range(3, 7):
        court.write(b"n%d" % n, epoch=1)
    court.checker.sought(court.reader, court.tp, 5, 0)
    court.position(5)
    court.deliver(3, 4, 5, epoch=1)
    assert court.verdict() == ""
    court.checker.sought(court.reader, court.tp, 5, 0)
    court.deliver(5, epoch=1)
    assert "offset 3" in court.verdict()


def test_what_an_older_epoch_brought_back_is_not_owed_where_the_protocol_cannot_tell(court):
    """A new leader that never had the reader's epoch tells where the one before ended in its own log."""
    old = court.new_log()
    court.elect_short(3, 2)
    court.write(b"n3", b"n4", epoch=2)
    court.deliver(0, 1, 2)
    court.deliver(3, 4, epoch=2)
    for batch in court.log.batches_from(0):
        if batch.leader_epoch == 0:
            old.append_stored(batch)
    for _ in range(4):
        old.append(build_batch([NewRecord(b"o", timestamp=NOW)]), leader_epoch=0, now_ms=NOW, from_client=False)
    old.begin_epoch(3)
    old.append(build_batch([NewRecord(b"p", timestamp=NOW)]), leader_epoch=3, now_ms=NOW, from_client=False)
    old.high_watermark = old.end_offset
    court.deliver(5, 6, epoch=0)
    court.deliver(7, epoch=3)
    assert court.verdict() == ""


def test_a_deposed_leaders_record_is_no_progress(court):
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.deliver(0, 1, 2, 3)
    court.deliver(5)  # of epoch 0, which was lost
    assert court.verdict() == ""
    court.write(b"n5", epoch=1)
    court.deliver(5, epoch=1)
    assert "offset 4" in court.verdict()


def test_who_has_ended_owes_nothing_and_partitions_without_truth_neither(court):
    court.checker.delivered(court.reader, {TopicPartition("u", 0): court.rows(3)}, 9)
    court.checker.ended(court.reader)
    court.elect_short(4, 1)
    assert court.verdict() == ""


def test_who_had_read_exactly_up_to_a_loss_owes_what_comes_there(court):
    bob = court.new_reader("bob", policy="latest")
    court.deliver(3, reader=bob)
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    court.deliver(5, epoch=1, reader=bob)
    assert "bob skipped t-0 offset 4" in court.verdict()


def test_who_reads_a_deposed_leaders_record_need_not_know_what_is_there_now(court):
    court.deliver(0, 1, 2, 3)
    court.elect_short(5, 1)
    court.write(b"n5", epoch=1)
    court.write(b"n6", epoch=1)
    court.deliver(4, 5)  # 5 of epoch 0
    court.position(7)
    assert court.verdict() == ""


def zombies(court):
    """Let epoch 1 commit 4 and 5 of its own, in place of those of epoch 0; return the log of who led then."""
    old = court.log
    court.elect_short(4, 1)
    court.write(b"n4", epoch=1)
    court.write(b"n5", epoch=1)
    return old


def test_who_reads_a_deposed_leaders_records_owes_the_others_from_where_the_logs_parted(court):
    """Without a question to the new leader it would go on behind what the deposed one had written alone."""
    zombies(court)
    court.deliver(0, 1, 2, 3, 4, 5)  # the last two of epoch 0, which were lost
    court.write(b"n6", epoch=1)
    court.deliver(6, epoch=1)
    assert "ann skipped t-0 offset 4: it read offset 6" in court.verdict()


def test_who_read_what_an_older_leader_brought_back_owes_it_no_second_time(court):
    court.deliver(0, 1, 2, 3, 4, 5)
    court.log = zombies(court)
    court.log.begin_epoch(2)
    court.write(b"p6", epoch=2)
    court.deliver(6, epoch=2)
    assert court.verdict() == ""


def test_who_did_not_read_what_an_older_leader_brought_back_owes_it(court):
    court.deliver(0, 1, 2, 3)
    court.log = zombies(court)
    court.log.begin_epoch(2)
    court.write(b"p6", epoch=2)
    court.deliver(6, epoch=2)
    assert "offset 4" in court.verdict()


def test_what_the_user_jumped_over_is_not_owed_when_it_is_brought_back(court):
    court.checker.sought(court.reader, court.tp, 5)
    old = zombies(court)
    court.deliver(5)  # of the deposed leader
    court.log = old
    court.log.begin_epoch(2)
    court.write(b"p6", epoch=2)
    court.deliver(6, epoch=2)
    assert court.verdict() == ""


@pytest.mark.parametrize(("client", "answer", "error", "is_owed"), [
    ("ann", 0, 0, False), ("ann", 1, 0, True), ("ann", 0, 6, True), ("ann", -1, 0, True), ("bob", 0, 0, True),
])  # fmt: skip
def test_a_leader_that_never_had_the_epoch_cannot_tell_who_is_below_its_answer(court, client, answer, error, is_owed):
    """The reader has passed markers of an epoch that was lost: its position, 4, is beyond what it was given."""
    court.deliver(0, 1, 2)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=1)])]
    )
    end = EpochEndOffset(partition=0, error_code=error, leader_epoch=answer, end_offset=5)
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])
    court.checker.answered(client, 1, request, response, 0.0)
    court.deliver(4)
    assert ("offset 3" in court.verdict()) is is_owed
    court.deliver(5)
    assert court.verdict() == "" or is_owed


def test_an_answer_beyond_what_was_read_sends_nobody_back(court):
    """What was lost comes back, and is still the reader's place: it owes nothing of what is before it."""
    court.deliver(0, 1, 2, 3, 4, 5)
    old = court.log
    court.elect_short(5, 1)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=3)])]
    )
    end = EpochEndOffset(partition=0, leader_epoch=1, end_offset=90)
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])
    court.checker.answered("ann", 1, request, response, 0.0)
    court.log = old
    old.begin_epoch(4)
    court.write(b"c6", epoch=4)
    court.deliver(6, epoch=4)
    assert court.verdict() == ""


@pytest.mark.parametrize(("reads", "right"), [((5, 6), True), ((6,), False)])
def test_who_had_passed_a_marker_is_sent_to_where_that_ones_epoch_would_have_been(court, reads, right):
    """Its records are of epoch 0, of which the new leader has three; the marker was of 2, which it has never had."""
    court.deliver(0, 1, 2, 3, 4, 5)
    court.elect_short(3, 1)
    court.write(b"a3", epoch=1)
    court.write(b"a4", epoch=1)
    court.log.begin_epoch(3)
    court.write(b"b5", epoch=3)
    court.write(b"b6", epoch=3)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=2)])]
    )
    end = EpochEndOffset(partition=0, leader_epoch=1, end_offset=5)
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])
    court.checker.answered("ann", 1, request, response, 0.0)
    court.deliver(*reads, epoch=3)
    assert (court.verdict() == "") is right


def test_a_position_may_have_passed_markers_of_a_history_that_does_not_count(court):
    """Until something of the newest leader was read, only the next record tells."""
    court.deliver(0, 1, 2)
    court.log.begin_epoch(1)
    court.position(4)
    assert court.verdict() == ""
    court.deliver(4)
    assert "offset 3" in court.verdict()


@pytest.mark.parametrize(
    ("policy", "leader", "epoch", "is_owed"),
    [("latest", 0, 1, False), ("latest", 1, 1, True), ("latest", 0, 2, True), ("earliest", 0, 1, True)],
)
def test_a_leader_too_old_to_know_the_epoch_sends_those_under_latest_to_its_end(court, policy, leader, epoch, is_owed):
    bob = court.new_reader("bob", policy=policy)
    court.log.begin_epoch(1)
    court.deliver(0, 1, 2, reader=bob)
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=leader, leader_epoch=epoch)
    answer = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[answer])])
    court.checker.answered("bob", 1, request, response, 0.0)
    court.deliver(4, reader=bob)
    assert ("offset 3" in court.verdict()) is is_owed
